"""Tools about a run: start or resume it, its status, its end; and reading any run of the store."""

import asyncio
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from holdfast.api.served_run import Found
from holdfast.api.store.store import Store
from holdfast.core.lineage.points import Place, parse_place
from holdfast.core.text.value_text import count, one_line
from holdfast.errors import Misuse, UnknownRun
from holdfast.mcp.held_runs import HeldRun, HeldRuns
from holdfast.mcp.parameters import Budget, Json, NewRun, RunName, RunPoint
from holdfast.mcp.replies import Reply, bullets, called, shown
from holdfast.mcp.sdk import Context, session_of
from holdfast.model.store_rows import OVER
from holdfast.views.checkpoints import checkpoint_lines
from holdfast.views.diff import arrange_diff
from holdfast.views.event_detail import event_detail
from holdfast.views.json_shape import as_plain
from holdfast.views.runs import position_words, run_line
from holdfast.views.timeline import Timeline

STATE_CHARS_MAX = 2_000
LOG_LINES = 30
RUNS_LISTED = 20
EVENT_CHARS_MAX = 20_000
_REPEATED: Final = {
    "answer": "The same call is answered from its record.",
    "ask": "A person decides about the same call.",
    "again": "The fork may do it again.",
}


class RunTools:
    """The tools for runs."""

    def __init__(self, holder: HeldRuns) -> None:
        self._holder = holder

    async def start_run(
        self,
        ctx: Context,
        run: Annotated[
            str,
            Field(description="The run's id, chosen by you, one for each task: 'release-1.4'."),
        ],
        goal: Annotated[
            str | None,
            Field(description="With a new run: what is to be achieved, in a sentence."),
        ] = None,
        reopen: Annotated[bool, Field(description="Continue a run that is finished or cancelled.")] = False,
        budget_tokens: Budget = 1_500,
    ) -> Reply:
        """Call this first, in every session and after a crash. It starts the run, or resumes it.

        Answers with what was done, what is in doubt, what is asked, and your last checkpoint.
        """
        holder, session = self._holder, session_of(ctx)
        known = await asyncio.to_thread(_find_info, holder.store, run)
        if known is not None and known.status in OVER and not reopen:
            return await self._over_reply(run, known.status, budget_tokens)
        is_new = known is None or known.head == 0
        held, is_joined = await holder.start(session, run, goal if is_new else None, reopen=reopen)
        if is_new and not is_joined:
            facts = {"run": run, "status": "started", "attempt": held.run.attempt}
            return Reply(
                f"Started run {run}. Record as you go: begin_step before you act, note, checkpoint.",
                facts,
            )
        text, facts = await self._status_text(held, budget_tokens)
        how = "is already open in this server: you have joined it" if is_joined else "is resumed"
        lines = [f"Run {run} {how} (attempt {held.run.attempt})."]
        recorded = await asyncio.to_thread(_goal_of, holder.store, run)
        if goal and recorded and goal != recorded:
            lines.append(
                f"Its recorded goal stays: {recorded!r}. If yours is another task, start another run."
            )
        if recorded and is_joined is False:
            facts["goal"] = recorded
        return Reply(
            "\n".join([*lines, text]), {**facts, "run": run, "status": "joined" if is_joined else "resumed"}
        )

    async def resume_context(self, ctx: Context, run: RunName = None, budget_tokens: Budget = 2_000) -> Reply:
        """Call this when you have lost the thread, for example after your context was compacted.

        Answers what was done, decided and found out, what is in doubt, and what comes next. If no run is
        open, it lists the runs of this store.
        """
        held = self._holder.find(session_of(ctx), run)
        if held is None:
            return await self._unopened_reply(run, budget_tokens)
        text, facts = await self._status_text(held, budget_tokens)
        return Reply(text, facts)

    async def finish_run(
        self,
        ctx: Context,
        result: Annotated[Json, Field(description="What came of it: a text or data.")] = None,
        run: RunName = None,
    ) -> Reply:
        """Call this when the task is done. Refused while a step is begun and not ended, or in doubt."""
        held = self._holder.get(session_of(ctx), run)
        if held.begun:
            named = ", ".join(called(step) for step in held.begun)
            raise Misuse(
                problem=f"begun and not ended: {named}", advice="call finish_step or fail_step for each"
            )
        doubtful = [step for step in await held.open_steps() if step.standing == "in_doubt"]
        if doubtful:
            named = ", ".join(called(step) for step in doubtful)
            raise Misuse(
                problem=f"in doubt: {named}", advice="find out whether it happened, then call resolve_step"
            )
        await held.do(lambda own: own.finish(result))
        await self._holder.leave(held.name)
        return Reply(f"Run {held.name} is finished.", {"run": held.name, "status": "finished"})

    async def leave_run(self, ctx: Context, run: RunName = None) -> Reply:
        """Pause: release the run without finishing it, so that start_run resumes it here or elsewhere.

        Steps that are begun and not ended are then in doubt.
        """
        held = self._holder.get(session_of(ctx), run)
        begun = held.begun
        await self._holder.leave(held.name)
        doubts = [called(step) for step in begun if step.effect == "once"]
        lines = [f"Run {held.name} is left; start_run(run={held.name!r}) resumes it."]
        return Reply(
            "\n".join([*lines, *bullets("Now in doubt:", doubts)]), {"run": held.name, "status": "left"}
        )

    # -- read ------------------------------------------------------------------------------------------------

    async def list_runs(
        self,
        prefix: Annotated[str, Field(description="Only ids that begin like this.")] = "",
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
    ) -> Reply:
        """Find a run whose id you do not know: the runs of this store, newest first, with status and goal."""
        return await self._list(prefix, limit)

    async def _list(self, prefix: str, limit: int) -> Reply:
        store = self._holder.store
        found = await asyncio.to_thread(lambda: store.overview(prefix=prefix, limit=limit))
        lines = [run_line(one, now=store.now()) for one in found]
        reply = [
            f"{line.run}: {line.status.replace('_', ' ')}, {position_words(line)}"
            + (f", {line.in_doubt} in doubt" if line.in_doubt else "")
            + (f", asks {count(line.open_questions, 'question')}" if line.open_questions else "")
            + (f": {one_line(line.goal, 120)}" if line.goal else "")
            for line in lines
        ]
        fields = ("run", "status", "goal", "in_doubt", "open_questions", "attempts")
        facts = [{name: getattr(line, name) for name in fields} for line in lines]
        return Reply("\n".join(reply) or "There are no runs yet: start_run begins one.", {"runs": facts})

    async def show_run(
        self,
        ctx: Context,
        run: Annotated[
            str | None,
            Field(
                description="A run, or an event in it: 'release-1.4@#12'. Left out: the run that you started "
                "last."
            ),
        ] = None,
        limit: Annotated[int, Field(ge=1, le=200, description="How many events.")] = LOG_LINES,
    ) -> Reply:
        """Read what was recorded: the latest events of any run, or one event in full (RUN@#N)."""
        place = parse_place(run or self._holder.get(session_of(ctx), None).name)
        store = self._holder.store
        if place.is_head:
            return Reply(await asyncio.to_thread(log_text, store, place.run, limit))
        return await asyncio.to_thread(_event_reply, store, place)

    async def fork_run(
        self,
        run: RunPoint,
        new_run: NewRun,
        effects: Annotated[
            Literal["answer", "ask", "again"],
            Field(
                description="If the new run makes a call that was made after the point: answer it from the "
                "record, ask a person, or do it again."
            ),
        ] = "answer",
    ) -> Reply:
        """Try something else: make a new run with the history of this one up to a point.

        Then call start_run with the new run.
        """
        store = self._holder.store
        info = await asyncio.to_thread(lambda: store.fork(run, as_=new_run, effects=effects))
        lines = [f"Forked {info.run} from {run}; start_run(run={info.run!r}) continues it."]
        done = [one.step for one in info.behind if one.how == "done"]
        if done:
            lines.append(f"Happened after that point: {', '.join(dict.fromkeys(done))}. {_REPEATED[effects]}")
        doubted = [one.step for one in info.behind if one.how != "done"]
        if doubted:
            lines.append(f"In doubt after that point: {', '.join(dict.fromkeys(doubted))}.")
        facts = {"run": info.run, "from": run, "effects": effects}
        return Reply("\n".join(lines), {**facts, "behind": [one._asdict() for one in info.behind]})

    async def diff_runs(
        self,
        run: RunPoint,
        other_run: RunPoint,
    ) -> Reply:
        """Compare two runs, or two points of one: the states, the calls, and where they part."""
        page = arrange_diff(await asyncio.to_thread(self._holder.store.diff, run, other_run))
        changes = [
            f"{change['op']} {change['path']}: {one_line(shown(change.get('value')))}"
            for change in page.state_patch or []
        ]
        lines = [*page.sentences, *bullets("State:", changes[:50])]
        return Reply(
            "\n".join(lines) or "Nothing differs.",
            {"relation": page.relation, "state_patch": as_plain(page.state_patch)},
        )

    async def search_history(
        self,
        query: Annotated[str, Field(description='A few words; "in quotes": next to each other.')],
        run: Annotated[str | None, Field(description="Only in this run. Left out: in all.")] = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> Reply:
        """Look back: search what was done, decided and found out, in all runs of this store.

        A hit begins with its event, RUN@#N; show_run shows it in full.
        """
        hits = await asyncio.to_thread(lambda: self._holder.store.search(query, limit, run=run))
        lines = [f"{hit.run}@#{hit.seq} {hit.name or hit.kind}: {one_line(hit.text, 300)}" for hit in hits]
        return Reply(
            "\n".join(lines) or "Nothing was found.",
            {"hits": [{"event": f"{hit.run}@#{hit.seq}", **as_plain(hit)} for hit in hits]},
        )

    # -- parts -----------------------------------------------------------------------------------------------

    async def _over_reply(self, run: str, status: str, budget_tokens: int) -> Reply:
        context = await asyncio.to_thread(self._holder.store.context, run, budget_tokens)
        text = (
            f"Run {run} is {status}, and was not opened. start_run(run={run!r}, reopen=true) continues it; "
            f"for another task choose another id.\n\n{context.text}"
        )
        return Reply(text, {"run": run, "status": status})

    async def _unopened_reply(self, run: str | None, budget_tokens: int) -> Reply:
        """The status of a run that this session has not started; without a name, the runs to choose from."""
        if run is not None:
            context = await asyncio.to_thread(self._holder.store.context, run, budget_tokens)
            text = f"Run {run} is not open here; start_run(run={run!r}) continues it.\n\n{context.text}"
            return Reply(text, {"run": run, "status": "not_open", "context": context.text})
        known = await self._list("", RUNS_LISTED)
        if not (known.facts or {})["runs"]:
            return known
        return Reply(
            f"No run is open here. start_run(run=…) continues one of these:\n{known.text}", known.facts
        )

    async def _status_text(self, held: HeldRun, budget_tokens: int) -> tuple[str, dict[str, Any]]:
        """The status of the run: first what to do about it, then its story."""
        left = await held.open_steps()
        plan = await held.do(lambda own: own.resume_plan())
        store = self._holder.store
        questions = await asyncio.to_thread(store.questions, held.name)
        doubts = [step for step in left if step.standing == "in_doubt"]
        lines = [
            *bullets(
                "In doubt. Do not repeat them; find out whether each happened, then call resolve_step:",
                [_doubt(step) for step in doubts],
            ),
            *bullets("Begun here and not ended yet:", [called(step) for step in held.begun]),
            *bullets(
                "Cut off, and safe to begin again:",
                [called(step) for step in left if step.standing == "cut_off"],
            ),
            *bullets(
                "Asked of a person, and not answered yet:",
                [f"{asked.id}: {one_line(asked.question)}" for asked in questions],
            ),
            *bullets(
                "Changed since:",
                [
                    f"{one.premise.id} {one.text}"
                    for one in plan.premises
                    if one.act == "warn" and one.premise.kind != "effect"
                ],
            ),
            *await self._state(held),
        ]
        if held.run.nudge:
            lines.append(held.run.nudge)
        context = await asyncio.to_thread(store.context, held.name, budget_tokens)
        facts = {
            "run": held.name,
            "attempt": held.run.attempt,
            "in_doubt": [_facts(step) for step in doubts],
            "begun": [_facts(step) for step in held.begun],
            "questions": [{"question": asked.id, "text": asked.question} for asked in questions],
            "context": context.text,
        }
        return "\n".join([*lines, *([""] if lines else []), context.text]), facts

    async def _state(self, held: HeldRun) -> list[str]:
        """The state of the last checkpoint, as the client gave it."""
        events = await asyncio.to_thread(self._holder.store.events, held.name)
        lines = [line for line in checkpoint_lines(events) if line.kept]
        if not lines:
            return []
        label = f" {lines[-1].label!r}" if lines[-1].label else ""
        state = await asyncio.to_thread(lambda: held.run.state)
        return [f"Your last checkpoint, #{lines[-1].seq}{label}: {shown(state, STATE_CHARS_MAX)}"]


def _event_reply(store: Store, place: Place) -> Reply:
    """One event in full. Raises UnknownPoint or PointPruned."""
    if place.seq is not None:  # a rewind may have moved it to another run
        place = place._replace(run=store.run_with(place.run, place.seq))
    events = store.events(place.run)
    event = store.find_event(place, events)
    if event is None:
        raise store.absence(place, events, store.get(place.run).head)
    detail = event_detail(place.run, event, store.content(event))
    title = f"{place.run}@#{event.seq} {detail.what} {detail.name}".rstrip()
    return Reply(f"{title}\n{shown(as_plain(detail.body), EVENT_CHARS_MAX)}", as_plain(detail))


def log_text(store: Store, run: str, latest: int) -> str:
    """The latest events of a run, one per line."""
    lines = Timeline().lines(store.events(run))
    reply = [
        f"#{line.seq} {'  ' * line.depth}{line.what} {line.name} {line.detail}".rstrip()
        for line in lines[-latest:]
    ]
    if len(lines) > latest:
        reply.insert(0, f"({count(len(lines) - latest, 'event')} before)")
    return "\n".join([f"Run {run}: {store.get(run).status.replace('_', ' ')}", *reply])


def _doubt(step: Found) -> str:
    key = f" (idempotency key {step.idempotency_key})" if step.idempotency_key else ""
    return f"{called(step)}: {step.reason}{key}"


def _facts(step: Found) -> dict[str, Any]:
    return {
        "step": step.seq,
        "name": step.name,
        "arguments": step.arguments,
        "reason": step.reason,
        "idempotency_key": step.idempotency_key,
    }


def _find_info(store: Store, run: str) -> Any:
    try:
        return store.get(run)
    except UnknownRun:
        return None


def _goal_of(store: Store, run: str) -> str:
    started = store.view(run).started
    return "" if started is None else str(store.content(started).get("goal") or "")
