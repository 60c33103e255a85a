"""Folds the open questions to people, and how many were asked."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.core.people.questions import question_in
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.questions import Question, Wants

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class QuestionFold(FeatureFold):
    """``open`` are the questions without an answer, by the key of the call that asks.

    ``asked`` counts all questions.
    """

    def __init__(self) -> None:
        self.open: dict[str, Question] = {}
        self.asked = 0

    def add(self, view: "View", event: Event) -> None:
        """Fold a question that was asked, answered or withdrawn. An answer is an outcome for the program."""
        if event.kind == Kind.QUESTION_ASKED:
            self.open[event.key] = question_in(event)
            self.asked += 1
            view.trailing_failures = []
            return
        how = fields_of(event.body)["how"]
        self.open.pop(event.key, None)
        if how != "withdrawn":
            good = how == "answered"
            call = view.give(event.key, event.name, Outcome(event.seq, good, view.points, event.body))
            # An expired question raises in the program, like a failed step: if that ends the attempt, it is
            # asked again.
            view.trailing_failures = [] if good else [*view.trailing_failures, (call, event.seq)]

    def finished(self) -> None:
        """Close the open questions: the program finished without their answers."""
        self.open = {}

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Both."""
        return {
            "questions": [[*q[:5], list(q.wants), *q[6:]] for q in self.open.values()],
            "asked": self.asked,
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Both."""
        self.open = {fields[0]: _load_question(fields) for fields in data["questions"]}
        self.asked = data["asked"]

    def call_keys(self) -> Iterable[str]:
        """The calls that ask: a resumed program must find them under the same count."""
        return self.open

    def difference(self, after: Self) -> str:
        """Pruning must not change which questions are open."""
        return "questions" if self.open != after.open else "asked" if self.asked != after.asked else ""


QUESTIONS: Final = Slot("questions", QuestionFold)


def _load_question(fields: list[Any]) -> Question:
    kind, choices, name, names = fields[5]
    return Question._make([*fields[:5], Wants(kind, tuple(choices), name, tuple(names)), *fields[6:]])
