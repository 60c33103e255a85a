"""Turns every kind of damage in a run into ``Corrupt``, so that work on many runs can skip a damaged one.

Whatever is wrong (the row, its facts, a checksum, the shape of an event, a history that does not fold), a
caller gets ``Corrupt`` with a reason and never a bare ``KeyError``. ``check_run`` looks for damage;
``as_damage`` wraps code that reads a run that was not checked before.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.core.journal.event_check import UNSOUND, event_problem
from holdfast.core.journal.fold import View
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.run_row_facts import row_damage
from holdfast.engine.journal.journal import read_all
from holdfast.errors import Corrupt
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import StorePort


def check_run(store: StorePort, row: RunRow) -> None:
    """Read the whole run. Corrupt says what is damaged, and where."""
    check_row(store, row)
    with as_damage(store, row.run):
        events = read_all(store, row.run)
        for event in events:
            problem = event_problem(event)
            if problem:
                raise Corrupt(store=store.url, problem=f"event #{event.seq} of run {row.run}: {problem}")
        view = View()
        for event in effective(events):
            view.add(event)


def check_row(store: StorePort, row: RunRow) -> None:
    """Corrupt where the row itself is damaged. Does not read the journal."""
    why = row_damage(row)
    if why:
        raise Corrupt(store=store.url, problem=f"the row of run {row.run} is damaged: {why}")


@contextmanager
def as_damage(store: StorePort, run: str) -> Iterator[None]:
    """Turn the errors that an invalid journal causes into Corrupt."""
    try:
        yield
    except UNSOUND as error:
        why = f"{type(error).__name__}: {error}"
        raise Corrupt(store=store.url, problem=f"run {run} cannot be understood: {why}") from error
