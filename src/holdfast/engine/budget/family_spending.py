"""Reads what the parents and the descendants of a run have spent, where another process holds them.

Rows say which journals have grown, so before each model call only those are read. Invariant: the sum of a run
only grows, since what was paid stays paid. What is exact: calls of this process, also those under way, and
calls that others have recorded. What is not: calls that other processes are making right now.
"""

from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import Limit, Verdict, judge, plus, total
from holdfast.engine.journal.lineage_names import descendants, is_kept_branch
from holdfast.engine.journal.load_view import load
from holdfast.engine.log import log
from holdfast.errors import Corrupt
from holdfast.model.budget import NOTHING_SPENT, Budget, Spent
from holdfast.model.event_fields import fields_of
from holdfast.model.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.journal.fold import View
    from holdfast.model.store_rows import RunRow
    from holdfast.stores.port import StorePort


class Descendants:
    """What the descendants of a run have spent: by ``spent_here`` in this process, else by their journals."""

    def __init__(self, store: "StorePort", run: str, spent_here: "Callable[[str], Spent | None]") -> None:
        self._store = store
        self._run = run
        self._spent_here = spent_here
        self._spent: dict[str, Spent] = {}
        self._marks: dict[str, object] = {}
        self._lock = Lock()

    def look(self) -> None:
        """Read the journals that have grown."""
        for row in descendants(self._store, self._run):
            if not row.head or row.damage or is_kept_branch(row):
                continue
            spent = self._spent_here(row.run)
            if spent is not None:
                with self._lock:
                    self._spent.setdefault(row.run, spent)
            elif self._marks.get(row.run) != mark_of(row):
                view = read_view(self._store, row)
                spent = NOTHING_SPENT if view is None else BUDGET.of(view).spent
                with self._lock:
                    self._marks[row.run] = mark_of(row)
                    if spent.calls >= self._spent.get(row.run, NOTHING_SPENT).calls:
                        self._spent[row.run] = spent

    def note(self, run: str, priced: Usage) -> None:
        """Count an answer that this descendant got in this process."""
        with self._lock:
            self._spent[run] = plus(self._spent.get(run, NOTHING_SPENT), priced)

    def spent(self) -> Spent:
        """The sum."""
        with self._lock:
            return total(self._spent.values())


class Ancestor:
    """A parent that this process does not hold: its journal has its budget and what it spent."""

    def __init__(self, store: "StorePort", run: str, spent_here: "Callable[[str], Spent | None]") -> None:
        self.run = run
        self._store = store
        self._below = Descendants(store, run, spent_here)
        self._mark: object = None
        self._budget: Budget | None = None
        self._spent = NOTHING_SPENT
        self._worked_s = 0.0
        self._under_way = 0
        self._lock = Lock()

    def look(self) -> None:
        """Read what is new in its journal and, if it has a budget, in those of its descendants."""
        row = self._store.find_run(self.run, damaged=True)
        if row is None or row.damage:
            return
        if self._mark != mark_of(row):
            view = read_view(self._store, row)
            if view is not None:
                self._budget = _budget_of(view)
                self._spent, self._worked_s = BUDGET.of(view).spent, view.worked_upto_last_s
            self._mark = mark_of(row)
        if self._budget is not None:
            self._below.look()

    def ask(self) -> tuple[Verdict, list[Limit]]:
        """Whether its budget allows one more call, which is then in flight. It warns of nothing."""
        with self._lock:
            verdict = Verdict()
            if self._budget is not None:
                spent = total((self._spent, self._below.spent()))
                verdict = judge(spent, self._budget, self._worked_s, under_way=self._under_way)
            self._under_way += verdict.stop is None
            return verdict, []

    def note_inner(self, run: str, priced: Usage) -> None:
        """Count an answer that a descendant got in this process."""
        with self._lock:
            self._under_way = max(0, self._under_way - 1)
            self._below.note(run, priced)

    def end_call(self) -> None:
        """A call is not in flight any more."""
        with self._lock:
            self._under_way = max(0, self._under_way - 1)


_ancestors: "WeakValueDictionary[tuple[str, str], Ancestor]" = WeakValueDictionary()
"""Shared by the runs of this process, so that the calls under way of siblings are counted."""
_sharing: Final = Lock()


def ancestor(store: "StorePort", run: str, spent_here: "Callable[[str], Spent | None]") -> Ancestor:
    """The one of this process for this run."""
    with _sharing:
        found = _ancestors.get((store.url, run))
        if found is None:
            found = _ancestors[store.url, run] = Ancestor(store, run, spent_here)
        return found


def mark_of(row: "RunRow") -> object:
    """What changes with each event of a run."""
    return row.birth, row.head, row.revision


def read_view(store: "StorePort", row: "RunRow") -> "View | None":
    """The view of another run; None where it is damaged, which must not stop this one."""
    try:
        return load(store, row.run)
    except Corrupt as damage:
        log().warning("what run %s has spent cannot be read, and is not counted: %s", row.run, damage.problem)
        return None


def _budget_of(view: "View") -> Budget | None:
    """The budget of its latest attempt."""
    fields = fields_of(view.attempts[-1].event.body).get("budget") if view.attempts else None
    known = {name: value for name, value in (fields or {}).items() if name in Budget._fields}
    return Budget(**known) if known else None
