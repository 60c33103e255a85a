"""Accepts a handoff: starts a run from the document, after checking the document's claims on this machine.

A claim that does not hold here, or a part that the document could not carry, is a loss. ``accept`` returns
the losses, records them in the new run, and the run's context shows them. Effects in doubt stay in doubt:
they are recorded so in the run's first append.

Crash windows: one append writes the goal, the document, the losses, the promises and the doubts. Killed
before it, a row without events is left, which cannot be entered (``run.sealed``), and the next accept
continues with that row. To accept one document twice under one id gives one run.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from orjson import OPT_SORT_KEYS, dumps, loads

from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.journal.event_check import UNSOUND, event_problem
from holdfast.core.journal.names import check_name, check_run_id
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.premises.premises import judge
from holdfast.core.steps.identity import keyed
from holdfast.core.transfer.handoff import check_document
from holdfast.core.transfer.handoff.carried_effects import Effect, effects_in
from holdfast.core.transfer.handoff.remembered_facts import memory_of
from holdfast.engine.journal.blob_content import content_in
from holdfast.engine.journal.drafts import Draft, draft, placed_after
from holdfast.engine.journal.journal import Journal, read_all
from holdfast.engine.journal.lease import give_back, held_row, take
from holdfast.engine.journal.lineage_names import all_runs
from holdfast.engine.journal.load_view import load
from holdfast.engine.premises.premises import CheckLocation
from holdfast.engine.run.entry import Entry, started_of
from holdfast.engine.run.inputs import usable_id
from holdfast.engine.run.sealed import check_may_act, find_handoff
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import BadHandoff, HoldfastError, ImportClash
from holdfast.limits import (
    APPEND_EVENTS_MAX,
    APPEND_SIZE_BYTES_MAX,
    SERIES_RUNS_MAX,
    STEP_NAME_CHARS_MAX,
)
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import HANDED_OVER, HANDOFF, Event, Kind, first_link
from holdfast.model.handoff import Accepted, Loss
from holdfast.model.premises import Premise
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.port import StorePort

UNKNOWN_PLACE = "?"
"""The call site of a call that another run made. It matches no call site here, so it is never drift."""


def accept(
    session: StoreSession, given: object, run: str | None = None, *, source: StorePort | None = None
) -> Accepted:
    """Start a run from this document. No process holds it yet, and it is durable on return.

    ``source`` is the giver's store, if it can be reached: values too long for the document come from there.
    May raise BadHandoff, ImportClash, RunSealed.
    """
    found = check_document(given)
    store = session.store
    if source is None and found["store"] == store.url:
        source = store
    run = usable_id(run) if run is not None else _free_name(store, found)
    row = store.find_run(run)
    if row is None or not row.head:
        _prepared(store, run, found, source)  # a dry run: a bad document must not leave an empty row behind
    row = row or _created(session, run, found)
    check_may_act(store, row, accepts=True)
    lease = drive(take(BLOCKING, store, session.clock, run, session.lease_s))
    try:
        row = held_row(store, run)  # before the lease, the run may have been erased and another one created
        check_may_act(store, row, accepts=True)
        events = read_all(store, run)
        if events:
            return _again(store, row, events, found)
        drafts, losses = _prepared(store, run, found, source)
        journal = Journal(store, session.committer, run, lease.fence, 0, before=first_link(row.birth))
        drive(journal.append(BLOCKING, drafts, session.clock.wall(), status=Status.QUEUED))
    finally:
        give_back(store, run, lease.fence)
    return _accepted(run, found, losses, is_new=True)


def _prepared(
    store: StorePort, run: str, found: dict[str, Any], source: StorePort | None
) -> tuple[list[Draft], tuple[Loss, ...]]:
    """The first events and the losses. BadHandoff where the content cannot be valid events."""
    try:
        enriched, fetched = _fetched(found, source)
        losses = tuple(_losses(store, run, enriched, source, fetched))
        drafts = [*_beginning(run, enriched, losses), *doubts(enriched)]
    except UNSOUND as error:
        raise BadHandoff(problem=f"it makes no sense: {type(error).__name__}: {error}") from error
    events, _ = placed_after(0, 1, drafts, run, 0, 0.0)
    for event in events:
        problem = event_problem(event)
        if problem:
            raise BadHandoff(problem=f"it makes no sense: as event {event.kind}, {problem}")
    size = sum(len(event.body) for event in events)
    if len(events) > APPEND_EVENTS_MAX or size > APPEND_SIZE_BYTES_MAX:
        # All of it must fit into one append: see the crash windows above.
        extent = f"{len(events)} events of {size:,} bytes"
        raise BadHandoff(
            problem=f"it comes to {extent}, and a run begins with at most {APPEND_EVENTS_MAX} of 1 MB"
        )
    return drafts, losses


def _accepted(run: str, found: Mapping[str, Any], losses: tuple[Loss, ...], *, is_new: bool) -> Accepted:
    return Accepted(
        run, found["run"], found["store"], found["event"], found["to"], found["digest"], losses, is_new
    )


# -- which run -----------------------------------------------------------------------------------------------


def _free_name(store: StorePort, found: Mapping[str, Any]) -> str:
    """The giver's id, or the first of ``id.2``, ``id.3`` … that is free or began with this handoff."""
    for number in range(1, SERIES_RUNS_MAX + 1):
        name = found["run"] if number == 1 else f"{found['run']}.{number}"
        row = store.find_run(name)
        if row is None or (facts_of(row).get("handed") or {}).get("digest") == found["digest"]:
            return check_run_id(name)
    raise ImportClash(
        run=found["run"], status="many times", problem="no name is left", advice="use --as NAME"
    )


def _created(session: StoreSession, run: str, found: Mapping[str, Any]) -> RunRow:
    """The row of the new run, which names the handoff; or the row that another process created first."""
    body = dumps({"handed": source_of(found)}, option=OPT_SORT_KEYS)
    row = RunRow(run, os.urandom(16).hex(), session.clock.wall(), Status.QUEUED, body, agent=_agent_of(found))
    session.store.create_run(row)
    there = session.store.find_run(run)
    assert there is not None, f"run {run} was created and is not there"
    return there


def _agent_of(found: Mapping[str, Any]) -> str:
    """The agent whose workers may run the taker, once it is submitted.

    The one that the handoff names, else the giver's; none where the giver was not run by a worker.
    """
    agent = found["to"] or found["agent"]
    return check_name("agent", agent, STEP_NAME_CHARS_MAX) if found["agent"] else ""


def _again(store: StorePort, row: RunRow, events: list[Event], found: Mapping[str, Any]) -> Accepted:
    """The result of the earlier accept. ImportClash where the run began with anything else."""
    source = fields_of(events[0].body).get("handed_over") if events[0].kind == Kind.RUN_STARTED else None
    if source is None or source["digest"] != found["digest"]:
        raise ImportClash(
            run=row.run,
            status=row.status,
            problem="it did not begin with this handoff",
            advice="accept it under another id: `holdfast accept FILE --as NAME`",
        )
    return _accepted(row.run, found, losses_in(store, row.run, events), is_new=False)


def losses_in(store: StorePort, run: str, events: list[Event] | None = None) -> tuple[Loss, ...]:
    """The losses recorded when this run was accepted; none where it did not begin with a handoff."""
    for event in events if events is not None else read_all(store, run):
        if event.kind == Kind.MARK and event.name == HANDED_OVER:
            return tuple(Loss(**one) for one in contents_of(event.body).get("losses", ()))
    return ()


def source_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The origin of the work, as the run's row and its first event record it."""
    return {name: found[name] for name in ("run", "store", "event", "to", "digest")}


# -- what it begins with -------------------------------------------------------------------------------------


def _beginning(run: str, found: dict[str, Any], losses: tuple[Loss, ...]) -> Iterator[Draft]:
    entry = Entry(run, goal=found["goal"] or None, agent=_agent_of(found) or None)
    inputs = dumps(found["inputs"], option=OPT_SORT_KEYS)  # plain dumps: typed values are tagged already
    yield started_of(entry, inputs, handed_over=source_of(found))
    parts = {"losses": [loss._asdict() for loss in losses]}
    yield draft(Kind.MARK, HANDED_OVER, "", {}, dumps(found), parts=parts)
    if found["promises"]:
        promises = [{name: value for name, value in p.items() if name != "events"} for p in found["promises"]]
        yield draft(Kind.PROMISE_TOLD, found["run"], "", {"via": "handoff"}, parts={"promises": promises})


def doubts(found: dict[str, Any]) -> Iterator[Draft]:
    """A started and doubted call for each effect in doubt.

    A person can resolve it before the program runs, and the run cannot finish while it is open.
    """
    for effect in effects_in(found):
        if effect.is_in_doubt:
            item = effect.item
            fields: dict[str, Any] = {
                "effect": effect.effect,
                "in": "",
                "after": UNKNOWN_PLACE,
                "idempotency_key": effect.idempotency_key,
                "carried": {
                    **origin_of(effect),
                    "key": effect.key,
                    "is_over": bool(item.get("is_over")),
                    **({"call": effect.call} if effect.call else {}),
                },
            }
            if item.get("policy", "stop") != "stop":
                fields["in_doubt"] = item["policy"]
            fields |= {name: True for name in ("verify", "tool") if item.get(name)}
            key, arguments = seed_key(found["digest"], effect), dumps(effect.arguments or {})
            yield draft(Kind.STEP_STARTED, effect.step, key, fields, arguments, "args")
            yield draft(Kind.STEP_DOUBTED, effect.step, key, {}, parts={"reason": doubt_of(effect)})


def seed_key(digest: str, effect: Effect) -> str:
    """The key of the call that represents an effect in doubt until the program makes that call."""
    return keyed(f"{HANDED_OVER} {digest} {effect.number}")


def origin_of(effect: Effect) -> dict[str, Any]:
    """Which effect of which run it is, in the form that events record."""
    return {"n": effect.number, "run": effect.run, "store": effect.store, "event": effect.event}


def doubt_of(effect: Effect) -> str:
    """Why it is not known whether the effect happened."""
    return f"{effect.item.get('doubt') or 'never reported back'} in run {effect.run} (#{effect.event})"


# -- what is lost --------------------------------------------------------------------------------------------


_Fetched = Mapping[str, Sequence[bool]]
"""By step: for each of its results that the document left out, whether the giver's store had it."""


def _fetched(found: dict[str, Any], source: StorePort | None) -> tuple[dict[str, Any], _Fetched]:
    """The document, completed with the results that it left out and the giver's store has."""
    if source is None or not any("result_bytes" in item for item in found["effects"]):
        return found, {}
    effects = []
    fetched: dict[str, list[bool]] = {}
    for item in found["effects"]:
        if "result_bytes" in item and "from" not in item:
            value = _result(source, found["run"], item)
            fetched.setdefault(item["step"], []).append(value is not None)
            if value is not None:
                item = {**{n: v for n, v in item.items() if n != "result_bytes"}, "result": loads(value)}  # noqa: PLW2901
        effects.append(item)
    return {**found, "effects": effects}, fetched


def _still_left_out(found: Mapping[str, Any], fetched: _Fetched) -> Iterator[Loss]:
    """What the document left out, without the results that were fetched."""
    unread = {step: [*results] for step, results in fetched.items()}
    left: list[Loss] = []
    # A loss has only the name of its step, so it is found by its place among those of that name. From the
    # end: results that the giver was given itself come first, and not all of them are in the list.
    for one in reversed(found["left_out"]):
        results = unread.get(one["name"]) if one["what"] == "value" else None
        if not results or not results.pop():
            left.append(Loss(**{name: one[name] for name in Loss._fields}))
    return reversed(left)


_VALUES: Final = frozenset({"value", "value_blob"})


def _result(source: StorePort, run: str, item: Mapping[str, Any]) -> bytes | None:
    seq = item["events"][0]
    try:
        event = next(iter(read_all(source, run, after_seq=seq - 1, upto_seq=seq)), None)
        if event is None or event.name != item["step"] or _VALUES.isdisjoint(contents_of(event.body)):
            return None
        return content_in(source, event)
    except HoldfastError:  # unreachable, erased or damaged: the result then stays in the list of losses
        return None


def _losses(
    store: StorePort, run: str, found: dict[str, Any], source: StorePort | None, fetched: _Fetched
) -> Iterator[Loss]:
    yield from _of_giver(store, run, found, source)
    for loss in _still_left_out(found, fetched):
        # The memory of one store is shared by its runs.
        if loss.what != "fact" or memory_of(loss.name, found) != store.url:
            yield loss
    yield from _of_places(found, source)
    for step in found["pending"]:
        key = " under the giver's key" if "number" in step else ""
        yield Loss(
            "step", step["step"], "was begun and never ended", f"it is made again{key} when it is called"
        )
    for question in found["questions"]:
        why = f"asked by {found['run']}: {question['text']}; an answer goes there"
        yield Loss("question", question["id"], why, "ask again: run.ask(…)")
    yield from _of_promises(store, found)
    if found["budget"]["left"]:
        left = ", ".join(f"{name}={value:g}" for name, value in found["budget"]["left"].items())
        why = "limits are not carried over: nothing limits this run until its program says so"
        yield Loss(
            "budget", "budget", why, f"holdfast.run(…, budget=holdfast.Budget({left})) is what was left"
        )


def _of_giver(
    store: StorePort, run: str, found: Mapping[str, Any], source: StorePort | None
) -> Iterator[Loss]:
    """Losses about the giver: it, or another run from the same handoff, may do the same work."""
    giver = found["run"]
    if not found["sealed"]:
        yield Loss(
            "giver",
            giver,
            "is not sealed: it may continue the same work",
            f"`holdfast handoff {giver} --to NAME --seal` makes it stop",
        )
    others = [
        row.run
        for row in all_runs(store)
        if row.run != run
        and not row.damage
        and (facts_of(row).get("handed") or {}).get("digest") == found["digest"]
    ]
    if others:
        sealed = f", and {giver} was sealed for {found['to'] or 'one taker'}" if found["sealed"] else ""
        yield Loss(
            "giver",
            giver,
            f"{', '.join(sorted(others))} began with the same handoff{sealed}: two do the same work now",
            f"let one of them go on: `holdfast cancel {run}`",
        )
    row = None if source is None else source.find_run(giver)
    if source is not None and row is None:
        yield Loss("giver", giver, f"is not in {source.url}", "give --from the store that it is in")
    elif source is not None and row is not None:
        yield from _of_journal(source, row, found)


def _of_journal(source: StorePort, row: RunRow, found: Mapping[str, Any]) -> Iterator[Loss]:
    """Losses from the giver's journal: it was taken back, handed to another taker, or has new events."""
    seal = find_handoff(source, row) if row.status == Status.SEALED else None
    if found["sealed"] and (seal is None or fields_of(seal.body)["handoff"] != found["digest"]):
        change = (
            "was taken back since" if seal is None else f"was handed to {contents_of(seal.body)['to']} since"
        )
        yield Loss("giver", row.run, change, "look at what it did: two may do the same work now")
    later = [
        event
        for event in read_all(source, row.run, after_seq=found["event"])
        if event.kind in {Kind.STEP_STARTED, Kind.STEP_FINISHED, Kind.STEP_SETTLED, Kind.CHECKPOINT}
        and event.name != HANDOFF
    ]
    if later:
        why = f"has gone on since: {len(later)} events up to #{later[-1].seq} are not in the handoff"
        yield Loss("giver", row.run, why, "have it handed over again")


def _of_places(found: Mapping[str, Any], source: StorePort | None) -> Iterator[Loss]:
    """Files and endpoints of the document that are absent or different on this machine."""
    location = CheckLocation((os.getcwd(),))  # noqa: PTH109 - pathlib is not loaded for this
    for item in (*found["artifacts"], *found["dependencies"]):
        premise = Premise(item["kind"], item["name"], item["facts"])
        judged = judge(premise, location.at(premise))
        if judged.verdict == "holds":
            continue
        copy = kept_copy(source, found["run"], item)
        why = f"{judged.text or judged.verdict} (as seen from {location.bases[0]})"
        yield Loss("artifact" if item["kind"] == "artifact" else "dependency", item["name"], why, copy)


def kept_copy(source: StorePort | None, run: str, item: Mapping[str, Any]) -> str:
    """Advice for a file that is absent or different here: the giver's copy, where its store keeps one."""
    if item["kind"] == "endpoint":
        return "see that it can be reached from here, before the work goes on"
    digest = item["facts"].get("sha256", "")
    if source is not None and item["kind"] == "artifact" and _has_copy(source, run, item["name"], digest):
        command = f"holdfast artifacts {quote(run)} --restore . --store {quote(source.url)}"
        return f"bring the giver's copy here: `{command}`"
    wanted = f" with sha256 {digest[:16]}…" if digest else ""
    where = f" at {source.url}" if source is not None else ""
    return f"bring the file of {run}{where} here{wanted}, or go on without it"


def _has_copy(source: StorePort, run: str, path: str, digest: str) -> bool:
    version = ARTIFACTS.of(load(source, run)).latest().get(path)
    return version is not None and version.copy == "kept" and version.sha256 == digest


def _of_promises(store: StorePort, found: Mapping[str, Any]) -> Iterator[Loss]:
    for promise in found["promises"]:
        if promise["state"] != "open":
            continue
        if promise["side"] == "received":
            why = f"{promise['by']} has promised it to {found['run']}, and tells that run what becomes of it"
            yield Loss("promise", promise["id"], f"{promise['text']!r}: {why}", f"ask {promise['by']}")
        elif found["store"] != store.url and promise["to"]:
            why = f"{promise['text']!r}: {promise['to']} is not told from this store what becomes of it"
            yield Loss("promise", promise["id"], why, f"tell {promise['to']} yourself")
