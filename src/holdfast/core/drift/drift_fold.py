"""Folds drift: stopped calls, what people decided about them, and the programs that made effects."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from orjson import loads

from holdfast.core.drift.module_digest import is_same_module
from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.model.event_fields import fields_of, raw_part
from holdfast.model.events import Event, Kind

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.model.calls import Call


PATCHED: Final = "patched"
"""The name of the mark that records which branch a run takes."""


class DriftFold(FeatureFold):
    """By the key of the call that the program makes now: what stopped it, and what a person decided."""

    def __init__(self) -> None:
        self.stops: dict[str, list[Any]] = {}
        """The event of the stop, the name of the call, and the keys of the effects that caused the stop."""
        self.same: dict[str, str] = {}
        """The recorded call that answers it, because a person said that they are the same."""
        self.new: set[str] = set()
        """Calls that may be made, because a person said that they are new."""
        self.patches: dict[str, bool] = {}
        """Whether the run takes the new branch, by the name of the patch."""
        self.differences: dict[str, str] = {}
        """The change of its function's data that stopped a call."""
        self.accepted: set[str] = set()
        """Changes of data for which the recorded calls answer: see ``data_difference.name_of``."""
        self.passed: dict[str, int] = {}
        """For a call that was stopped: the first recorded call that the program had passed over then."""
        self.left: list[str] = []
        """Names of effects that children, edited since, have not asked for before they finished."""
        self.programs: list[tuple[int, dict[str, str]]] = []
        """Digests of modules that changed, each with the event from which on they count."""

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold a stop, a decision, an attempt, or an intent that names the modules of its program."""
        if event.kind == Kind.ATTEMPT_STARTED:
            self.stops.clear()  # the program reaches the call again, or does not make it any more
            return
        if event.name == PATCHED:
            name, is_new = loads(raw_part(event.body, "value") or b'["", false]')
            self.patches[name] = is_new
            return
        fields = fields_of(event.body)
        if event.kind == Kind.DRIFTED:
            if "unclaimed" in fields:
                stop = [event.seq, event.name, fields["unclaimed"]]
                self.stop(event.key, stop, fields.get("difference", ""))
                if "passed" in fields:
                    self.passed[event.key] = fields["passed"]
            elif "difference" in fields:
                self.accepted.add(fields["difference"])
            elif "run" in fields:
                self.left.append(f"{fields['recorded']}@{fields['run']}")
        elif event.kind == Kind.STEP_CLAIMED:
            self.decide(fields["asked"], event.key, fields["how"], fields.get("run", ""))
        elif "program" in fields:
            self.programs.append((event.seq, fields["program"]))

    def stop(self, asked: str, stop: list[Any], difference: str = "") -> None:
        """Note a stopped call; with the change of its function's data, if that stopped it."""
        self.stops[asked] = stop
        if difference:
            self.differences[asked] = difference

    def decide(self, asked: str, key: str, how: str, run: str = "") -> None:
        """A person has said what a stopped call is: the recorded one of this key and run, or a new one."""
        self.stops.pop(asked, None)
        difference = self.differences.pop(asked, "")
        if how != "same":
            self.new.add(asked)
        elif difference:
            self.accepted.add(difference)
        else:
            self.same[asked] = f"{key}@{run}" if run else key

    def program_at(self, seq: int) -> dict[str, str]:
        """The digests of the program's modules when it recorded this event, as far as they are recorded."""
        modules: dict[str, str] = {}
        for from_seq, changed in self.programs:
            if from_seq > seq:
                break
            modules |= changed
        return modules

    def is_changed(self, call: "Call", now: Mapping[str, str]) -> bool:
        """Whether another program recorded the call.

        A module that the journal does not know is not changed.
        """
        recorded = self.program_at(call.seq).items()
        return any(not is_same_module(digest, now.get(name, digest)) for name, digest in recorded)

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """All of it."""
        return {
            "drift_stops": self.stops,
            "same_calls": self.same,
            "new_calls": sorted(self.new),
            "passed_over": self.passed,
            "left_by_children": self.left,
            "programs": self.programs,
            "patches": self.patches,
            "data_differences": self.differences,
            "data_accepted": sorted(self.accepted),
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """All of it."""
        self.stops = dict(data.get("drift_stops", {}))
        self.same = dict(data.get("same_calls", {}))
        self.new = set(data.get("new_calls", ()))
        self.passed = dict(data.get("passed_over", {}))
        self.left = list(data.get("left_by_children", ()))
        self.patches = dict(data.get("patches", {}))
        self.differences = dict(data.get("data_differences", {}))
        self.accepted = set(data.get("data_accepted", ()))
        self.programs = [(seq, changed) for seq, changed in data.get("programs", ())]

    def call_keys(self) -> list[str]:
        """The calls that answer other calls."""
        return [*self.same.values()]


DRIFT: Final = Slot("drift", DriftFold)
