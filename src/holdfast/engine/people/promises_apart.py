"""Open promises that a move would separate: one side goes to another store, the other side stays.

Letters do not cross stores, so the side that stays, or the one that goes, never learns how the promise ended.
"""

from collections.abc import Callable, Iterator

from holdfast.core.people.promises import PROMISES
from holdfast.engine.journal.load_view import load
from holdfast.stores.port import StorePort


def promises_apart(store: StorePort, run: str, comes_along: Callable[[str], bool]) -> Iterator[str]:
    """The open promises between a run that moves and runs of this store that do not come along, in words."""
    for promise in PROMISES.of(load(store, run)).values():
        is_made = promise.side == "made"
        other = promise.to if is_made else promise.by
        if promise.state != "open" or not other or comes_along(other) or store.find_run(other) is None:
            continue
        waits = other if is_made else run
        between = f"from {run} to {other}" if is_made else f"from {other} to {run}"
        yield (
            f"promise {promise.id} {between}, {promise.text[:80]!r}: "
            f"{other} stays in {store.url}, and {waits} is not told how it ends"
        )
