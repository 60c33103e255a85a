"""What a store handle does to whole runs: fork, rewind, copy, prune and erase them."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from holdfast.api.store.artifacts import Files
from holdfast.api.store.read_runs import Reading
from holdfast.core.journal.names import check_run_id
from holdfast.core.lineage.later_effects import REPEATS, told
from holdfast.core.lineage.points import Place
from holdfast.engine.journal.journal import Draft
from holdfast.engine.lineage import fork_and_rewind
from holdfast.engine.lineage.fork_and_rewind import Rewound
from holdfast.engine.steps.call_options import choose
from holdfast.model.artifacts import Restored
from holdfast.model.exports import CopyProgress, CopyReport, Erased, Exported, Imported
from holdfast.model.handoff import Accepted
from holdfast.model.prune_report import Pin, PruneReport
from holdfast.model.retention import RETENTION, Retention
from holdfast.model.run_info import EffectBehind, RunInfo

if TYPE_CHECKING:
    from holdfast.api.store.store import Store


Repeats = Literal["answer", "ask", "again"]


class Moving(Files):
    """The part of a store handle that makes, moves and removes histories."""

    def fork(
        self,
        place: str,
        *,
        as_: str,
        override: Mapping[str, Any] | None = None,
        effects: Repeats = "answer",
        files: "str | os.PathLike[str] | None" = None,
        force: bool = False,
        tell: Callable[[Restored], None] | None = None,
    ) -> RunInfo:
        """Another run whose history is this one's up to a place: ``RUN``, ``RUN@44``, ``RUN@#1203``, ``RUN@label``.

        No event is copied. ``override`` replaces recorded outcomes, by step name or key. The new run goes on with the
        unchanged script under ``HOLDFAST_RUN``. Effects recorded before the place are not repeated. Those behind it (``behind`` of the
        answer lists them) are known too: when the new run makes exactly the same call, ``effects`` says what becomes of it:
        ``"answer"`` with the recorded outcome, ``"ask"`` a person, or do it ``"again"`` under a new key. One in doubt is asked.
        With ``files``, a directory, the files that the run had made up to there are first written there, each told to
        ``tell``; the new run relies on those. One that was changed there is kept, unless ``force``.
        """
        choose("effects", effects, REPEATS)
        row, seq = self._at(place)
        notes: Sequence[Draft] = ()
        if files is not None:
            from holdfast.engine.artifacts.restore import Restoring, Wanted

            fork_and_rewind.check_free(self._port, as_)
            restoring = Restoring(
                self._port, Wanted(row.run, seq, os.fspath(files), frozenset(), force), tell
            )
            notes = restoring.notes(restoring.go())
        made = fork_and_rewind.fork(self._session, row, seq, as_, override or {}, notes, effects)
        return self._info(made.row)._replace(behind=made.behind, later_children=made.later_children)

    def rewind(
        self,
        place: str,
        *,
        effects: Repeats = "answer",
        files: bool = False,
        force: bool = False,
        tell: Callable[[Restored], None] | None = None,
    ) -> Rewound:
        """Move a run's head back to a place; what lay after it is kept as a fork. RunHeld while somebody holds it.

        ``effects`` is as in ``fork``, for those that lay after it; ``behind`` of the answer lists them.
        With ``files``, the files that it had made up to there are brought back in place, each told to ``tell``; one that
        was changed outside is kept, unless ``force``.
        """
        choose("effects", effects, REPEATS)
        row, seq = self._at(place)
        if not files:
            return fork_and_rewind.rewind(self._session, row, seq, repeats=effects)
        from holdfast.engine.artifacts.restore import Restoring, Wanted

        def bring_back() -> list[Draft]:
            restoring = Restoring(self._port, Wanted(row.run, seq, None, frozenset(), force), tell)
            return restoring.notes(restoring.go())

        return fork_and_rewind.rewind(self._session, row, seq, bring_back, effects)

    def handoff(self, run: str, to: str = "", *, seal: bool = False) -> dict[str, Any]:
        """The document with which another agent takes this run's work over, as it stands.

        Without ``seal`` nothing is written, and the run keeps going. With it the document is kept in the run's journal, and the
        run is sealed: RunHeld while somebody holds it. Asked for again with the same name, it is the same document.
        """
        from holdfast.engine.transfer.handoff_give import hand_over_run

        is_held = self.get(run).holder == "alive"
        return hand_over_run(self._session, run, to, seal=seal, is_held=is_held)

    def unseal(self, run: str) -> RunInfo:
        """Take back a run that was handed over and sealed: it acts here again, beside whoever has accepted it."""
        from holdfast.engine.transfer.handoff_give import take_back

        take_back(self._session, check_run_id(run))
        return self.get(run)

    def accept(
        self,
        document: Mapping[str, Any],
        *,
        as_: str | None = None,
        from_: "str | os.PathLike[str] | Store | None" = None,
    ) -> Accepted:
        """Begin a run with a handoff of this store or another: with its goal and inputs, its promises and doubts, and all that it says.

        What it says is looked at from here; ``losses`` lists what could not be carried over. ``from_`` is the giver's store, to
        fetch what the document lacks. ``as_`` is the new run's id; without it, the giver's own or the next that is free.
        Nobody holds the run yet: ``holdfast.run(id)`` goes on with it. Durable when it returns. BadHandoff; ImportClash.
        """
        from holdfast.api.store.store import session_at
        from holdfast.engine.transfer.handoff_accept import accept

        source = None if from_ is None else session_at(from_).store
        return accept(self._session, document, as_, source=source)

    def mend(self, run: str) -> list[str]:
        """Mend the run's recorded conversation, so that a provider takes it; what was done. RunHeld while it is live.

        Calls without a result are settled from the journal. One event is added; nothing is rewritten.
        """
        from holdfast.engine.llm.repair_run import repair

        return [f"message {one.at}: {one.text}" for one in repair(self._session, check_run_id(run))]

    def effects_behind(self, place: str) -> tuple[EffectBehind, ...]:
        """The effects that the run and its later children have behind a place, done or in doubt: what ``fork`` and ``rewind`` would list. Nothing is written."""
        row, seq = self._at(place)
        return told(fork_and_rewind.all_entries_behind(self._port, row, seq)[0])

    def later_effects(self, place: str) -> list[str]:
        """The names of the once effects that happened after this place."""
        row, seq = self._at(place)
        return fork_and_rewind.later_effects(self._session, row.run, seq)

    def export(
        self,
        run: str,
        path: "str | os.PathLike[str]",
        *,
        directory: bool = False,
        move: bool = False,
    ) -> Exported:
        """Write a run and its descendants, with all that they need, to one file; or to a ``directory`` of readable lines and blobs.

        It can be imported into any store. With ``move`` they are sealed here and go on where the file is imported;
        otherwise an import is a fork. Durable and whole when it returns. RunHeld if one that is to move is live.
        """
        from holdfast.engine.transfer import export as exporting
        from holdfast.exports.write import writing

        self._row(run)
        with writing(path, directory=directory) as writer:
            return (exporting.move if move else exporting.export)(self._session, run, writer)

    def import_(
        self,
        path: "str | os.PathLike[str]",
        *,
        as_: str | None = None,
        from_: "str | os.PathLike[str] | Store | None" = None,
        again: bool = False,
    ) -> Imported:
        """Bring an exported run into this store, its history byte for byte. Nothing is written unless all of it is sound.

        The export of a moved run is that run, for a single use: ExportTaken where this store or the one it came out of
        knows that it was taken, unless ``again``. That one is asked if it is a file of this user's, or is named by
        ``from_``. Any other export becomes a fork, ``RUN~1`` unless ``as_`` names it: so two copies never both act.
        Importing again what was cut off goes on. NotAnExport, NewerExport, DamagedExport, ImportClash.
        """
        from holdfast.api.store.store import origin_at
        from holdfast.engine.transfer.import_ import bring_in
        from holdfast.exports.read import open_parcel

        with open_parcel(path) as reader:
            return bring_in(
                self._session, reader, as_, find_origin=lambda url: origin_at(url, from_), again=again
            )

    def copy(
        self,
        to: "str | os.PathLike[str] | Reading",
        runs: Sequence[str] | None = None,
        *,
        prefix: str = "",
        move: bool = False,
        dry_run: bool = False,
        tell: "Callable[[CopyProgress], None] | None" = None,
    ) -> CopyReport:
        """Copy runs into another store, all of them by default, under their own ids and byte for byte, and verify them there.

        What comes to lie there is sealed, so that a run never acts in two stores; with ``move`` it is sealed here and goes
        on there. Named runs bring their children and what they were forked from. A run that is live, or another one there,
        is refused: the report's ``refused`` tells, and the others go. Cut off or repeated, it goes on. ``tell`` is
        called as it goes. Misuse where both are the same store; UnknownRun before anything is written.
        """
        from holdfast.api.store.store import target_at
        from holdfast.engine.transfer.copy import Copying, select

        rows = select(self._port, [check_run_id(run) for run in runs or ()], prefix)
        target, shown = target_at(to, dry_run=dry_run)
        copying = Copying(self._session, target, move=move, dry_run=dry_run, tell=tell)
        return copying.go(rows)._replace(target=shown)

    def erase(self, run: str, *, flatten: bool = False) -> Erased:
        """Remove every trace of a run and its descendants from the store's files; they cannot be brought back.

        RunHasForks where other runs borrow their history, unless ``flatten`` gives each its own copy first. RunHeld while
        one of them is live, or a fork to be flattened is. Cut off, it goes on when called again.
        """
        from holdfast.engine.prune.erase import erase

        return erase(self._session, check_run_id(run), flatten=flatten)

    def prune(
        self, run: str | None = None, *, policy: Retention = RETENTION, dry_run: bool = False
    ) -> PruneReport:
        """Prune one run with its descendants, or the whole store: what goes, what stays and why, and bytes. A dry run writes nothing.

        Runs that somebody holds are left to their holders. Durable when it returns; killed half-way, run it again.
        """
        from holdfast.engine.prune.prune_store import Sweep

        sweep = Sweep(self._session, policy, dry_run=dry_run)
        return sweep.store() if run is None else sweep.run(check_run_id(run))

    def pin(self, place: str) -> Pin:
        """Keep a place as it is, whatever the policy says. PointPruned where it is gone already. Durable when it returns."""
        from holdfast.engine.lineage.pins import pin

        row, seq = self._at(place)
        pinned = pin(self._port, row.run, seq, place, self.now())
        if pinned is None:
            events = self.events(row.run, whole=True)
            raise self.absence(Place(row.run, seq=seq), events, row.head)
        return pinned

    def unpin(self, place: str) -> bool:
        """Let a pinned place go; False where it was not pinned."""
        from holdfast.engine.lineage.pins import unpin

        row, seq = self._at(place)
        return unpin(self._port, row.run, seq)

    def pins(self) -> list[Pin]:
        """The pinned places of this store."""
        from holdfast.engine.lineage.pins import all_pins

        return all_pins(self._port)
