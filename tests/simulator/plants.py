"""Defects that are planted into Holdfast for a test of the simulator: a simulator that finds none of them proves nothing.

They reach into the modules by name. One that does not fit the code any more says so, and is to be mended: a plant that changes
nothing would make a test pass for the wrong reason.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from holdfast.engine.journal import inbox, journal
from holdfast.engine.lineage import fork, rewind
from holdfast.engine.run import held_run, sealed
from holdfast.engine.steps import in_doubt
from holdfast.model.events import Kind
from holdfast.stores import in_memory_rows


def the_fence_is_not_checked() -> Any:
    """A process that has lost its lease still writes."""
    real = in_memory_rows.MemoryTables.append

    def append(self: Any, item: Any) -> Any:
        row = self.runs.get(item.run)
        return real(self, item if row is None else item._replace(fence=row.lease.fence))

    found = journal.Journal._reread

    def reread(self: Any) -> int:
        head = found(self)
        self.lost = None
        return head

    stack = ExitStack()
    stack.enter_context(patch.object(in_memory_rows.MemoryTables, "append", append))
    stack.enter_context(patch.object(journal.Journal, "_reread", reread))
    return stack


def outcomes_are_only_flushed() -> Any:
    """An outcome survives the process, and not the power."""
    real = journal.Journal.append
    outcomes = {Kind.STEP_FINISHED, Kind.STEP_SETTLED, Kind.CHECKPOINT}

    async def append(self: Any, runtime: Any, drafts: Any, at: float, **more: Any) -> int:
        if any(one.kind in outcomes for one in drafts):
            more["synced"] = False
        return await real(self, runtime, drafts, at, **more)

    return patch.object(journal.Journal, "append", append)


def a_doubt_counts_as_not_done() -> Any:
    """An effect in doubt is simply made again."""
    real = vars(in_doubt)["settle"]

    def settle(verdict: Any, **facts: Any) -> Any:
        found = real(verdict, **facts)
        return found._replace(act="retry") if found.act == "stop" else found

    assert real(None, policy="stop", owner_dead=True, waited_s=0.0, settle_s=0.0).act == "stop"
    return patch.object(in_doubt, "settle", settle)


def a_living_process_counts_as_dead() -> Any:
    """``NotDone`` permits a retry although the process that began the effect may still make it."""
    assert callable(in_doubt._owner_is_dead)
    return patch.object(in_doubt, "_owner_is_dead", lambda *_: True)


def letters_are_dropped() -> Any:
    """What was posted to a run while nobody held it is thrown away when it is read."""
    real = inbox.looked_through

    def looked_through(store: Any, run: str) -> Any:
        letters, count = real(store, run)
        for record, letter in letters:
            if letter["kind"] in {"answer", "resolve"}:
                store.delete_record(record.space, record.key, revision=record.revision)
        return [pair for pair in letters if pair[1]["kind"] not in {"answer", "resolve"}], count

    return patch.object(inbox, "looked_through", looked_through)


def forks_forget_later_effects() -> Any:
    """A fork does not hear of what its origin did behind the point."""
    real = vars(fork)["all_entries_behind"]
    return patch.object(fork, "all_entries_behind", lambda *where: ([], real(*where)[1]))


def rewinds_forget_later_effects() -> Any:
    """A rewound run does not hear of what it did behind the point."""
    assert "entries_left" in vars(rewind)
    return patch.object(rewind, "entries_left", lambda *_: [])


def equal_calls_are_mixed_up() -> Any:
    """Of two equal calls, each gets the other's record."""
    real = held_run.HeldRun.claim

    def claim(self: Any, site: str) -> int:
        n = real(self, site)
        return {1: 2, 2: 1}.get(n, n) if f"{site}.2" in self.view.calls else n

    return patch.object(held_run.HeldRun, "claim", claim)


def half_a_handoff_is_entered() -> Any:
    """The first defect that the simulator found: the taker of a handoff that was cut off began from nothing."""
    real = sealed.check_may_act

    def check(store: Any, row: Any, **_: Any) -> None:
        real(store, row, accepts=True)

    from holdfast.engine.run import open as entering

    return patch.object(entering, "check_may_act", check)


PLANTS: Final = {
    made.__name__: made
    for made in (
        the_fence_is_not_checked, outcomes_are_only_flushed, a_doubt_counts_as_not_done, a_living_process_counts_as_dead,
        letters_are_dropped, forks_forget_later_effects, rewinds_forget_later_effects, equal_calls_are_mixed_up,
        half_a_handoff_is_entered,
    )
}  # fmt: skip


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Holdfast with this defect, inside the block; without a name, as it is."""
    if not name:
        yield
        return
    with PLANTS[name]():
        yield
