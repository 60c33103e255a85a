"""The signs of loops that a run's journal records, in their order; and the last calls before a compaction.

Counts are derived from the calls in the journal. Compaction removes those, so it leaves digests of the last.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from orjson import loads

from holdfast.core.journal.feature_fold import Compaction, FeatureFold, Read, Slot
from holdfast.core.loops.fast_check import nudge_in
from holdfast.core.loops.loop_acts import arguments_of, digests_of, is_tool
from holdfast.limits import LOOP_FACTS_COMPACTED_MAX, RECENT_CALLS_MAX
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import contents_of, fields_of, is_hollow
from holdfast.model.events import Event, Kind
from holdfast.model.loops import Signed
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


_THOUGHT_CHARS_MAX: Final = 1_000
THOUGHT: Final = "thought"
"""The name of the marks that count as thoughts."""


class CarriedFact(NamedTuple):
    """A call of before a compaction: digests of arguments and result, and how it counts.

    Or a thought, with its text.
    """

    seq: int
    name: str
    arguments: str = ""
    result: str = ""
    declared: Any = None
    is_tool: bool = False
    text: str | None = None


class LoopFold(FeatureFold):
    """The signs, each with the seq of the outcome that caused it.

    ``facts`` are the last calls and thoughts before the latest compaction.
    """

    def __init__(self) -> None:
        self.signs: list[Signed] = []
        self.facts: list[CarriedFact] = []

    def add(self, view: "View", event: Event) -> None:
        """Fold a sign, the end of a loop, or a new attempt.

        After a pause, a new attempt means: a person let it continue.
        """
        if event.kind == Kind.LOOP_NOTICED:
            body = contents_of(event.body)
            # The sign is in the same append as the outcome that caused it, directly behind it.
            self.signs.append(Signed(view.last_outcome_seq, body["level"], body["text"]))
        elif event.kind == Kind.LOOP_LEFT:
            self.signs.append(Signed(view.last_outcome_seq, "left"))
        elif self.signs and self.signs[-1].level == "pause":
            self.signs.append(Signed(view.last_outcome_seq, "again"))

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Both."""
        return {
            "signs": [list(signed) for signed in self.signs],
            "loop_facts": [list(fact) for fact in self.facts],
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Both."""
        self.signs = [Signed(*fields) for fields in data.get("signs", ())]
        self.facts = [CarriedFact(*fields) for fields in data.get("loop_facts", ())]

    def reduced(self, compaction: Compaction) -> Self:
        """Keep the latest sign of each level, and the last facts."""
        kept = type(self)()
        kept.signs = sorted({signed.level: signed for signed in self.signs}.values(), key=lambda s: s.seq)
        known = self.facts[-1].seq if self.facts else 0
        found = [
            _carried(call, outcome, compaction.read)
            for outcome, call in facts_after(compaction.view, known)[-LOOP_FACTS_COMPACTED_MAX:]
        ]
        kept.facts = [*self.facts, *(fact for fact in found if fact is not None)][-LOOP_FACTS_COMPACTED_MAX:]
        return kept

    def shed(self, upto_seq: int, kept: Self) -> None:  # noqa: ARG002 - its facts end there
        """Take the facts, whose calls are gone now."""
        self.facts = kept.facts

    def difference(self, after: Self) -> str:
        """Pruning must not change the nudge that the model gets."""
        return "the nudge for the model" if nudge_in(self.signs) != nudge_in(after.signs) else ""


LOOPS: Final = Slot("loops", LoopFold)


def facts_after(view: "View", seq: int) -> list[tuple[Outcome, Call]]:
    """The last calls and thoughts after this event, oldest first: at least ``LOOP_FACTS_MAX`` of them."""
    # Not all calls of the view: a step would pay for the length of the journal.
    calls = [call for call in dict.fromkeys(view.recent) if call.seq and view.calls.get(call.key) is call]
    thoughts = view.marked(THOUGHT, last=RECENT_CALLS_MAX)
    found = [
        (outcome, call) for call in [*calls, *thoughts] for outcome in call.outcomes if outcome.seq > seq
    ]
    found.sort(key=lambda pair: pair[0].seq)
    return found


def _carried(call: Call, outcome: Outcome, read: Read) -> CarriedFact | None:
    """None if its content is gone, so that it cannot be compared."""
    body = outcome.body
    if body is None or is_hollow(body) or (call.seq and (call.body is None or is_hollow(call.body))):
        return None
    if not call.seq:
        return CarriedFact(outcome.seq, THOUGHT, text=thought_in(body, read)[:_THOUGHT_CHARS_MAX])
    intent = call.body or b"{}"
    act = digests_of((call.name, arguments_of(call.key, intent)), body)
    declared = fields_of(intent).get("loops")
    return CarriedFact(outcome.seq, call.name, str(act.arguments), str(act.result), declared, is_tool(intent))


def thought_in(body: bytes, read: Read) -> str:
    """The text of a thought, from its body or its blob."""
    tree = contents_of(body)
    value = loads(read(tree["value_blob"])) if "value_blob" in tree else tree["value"]
    text = value.get("text")
    return text if isinstance(text, str) else ""
