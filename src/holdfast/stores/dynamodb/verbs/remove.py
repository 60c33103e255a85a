"""Delete, replace and adopt: the operations that change existing events.

The row decides in one transaction; what it no longer names is swept afterwards. Sweeping may fail or be
interrupted without harm: the marker stays, and ``reclaim`` continues.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Blob, Removal, inbox_space
from holdfast.stores.dynamodb.table.actions import Action, check, delete, put, update
from holdfast.stores.dynamodb.table.keys import (
    fork_key,
    listing_key,
    name_key,
    record_key,
    row_key,
    trash_key,
)
from holdfast.stores.dynamodb.table.run_item import STANDS, find_item, row_of
from holdfast.stores.dynamodb.table.split_bodies import discarded, read_body
from holdfast.stores.dynamodb.table.table import ACTIONS_MAX, TRANSACTION_BYTES_MAX, Item, Table
from holdfast.stores.dynamodb.verbs.blobs import (
    TRIES_MAX,
    Known,
    blob_actions,
    contended,
    keep_blobs,
    keep_objects,
    look,
    missing,
    wanted,
)
from holdfast.stores.dynamodb.verbs.events import event_actions, live_items
from holdfast.stores.dynamodb.verbs.sweep import (
    leaving_the_rest,
    sweep_journal,
    sweep_let_go,
    sweep_void,
)
from holdfast.stores.row_checksums import adopted, run_crc, sound

_LETTERS_MAX: Final = 30
"""This many fit into the transaction that deletes the run, each with a marker if needed."""
_OF_A_RECORD: Final = ("pk", "sk", "stage")
_OVERWRITTEN_LONG_MAX: Final = 8
"""Room for the markers of long events that are overwritten: one append has at most three."""
_SAME: Final = f"{STANDS} AND #edition = :edition AND #forks = :none"


def delete_run(table: Table, removal: Removal) -> bool:
    """See ``StorePort.delete_runs``; each run is a transaction of its own.

    Records that do not fit into it are deleted behind it: a kill in between leaves them.
    """
    run, fence, revision, _ = removal
    for _ in range(TRIES_MAX):
        row = find_item(table, run)
        if row is None or (row["fence"], row["revision"]) != (fence, revision) or row["forks"]:
            return False
        letters = _last_letters(table, row)
        if letters is None:
            continue
        origin = _let_go_of_origin(row.get("origin"))
        notes = _notes_moved({_note(row)}, set())
        records = [*letters, *_find_records(table, removal)]
        within, rest = records[:_LETTERS_MAX], records[_LETTERS_MAX:]
        if table.transact([*_delete_row(row), *origin, *notes, *_doomed(row), *_records_gone(within)]):
            for start in range(0, len(rest), _LETTERS_MAX):
                table.transact([*_records_gone(rest[start : start + _LETTERS_MAX])])
            with leaving_the_rest():
                sweep_journal(table, row["journal"])
            sweep_let_go(table, [row, *records])
            return True
    raise contended(table, f"run {run}")


def adopt_events(table: Table, run: str, of: str, fence: int, revision: int) -> bool:
    """See ``StorePort.adopt_events``."""
    for _ in range(TRIES_MAX):
        row, other = find_item(table, run), find_item(table, of)
        if row is None or (row["fence"], row["revision"]) != (fence, revision):
            return False
        if other is None or other["forks"]:
            return False
        assert other["head"] == row["head"], f"{run} ends at {row['head']} and {of} at {other['head']}"
        letters = _last_letters(table, other)
        if letters is None:
            continue
        if "void" in other:
            sweep_void(table, other)
            continue
        own, taken = read_body(table, row), read_body(table, other)
        if own is None or taken is None:
            continue
        url = table.target.url
        crc = run_crc(adopted(sound(row_of(row, own), url), sound(row_of(other, taken), url)))
        actions = [
            _takes_over(run, row, other, crc),
            *_delete_row(other),
            *_let_go_of_origin(row.get("origin")),
            *_notes_moved({_note(row), _note(other)}, {(other.get("origin"), run)}),
            *_doomed(row),
            *_records_gone(letters),
        ]
        if table.transact(actions):
            with leaving_the_rest():
                sweep_journal(table, row["journal"])
            sweep_let_go(table, [other, *letters])
            return True
    raise contended(table, f"run {run}")


class Stretch(NamedTuple):
    """A range of a run's journal to replace, and the run's state when that was decided."""

    run: str
    fence: int
    revision: int
    after_seq: int
    upto_seq: int


def replace_events(
    table: Table, stretch: Stretch, events: Sequence[Event], blobs: Sequence[Blob], at: float
) -> bool:
    """See ``StorePort.replace_events``; blobs are touched at ``at``."""
    for _ in range(TRIES_MAX):
        row = find_item(table, stretch.run)
        if row is None or (row["fence"], row["revision"]) != (stretch.fence, stretch.revision):
            return False
        known: Known = look(table, wanted(blobs)) if blobs else {}
        if missing(wanted(blobs), known):
            return False
        assert row["origin_seq"] <= stretch.after_seq < stretch.upto_seq <= row["head"], (
            f"run {stretch.run} has no stretch ({stretch.after_seq}, {stretch.upto_seq}]"
        )
        if "void" in row:
            sweep_void(table, row)
            continue
        known = keep_objects(table, wanted(blobs), at, known)
        brought = [
            action for event in events for action in event_actions(row["journal"], event, row["edition"] + 1)
        ]
        kept = [action for blob in wanted(blobs) for action in blob_actions(blob, at, known)]
        if not _fits([*brought, *kept], room=1 + _OVERWRITTEN_LONG_MAX):
            keep_blobs(table, wanted(blobs), at)
            blobs = ()
        elif _put_in_place(table, stretch, row, [*brought, *kept], {event.seq for event in events}):
            return True
    raise contended(table, f"run {stretch.run}")


def _put_in_place(table: Table, stretch: Stretch, row: Item, brought: list[Action], seqs: set[int]) -> bool:
    """Writes new events and deletes old ones.

    At once or, if there are too many, so that readers skip the rest.
    """
    wide = ("pk", "sk", "stage")
    old = list(live_items(table, row, stretch.after_seq, stretch.upto_seq, attributes=wide))
    gone = [delete({"pk": item["pk"], "sk": item["sk"]}) for item in old if int(item["sk"]) not in seqs]
    markers = [action for item in old for action in discarded(item)]
    if _fits([*brought, *gone, *markers], room=1):
        if not table.transact([*brought, *gone, *markers, _moves_on(stretch, row, None)]):
            return False
        sweep_let_go(table, old)
        return True
    edition = row["edition"] + 1
    void = {"after": stretch.after_seq, "upto": stretch.upto_seq, "kept": sorted(seqs), "edition": edition}
    overwritten = [item for item in old if int(item["sk"]) in seqs]
    markers = [action for item in overwritten for action in discarded(item)]
    if not table.transact([*brought, *markers, _moves_on(stretch, row, void)]):
        return False
    sweep_let_go(table, overwritten)
    with leaving_the_rest():
        sweep_void(table, {**row, "void": void})
    return True


def _moves_on(stretch: Stretch, row: Item, void: dict[str, Any] | None) -> Action:
    change = "SET #revision = #revision + :one, #edition = :edition"
    values: dict[str, Any] = {
        "fence": stretch.fence,
        "revision": stretch.revision,
        "was": row["edition"],
        "one": 1,
        "edition": row["edition"] + 1,
    }
    if void is not None:
        change, values = f"{change}, #void = :void", {**values, "void": void}
    when = f"{STANDS} AND #edition = :was AND attribute_not_exists(#void)"
    return update(row_key(stretch.run), change, when, **values)


def _takes_over(run: str, row: Item, other: Item, crc: int) -> Action:
    """The row of the adopting run.

    Another journal, another origin, and an edition new to readers of either.
    """
    change = (
        "SET #journal = :journal, #origin_seq = :origin_seq, #revision = #revision + :one, #edition = "
        ":newer, #crc = :crc"
    )
    values = {
        "journal": other["journal"],
        "origin_seq": other["origin_seq"],
        "crc": crc,
        "one": 1,
        "newer": max(row["edition"], other["edition"]) + 1,
        "fence": row["fence"],
        "revision": row["revision"],
    }
    origin = other.get("origin")
    if origin is None:
        change += " REMOVE #origin, #void"
    else:
        change, values = f"{change}, #origin = :origin REMOVE #void", {**values, "origin": origin}
    return update(row_key(run), change, STANDS, **values)


def _delete_row(row: Item) -> list[Action]:
    """Deletes a run. Its row keeps a higher fence, so that no late writer fits a new run of that name."""
    run = row["pk"].removeprefix("run/")
    same = {"fence": row["fence"], "revision": row["revision"], "edition": row["edition"], "none": 0}
    return [
        put({**row_key(run), "gone": True, "fence": row["fence"] + 1}, _SAME, **same),
        delete(listing_key(run, float(row["created_at"]))),
        delete(name_key(run)),
        *discarded(row),
    ]


def _doomed(row: Item) -> list[Action]:
    return [put({**trash_key(row["journal"]), "what": "log"})]


def _let_go_of_origin(origin: str | None) -> list[Action]:
    if origin is None:
        return []
    return [update(row_key(origin), "SET #forks = #forks - :one", "attribute_exists(#forks)", one=1)]


def _note(row: Item) -> tuple[str | None, str]:
    """The origin and the name of a fork, under which its origin lists it."""
    return row.get("origin"), row["pk"].removeprefix("run/")


def _notes_moved(gone: set[tuple[str | None, str]], come: set[tuple[str | None, str]]) -> Iterator[Action]:
    """The changes of fork notes: a transaction may write an item only once."""
    for origin, run in gone - come:
        if origin is not None:
            yield delete(fork_key(origin, run))
    for origin, run in come:
        if origin is not None:
            yield put(fork_key(origin, run))


def _records_gone(records: Sequence[Item]) -> Iterator[Action]:
    for record in records:
        yield delete({"pk": record["pk"], "sk": record["sk"]})
        yield from discarded(record)


def _find_records(table: Table, removal: Removal) -> list[Item]:
    """The named records that are there, beside the inbox: a transaction may write an item only once."""
    inbox = inbox_space(removal.run)
    wanted = dict.fromkeys(one for one in removal.records if one[0] != inbox)
    return table.get_all([record_key(*one) for one in wanted], _OF_A_RECORD) if wanted else []


def _last_letters(table: Table, row: Item) -> list[Item] | None:
    """The letters that fit into the run's last transaction.

    If there are more, deletes these and returns None.
    """
    run = row["pk"].removeprefix("run/")
    letters = list(table.query(f"space/{inbox_space(run)}", attributes=_OF_A_RECORD))
    if len(letters) <= _LETTERS_MAX:
        return letters
    for start in range(0, len(letters), _LETTERS_MAX):
        group = letters[start : start + _LETTERS_MAX]
        same = {"fence": row["fence"], "revision": row["revision"], "edition": row["edition"], "none": 0}
        if not table.transact([check(row_key(run), _SAME, **same), *_records_gone(group)]):
            return None
        sweep_let_go(table, group)
    return None


def _fits(actions: Sequence[Action], *, room: int) -> bool:
    return (
        len(actions) + room <= ACTIONS_MAX and sum(action.size for action in actions) < TRANSACTION_BYTES_MAX
    )
