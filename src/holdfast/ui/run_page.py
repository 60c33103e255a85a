"""The page of a run, part by part. Each part has an address, so that the page can fetch what has changed.

A part is a template and what it shows; the read models in ``views`` decide everything else.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from orjson import OPT_INDENT_2, dumps

from holdfast.api.store.store import Store
from holdfast.core.drift.drift_fold import DRIFT
from holdfast.core.llm.message_shapes import message_line
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.reports.progress import Overview
from holdfast.errors import HoldfastError, Misuse, UnknownPoint
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import MENDED, Event, Kind
from holdfast.ui.records import Look, Records
from holdfast.views.acts import act_lines
from holdfast.views.artifacts import artifact_lines, version_lines
from holdfast.views.checkpoints import checkpoint_lines
from holdfast.views.conversation import conversation, messages_of
from holdfast.views.cost import marked_cost
from holdfast.views.effects_ledger import EffectLine, effect_lines
from holdfast.views.event_detail import event_detail
from holdfast.views.flight_recorder import ChildSpan, flight_recorder, scale_of
from holdfast.views.in_doubt import doubt_line
from holdfast.views.labels import names_at
from holdfast.views.lineage import branch_lines, lineage_lanes
from holdfast.views.needs import RunNeeds, need_lines
from holdfast.views.resume_plan import Launch, answers_line, arrange, saved_line
from holdfast.views.run_record import Row, saved_words, total_saved
from holdfast.views.run_summary import child_lines
from holdfast.views.runs import position_words, run_line, sign_words
from holdfast.views.state_tree import state_tree
from holdfast.views.time_scale import TimeScale
from holdfast.views.timeline import Timeline, without_pieces
from holdfast.views.value_text import failure_line, one_line

ROWS: Final = 200
"""How many rows one request gets."""
_INLINE_ROWS: Final = 400
"""Up to so many rows are simply there; more are fetched as they are scrolled to."""
_PREVIEW_ROWS: Final = 60
_NOTES: Final = 60
_ACTS: Final = 50
_CHILDREN_MAX: Final = 200
_LINEAGE_EVENTS_MAX: Final = 5_000
"""Of a longer run in a lineage, only the head is a point to compare."""
_LOG: Final = 300
_FILE_BYTES: Final = 100_000

Query = Mapping[str, str]


class RunPage:
    """Makes the parts of the pages of runs."""

    def __init__(self, store: Store, records: Records) -> None:
        self._store, self._records = store, records

    def page(self, run: str) -> dict[str, Any]:
        """The whole page. Of a run that is long and was not read yet, only its first rows."""
        look = self._records.preview(run)
        if not look.is_whole:
            return {"is_whole": False, "run": run, "info": look.info, **self._rows(look, 0, _PREVIEW_ROWS)}
        return {"is_whole": True, "run": run, "info": look.info} | self._whole(look)

    def part(self, run: str, name: str, query: Query) -> dict[str, Any]:
        """One part. Misuse for a part that there is not."""
        maker = _PARTS.get(name)
        if maker is None:
            raise Misuse(problem=f"a run has no part {name!r}", advice=f"the parts are: {', '.join(_PARTS)}")
        return {"run": run, "query": query, **maker(self, self._records.look(run), query)}

    def _whole(self, look: Look) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for name in ("head", "flight", "needs", "rows", "notes", "state"):
            parts |= _PARTS[name](self, look, {})
        return parts

    # -- parts -----------------------------------------------------------------------------------------------

    def head(self, look: Look, _: Query) -> dict[str, Any]:
        """The name, the status and the numbers that matter."""
        overview, record = look.overview, look.record
        line, lives = run_line(overview, now=self._store.now()), record.lives(look.info)
        saved_s, saved = total_saved(lives)
        return {
            "info": look.info,
            "line": line,
            "position": position_words(line),
            "sign": sign_words(line),
            "spent": marked_cost(line.cost, line.unknown_cost_calls),
            "saved": saved_words(saved_s, saved).removeprefix(": ").removesuffix(" saved"),
            "steps": len(record.calls),
            "effects": len(record.once_calls),
            "attempts": len(lives),
            "budget": _budget(overview),
            "plan_items": _plan(overview, line.plan_step),
            "point": line.point,
        }

    def flight(self, look: Look, _: Query) -> dict[str, Any]:
        """The lives of the run as a picture."""
        info, record = look.info, look.record
        run, in_doubt = info.run, {doubt.key for doubt in look.doubts}
        children = self._children(run)
        spans = [
            ChildSpan(
                child.info.run,
                child.info.run[len(run) + 1 :],
                child.info.status,
                child.info.created_at,
                None if child.info.holder == "alive" else _last_at(child),
            )
            for child in reversed(children)
        ]
        picture = flight_recorder(record.lives(info), record.steps(info, in_doubt), self._store.now(), spans)
        return {"flight": picture, "children": child_lines(run, children), "borrowed": record.borrowed_seq}

    def needs(self, look: Look, _: Query) -> dict[str, Any]:
        """What waits for a person."""
        return {"needs": need_lines([needs_of(self._store, look.overview)])}

    def rows(self, look: Look, query: Query) -> dict[str, Any]:
        """Some rows of the waterfall: those from ``from``, or those around the event ``seq``."""
        first = _number(query, "from", 0)
        if "seq" in query:
            first = max(0, look.record.place_of(_number(query, "seq", 0)) - ROWS // 2)
        return self._rows(look, first, _INLINE_ROWS if not query else ROWS)

    def _rows(self, look: Look, first: int, number: int) -> dict[str, Any]:
        info, record = look.info, look.record
        total = len(record)
        number = total if total <= _INLINE_ROWS else number
        lives = record.lives(info)
        scale = scale_of(lives, self._store.now())
        if not look.is_whole:  # what is open at the end of a preview may have ended long ago
            number = total = min(total, _PREVIEW_ROWS)
            info = info._replace(holder="alive")
        found = record.rows(first, first + number, info, {doubt.key for doubt in look.doubts})
        end = record.unseen_end(info)
        if end is not None and look.is_whole and first + number >= total:
            found.append(end)
        ends = {life.number: life.ended_at for life in lives}
        return {
            "rows": [(place, row, _bar(row, scale, ends)) for place, row in enumerate(found, first)],
            "rows_total": total + (end is not None),
            "rows_first": first,
            "rows_inline": _INLINE_ROWS,
            "breaks": record.breaks()[:200],
            "names": self._names(look) if look.is_whole else {},
        }

    def notes(self, look: Look, query: Query) -> dict[str, Any]:
        """Thoughts, decisions and discoveries, the newest last."""
        notes = look.record.notes
        shown = notes if query.get("all") else notes[-_NOTES:]
        return {"notes": shown, "notes_left_out": len(notes) - len(shown)}

    def state(self, look: Look, query: Query) -> dict[str, Any]:
        """The state at a point, and what has changed since the one before it."""
        run = look.info.run
        points = [line for line in look.record.checkpoints if line.kept]
        if not points:
            return {"points": [], "state": None, "at": None, "place": 0, "marks": [], "names": {}}
        wanted = _number(query, "point", points[-1].point)
        place = max((n for n, line in enumerate(points) if line.point <= wanted), default=0)
        at = points[place]
        state = self._state(run, at.seq)
        before = self._state(run, points[place - 1].seq) if place else state
        return {
            "points": points,
            "place": place,
            "at": at,
            "state": state_tree(state, before),
            "marks": _break_marks(look, [line.seq for line in points]),
            "names": defaultdict(str, self._names(look)),
        }

    def conversation(self, look: Look, query: Query) -> dict[str, Any]:
        """The conversation of one model call: the latest, or the one whose intent is ``seq``."""
        run = look.info.run
        calls = [step for step in look.record.steps(look.info) if step.effect == "model"]
        if not calls:
            return {"calls": [], "call": None, "talk": None, "edit_at": "", "editable": 0}
        wanted = _number(query, "seq", calls[-1].started_seq)
        call = next((step for step in calls if step.started_seq == wanted), calls[-1])
        started = self._event(run, call.started_seq)
        request = self._store.content(started).get("request")
        ended = None if call.outcome_seq is None else self._event(run, call.outcome_seq)
        outcome = {} if ended is None else self._store.content(ended)
        answer = outcome.get("value")
        partial = "" if answer is not None else self._partial(run, call.key, call.started_seq)
        talk = conversation(
            request,
            answer,
            partial=partial,
            is_running=call.outcome == "running",
            mended=[*self._repairs(run, call.started_seq), *(outcome.get("mended") or ())],
        )
        return {
            "calls": calls[-100:],
            "call": call,
            "talk": talk,
            "failure": _failure(outcome),
            **self._edits_before(look, call.started_seq - 1, messages_of(request)),
        }

    def _edits_before(self, look: Look, seq: int, sent: Sequence[Any]) -> dict[str, Any]:
        """The place right before a call, and how many of its messages can be edited there: the run's own."""
        view = look.overview.view
        if view is None or "conversation" not in view.folds or seq < 1:
            return {"edit_at": "", "editable": 0}
        form = self._store.editable(f"{look.info.run}@#{seq}")
        own = list(map(message_line, form.messages))
        is_own = not form.messages_refusal and own == list(map(message_line, sent[: len(own)]))
        return {"edit_at": f"#{seq}", "editable": len(own) if is_own else 0}

    def _partial(self, run: str, key: str, seq: int) -> str:
        """What arrived of an answer. The next try of the same call has the same key, and an answer of its own."""
        texts = []
        for event in self._store.events(run, after_seq=seq):
            if event.key == key and event.kind == Kind.STEP_STARTED:
                break
            if event.key == key and event.kind == Kind.STREAM_CHUNK:
                texts.append(str(contents_of(event.body).get("text") or ""))
        return "".join(texts)

    def _repairs(self, run: str, upto_seq: int) -> list[Any]:
        """What was mended in the run's conversation before a call."""
        marks = [
            e for e in self._store.events(run, upto_seq=upto_seq) if e.kind == Kind.MARK and e.name == MENDED
        ]
        return [repair for mark in marks for repair in self._store.content(mark).get("repairs") or ()]

    def files(self, look: Look, query: Query) -> dict[str, Any]:
        """The files that the run made; with ``path`` their versions and a preview."""
        run = look.info.run
        found: dict[str, Any] = {"files": artifact_lines(self._store.artifacts(run)), "path": None}
        path = query.get("path")
        if path is None:
            return found
        versions = version_lines(self._store.artifact_versions(run, path))
        number = _number(query, "version", versions[-1].version if versions else 0)
        try:
            data = self._store.read_artifact(run, path, version=number or None)
        except HoldfastError as error:
            return {**found, "path": path, "versions": versions, "version": number, "problem": str(error)}
        text = "" if b"\0" in data[:4096] else data[:_FILE_BYTES].decode("utf-8", "replace")
        shown = {"text": text, "bytes": len(data), "is_cut": len(data) > _FILE_BYTES, "problem": ""}
        return {**found, "path": path, "versions": versions, "version": number, **shown}

    def effects(self, look: Look, _: Query) -> dict[str, Any]:
        """The ledger of effects."""
        return {"effects": effects_of(look)}

    def plan(self, look: Look, _: Query) -> dict[str, Any]:
        """What starting the run again would do."""
        run = look.info.run
        if look.info.status == "finished":
            return {"plan": None, "status": look.info.status}
        plan = self._store.resume_plan(run)
        lines = arrange(plan, Launch((), "", {}))
        return {
            "plan": lines,
            "answers": answers_line(lines.answers),
            "saves": saved_line(lines.saved),
            "status": look.info.status,
        }

    def log(self, look: Look, query: Query) -> dict[str, Any]:
        """The journal, a line for each event, from ``from``."""
        run = look.info.run
        after = _number(query, "from", max(0, look.record.head - _LOG))
        events = self._store.events(run, after_seq=max(0, after), upto_seq=after + _LOG)
        lines = Timeline().lines(without_pieces(events))
        return {"log": lines, "log_from": after, "log_head": look.record.head, "log_page": _LOG}

    def lineage(self, look: Look, _: Query) -> dict[str, Any]:
        """The tree of forks and handoffs that the run belongs to."""
        tree = self._store.lineage(look.info.run)
        infos = {name: self._store.get(name) for name in tree.names()}
        lines = branch_lines(tree, {name: info.status for name, info in infos.items()}, self._store.givers())
        heads = {name: info.head for name, info in infos.items()}
        points = {
            name: checkpoint_lines(self._store.events(name), names_at(self._store.labels(name)))
            for name, head in heads.items()
            if len(heads) > 1 and head <= _LINEAGE_EVENTS_MAX
        }
        return {"lanes": lineage_lanes(tree, lines, heads, points)}

    def people(self, look: Look, _: Query) -> dict[str, Any]:
        """What people did with the run, the latest first."""
        run, store = look.info.run, self._store
        found = act_lines(look.record.by_people, store.pins_of(run), store.labels(run), store.acts(run))
        return {"acts": found[: -_ACTS - 1 : -1], "acts_left_out": max(0, len(found) - _ACTS)}

    def _names(self, look: Look) -> Mapping[int, str]:
        return names_at(self._store.labels(look.info.run))

    def event(self, look: Look, query: Query) -> dict[str, Any]:
        """One event in full."""
        run = self._store.run_with(look.info.run, _number(query, "seq", look.record.head))
        event = self._event(run, _number(query, "seq", look.record.head))
        detail = event_detail(run, event, self._store.content(event))
        text = dumps(detail.body, option=OPT_INDENT_2, default=str).decode("utf-8", "replace")
        return {"detail": detail, "body_text": text[:_FILE_BYTES], "is_cut": len(text) > _FILE_BYTES}

    # -- help ------------------------------------------------------------------------------------------------

    def _state(self, run: str, seq: int) -> Any:
        return self._store.content(self._event(run, seq)).get("state")

    def _event(self, run: str, seq: int) -> Event:
        found = self._store.events(run, after_seq=seq - 1, upto_seq=seq, whole=True)
        if not found:
            raise UnknownPoint(run=run, what=f"event #{seq}", last_point=0, head=self._store.get(run).head)
        return found[0]

    def _children(self, run: str) -> list[Overview]:
        return self._store.overview(prefix=f"{run}/", limit=_CHILDREN_MAX)


_PARTS: Final[dict[str, Callable[[RunPage, Look, Query], dict[str, Any]]]] = {
    name: getattr(RunPage, name)
    for name in (
        "head",
        "flight",
        "needs",
        "rows",
        "notes",
        "state",
        "conversation",
        "files",
        "effects",
        "plan",
        "log",
        "lineage",
        "people",
        "event",
    )
}


def needs_of(store: Store, overview: Overview) -> RunNeeds:
    """What one run needs of a person."""
    line = run_line(overview, now=store.now())
    view = overview.view
    if view is None:
        return RunNeeds(line)
    # Each of these reads the journal once more, so they are asked only where the fold has seen some.
    run, error = line.run, _last_error(store, overview)
    return RunNeeds(
        line,
        [doubt_line(doubt, view) for doubt in store.doubts(run)] if overview.in_doubt else [],
        store.stopped_calls(run) if DRIFT.of(view).stops else [],
        store.questions(run) if line.open_questions else [],
        failure_line(error),
        str((error or {}).get("type", "")),
    )


def effects_of(look: Look) -> list[EffectLine]:
    """The effects of a run, with what the program has not asked for since it was started."""
    record, in_doubt = look.record, {doubt.key for doubt in look.doubts}
    return effect_lines(look.info.run, record.steps(look.info, in_doubt), record.keys, record.unclaimed)


def _last_error(store: Store, overview: Overview) -> dict[str, Any] | None:
    """The error that ended the last attempt, as it is recorded."""
    view = overview.view
    if view is None or overview.info.holder == "alive":
        return None
    for event in reversed(store.events(overview.info.run, after_seq=max(0, view.head - 200))):
        if event.kind == Kind.ATTEMPT_ENDED:
            found: dict[str, Any] | None = contents_of(event.body).get("error")
            return found
        if event.kind in {Kind.ATTEMPT_STARTED, Kind.ATTEMPT_CRASHED}:
            break
    return None


def _budget(overview: Overview) -> list[str]:
    from holdfast.core.budget.spending import allowed_words
    from holdfast.model.budget import Budget

    view = overview.view
    if view is None or not view.attempts:
        return []
    budget = fields_of(view.attempts[-1].event.body).get("budget") or {}
    return list(allowed_words(Budget(**{k: v for k, v in budget.items() if k in Budget._fields})))


def _plan(overview: Overview, step: int | None) -> list[tuple[str, str]]:
    """The plan: each item with what is known of it."""
    view = overview.view
    event = None if view is None else PLAN.of(view).event
    if event is None or view is None:
        return []
    from holdfast.core.reports.progress import planned

    items, at = planned(event), step or 0
    over = overview.info.status == "finished"
    return [
        (one_line(item, 80), "done" if over or n < at else "now" if n == at else "")
        for n, item in enumerate(items, 1)
    ]


def _bar(row: Row, scale: TimeScale, ends: Mapping[int, float | None]) -> tuple[float, float, str] | None:
    """Where the bar of a row is, and its kind; of one that was cut off, the template marks the end."""
    step = row.step
    if step is None or step.what != "step":
        return None
    left = scale.place(step.started_at)
    ended = step.started_at + step.took_s if step.took_s is not None else ends.get(step.attempt) or 0.0
    right = scale.place(ended) if ended else 1.0
    kind = {"in_doubt": "doubt", "cut_off": "cut", "failed": "bad", "running": "now"}.get(
        step.outcome, "work"
    )
    if kind == "work" and step.effect == "once":
        kind = "effect"
    return left, max(0.004, right - left), kind


def _break_marks(look: Look, seqs: list[int]) -> list[tuple[float, str, str]]:
    """The breaks on the scrubber: their places between the points, their moods and their words."""
    if len(seqs) < 2:
        return []
    marks: list[tuple[float, str, str]] = []
    lives = look.record.lives(look.info)
    for life in lives:
        if life.ended_at is None or not life.words:
            continue
        after = next((one.seq for one in lives if one.number == life.number + 1), None)
        until = len(seqs)
        if after is not None:
            until = next((n for n, seq in enumerate(seqs) if seq > after), len(seqs))
        marks.append((min(1.0, max(0.0, (until - 0.5) / (len(seqs) - 1))), life.mood, life.words))
    return marks


def _failure(outcome: Mapping[str, Any]) -> str:
    return failure_line(outcome.get("error")) if outcome.get("error") else ""


def _last_at(overview: Overview) -> float:
    view = overview.view
    return view.last.at if view is not None and view.last is not None else overview.info.created_at


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 15:
        raise Misuse(problem=f"{name}={text[:40]!r} is no number", advice="use a whole number from 0")
    return int(text)
