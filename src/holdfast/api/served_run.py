"""A run that a server holds for a client that does the work: what the server needs beyond the run's handle.

When such a client returns, it does not start its program from the top. The server shows it what is recorded,
and the client continues. So nothing is replayed and nothing can drift: new calls are appended, and recorded
calls are looked up by name and arguments.
"""

# ruff: noqa: SLF001 - the handle is our own
from typing import Any, Literal

from orjson import loads

from holdfast.api.async_run import AsyncRun
from holdfast.codec.values import canonical_arguments, decode_tree
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.steps.identity import site_of, split_key
from holdfast.core.transfer.handoff.carried_effects import effects_in, find_same
from holdfast.engine.journal import inbox
from holdfast.engine.journal.blob_content import content_in, read_blob
from holdfast.engine.journal.journal import read_own
from holdfast.engine.people.questions import ASKED
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.state import checkpoints
from holdfast.engine.steps.call_identity import value_of
from holdfast.engine.sync_async import AWAITING
from holdfast.engine.transfer.handoff_accept import seed_key
from holdfast.engine.transfer.handoff_answers import TAKEN_OVER
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of, is_hollow, part_of
from holdfast.model.events import Kind
from holdfast.model.named_tuple import NamedTuple

Standing = Literal["done", "running", "in_doubt", "cut_off"]


class Found(NamedTuple):
    """A recorded step.

    ``seq`` is the event that began it, 0 if compacted; ``end_seq`` the event with which it was done.
    """

    name: str
    key: str
    standing: Standing
    seq: int
    effect: str = ""
    arguments: Any = None
    idempotency_key: str = ""
    reason: str = ""
    end_seq: int = 0
    value: Any = None
    is_pruned: bool = False
    """It is done, and its result was pruned."""


async def go_on(run: AsyncRun) -> None:
    """Move to the end of the journal: everything recorded counts as given, and every new call is new."""
    held = run._held
    if held.resumed:
        # This records that no replay needs the history, so that pruning may compact it.
        await checkpoints.restore(held, AWAITING, None)
    assert held.journal is not None
    held.move_cursor(held.journal.head)
    # A new question at the same position would withdraw the open ones. Count them as asked by this process
    # instead.
    ASKED.of(held).posed.update(QUESTIONS.of(held.view).open)
    held.put_to_sleep("drift")
    held.remembers = True


async def take_in(run: AsyncRun) -> None:
    """Record the letters in the inbox.

    Outcomes of steps in doubt count as given, like everything recorded.
    """
    held = run._held
    left = held.view.open_calls()
    await inbox.drain(held, AWAITING)
    for call in left:
        outcome = None if call.is_open else held.next_outcome(call)
        if outcome is not None and outcome.good:
            site, number = split_key(call.key)
            if number is not None:
                held.take_number(site, number)


async def checkpointed(run: AsyncRun, state: Any, label: str | None) -> int:
    """Record a checkpoint; returns its event. One at a time, or it may be that of another client."""
    held = run._held
    assert held.journal is not None
    before = held.journal.head
    await run.checkpoint(state, label=label)
    events = await AWAITING.store(read_own, held.store, held.run, before, held.journal.head)
    return next(event.seq for event in events if event.kind == Kind.CHECKPOINT)


def find_step(run: AsyncRun, name: str, arguments: dict[str, Any]) -> Found | None:
    """The latest call of this name with these arguments.

    None if there is none, or if it failed and may be repeated.
    """
    held = run._held
    site = site_of("", name, _canonical(name, arguments))
    cut = held.view.calls.get(f"{site}.{held.next_number(site)}")
    if cut is not None and cut.is_open:
        return _open(held, cut)
    number = held.latest_number(site)
    if number == 0:
        return None
    key = f"{site}.{number}"
    for step in steps_under_way(run):
        if step.key == key:
            return step
    call = held.view.calls.get(key)
    if call is None:
        return Found(name, key, "done", 0, is_pruned=True)
    return _open(held, call) if call.is_open else _done(held, call)


def find_inherited(run: AsyncRun, name: str, arguments: dict[str, Any]) -> Found | None:
    """The same call in the run that handed over, done or in doubt.

    None if there is none, or if it may be repeated.
    """
    held = run._held
    handoff = HANDOFF.of(held.view)
    if handoff.handed is None or held.view.started is None:
        return None
    digest = fields_of(held.view.started.body)["handed_over"]["digest"]
    wanted = loads(_canonical(name, arguments))
    document = loads(content_in(held.store, handoff.handed))
    left = [one for one in effects_in(document) if one.step == name and one.number not in handoff.claimed]
    while (effect := find_same(left, "", wanted, {})) is not None:
        left.remove(effect)
        seed = held.view.calls.get(seed_key(digest, effect))
        if seed is not None and seed.outcomes:
            return _done(held, seed)
        if seed is not None and seed.is_open:
            return _open(held, seed)
        where = f"in run {effect.run}, which handed over"
        if effect.is_done:
            value = decode_tree(effect.item.get("result"), what=f"result of {name!r}")
            key = effect.idempotency_key
            return Found(name, "", "done", 0, effect.effect, arguments, key, where, value=value)
    return None


def forgo(run: AsyncRun, name: str, arguments: dict[str, Any]) -> None:
    """Let the client repeat a call on purpose: the handoff does not answer its next call."""
    held = run._held
    carried = TAKEN_OVER.of(held).carried
    if carried is not None:
        carried.take(name, "", "", _canonical(name, arguments))


def _canonical(name: str, arguments: dict[str, Any]) -> bytes:
    return canonical_arguments(arguments, what=f"call of {name!r}") if arguments else b"{}"


def steps_under_way(run: AsyncRun, act: object = None) -> list[Found]:
    """The steps that this handle began and that have not ended; with ``act``, only those that call it."""
    return [
        Found(
            work.asked.name,
            work.asked.key,
            "running",
            work.intent_seq,
            work.call_options.effect,
            loads(work.asked.arguments),
            work.idem,
        )
        for work in run._held.in_flight()
        if act is None or work.fn is act
    ]


def steps_left_open(run: AsyncRun) -> list[Found]:
    """The steps that began and never reported back, in this attempt or before: in doubt, or cut off."""
    held = run._held
    flying = {work.asked.key for work in held.in_flight()}
    return [
        _open(held, call) for call in held.view.open_calls() if call.key not in flying and not call.abandoned
    ]


def stand_behind(run: AsyncRun, key: str) -> None:
    """Make this step the last one, so that a file declared next counts as its work."""
    run._held.root.last = key


def _asked(held: HeldRun, call: Call, standing: Standing) -> Found:
    intent = contents_of(held.intent_of(call)) if call.seq else {}
    if "args_blob" in intent:
        intent["args"] = loads(read_blob(held.store, intent["args_blob"]))
    return Found(
        call.name,
        call.key,
        standing,
        call.seq,
        intent.get("effect", ""),
        intent.get("args"),
        intent.get("idempotency_key", ""),
    )


def _open(held: HeldRun, call: Call) -> Found:
    found = _asked(held, call, "in_doubt" if is_once(call) else "cut_off")
    return found._replace(reason=call.doubt or "never reported back")


def _done(held: HeldRun, call: Call) -> Found:
    outcome = call.outcomes[-1]
    body = held.body_of(outcome)
    found = _asked(held, call, "done")._replace(end_seq=outcome.seq)
    if is_hollow(body) or part_of(body, "lost") is not None:
        return found._replace(is_pruned=True)
    return found._replace(value=value_of(held, body, what=f"result of {call.name!r}"))
