"""Folds the premises of a run: those its program declared, intents and attempts noted, or a person accepted.

Premises and their events are few, so the fold decodes their bodies at once.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.core.journal.recorded_calls import model_of
from holdfast.model.event_fields import contents_of, fields_of, mark_of
from holdfast.model.events import Event, Kind
from holdfast.model.premises import PLACES, Broken, Premise

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class PremiseFold(dict[str, Premise], FeatureFold):
    """The premises of a run as noted last, by kind and name.

    ``broken`` are those that were found not to hold and were not noted again or accepted since.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, Broken] = {}

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold a noted or broken premise, an attempt, or an intent that notes premises or calls a model."""
        if event.kind == Kind.PREMISE_NOTED:
            self._noted(event)
        elif event.kind == Kind.PREMISE_BROKEN:
            self._found_broken(event)
        elif event.kind == Kind.ATTEMPT_STARTED:
            self._attempt(event)
        elif mark_of(event.body) == "noted":
            self._intent(event)
        else:
            self._model(event)

    def began(self, view: "View") -> None:
        """Take the packages that earlier attempts recorded."""
        for attempt in view.attempts:
            self._attempt(attempt.event)

    def note(self, premise: Premise) -> None:
        """Add or replace a premise.

        A path has one premise: as a file or as an artifact, whichever was noted last.
        """
        if premise.kind in PLACES:
            for kind in PLACES - {premise.kind}:
                self.pop(f"{kind}:{premise.name}", None)
        self[premise.id] = premise

    def _intent(self, event: Event) -> None:
        """The first intent of a function in an attempt notes its tool and source."""
        for noted in fields_of(event.body)["noted"]:
            self.note(Premise(noted["kind"], noted["name"], noted["facts"], seq=event.seq))

    def _model(self, event: Event) -> None:
        """Collect the models that calls of this name use. A program may switch between several."""
        now = model_of(event.body)
        noted = self.get(f"model:{event.name}")
        asked = [] if noted is None or noted.facts is None else noted.facts["asked"]
        if now is not None and now not in asked:
            self.note(Premise("model", event.name, {"asked": [*asked, now]}, seq=event.seq))

    def _attempt(self, event: Event) -> None:
        """Take the packages that an attempt recorded.

        A known one stays as it is: a change has an event of its own.
        """
        for name, version in fields_of(event.body).get("packages", {}).items():
            self.setdefault(f"package:{name}", Premise("package", name, {"version": version}, seq=event.seq))

    def _noted(self, event: Event) -> None:
        """Take a premise that the program declared, a person accepted, or Holdfast noted on entering."""
        body = contents_of(event.body)
        premise = Premise(body["kind"], body["name"], body["facts"], body.get("policy"), event.seq)
        self.note(premise)
        # ``found``: the run warned and continues with what is there now. The premise stays listed as broken.
        if body.get("via") != "found":
            self.broken.pop(premise.id, None)

    def _found_broken(self, event: Event) -> None:
        """Take a premise that was checked and did not hold."""
        body = contents_of(event.body)
        name = f"{body['kind']}:{body['name']}"
        self.broken[name] = Broken(event.seq, body["verdict"], body["found"], body["act"])

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """The premises, and those that were found broken."""
        broken = {name: list(found) for name, found in self.broken.items()}
        return {"premises": [[list(premise) for premise in self.values()], broken]}

    def load(self, data: Mapping[str, Any]) -> None:
        """Both."""
        premises, broken = data["premises"]
        for fields in premises:
            self.note(Premise(*fields))
        self.broken = {name: Broken(*fields) for name, fields in broken.items()}


PREMISES: Final = Slot("premises", PremiseFold)
