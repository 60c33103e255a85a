"""What ``store.diff`` costs: of two large states that differ in one place, against loading both."""

from pathlib import Path

import holdfast
from bench.measuring import Figure, interleaved_us
from bench.texts import Message, message, prose

MESSAGES = 4_000


def figures(place: Path) -> list[Figure]:
    """Times, each against another of the same run."""
    store = holdfast.store(place / "diffing.db")
    figure = _states(store)
    store.close()
    return [figure]


def _states(store: holdfast.Store) -> Figure:
    """Two checkpoints of 10 MB, and both ways through the same store: events, verified packs, everything."""
    text = prose()
    messages: list[Message] = [message("user", text(2_500)) for _ in range(MESSAGES)]
    with holdfast.run("large", store=store) as run:
        run.checkpoint({"step": 1, "messages": messages}, label="a")
        messages[MESSAGES // 2] = message("user", "something else")
        run.checkpoint({"step": 1, "messages": messages}, label="b")

    def walked() -> None:
        diff = store.diff("large@a", "large@b")
        assert [change.what for change in diff.state] == ["message"]

    def loaded() -> None:
        saved = [event for event in store.events("large") if event.kind == "checkpoint"]
        a, b = (store.content(event)["state"] for event in saved)
        assert a != b

    walked_us, loaded_us = interleaved_us([walked, loaded], rounds=7, block=1)
    return Figure(
        "store.diff of two 10 MB states: loading both / diff",
        loaded_us / walked_us,
        20,
        "×",
        f"{walked_us / 1e3:.2f} ms; loading and comparing both {loaded_us / 1e3:.1f} ms",
        at_least=True,
    )
