"""Joins features to a held run: a table of names, the hooks that a feature may define, and typed slots.

The kernel (journal, steps, run) knows no feature. A feature is a class with some of these hooks. A held run
keeps one tuple of bound methods per hook, so that a hook without a feature costs a look at an empty tuple.
The table has only strings, and this module has the only import by name, so naming a feature loads nothing. A
feature wakes when it first has something to do: because of the journal, an option, a letter, the first call,
or because the program uses it.

| hook | when | used by |
|---|---|---|
| ``entered(runtime)`` | the attempt is recorded, the program has not begun; may stop it | premises, forks |
| ``letter(runtime, record, letter)`` | a letter of its kind is in the inbox | answers, promises, premises |
| ``permit(...)`` | before a call has an identity; may deny it | approvals |
| ``recognize(...)`` | returns a call that reads module data under its record's identity | drift, forks |
| ``meet(...)`` | a call is asked for, recorded or not | premises of code |
| ``claim(...)`` | a call is not in the journal; may supply the record that answers it | handoffs, drift |
| ``live(work)`` | a call that is not in the journal is about to be made; may stop it | drift |
| ``before(runtime, work)`` | before a live call records its intent | autosave |
| ``intent(work, fields)`` | returns the fields of an intent, with its own | premises, loop detection |
| ``outcome(work, event)`` | adds an event to the append of the outcome; may then stop | loop detection |
| ``checkpoint_fields()`` | returns fields of its own for a checkpoint | the conversation |
| ``checkpointed(is_between_steps)`` | a state is in the journal | pruning |
| ``cursor_moved()`` | the program has restored a state | the conversation |
| ``compacted(upto_seq)`` | events were compacted during this attempt | states |
| ``finishing(runtime)`` | adds events to the append that finishes the run | drift |
| ``finished_again(result)`` | the program finishes a run that is only replayed | replay |
| ``closing()`` | the program has left the block; calls in flight may still run | streams |
| ``left(error)`` | the program has left a run that is only replayed | replay |
| ``ended(runtime, error)`` | the end of the attempt is recorded; the lease is still held | the queue |
| ``released()`` | the lease is about to be released | autosave |
| ``closed(runtime)`` | the lease is released; it may wait a short time, and must not raise | hooks, mirrors |
| ``person_asked()`` | a question to a person is recorded | hooks |
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from holdfast.core.journal.run_row_facts import facts_of
from holdfast.errors import StoreError
from holdfast.model.event_fields import fields_of
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import HOOKS

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.engine.journal.drafts import Draft
    from holdfast.engine.run.entry import Entry
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.run.store_session import StoreSession
    from holdfast.engine.sync_async import Runtime
    from holdfast.errors import StopSignal
    from holdfast.model.store_rows import Record, RunRow
    from holdfast.stores.port import StorePort


_KNOWN_S: Final = 5.0
WANTED: Final[set[str]] = set()
"""The features that this process wants in every run that it enters."""


class Feature:
    """One feature of one held run. A subclass defines only the hooks that it needs."""

    def __init__(self, held: "HeldRun") -> None:
        self.held = held

    async def letter(self, runtime: "Runtime", record: "Record", letter: dict[str, Any]) -> None:
        """Record a letter of a kind that the table gives to this feature."""
        raise NotImplementedError


class Extra(NamedTuple):
    """An event in the append of an outcome. When both are durable, ``recorded`` may return a stop-signal."""

    event: "Draft"
    recorded: "Callable[[int], StopSignal | None]"


class Denied(NamedTuple):
    """The call is not made; the program gets this value."""

    value: Any


class Row(NamedTuple):
    """One feature: its name, where its class is, and when it wakes."""

    name: str
    place: str
    """``module:class``, below ``holdfast.engine``."""
    history: str
    """What forks, rewinds, compactions and moves do with it: a key of ``core/lineage/history_rules.py``."""
    when: "Callable[[HeldRun], bool] | None" = None
    """Whether it wakes when this run is entered."""
    letters: tuple[str, ...] = ()
    """The kinds of letters that it handles."""
    letters_on_entering: tuple[str, ...] = ()
    """Kinds that it handles only when the run is entered: later the program asks for them itself."""
    option: str = ""
    """The call option that wakes it."""
    on: str = ""
    """``call``: it wakes with the first call; ``checkpoint``: with the first checkpoint."""
    enabled: "Callable[[Entry], bool] | None" = None
    """Whether the options of the run leave it on; None if it is always on."""
    check: str = ""
    """``module:function``: refuses wrong options of the run before anything is written."""
    checks: "Callable[[Entry], bool]" = lambda _: False
    """Whether ``check`` has to be called."""


def _is_waited_for(held: "HeldRun") -> bool:
    started = held.view.started
    return started is not None and bool(fields_of(started.body).get("waited_for_by"))


def _has_hooks(held: "HeldRun") -> bool:
    """The run, this process or the store has hooks. The store is asked once in a while, not by every run."""
    entry: Entry | None = held.entry
    if entry is None or entry.hooks or "hooks" in WANTED:
        return entry is not None
    return held.session.part(KnownSpace).has_records(held.session, HOOKS)


def _has_mirror(held: "HeldRun") -> bool:
    entry: Entry | None = held.entry
    return entry is not None and bool(entry.mirror or environ.get("HOLDFAST_MIRROR"))


def _has_budget(held: "HeldRun") -> bool:
    """Its children look for it: what they spend, it spends."""
    entry: Entry | None = held.entry
    return entry is not None and entry.budget is not None


class KnownSpace:
    """Whether a store has any record of a space, as far as this process knows."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, float]] = {}

    def has_records(self, session: "StoreSession", space: str) -> bool:
        """Whether it has one. The answer may be some seconds old."""
        now = session.clock.monotonic()
        found, until = self._known.get(space, (False, now))
        if now >= until:
            with suppress(StoreError):  # a run is not refused because of what only reports about it
                found = bool(session.store.scan_records(space, limit=1))
            self._known[space] = found, now + _KNOWN_S
        return found

    def forget(self) -> None:
        """Ask the store again: this process has changed the records."""
        self._known.clear()


ROWS: Final = (
    Row(
        "hooks",
        "hooks.run_hooks:RunHooks",
        "hooks",
        when=_has_hooks,
        check="hooks.declared:check_hooks",
        checks=lambda entry: bool(entry.hooks),
    ),
    Row("mirror", "mirror.mirror:Mirror", "mirror", when=_has_mirror),
    Row("forks", "lineage.outcomes_elsewhere:Forks", "doubts", when=lambda held: held.row.origin is not None),
    Row("questions", "people.questions:Questions", "questions", letters_on_entering=("answer",)),
    Row("promises", "people.promise_inbox:PromiseInbox", "promises", letters_on_entering=("promise",)),
    Row("children", "queue.children:Children", "children", letters=("child",)),
    Row("queue", "queue.queue:Queue", "queue", when=lambda held: bool(held.agent) or _is_waited_for(held)),
    Row("program", "drift.program:Program", "code", option="is_once"),
    Row("approvals", "people.approvals:Approvals", "questions", option="approve"),
    Row(
        "orphans",
        "artifacts.orphans:Orphans",
        "artifacts",
        when=lambda held: held.resumed and "artifacts" in held.view.folds,
    ),
    Row(
        "premises",
        "premises.premises:Premises",
        "premises",
        when=lambda held: held.resumed,
        letters=("accept",),
        on="call",
    ),
    Row(
        "taken_over",
        "transfer.handoff_answers:TakenOver",
        "effects",
        when=lambda held: "handoff" in held.view.folds or "later_effects" in held.view.folds,
    ),
    Row("patches", "drift.patches:Patches", "code"),
    Row("replay", "drift.replay:Replay", "replay"),
    Row("drift", "drift.guard:DriftGuard", "code", when=lambda held: held.has_record, letters=("claim",)),
    Row("autosave", "state.autosave:Autosave", "state"),
    Row(
        "loops",
        "loops.loop_detection:Loops",
        "loops",
        option="manner",
        on="call",
        enabled=lambda entry: entry.loops is not None,
    ),
    Row(
        "pruning",
        "prune.auto_prune:Pruner",
        "pins",
        on="checkpoint",
        enabled=lambda entry: entry.retention is not None,
    ),
    Row("states", "state.held_states:HeldStates", "state"),
    Row(
        "conversation",
        "llm.conversation:Conversation",
        "conversation",
        when=lambda held: "conversation" in held.view.folds,
    ),
    Row("streams", "llm.stream:Streams", "model"),
    Row("messages", "people.run_messages:Received", "messages"),
    Row("left_facts", "memory.left_facts:LeftFacts", "facts"),
    Row(
        "budget",
        "budget.budget:Spending",
        "spending",
        when=_has_budget,
        check="budget.price_tables:check_prices",
        checks=lambda entry: entry.prices is not None or "HOLDFAST_PRICES" in environ,
    ),
)
"""In the order in which hooks are called."""

_PLACES: Final = {row.name: row.place for row in ROWS}
_ORDER: Final = {row.name: number for number, row in enumerate(ROWS)}
_ENABLED: Final = {row.name: row.enabled for row in ROWS}
LETTERS: Final = {kind: row.name for row in ROWS for kind in row.letters}
LETTERS_ON_ENTERING: Final = LETTERS | {kind: row.name for row in ROWS for kind in row.letters_on_entering}
OPTIONS: Final = tuple((row.option, row.name) for row in ROWS if row.option)

_HOOKS: Final = (
    "entered", "permit", "recognize", "meet", "claim", "live", "before", "intent", "outcome",
    "checkpoint_fields", "checkpointed", "cursor_moved", "compacted", "finishing", "finished_again",
    "closing", "left", "ended", "released", "closed", "person_asked",
)  # fmt: skip
Hook = Callable[..., Any]


class Hooks:
    """The hooks of the features that are awake, in the order of the table."""

    __slots__ = (*_HOOKS, "met")

    met: dict[str, object]
    """By the names of calls, the code for which no ``meet`` had anything to do the last time."""
    entered: tuple[Callable[..., Awaitable[None]], ...]
    permit: tuple[Callable[..., Awaitable[Any]], ...]
    recognize: tuple[Callable[..., Awaitable[Any]], ...]
    meet: tuple[Callable[..., "Awaitable[None] | None"], ...]
    claim: tuple[Callable[..., Awaitable[Any]], ...]
    live: tuple[Callable[..., Awaitable[None]], ...]
    before: tuple[Callable[..., Awaitable[None]], ...]
    intent: tuple[Callable[..., dict[str, Any]], ...]
    outcome: tuple[Callable[..., "Extra | None"], ...]
    checkpoint_fields: tuple[Callable[[], dict[str, Any]], ...]
    checkpointed: tuple[Callable[[bool], None], ...]
    cursor_moved: tuple[Callable[[], None], ...]
    compacted: tuple[Callable[[int], None], ...]
    finishing: tuple[Callable[..., "Awaitable[list[Draft]]"], ...]
    finished_again: tuple[Callable[[bytes], None], ...]
    closing: tuple[Callable[[], None], ...]
    left: tuple[Callable[[BaseException | None], None], ...]
    ended: tuple[Callable[..., Awaitable[None]], ...]
    released: tuple[Callable[[], None], ...]
    closed: tuple[Callable[..., Awaitable[None]], ...]
    person_asked: tuple[Callable[[], None], ...]

    def __init__(self) -> None:
        self.met = {}
        for hook in _HOOKS:
            setattr(self, hook, ())

    def collect(self, features: dict[str, Feature]) -> None:
        """Replace the hooks by those of these features."""
        self.met = {}
        # New tuples instead of changed lists: a thread that iterates over a hook keeps a complete one.
        awake = sorted(features.items(), key=lambda pair: _ORDER[pair[0]])
        for hook in _HOOKS:
            methods = (getattr(feature, hook, None) for _, feature in awake)
            setattr(self, hook, tuple(method for method in methods if method is not None))


def is_enabled(name: str, held: "HeldRun") -> bool:
    """Whether the options of the run leave this feature on."""
    enabled = _ENABLED[name]
    return enabled is None or (held.entry is not None and enabled(held.entry))


def make_feature(name: str, held: "HeldRun") -> Feature:
    """A new feature object for this held run; imports its module."""
    module, _, cls = _PLACES[name].partition(":")
    made: Feature = getattr(import_module(f"holdfast.engine.{module}"), cls)(held)
    return made


def check_options(entry: "Entry") -> None:
    """Let features refuse wrong options of the run."""
    for row in ROWS:
        if row.check and row.checks(entry):
            module, _, function = row.check.partition(":")
            getattr(import_module(f"holdfast.engine.{module}"), function)(entry)


def waking(held: "HeldRun") -> list[str]:
    """The features that wake when this run is entered."""
    return [row.name for row in ROWS if row.when is not None and row.when(held)]


def waking_on(what: str) -> tuple[str, ...]:
    """The features that wake with the first ``call``, or the first ``checkpoint``."""
    return tuple(row.name for row in ROWS if row.on == what)


def fork_event(store: "StorePort", row: "RunRow", view: "View") -> "Draft | None":
    """The first own event of a fork; None if the run is no fork or has events of its own."""
    if row.origin is None or view.head != row.origin_seq:
        return None
    # By name: the kernel imports no feature.
    entering: Callable[..., Draft | None] = import_module("holdfast.engine.lineage.fork").entering
    return entering(store, row, view)


_FORKED_CHILD: Final = "holdfast.engine.lineage.child_birth"
_HANDED_CHILD: Final = "holdfast.engine.transfer.handoff_children"


async def child_birth(
    runtime: "Runtime", parent: "HeldRun", entry: "Entry", row: "RunRow | None"
) -> "RunRow | None":
    """The row of a child without events, if its parent's history knows more of it; else None."""
    folds = parent.view.folds
    places = [
        (_FORKED_CHILD, "later_effects" in folds or "children" in facts_of(parent.row)),
        (_HANDED_CHILD, "handoff" in folds),
    ]
    for place in [place for place, knows_more in places if knows_more]:
        found: RunRow | None = await import_module(place).birth(runtime, parent, entry, row)
        if found is not None:
            return found
    return None


FeatureT = TypeVar("FeatureT", bound=Feature)


class Slot(Generic[FeatureT]):
    """Typed access to one feature. It is defined beside the feature's class, so the kernel never names it."""

    def __init__(self, name: str, cls: type[FeatureT]) -> None:
        self.name = name
        self.cls = cls

    def of(self, held: "HeldRun") -> FeatureT:
        """The feature of this held run; it wakes now if it was asleep."""
        found = held.feature(self.name)
        assert isinstance(found, self.cls), f"{self.name} is a {type(found).__name__}"
        return found

    def find(self, held: "HeldRun") -> FeatureT | None:
        """The feature of this held run, or None if it is asleep."""
        return self.of(held) if self.name in held.features else None
