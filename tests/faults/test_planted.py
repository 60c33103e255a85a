"""The harness can tell: defects are planted, in the store and in the disk below it, and random schedules find each.

Not here: those that ``tests/power`` plants above SQLite's file layer.
"""

from collections.abc import Callable

import pytest
from tests.faults import plants, shim
from tests.faults.laboratory import Laboratory
from tests.faults.schedule import Schedule, Step, make_schedule

_SEEDS = 1_300
_TRIES = 24
"""So many schedules of a theme have to be enough: on average one of four finds what is planted."""


def of_theme(theme: str) -> list[Schedule]:
    return [made for made in map(make_schedule, range(_SEEDS)) if made.theme == theme][:_TRIES]


def found(lab: Laboratory, schedules: list[Schedule], kind: str, *names: str) -> bool:
    """Whether one of the schedules ends with such a violation; those behind it need not run."""
    return any(
        kind in {made.kind for made in lab(schedule, plants=names).violations} for schedule in schedules
    )


@pytest.mark.parametrize(
    ("defect", "theme", "kind"),
    [
        (plants.commits_are_not_synced, "ordinary", "lost"),
        (plants.sync_does_nothing, "ordinary", "lost"),
        (plants.the_wal_is_rewritten_in_large_chunks, "failed sync", "unusable"),
        (plants.the_wal_is_not_rewritten, "failed sync", "lost"),
        (plants.sqlite_folds_the_wal_by_itself, "failed checkpoint", "lost"),
        (plants.nothing_is_guarded, "another sqlite", "lost"),
    ],
)
def test_a_defect_in_the_store_is_found(
    lab: Laboratory, defect: Callable[[], None], theme: str, kind: str
) -> None:
    """Each of them by schedules that know nothing of it."""
    assert found(lab, of_theme(theme), kind, defect.__name__)


def test_a_disk_that_lies_about_syncs_is_found(lab: Laboratory) -> None:
    """It says done, and nothing was: no program can hold its promises there, and the harness sees that none is held."""
    lying = [made._replace(behaviour=shim.LIE_ABOUT_SYNCS) for made in of_theme("ordinary")]
    assert found(lab, lying, "lost")


def test_a_failure_that_nobody_hears_of_is_found(lab: Laboratory) -> None:
    """A sync that loses what it was to write, and says done: as if the error had been swallowed on its way."""
    assert found(lab, [silenced(made) for made in of_theme("failed sync")], "lost")


def test_locks_that_keep_nobody_out_are_found(lab: Laboratory) -> None:
    """The locks of open files, which survive that others read the directory, taken away without a word."""
    unlocked = [made._replace(behaviour=shim.NO_LOCKS_OF_FILES) for made in of_theme("lost locks")]
    assert found(lab, unlocked, "lost", plants.a_deleted_wal_is_not_noticed.__name__)


def silenced(schedule: Schedule) -> Schedule:
    def silent(step: Step) -> Step:
        if step.verb != "strike" or step.options["action"] != shim.ACTIONS["fail"]:
            return step
        return step._replace(options={**step.options, "action": shim.ACTIONS["lose"]})

    return schedule._replace(steps=tuple(map(silent, schedule.steps)), behaviour=0)
