"""Reads the descendants of a run, and which of them a point of its history has."""

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.journal.fold import View
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.lineage.children import ChildrenAt, Descendant, at_point, begun_seqs
from holdfast.engine.journal.journal import read_all
from holdfast.engine.journal.lineage_names import descendants, is_kept_branch, lineage_names
from holdfast.engine.journal.load_view import Pager, load
from holdfast.errors import TooLarge
from holdfast.limits import CHILDREN_BORROWED_MAX
from holdfast.model.calls import Outcome
from holdfast.model.store_rows import OVER, RunRow
from holdfast.stores.port import StorePort


def children_at(store: StorePort, row: RunRow, at_seq: int, view: View | None = None) -> ChildrenAt:
    """The descendants of a run at an event of its history; ``view`` is its view, if the caller has it.

    Those with rows, and those that a fork may still borrow. Runs without descendants cost one listing.
    """
    found = [*_there(store, row.run)]
    have = {one.name for one in found}
    found += [one for one in _borrowable(row) if one.name not in have]
    if not found or at_seq >= row.head:
        return ChildrenAt(tuple(found))
    view = view or load(store, row.run)
    pager = Pager(store, row.run)

    def body_of(outcome: Outcome) -> bytes:
        return pager.body_of(outcome.seq) if outcome.body is None else outcome.body

    begun = begun_seqs(view, lineage_names(store, row.run), [one.name for one in found], body_of)
    event = next(iter(read_all(store, row.run, after_seq=at_seq - 1, upto_seq=at_seq)), None)
    return at_point(found, begun, at_seq, event.at if event is not None else row.created_at)


def cuts_of(begun: Sequence[Descendant]) -> dict[str, Any] | None:
    """The fact of a fork's row that names the children that it borrows; None if there are none. TooLarge."""
    if len(begun) > CHILDREN_BORROWED_MAX:
        raise TooLarge(
            what="the descendants of the run", size=len(begun), size_max=CHILDREN_BORROWED_MAX, unit="runs"
        )
    return {one.name: [one.run, one.head] for one in begun} or None


def _there(store: StorePort, run: str) -> Iterator[Descendant]:
    rows = descendants(store, run)
    kept = tuple(f"{row.run}/" for row in rows if is_kept_branch(row))
    for row in reversed(rows):
        if row.head and not is_kept_branch(row) and not row.run.startswith(kept):
            name, is_over = row.run[len(run) + 1 :], row.status in OVER
            yield Descendant(name, row.run, row.head, row.created_at, is_over, row.lease.owner)


def _borrowable(row: RunRow) -> Iterator[Descendant]:
    """The children that a fork borrows, and has not asked for."""
    for name, (run, head) in facts_of(row).get("children", {}).items():
        yield Descendant(name, run, head, 0.0)
