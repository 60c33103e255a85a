"""Refuses runs that must not act in this store.

Such a run was moved away or handed over, belongs to one that was handed over, is a copy of a run that acts
elsewhere, is not completely imported or accepted, or has lost acknowledged events.
"""

from holdfast.core.journal.run_row_facts import facts_of
from holdfast.errors import AcknowledgedLost, RunSealed
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.port import StorePort

_NAMES_MAX = 3


def check_may_act(store: StorePort, row: RunRow, *, accepts: bool = False) -> None:
    """RunSealed or AcknowledgedLost if the run must not be entered or written; it says what to do instead.

    ``accepts``: for the one who writes its beginning, a handoff.
    """
    if row.status == Status.IMPORTING:
        raise _not_whole(row)
    facts = facts_of(row)
    if not row.head and "handed" in facts and not accepts:
        # Entered, it would begin from nothing, and make the giver's effects again.
        raise _not_whole(row)
    lost = facts.get("lost", 0)
    if lost:
        raise AcknowledgedLost(store=store.url, run=row.run, acknowledged=lost, head=row.head)
    if row.status != Status.SEALED:
        _check_parents(store, row.run)
        return
    handed = find_handoff(store, row)
    if handed is not None:
        raise handed_over(row.run, fields_of(handed.body)["to"])
    seal = find_seal(store, row)
    if seal is not None:
        to = fields_of(seal.body)["to"]
        if to == store.url:
            raise RunSealed(
                run=row.run,
                problem="is on its way here: it was moved, and the move is not complete",
                advice="run the same `holdfast copy --move` again",
            )
        raise RunSealed(
            run=row.run,
            problem=f"was moved to {to}",
            advice=f"import that where it is to go on; "
            f"`holdfast fork {row.run} --as NAME` goes on here, as another run",
        )
    from holdfast.engine.journal.lineage_names import forks_of  # late: most runs are not refused

    forks = [fork.run for fork in forks_of(store, row.run)]
    acting = ", ".join(forks[-_NAMES_MAX:]) or f"`holdfast fork {row.run} --as NAME`"
    raise RunSealed(
        run=row.run, problem="is the copy of a run that acts elsewhere", advice=f"go on here with {acting}"
    )


def _check_parents(store: StorePort, run: str) -> None:
    """RunSealed if a run to which this one belongs was handed over: the taker continues its children, too.

    The one seal of the parent holds for all of them, so no crash can leave some of them unsealed.
    """
    parent = run
    while parent := parent.rpartition("/")[0]:
        row = store.find_run(parent, damaged=True)
        is_sealed = row is not None and not row.damage and row.status == Status.SEALED
        handed = find_handoff(store, row) if row is not None and is_sealed else None
        if handed is not None:
            to = fields_of(handed.body)["to"] or "the run that accepts it"
            raise RunSealed(
                run=run,
                problem=f"belongs to run {parent}, which was handed over to {to}",
                advice=f"the taker continues it; `holdfast handoff {parent} --unseal` takes both back here",
            )


def check_is_whole(row: RunRow) -> None:
    """RunSealed if the run's import is not complete."""
    if row.status == Status.IMPORTING:
        raise _not_whole(row)


def find_seal(store: StorePort, row: RunRow) -> Event | None:
    """The event that sealed the run when it was moved away, or None."""
    seal = _last_seal(store, row)
    return None if seal is None or _is_handoff(seal) else seal


def find_handoff(store: StorePort, row: RunRow) -> Event | None:
    """The event that sealed the run when it was handed over, or None."""
    seal = _last_seal(store, row)
    return seal if seal is not None and _is_handoff(seal) else None


def handed_over(run: str, to: str) -> RunSealed:
    """The error for entering a run that was handed over."""
    again = f"holdfast handoff {run}{f' --to {to}' if to else ''} --seal"
    return RunSealed(
        run=run,
        problem=f"was handed over to {to or 'the run that accepts it'}, and does not act here any more",
        advice=f"the run that accepts its handoff continues it, and `{again}` writes the handoff again; "
        f"`holdfast handoff {run} --unseal` takes it back here",
    )


def _last_seal(store: StorePort, row: RunRow) -> Event | None:
    # A seal is the last event: nothing is appended after it, except what unseals the run.
    last = last_event(store, row)
    return last if last is not None and last.kind == Kind.RUN_SEALED else None


def last_event(store: StorePort, row: RunRow) -> Event | None:
    """The last event of the run's own journal; None if it has none."""
    last = store.read_events(row.run, after_seq=max(row.head - 1, row.origin_seq), limit=1)
    return last[0] if last else None


def _is_handoff(seal: Event) -> bool:
    return "handoff" in contents_of(seal.body)


def _not_whole(row: RunRow) -> RunSealed:
    facts = facts_of(row)
    what, how = "import", "import` or `holdfast copy`"
    if "flattens" in facts:
        what, how = "copy", "erase … --flatten`"
    elif "forks" in facts:
        what, how = "fork", f"fork … --as {row.run}`"
    elif "handed" in facts:
        what, how = "handoff", f"accept … --as {row.run}`"
    return RunSealed(
        run=row.run,
        problem=f"is not whole: its {what} was cut off, or is still running",
        advice=f"run the same `holdfast {how} again",
    )
