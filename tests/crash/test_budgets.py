"""What was spent, in real processes that are killed: each answered call is counted exactly once."""

from pathlib import Path

from tests.support.sampling import OFTEN

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.model.events import Kind
from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "programs" / "spending.py"
CALLS = 6


def test_killed_at_every_call_each_answer_is_counted_once(crash_matrix: CrashMatrix) -> None:
    """Also between the outcome and anything else. A call counted twice would exceed the budget, which is exactly enough.

    The matrix compares the result, which is what the run itself had counted, with that of the undisturbed one.
    Planted: the call counted where it is begun (one that was cut off is counted twice); replayed answers counted; the
    sum begun anew with each attempt; the warning said again by the next attempt.
    """

    def check(case: Case) -> None:
        view = case.store.view("agent")
        assert BUDGET.of(view).spent[:4] == (CALLS, sum(range(1, CALLS + 1)), CALLS, 0)
        assert BUDGET.of(view).spent.unknown_cost_calls == 0
        events = case.store.events("agent")
        assert [event.name for event in events if event.kind == Kind.BUDGET_WARNED] == ["calls"]
        assert len((case.directory / "sent").read_text().splitlines()) >= CALLS
        (run,) = case.store.stats("agent").runs
        assert [model.spent for model in run.models] == [BUDGET.of(view).spent]

    report = crash_matrix.walk(PROGRAM, check=check, start="fork", every=OFTEN, again_every=151)
    assert report.kills >= 60 // OFTEN
