"""The part of a store handle that changes whole runs: fork, rewind, hand over, move, copy, prune, erase."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from holdfast.api.store.artifacts import Files
from holdfast.api.store.keep_points import Keeping
from holdfast.api.store.read_runs import Reading
from holdfast.core.journal.names import check_run_id
from holdfast.core.lineage.later_effects import REPEATS, told
from holdfast.core.lineage.points import parse_place
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.lineage.descendants import children_at
from holdfast.engine.lineage.fork import Beginning, check_free, fork
from holdfast.engine.lineage.later_effects import all_entries_behind
from holdfast.engine.lineage.rewind import rewind
from holdfast.engine.steps.call_options import choose
from holdfast.errors import Misuse, SecretMissing
from holdfast.model.artifacts import Restored
from holdfast.model.exports import CopyProgress, CopyReport, Erased, ErasedSecret, Exported, Imported
from holdfast.model.fork_edits import UNCHANGED, Editable, ForkChange, ForkEdits
from holdfast.model.handoff import Accepted
from holdfast.model.prune_report import PruneReport
from holdfast.model.retention import Keep, Retention
from holdfast.model.run_info import EffectBehind, Rewound, RunInfo

if TYPE_CHECKING:
    from holdfast.api.store.store import Store


Repeats = Literal["answer", "ask", "again"]


class Moving(Files, Keeping):
    """The part of a store handle that changes whole runs."""

    def fork(
        self,
        place: str,
        *,
        as_: str,
        override: Mapping[str, Any] | None = None,
        inputs: Any = UNCHANGED,
        state: Any = UNCHANGED,
        messages: Mapping[int, Any] | None = None,
        effects: Repeats = "answer",
        files: "str | os.PathLike[str] | None" = None,
        force: bool = False,
        tell: Callable[[Restored], None] | None = None,
        by: str = "",
    ) -> RunInfo:
        """Make a run whose history is another's up to a place.

        The place is ``RUN``, ``RUN@44``, ``RUN@#1203`` or ``RUN@label``. No event is copied. ``override``
        replaces recorded outcomes, by step name or key. The unchanged script continues the new run under
        ``HOLDFAST_RUN``. Effects before the place are not repeated. Effects after it are known too
        (``behind`` of the answer lists them): if the new run makes exactly the same call, ``effects`` decides
        whether to ``"answer"`` it with the recorded outcome, ``"ask"`` a person, or do it ``"again"`` under a
        new key. A person is always asked about an effect in doubt.

        The fork may begin with other ``inputs``; with another ``state``, which ``run.restore`` returns then;
        and with other ``messages``, by their index in ``run.messages``. What no program would see is refused:
        the state of a program that never restores one, a message that a model has answered before the place.

        ``files`` is a directory: the files that the run had made up to the place are written there first, and
        the new run relies on them and starts there. ``tell`` is called for each. A file that was changed
        there is kept, unless ``force``. ``by`` is recorded as the person who asked for it.
        """
        choose("effects", effects, REPEATS)
        row, seq = self._at(place)
        notes: Sequence[Draft] = ()
        cwd = ""
        if files is not None:
            from holdfast.engine.artifacts.restore import Restoring, Wanted

            check_free(self._port, as_)
            restoring = Restoring(
                self._port, Wanted(row.run, seq, os.fspath(files), frozenset(), force), tell
            )
            notes = restoring.notes(restoring.go())
            cwd = os.path.abspath(files)  # noqa: PTH100 - as given, with its links
            os.makedirs(cwd, exist_ok=True)  # noqa: PTH103 - the same; the run may have made no file
        begins = Beginning(override or {}, notes, cwd)
        edits = ForkEdits(inputs, state, messages or {})
        if edits.is_there:
            from holdfast.engine.edits.fork_edits import prepare

            begins = begins._replace(**prepare(self._port, row, seq, edits, by)._asdict())
        made = fork(self._session, row, seq, as_, begins, effects, by)
        return self._info(made.row)._replace(behind=made.behind, later_children=made.later_children)

    def editable(self, place: str) -> Editable:
        """The inputs, the state and the messages that a fork of this place would begin with, as recorded.

        Wrap what you have edited in ``Recorded``, so that values with a type of their own keep it.
        """
        from holdfast.engine.edits.fork_edits import editable

        return editable(self._port, *self._at(place))

    def fork_changes(
        self,
        place: str,
        *,
        inputs: Any = UNCHANGED,
        state: Any = UNCHANGED,
        messages: Mapping[int, Any] | None = None,
    ) -> list[ForkChange]:
        """What a fork with these edits would change. Raises what ``fork`` would; writes nothing."""
        from holdfast.engine.edits.fork_edits import changes_of

        return changes_of(self._port, *self._at(place), ForkEdits(inputs, state, messages or {}))

    def rewind(
        self,
        place: str,
        *,
        effects: Repeats = "answer",
        messages: Literal["keep", "take_back"] = "keep",
        files: bool = False,
        force: bool = False,
        tell: Callable[[Restored], None] | None = None,
        by: str = "",
    ) -> Rewound:
        """Move a run's head back to a place, and keep what came after it as a fork.

        Raises RunHeld if a process holds the run. ``effects`` is as in ``fork``, for effects after the place;
        ``behind`` of the answer lists them. Messages that it received after the place are unread again. Those
        that it sent after it stay delivered, and the same call is answered; ``messages="take_back"`` deletes
        those that were not read yet. Accepted answers and resolutions go with the branch that holds their
        question. ``files`` restores the files that the run had made up to the place; ``tell`` is called for
        each. A file that was changed outside is kept, unless ``force``. ``by`` is recorded as the person who
        asked for it.
        """
        choose("effects", effects, REPEATS)
        choose("messages", messages, ("keep", "take_back"))
        takes_back = messages == "take_back"
        row, seq = self._at(place)
        if row.run != (named := parse_place(place).run):
            raise Misuse(
                problem=f"event #{seq} is not in the history of run {named} any more: {row.run} has it",
                advice=f"fork it, `holdfast fork {row.run}@#{seq} --as NAME`, or rewind {row.run}",
            )
        if not files:
            return rewind(self._session, row, seq, repeats=effects, takes_back=takes_back, by=by)
        from holdfast.engine.artifacts.restore import Restoring, Wanted

        def bring_back() -> list[Draft]:
            restoring = Restoring(self._port, Wanted(row.run, seq, None, frozenset(), force), tell)
            return restoring.notes(restoring.go())

        return rewind(self._session, row, seq, bring_back, effects, takes_back=takes_back, by=by)

    def handoff(self, run: str, to: str = "", *, seal: bool = False, by: str = "") -> dict[str, Any]:
        """The document with which another agent takes over this run's work.

        Without ``seal`` the run continues, and its journal stays as it is. With it, the document is recorded
        and the run is sealed; asked for again with the same ``to``, it is the same document. ``by`` is
        recorded as the person who asked for it. Raises RunHeld if a process holds the run.
        """
        from holdfast.engine.transfer.handoff_give import hand_over_run

        is_held = self.get(run).holder == "alive"
        document = hand_over_run(self._session, run, to, seal=seal, is_held=is_held, by=by)
        if not seal:  # the seal is an event, and names the person
            self._note(run, "handoff", by, f"to {to}" if to else "")
        return document

    def unseal(self, run: str, *, by: str = "") -> RunInfo:
        """Take back a run that was handed over and sealed.

        It acts here again, also if another agent accepted it. ``by`` is recorded as the person who asked.
        """
        from holdfast.engine.transfer.handoff_give import take_back

        take_back(self._session, check_run_id(run), by=by)
        return self.get(run)

    def accept(
        self,
        document: Mapping[str, Any],
        *,
        as_: str | None = None,
        from_: "str | os.PathLike[str] | Store | None" = None,
    ) -> Accepted:
        """Begin a run with a handoff from this store or another. Durable when it returns.

        The run gets the goal and inputs, the promises, the effects, and those in doubt. ``losses`` lists what
        could not be carried over. ``from_`` is the giver's store, to fetch what the document lacks. ``as_``
        is the new run's id; by default the giver's own, or the next free one. ``holdfast.run(id)`` continues
        it. Raises BadHandoff, ImportClash.
        """
        from holdfast.api.store.store import session_at
        from holdfast.engine.transfer.handoff_accept import accept

        source = None if from_ is None else session_at(from_).store
        return accept(self._session, document, as_, source=source)

    def mend(self, run: str) -> list[str]:
        """Repair the run's recorded conversation, so that a provider accepts it, and return the changes.

        Calls without a result get one from the journal. One event is added; nothing is rewritten. Raises
        RunHeld if a process holds the run.
        """
        from holdfast.engine.llm.repair_run import repair

        return [f"message {one.at}: {one.text}" for one in repair(self._session, check_run_id(run))]

    def effects_behind(self, place: str) -> tuple[EffectBehind, ...]:
        """The effects after a place, done or in doubt, of the run and its later children.

        ``fork`` and ``rewind`` would list the same. Nothing is written.
        """
        row, seq = self._at(place)
        return told(all_entries_behind(self._port, row, seq)[0])

    def later_children(self, place: str) -> tuple[str, ...]:
        """The descendants of a run that were begun after a place, as ``fork`` would list them."""
        row, seq = self._at(place)
        return tuple(one.run for one in children_at(self._port, row, seq).later)

    def later_effects(self, place: str) -> list[str]:
        """The names of the once effects after this place, done or in doubt: ``effects_behind`` has more."""
        return [one.step for one in self.effects_behind(place) if one.effect == "once"]

    def export(
        self,
        run: str,
        path: "str | os.PathLike[str]",
        *,
        directory: bool = False,
        move: bool = False,
        dry_run: bool = False,
        by: str = "",
    ) -> Exported:
        """Write a run, its descendants and all that they need to one file, or to a ``directory``.

        Any store can import it. With ``move`` the runs are sealed here and continue where the file is
        imported; otherwise an import is a fork. Complete and durable when it returns. Raises RunHeld if a
        process holds a run that is to move. ``dry_run`` writes nothing: its result says what would
        be written, and what could not go along (``losses``). ``by`` is recorded as the person who asked for
        it.
        """
        from holdfast.engine.transfer import export as exporting
        from holdfast.exports.write import Preview, writing

        self._row(run)
        if dry_run:
            return exporting.preview(self._session, run, Preview(path), moves=move)
        with writing(path, directory=directory) as writer:
            if move:  # the seal is an event, and names the person
                return exporting.move(self._session, run, writer, by=by)
            made = exporting.export(self._session, run, writer)
        self._note(run, "export", by, os.fspath(path))
        return made

    def import_(
        self,
        path: "str | os.PathLike[str]",
        *,
        as_: str | None = None,
        from_: "str | os.PathLike[str] | Store | None" = None,
        again: bool = False,
    ) -> Imported:
        """Import an exported run, its history byte for byte. Nothing is written unless all of it is sound.

        The export of a moved run is that run, for a single use. Raises ExportTaken if this store or the one
        that it left knows that it was imported, unless ``again``; the one that it left is asked if it is a
        file of this user, or if ``from_`` names it. Any other export becomes a fork, ``RUN~1`` unless ``as_``
        names it, so two copies never both act. An import that was cut off continues when it is repeated.
        Raises NotAnExport, NewerExport, DamagedExport, ImportClash.
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
        """Copy runs, by default all, to another store, byte for byte, and verify them there.

        They keep their ids. The copies are sealed, so that a run never acts in two stores; with ``move``, the
        originals are sealed and the copies continue. Named runs bring their children and the runs that they
        are forks of. A run that a process holds, or whose id is another run there, is in ``refused`` of the
        report; the others are copied. A copy that was cut off continues when it is repeated. ``tell`` is
        called with the progress. Raises Misuse if both are the same store, and UnknownRun before anything is
        written.
        """
        from holdfast.api.store.store import target_at
        from holdfast.engine.transfer.copy import Copying, select

        rows = select(self._port, [check_run_id(run) for run in runs or ()], prefix)
        target, shown = target_at(to, dry_run=dry_run)
        copying = Copying(self._session, target, move=move, dry_run=dry_run, tell=tell)
        return copying.go(rows)._replace(target=shown)

    def erase(self, run: str, *, flatten: bool = False) -> Erased:
        """Remove every trace of a run and its descendants from the store's files. They cannot be restored.

        Raises RunHasForks if other runs borrow their history, unless ``flatten`` gives each its own copy
        first; RunHeld if a process holds one of them, or a fork to be flattened. If it is cut off, call it
        again.
        """
        from holdfast.engine.prune.erase import erase

        return erase(self._session, check_run_id(run), flatten=flatten)

    def erase_secret(self, name: str, value: str | None = None, *, dry_run: bool = False) -> ErasedSecret:
        """Rewrite everything in which a secret stands in clear, recorded before it was known.

        ``name`` is that of an environment variable or of a registered secret; ``value`` is needed if it was
        another one then. Recorded calls are still answered, with the secret filled in. SecretMissing without
        a value; RunHeld if a process holds a run that has it. If it is cut off, call it again.
        """
        from holdfast.codec.secrets import find_value
        from holdfast.engine.secrets.erase_secret import erase_secret

        found = find_value(name) if value is None else value
        if found is None:
            raise SecretMissing(name=name)
        return erase_secret(self._session, name, found, dry_run=dry_run)

    def prune(
        self,
        run: str | None = None,
        *,
        policy: Retention | Mapping[str, Keep] = MappingProxyType({}),
        dry_run: bool = False,
        by: str = "",
    ) -> PruneReport:
        """Prune one run with its descendants, or the whole store, and report what goes, what stays and why.

        Each run is pruned by the policy that its program declared. A mapping changes some classes of it, as
        ``{"checkpoints": Keep(last=5)}``; a ``Retention`` replaces it. Finished runs go only by what is
        given.

        A dry run writes nothing. Runs with a holder are left to it. Durable when it returns. If it is killed
        half-way, call it again. ``by`` is recorded as the person who asked for it, in each run that changes.
        """
        from holdfast.engine.prune.prune_store import Sweep

        sweep = Sweep(self._session, policy, dry_run=dry_run)
        report = sweep.store() if run is None else sweep.run(check_run_id(run))
        for line in report.runs:
            if not dry_run and line.outcome == "pruned":
                self._note(line.run, "prune", by, f"{line.freed_bytes:,} bytes less")
        return report
