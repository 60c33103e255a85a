"""The part of a store handle that finds places: ``RUN``, ``RUN@44``, ``RUN@#1203``, ``RUN@draft-1``."""

from holdfast.api.store.doctor import Examining
from holdfast.core.journal.fold import View
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.names import check_run_id
from holdfast.core.lineage.points import Place, end_of_point, find_event, last_point, parse_place
from holdfast.core.lineage.reachable_points import nearest_place
from holdfast.engine.damage.damaged_runs import as_damage
from holdfast.engine.journal.journal import read_all
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage import fork
from holdfast.errors import PointPruned, UnknownPoint, UnknownRun
from holdfast.model.events import Event, covers_from
from holdfast.model.prune_report import Label
from holdfast.model.store_rows import RunRow


class Places(Examining):
    """The part of a store handle that finds runs, and events in them."""

    @property
    def url(self) -> str:
        """The store's URL."""
        return self._session.store.url

    def events(
        self, run: str, *, after_seq: int = 0, upto_seq: int | None = None, whole: bool = False
    ) -> list[Event]:
        """The run's history, each event verified; a fork's begins with its origin's. Raises Corrupt.

        What rewinds left behind is not part of it, unless you ask for the ``whole`` journal.
        """
        self._row(run)
        # A rewind only leaves behind what is before it: without one, the events before are not needed.
        events = read_all(self._port, run, after_seq=after_seq, upto_seq=upto_seq)
        if whole:
            return events
        return [event for event in effective(events) if event.seq > after_seq]

    def view(self, run: str) -> View:
        """The run's journal, folded."""
        self._row(run)
        with as_damage(self._port, run):
            return load(self._port, run)

    def locate(self, place: str) -> tuple[str, int]:
        """The run that has a place, and the event at which it ends. Raises UnknownPoint or PointPruned."""
        row, seq = self._at(place)
        return row.run, seq

    def find_event(self, place: Place, events: list[Event]) -> Event | None:
        """The event of a place among the run's events, by labels of people, too; None if there is none.

        Raises AmbiguousLabel if a label may mean several.
        """
        if place.label is None:
            return find_event(events, place)
        return find_event(events, place, self._named(place))

    def labels(self, run: str) -> list[Label]:
        """The labels that people gave to points of the run's history, oldest point first.

        Those that its program gave are in its checkpoints.
        """
        from holdfast.engine.lineage.pins import labels_reaching

        self._row(run)
        found = sorted(labels_reaching(self._port, run), key=lambda label: label.seq)
        if found and self.view(run).branch:  # a rewind may have left some of them behind
            standing = {event.seq for event in self.events(run)}
            found = [label for label in found if label.seq in standing]
        return found

    def run_with(self, run: str, seq: int) -> str:
        """The run whose history has this event: the run itself, or the branch that a rewind kept."""
        from holdfast.engine.lineage.places import run_with

        return run_with(self._port, run, seq)

    def absence(self, place: Place, events: list[Event], head: int) -> UnknownPoint | PointPruned:
        """The error for a place that does not exist: it was never recorded, or it was pruned."""
        what = str(place).partition("@")[2] or "event yet"
        if place.point is not None and place.point <= last_point(events):
            nearest = nearest_place(place.run, events, point=place.point)
            return PointPruned(run=place.run, what=f"point {place.point}", nearest=nearest)
        if place.seq is not None and any(covers_from(e) <= place.seq <= e.seq for e in events):
            nearest = nearest_place(place.run, events, seq=place.seq)
            return PointPruned(run=place.run, what=f"event #{place.seq}", nearest=nearest)
        return UnknownPoint(run=place.run, what=what, last_point=last_point(events), head=head)

    def _row(self, run: str) -> RunRow:
        row = self._port.find_run(check_run_id(run))
        if row is None:
            raise UnknownRun(run=run, store=self.url)
        return row

    def _at(self, text: str) -> tuple[RunRow, int]:
        """The run and the event of a place. Raises UnknownPoint or PointPruned."""
        place = parse_place(text)
        row = self._row(place.run)
        if place.is_head and row.head:
            return row, row.head
        if place.seq is not None and 1 <= place.seq <= row.head:
            row = self._row(self.run_with(place.run, place.seq))
            fork.check_kept(self._port, row.run, place.seq)
            return row, place.seq
        if place.seq is None and (found := self._look_up(place, row)) is not None:
            return row, found
        events = self.events(place.run)
        event = None if place.seq is not None else self.find_event(place, events)
        if event is None:
            raise self.absence(place, events, row.head)
        return row, end_of_point(events, event)

    def _look_up(self, place: Place, row: RunRow) -> int | None:
        """The event of a point or a label; None if the journal has to be read to find it."""
        from holdfast.engine.lineage.places import find_label, find_point

        if place.point is not None:
            return find_point(self._port, row, place.point)
        return find_label(self._port, row, place.label or "", self._named(place))

    def _named(self, place: Place) -> list[int]:
        """The events to which people gave the label."""
        from holdfast.engine.lineage.pins import labels_reaching

        return [one.seq for one in labels_reaching(self._port, place.run) if one.name == place.label]
