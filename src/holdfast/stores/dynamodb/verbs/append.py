"""The hot path: an append is one TransactWriteItems, guarded by the run's fence and head.

Nothing is read first: the transaction is written for the likely case, and only if the service refuses it is
the state read, to find which item is refused and why. Items of different runs share a transaction if they
fit.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.errors import TooLarge
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Append, Appended, AppendOutcome, Refusal, inbox_space
from holdfast.stores.dynamodb.format_mark import FORMAT
from holdfast.stores.dynamodb.table.actions import Action, delete, update
from holdfast.stores.dynamodb.table.keys import record_key, row_key
from holdfast.stores.dynamodb.table.run_item import FENCE, find_item, lease_of
from holdfast.stores.dynamodb.table.split_bodies import discarded
from holdfast.stores.dynamodb.table.table import ACTIONS_MAX, TRANSACTION_BYTES_MAX, Item, Table
from holdfast.stores.dynamodb.verbs.blobs import (
    TRIES_MAX,
    Known,
    Wanted,
    blob_actions,
    contended,
    into_bucket,
    keep_blobs,
    keep_objects,
    look,
    missing,
    wanted,
)
from holdfast.stores.dynamodb.verbs.events import event_actions
from holdfast.stores.dynamodb.verbs.sweep import sweep_let_go
from holdfast.stores.row_checksums import status_crc

_GUARD: Final = f"{FENCE} AND #head = :after AND #journal = :journal"


class ReadState(NamedTuple):
    """What was read besides the row: blobs, and letters whose bodies are in parts."""

    blobs: Known
    letters: Mapping[str, Item]


_NOTHING_SEEN: Final = ReadState({}, {})


class Appender:
    """Appends for one handle.

    A run's journal is remembered: it changes only when a run is recreated or adopts.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``."""
        if len(items) == 1:
            return [self._alone(items[0])]
        outcomes: list[AppendOutcome] = []
        for group in self._groups(items):
            if len(group) > 1 and self._together(group):
                outcomes += [self._appended(item) for item in group]
            else:
                outcomes += [self._alone(item) for item in group]
        return outcomes

    def _groups(self, items: Sequence[Append]) -> list[list[Append]]:
        """Adjacent items with different runs and blobs, as many as fit into a transaction."""
        groups: list[list[Append]] = []
        touched: set[tuple[str, str]] = set()
        count = size = 0
        for item in items:
            if into_bucket(self._table, wanted(item.blobs), {}):
                groups += [[item], []]
                touched, count, size = set(), 0, 0
                continue
            own = {("run", item.run), *(("blob", blob.address) for blob in item.blobs)}
            actions = self._actions(item, item.run, _NOTHING_SEEN)
            more = sum(action.size for action in actions)
            fits = count + len(actions) <= ACTIONS_MAX and size + more <= TRANSACTION_BYTES_MAX
            # A transaction must not name one item twice.
            if not groups or own & touched or not fits:
                groups.append([])
                touched, count, size = set(), 0, 0
            groups[-1].append(item)
            touched |= own
            count, size = count + len(actions), size + more
        return groups

    def _together(self, group: Sequence[Append]) -> bool:
        journals = [self._journal(item.run) for item in group]
        if None in journals:
            return False
        pairs = zip(group, journals, strict=True)
        return self._table.transact(
            [
                action
                for item, journal in pairs
                for action in self._actions(item, journal or "", _NOTHING_SEEN)
            ]
        )

    def _alone(self, item: Append) -> AppendOutcome:
        read_state, blobs = _NOTHING_SEEN, item.blobs
        for _ in range(TRIES_MAX):
            journal = self._journal(item.run)
            if journal is None:
                return Refusal("unknown")
            if into_bucket(self._table, wanted(blobs), read_state.blobs):
                refused, read_state = self._look(item)  # before any part of it becomes visible
                if refused is not None:
                    return refused
                known = keep_objects(self._table, wanted(blobs), item.events[0].at, read_state.blobs)
                read_state = read_state._replace(blobs=known)
            actions = self._actions(item._replace(blobs=blobs), journal, read_state)
            if len(actions) > ACTIONS_MAX or sum(action.size for action in actions) > TRANSACTION_BYTES_MAX:
                if not blobs:
                    raise _too_many(item)
                refused, _ = self._look(item)  # likewise
                if refused is not None:
                    return refused
                keep_blobs(self._table, wanted(blobs), item.events[0].at)
                blobs = ()
            elif self._table.transact(actions):
                sweep_let_go(self._table, read_state.letters.values())
                return self._appended(item)
            else:
                # Without a reason to refuse it by now, try again with what was just read.
                refused, read_state = self._look(item)
                if refused is not None:
                    return refused
        raise contended(self._table, f"run {item.run}")

    def _actions(self, item: Append, journal: str, read_state: ReadState) -> list[Action]:
        change = "SET #head = :head, #fence2 = :fence, #format = :format"  # see rows.FENCE
        told: dict[str, Any] = {"fence": item.fence, "after": item.after_seq, "journal": journal}
        if item.status is not None:
            change += ", #status = :status, #status_crc = :status_crc, #revision = #revision + :one"
            told |= {"status": item.status, "status_crc": status_crc(item.run, item.status), "one": 1}
        change += " REMOVE #fence"
        actions = [update(row_key(item.run), change, _GUARD, head=_head(item), format=FORMAT, **told)]
        for event in item.events:
            actions += event_actions(journal, event)
        for blob in wanted(item.blobs):
            actions += blob_actions(blob, item.events[0].at, read_state.blobs)
        for letter in dict.fromkeys(item.consumed):
            seen = read_state.letters.get(letter)
            when = "attribute_not_exists(#stage)" if seen is None else "#stage = :stage"
            values = {} if seen is None else {"stage": seen["stage"]}
            actions.append(delete(record_key(inbox_space(item.run), letter), when, **values))
            actions += discarded(seen or {})
        return actions

    def _look(self, item: Append) -> tuple[Refusal | None, ReadState]:
        """Why an item was refused; None if it would be accepted by now, with what was read for that."""
        row = find_item(self._table, item.run)
        if row is None:
            return Refusal("unknown"), _NOTHING_SEEN
        if row["fence"] != item.fence:
            return Refusal("fenced", row["head"], lease_of(row)), _NOTHING_SEEN
        if row["head"] != item.after_seq:
            return Refusal("conflict", row["head"], lease_of(row)), _NOTHING_SEEN
        blobs: list[Wanted] = wanted(item.blobs)
        known = look(self._table, blobs)
        lacking = missing(blobs, known)
        if lacking:
            return Refusal("missing", row["head"], lease_of(row), lacking), _NOTHING_SEEN
        keys = [record_key(inbox_space(item.run), letter) for letter in dict.fromkeys(item.consumed)]
        letters = {found["sk"][1:]: found for found in self._table.get_all(keys) if "stage" in found}
        return None, ReadState(known, letters)

    def _appended(self, item: Append) -> Appended:
        self._table.known.moved(item.run, _head(item))
        return Appended(_head(item))

    def _journal(self, run: str) -> str | None:
        row = self._table.known.find(run) or find_item(self._table, run)
        return None if row is None else row["journal"]


def _head(item: Append) -> int:
    return item.events[-1].seq if item.events else item.after_seq


def _too_many(item: Append) -> TooLarge:
    return TooLarge(
        what=f"an append to {item.run} with its letters",
        size=len(item.events) + len(item.consumed) + 1,
        size_max=ACTIONS_MAX,
        unit="actions in one transaction",
    )
