"""The public API as a type checker sees it: what a step returns, what handles are. Checked, not run."""

from datetime import UTC, datetime
from typing import Any, assert_type

import holdfast


def survey(topic: str, depth: int = 1) -> list[str]:
    return [topic] * depth


async def ask(question: str) -> float:
    return float(len(question))


@holdfast.tool(effect="once")
def create(name: str, *, idempotency_key: str = holdfast.KEY) -> dict[str, str]:
    return {name: idempotency_key}


@holdfast.tool(effect="read", loops=holdfast.Thresholds(pause=0))
def patient(name: str) -> int:
    return len(name)


@holdfast.tool(approve=lambda arguments: f"Greet {arguments['name']}?")
def approved(name: str) -> str:
    return name


@holdfast.tool
def plain(name: str) -> int:
    return len(name)


def blocking() -> None:
    with holdfast.run("a", budget=holdfast.Budget(cost=1.5), prices={"m": {"input": 0, "output": 0}}) as run:
        assert_type(run, holdfast.Run)
        assert_type(run.spent, holdfast.Spent)
        assert_type(run.step("survey", survey, "x", depth=2), list[str])
        assert_type(run.once("survey", survey, "x"), list[str])
        assert_type(run.options(key="k").step("survey", survey, "x"), list[str])
        assert_type(create("Ada"), dict[str, str])
        assert_type(plain("Ada"), int)
        assert_type(patient("Ada"), int)
        assert_type(run.checkpoint({"a": 1}), int)
        assert_type(run.nudge, str | None)
        assert_type(approved("Ada"), str)
        assert_type(run.ask("Where to?", returns=["staging", "prod"], about={"version": 1}), str)
        assert_type(run.ask("Go on?", returns=bool, wait_s=None, expires_s=60), bool)
        assert_type(run.ask("What now?"), Any)
        run.sleep(1, wait_s=0)
        run.sleep_until(datetime.now(UTC))
        assert_type(run.options(deadline=datetime.now(UTC)).step("survey", survey, "x"), list[str])
        assert_type(run.context(500, style="facts", count=len), str)
        assert_type(run.options(polling=True).step("survey", survey, "x"), list[str])
        run.step("survey", survey, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        run.step("survey", survey)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def awaiting() -> None:
    async with holdfast.run("a") as run:
        assert_type(run, holdfast.AsyncRun)
        assert_type(await run.step("ask", ask, "x"), float)
        assert_type(await run.step("survey", survey, "x"), list[str])
        assert_type(await run.context(), str)
        assert_type(await run.options(retries=1).step("ask", ask, "x"), float)


@holdfast.agent("auditor")
def audit(run: holdfast.Run, company: str) -> str:
    return company


def entry() -> None:
    assert_type(audit.run("acme", company="ACME"), str)
