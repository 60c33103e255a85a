"""The part of a store handle with which people keep points of a run: pins and labels; and who did what."""

from holdfast.api.store.read_runs import Reading
from holdfast.api.store.settle import whoami
from holdfast.core.lineage.points import Place
from holdfast.errors import PointPruned, UnknownPoint
from holdfast.model.act_record import ActRecord
from holdfast.model.prune_report import Label, Pin
from holdfast.model.store_rows import RunRow


class Keeping(Reading):
    """The part of a store handle that pins and labels points."""

    def pin(self, place: str, *, by: str | None = None) -> Pin:
        """Protect a place from pruning. Durable when it returns. Raises PointPruned if it is gone already.

        ``by`` is recorded as the person who asked for it; by default the user of this process.
        """
        from holdfast.engine.lineage.pins import pin

        row, seq = self._at(place)
        pinned = pin(self._port, row.run, seq, place, by=by or whoami(), at=self.now())
        if pinned is None:
            raise self._gone(row, seq)
        return pinned

    def unpin(self, place: str, *, by: str | None = None) -> bool:
        """Remove a pin; False if the place was not pinned."""
        from holdfast.engine.lineage.pins import unpin

        row, seq = self._at(place)
        is_gone = unpin(self._port, row.run, seq)
        if is_gone:
            self._note(row.run, "unpin", by or whoami(), place)
        return is_gone

    def pins(self) -> list[Pin]:
        """The pinned places of this store."""
        from holdfast.engine.lineage.pins import all_pins

        return all_pins(self._port)

    def pins_of(self, run: str) -> list[Pin]:
        """The pins on the run's own events and on those that it borrows, oldest event first."""
        from holdfast.engine.lineage.pins import kept_reaching

        self._row(run)
        found = [kept.pin for kept in kept_reaching(self._port, run) if kept.pin is not None]
        return sorted(found, key=lambda pin: pin.seq)

    def label(self, place: str, name: str, *, by: str | None = None) -> Label:
        """Give a point a name, and protect it from pruning: from now on ``RUN@NAME`` means it.

        A point has one name from people. If it had another one, it is renamed. Forks that borrow the point
        know it by that name, too. Durable when it returns. Raises LabelTaken if another point has the name,
        or the program gave it; BadName; PointPruned.
        """
        from holdfast.engine.lineage.pins import label

        row, seq = self._at(place)
        named = label(self._port, row.run, seq, name, by=by or whoami(), at=self.now())
        if named is None:
            raise self._gone(row, seq)
        return named

    def unlabel(self, place: str, *, by: str | None = None) -> Label | None:
        """Take back the name that a person gave to a point; None if it had none. The program's stay."""
        from holdfast.engine.lineage.pins import unlabel

        row, seq = self._at(place)
        found = unlabel(self._port, row.run, seq)
        if found is not None:
            self._note(row.run, "unlabel", by or whoami(), found.name)
        return found

    def acts(self, run: str) -> list[ActRecord]:
        """Who resumed, pruned, exported or handed over the run, or took a pin or a label back, oldest first.

        What people did otherwise is in its journal, its pins and its labels.
        """
        from holdfast.engine.people.acts import acts_of

        self._row(run)
        return acts_of(self._port, run)

    def note_resume(self, run: str, *, by: str) -> None:
        """Record that a person starts the run's program again. Durable when it returns."""
        self._row(run)
        self._note(run, "resume", by, "")

    def _note(self, run: str, act: str, by: str, about: str) -> None:
        """Record an act that leaves no event, if a person asked for it."""
        if by:
            from holdfast.engine.people.acts import note_act

            note_act(self._port, run, act, by=by, at=self.now(), about=about)

    def _gone(self, row: RunRow, seq: int) -> UnknownPoint | PointPruned:
        return self.absence(Place(row.run, seq=seq), self.events(row.run, whole=True), row.head)
