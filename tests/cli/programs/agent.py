"""The agent whose runs the command line is shown: ``agent.py STORE RUN STARTS_AT SCENARIO``.

Its clock stands still unless a step says that time has passed, so that every time and duration is known beforehand.
"""

import os
import signal
import sys

import holdfast
from holdfast.engine.run.store_session import session_of
from holdfast.stores.url import open_store


class StillClock:
    """A clock that only moves when told to, or slept on."""

    def __init__(self, at: float) -> None:
        self.at = at

    def wall(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def survey(topic: str) -> list[str]:
    clock.sleep(1.25)
    return ["GR", "AR"]


def fetch_page(country: str) -> str:
    clock.sleep(0.5)
    return f"page of {country}"


def compare(country: str) -> dict[str, str]:
    clock.sleep(0.25)
    return {"country": country, "page": holdfast.current().step("fetch_page", fetch_page, country)}  # type: ignore[dict-item]


@holdfast.tool(effect="once", ignore="scenario")
def create_contact(name: str, *, idempotency_key: str = holdfast.KEY) -> dict[str, object]:
    clock.sleep(2)
    if scenario == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if scenario == "doubt" or name in {"Bob", "Cem"}:
        raise TimeoutError("no answer from the CRM")
    return {"id": 7, "name": name}


@holdfast.tool(approve=True)
def pay(to: str, amount: int) -> str:
    return f"paid {amount} to {to}"


def fail() -> None:
    clock.sleep(0.1)
    raise ConnectionError("the ledger is locked")


def research(run: holdfast.Run) -> None:
    run.plan(["survey", "compare", "draft"])
    for country in run.step("survey", survey, "sovereign debt"):
        run.step("compare", compare, country)
        run.discover(f"{country} has defaulted before")
    run.decide("skip the IMF feed", because="rate limited three times")
    run.checkpoint({"draft": "Debt cycles …", "facts": 2}, label="draft-1")
    create_contact("Ada")
    run.finish({"report": "report.md", "words": 812})


def main(store: holdfast.Store, name: str) -> None:
    with holdfast.run(name, goal="Explain sovereign debt cycles", inputs={"top": 2}, store=store) as run:
        if scenario == "fail":
            run.options(retries=1).step("load", fail)
        elif scenario == "two":
            for person in ("Bob", "Cem"):
                try:
                    create_contact(person)
                except holdfast.StepInDoubt:
                    continue
            raise KeyboardInterrupt
        elif scenario == "ask":
            pay("Ada", 500)
            place = run.ask("Where to?", returns=["staging", "prod"], expires_s=3600)
            run.finish(place)
        elif scenario == "sleep":
            run.sleep(86_400, wait_s=0)
        else:
            research(run)


if __name__ == "__main__":
    _, path, run_id, at, scenario = sys.argv
    clock = StillClock(float(at))
    session_of(open_store(path), clock=clock)
    main(holdfast.store(path), run_id)
