"""The program behind the golden files: what it recorded once must be answered by every later version.

``write_golden.sh`` beside this file writes the golden file of the current format; do that once per format, at its
release, and never again.
"""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import holdfast

ran: list[str] = []


@dataclass(frozen=True)
class Fact:
    country: str
    debt: Decimal


class Missing(Exception):
    """A failure with an attribute."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is missing")
        self.what = what


def survey(topic: str) -> list[Fact]:
    ran.append(topic)
    return [Fact("DE", Decimal("1.50")), Fact("JP", Decimal("2.6"))]


def fail(what: str) -> None:
    ran.append(what)
    raise Missing(what)


def big() -> str:
    ran.append("big")
    return "kelp " * 10_000


def pay(to: str, *, idempotency_key: str = holdfast.KEY) -> tuple[str, str]:
    ran.append(to)
    return to, idempotency_key


def body(run: holdfast.Run) -> dict[str, Any]:
    """One of everything that a journal can hold."""
    run.plan(["survey", "pay"])
    facts = run.step("survey", survey, "debt")
    try:
        run.step("fail", fail, "imf")
    except Missing as missing:
        run.decide("go on", because=missing.what)
    with run.scope("long"):
        text = run.step("big", big)
    paid = run.once("pay", pay, "ada")
    run.checkpoint({"facts": facts, "at": datetime(2026, 1, 1, tzinfo=UTC)}, label="paid")
    return {"facts": facts, "text": len(text), "paid": paid, "random": run.random(), "uuid": run.uuid()}


class Unfinished(Exception):
    """Leaves the run to be resumed."""


def write(path: Path) -> None:
    sys.executable, sys.orig_argv[:] = "/usr/bin/python3", ["python3", "-m", "tests.migrations.program"]
    with holdfast.run("golden", goal="stay readable", inputs={"n": 1}, store=path) as run:
        run.finish(body(run))
    try:
        with holdfast.run("open", store=path) as run:
            body(run)
            raise Unfinished
    except Unfinished:
        pass
    try:
        with holdfast.run("doubtful", store=path) as run:
            run.once("cut", fail, "net")
    except holdfast.StepInDoubt:
        pass
    holdfast.store(path).close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
