"""Tools about steps: announce an action, do it, report how it ended. The client acts in between."""

from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.api.served_run import Found, take_in
from holdfast.errors import Misuse, StepInDoubt
from holdfast.mcp.held_runs import Failure, HeldRun, HeldRuns, StepFailed
from holdfast.mcp.parameters import Arguments, Effect, Json, RunName, StepName, StepRef
from holdfast.mcp.replies import Reply, called, shown
from holdfast.mcp.sdk import Context, client_of, session_of


class StepTools:
    """The tools for steps."""

    def __init__(self, holder: HeldRuns) -> None:
        self._holder = holder

    async def begin_step(
        self,
        ctx: Context,
        name: StepName,
        arguments: Arguments = None,
        effect: Effect = "once",
        again: Annotated[
            bool, Field(description="Do it once more on purpose, though it is done already.")
        ] = False,
        run: RunName = None,
    ) -> Reply:
        """Call this before you do something that must not happen twice.

        Answers 'go': do it, then call finish_step or fail_step. 'Already done': do not do it, use the
        recorded result. 'In doubt': an earlier attempt was cut off in it; find out whether it happened, then
        call resolve_step.
        """
        held = self._holder.get(session_of(ctx), run)
        async with held.turn:
            return _with_loop_warning(held, await _begin(held, name, arguments or {}, effect, again=again))

    async def finish_step(
        self,
        ctx: Context,
        step: StepRef,
        result: Annotated[
            Json, Field(description="What came of it, short: a later session reads it.")
        ] = None,
        run: RunName = None,
    ) -> Reply:
        """Call this when the step that you have begun is done: it is then never repeated by accident."""
        held = self._holder.get(session_of(ctx), run)
        begun = await _begun(held, step)
        done = await held.report(begun.seq, lambda report: report.set_result(result))
        facts = {"status": "done", "step": begun.seq, "point": _point(held, done)}
        return _with_loop_warning(held, Reply(f"Done: {called(begun)} is recorded.", facts))

    async def fail_step(
        self,
        ctx: Context,
        step: StepRef,
        error: Annotated[str, Field(description="What went wrong: 'HTTP 403: token expired'.")],
        happened: Annotated[
            Literal["no", "unknown"],
            Field(
                description="no: it certainly did nothing, and may be begun again. unknown: perhaps it did "
                "(a timeout); it is then in doubt."
            ),
        ] = "unknown",
        run: RunName = None,
    ) -> Reply:
        """Call this when the step that you have begun failed. Say whether it may have happened."""
        held = self._holder.get(session_of(ctx), run)
        begun = await _begun(held, step)
        reported = StepFailed(error) if happened == "no" or begun.effect != "once" else Failure(error)
        try:
            await held.report(begun.seq, lambda report: report.set_exception(reported))
        except StepFailed:
            text = f"Failed: {called(begun)} is recorded as failed; it may be begun again."
            return _with_loop_warning(held, Reply(text, {"status": "failed", "step": begun.seq}))
        except StepInDoubt:
            return _in_doubt(
                begun._replace(reason=f"failed with {error!r}, and it is not known whether it happened")
            )
        raise AssertionError("a step that failed has not returned")

    async def resolve_step(
        self,
        ctx: Context,
        step: StepRef,
        outcome: Annotated[
            Literal["done", "not_done"],
            Field(description="done: it happened. not_done: it certainly did not, and may be begun again."),
        ],
        evidence: Annotated[
            str, Field(min_length=1, description="How you know: 'npm view acme@1.4.0 shows it'.")
        ],
        result: Annotated[Json, Field(description="With done: what came of it.")] = None,
        run: RunName = None,
    ) -> Reply:
        """Settle a step that is in doubt, after you have found out whether it happened.

        Never guess: if you cannot find out, ask a person.
        """
        held = self._holder.get(session_of(ctx), run)
        doubtful = await _doubtful(held, step)
        word = "did happen" if outcome == "done" else "did not happen"
        await held.do(lambda own: own.decide(f"{called(doubtful)} {word}", because=evidence))
        by = f"{client_of(ctx) or 'a client'} over MCP"
        how: Literal["done", "retry"] = "done" if outcome == "done" else "retry"
        self._holder.store.resolve(held.name, doubtful.key, how, value=result, by=by)
        await held.do(take_in)
        then = (
            "It is recorded as done."
            if outcome == "done"
            else "It may be begun again, under the same idempotency key."
        )
        return Reply(f"Settled: {called(doubtful)} {word}. {then}", {"status": outcome, "step": doubtful.seq})

    async def record_step(
        self,
        ctx: Context,
        name: StepName,
        arguments: Arguments = None,
        result: Annotated[Json, Field(description="What came of it, short.")] = None,
        effect: Effect = "read",
        again: Annotated[
            bool, Field(description="Record it once more, though the same is recorded.")
        ] = False,
        run: RunName = None,
    ) -> Reply:
        """Record something that you have done and could safely repeat: read, built, tested.

        For what must not happen twice call begin_step before you act.
        """
        held = self._holder.get(session_of(ctx), run)
        async with held.turn:
            return _with_loop_warning(
                held, await _record(held, name, arguments or {}, result, effect, again=again)
            )


async def _begin(
    held: HeldRun, name: str, arguments: dict[str, Any], effect: Effect, *, again: bool
) -> Reply:
    found = await held.find(name, arguments)
    if found is not None and found.standing == "done" and effect != "read" and not again:
        return _already_done(held, found)
    if found is not None and found.standing == "in_doubt":
        return _in_doubt(found)
    if found is not None and found.standing == "running" and not again:
        text = (
            f"Already begun: {called(found)}, and not ended yet. End it with "
            f"finish_step(step={found.seq}) or fail_step."
        )
        return Reply(text, {"status": "running", "step": found.seq})
    step = await held.begin(name, arguments, effect, again=again)
    key = (
        f" Idempotency key, for services that take one: {step.idempotency_key}."
        if step.idempotency_key
        else ""
    )
    text = (
        f"Go: {called(step)} is begun.{key} When it has ended: finish_step(step={step.seq}, result=…) "
        "or fail_step."
    )
    return Reply(text, {"status": "go", "step": step.seq, "idempotency_key": step.idempotency_key})


async def _record(
    held: HeldRun, name: str, arguments: dict[str, Any], value: Any, effect: Effect, *, again: bool
) -> Reply:
    found = await held.find(name, arguments)
    if found is not None and not again:
        if found.standing == "done" and found.value == value and not found.is_pruned:
            return Reply(f"Recorded before, the very same: {called(found)}.", _done_facts(held, found))
        if found.standing == "done" and effect != "read":
            return _already_done(held, found)
        if found.standing == "in_doubt":
            return _in_doubt(found)
        if found.standing == "running":
            raise Misuse(
                problem=f"{called(found)} is begun",
                advice=f"end it with finish_step(step={found.seq}, result=…)",
            )
    done = await held.record(name, arguments, value, effect, again=again)
    return Reply(
        f"Recorded: {called(done)}.",
        {"status": "recorded", "step": done.seq, "point": _point(held, done)},
    )


def _already_done(held: HeldRun, step: Found) -> Reply:
    came_to = (
        "what it returned is not kept any more" if step.is_pruned else f"it returned: {shown(step.value)}"
    )
    where = f" ({step.reason})" if step.reason else ""
    text = (
        f"Already done, do not repeat it: {called(step)}{where}; {came_to}. Only if it is to happen once "
        "more on purpose: again=true."
    )
    return Reply(text, _done_facts(held, step))


def _done_facts(held: HeldRun, step: Found) -> dict[str, Any]:
    return {"status": "already_done", "step": step.seq, "point": _point(held, step), "result": step.value}


def _point(held: HeldRun, step: Found) -> str | None:
    """The end of a step as a point in its run; None where the run has no event of it."""
    return f"{held.name}@#{step.end_seq}" if step.end_seq else None


def _in_doubt(step: Found) -> Reply:
    key = f" Its idempotency key: {step.idempotency_key}." if step.idempotency_key else ""
    text = (
        f"In doubt, do not repeat it: {called(step)} was begun and {step.reason}. Find out whether it "
        f"happened, then resolve_step(step={step.seq}, outcome='done' or 'not_done', evidence=…); if you "
        f"cannot find out, ask a person.{key}"
    )
    facts = {
        "status": "in_doubt",
        "step": step.seq,
        "reason": step.reason,
        "idempotency_key": step.idempotency_key,
    }
    return Reply(text, facts)


async def _begun(held: HeldRun, ref: int | str) -> Found:
    """The step that is meant, among the open ones. Misuse lists them, and what else the reference may be."""
    found = _matching(held.begun, ref)
    if found is not None:
        return found
    left = _matching(await held.open_steps(), ref)
    if left is not None and left.standing == "in_doubt":
        raise Misuse(
            problem=f"{called(left)} is in doubt: it was begun in an earlier session",
            advice=f"resolve_step(step={left.seq}, outcome='done', evidence=…) if you know that it happened",
        )
    raise _no_step(f"no step {ref} is begun", held.begun)


async def _doubtful(held: HeldRun, ref: int | str) -> Found:
    doubts = [step for step in await held.open_steps() if step.standing == "in_doubt"]
    found = _matching(doubts, ref)
    if found is None:
        raise _no_step(f"no step {ref} is in doubt", doubts)
    return found


def _matching(steps: list[Found], ref: int | str) -> Found | None:
    text = str(ref).strip().removeprefix("#")
    found = [step for step in steps if text in {str(step.seq), step.name, step.key}]
    return found[0] if len(found) == 1 else None


def _no_step(problem: str, steps: list[Found]) -> Misuse:
    known = ", ".join(called(step) for step in steps) or "none"
    return Misuse(
        problem=f"{problem} (there is: {known})",
        advice="name it by its number; resume_context shows where you stand",
    )


def _with_loop_warning(held: HeldRun, reply: Reply) -> Reply:
    """The answer, with a warning for a client that repeats itself."""
    nudge: Any = held.run.nudge
    return reply if not nudge else Reply(f"{reply.text}\n{nudge}", {**(reply.facts or {}), "nudge": nudge})
