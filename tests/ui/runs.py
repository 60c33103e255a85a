"""Small runs to look at."""

from typing import Any

import holdfast


@holdfast.tool(effect="once")
def pay(amount: int) -> str:
    return f"paid {amount}"


@holdfast.tool(effect="once")
def vanish(amount: int) -> str:
    raise ConnectionError(f"the line broke at {amount}")


def finished(url: str, run_id: str = "done", **options: Any) -> None:
    """A run with a step, an effect, a state and notes, which has finished."""
    with holdfast.run(run_id, store=url, goal="see what there is", **options) as run:
        run.plan(["look", "pay"])
        run.step("look", len, "four")
        run.think("a thought about money")
        run.decide("pay at once", because="it is due")
        run.checkpoint({"money": 10, "items": ["a"]}, label="before")
        pay(5)
        run.checkpoint({"money": 5, "items": ["a", "b"]}, label="after")
        run.finish({"left": 5})


def in_doubt(url: str, run_id: str = "doubtful") -> None:
    """A run that stopped, because nothing tells whether its effect happened."""
    with holdfast.run(run_id, store=url, stops="suppress"):
        vanish(7)


def asking(url: str, run_id: str = "asks", question: str = "May it go on?") -> Any:
    """A run that waits for an answer; afterwards, what it got."""
    got = []
    with holdfast.run(run_id, store=url, stops="suppress") as run:
        got.append(run.ask(question, returns=bool, about={"what": "the rest"}))
        run.finish(got[0])
    return got[0] if got else None
