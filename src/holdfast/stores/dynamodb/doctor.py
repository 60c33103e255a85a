"""Checks the table: its keys, its bucket, what is left to sweep, every event of every run."""

from collections.abc import Iterator

from holdfast import limits
from holdfast.errors import AccessDenied, StoreMissing
from holdfast.model.events import Links, uncovered
from holdfast.model.store_rows import Finding, RunRow, Status
from holdfast.stores import bounds, row_checksums
from holdfast.stores.dynamodb.table.keys import SHARDS, TRASH, blob_key
from holdfast.stores.dynamodb.table.run_item import find_row
from holdfast.stores.dynamodb.table.table import Item, Table
from holdfast.stores.dynamodb.verbs.events import read_page
from holdfast.stores.dynamodb.verbs.list_runs import list_runs
from holdfast.stores.dynamodb.verbs.records import every_record


def examined(table: Table) -> list[Finding]:
    """See ``StorePort.examine``."""
    findings = [_table(table), *_bucket(table), _trash(table)]
    events: list[str] = []
    rows: list[str] = []
    for row in _every_run(table):
        if row.damage:
            rows.append(row.damage)
        elif row.status == Status.IMPORTING:
            findings.append(bounds.partial_finding(row.run))
        else:
            events += _damage(table, row, rows)
    return [
        *findings,
        *row_checksums.findings("events", events, "every event is what was appended"),
        *row_checksums.findings("runs", rows, "every run's row is what was written"),
        *_records(table),
    ]


def _table(table: Table) -> Finding:
    try:
        told = table.describe()
    except AccessDenied:
        text = "its settings cannot be read: dynamodb:DescribeTable is not granted"
        return Finding(
            "table", "warning", text, "grant it to the user who runs doctor; agents do not need it"
        )
    keys = [(key["AttributeName"], key["KeyType"]) for key in told.get("KeySchema", ())]
    if keys != [("pk", "HASH"), ("sk", "RANGE")]:
        return Finding(
            "table", "failure", f"its keys are {keys}", "`holdfast doctor --create-table` makes one that fits"
        )
    if told.get("TableStatus") not in {"ACTIVE", "UPDATING"}:
        return Finding("table", "warning", f"it is {told.get('TableStatus')}")
    return Finding("table", "ok", f"{table.target.table} is there, with the keys pk and sk")


def _bucket(table: Table) -> list[Finding]:
    """Whether every blob outside of the table is where its head says."""
    where = table.target.blobs
    try:
        lost, there = _lost_objects(table)
    except StoreMissing as error:
        return [Finding("bucket", "failure", error.problem, error.hint)]
    except AccessDenied as error:
        advice = "grant s3:ListBucket and s3:GetObject to the user who runs doctor"
        return [Finding("bucket", "warning", f"it cannot be read: {error.problem}", advice)]
    if lost:
        advice = "no lifecycle rule may delete there: restore the objects, or the runs from an export"
        return [
            Finding("bucket", "failure", f"blob {head['sk']} has lost its {head['object']}", advice)
            for head in lost
        ]
    if not where and not there:
        return []
    text = (
        f"{where or 'the bucket of another URL'} has what the table says: {there:,} "
        f"object{'s' * (there != 1)}"
    )
    return [Finding("bucket", "ok", text)]


def _lost_objects(table: Table) -> tuple[list[Item], int]:
    """Heads without their object, and how many have theirs.

    The URL's bucket is listed; objects in other buckets are requested one by one.
    """
    lost: list[Item] = []
    there = 0
    for shard in SHARDS:
        listed = dict(table.objects.names(shard)) if table.target.blobs else {}
        for head in table.query(f"blob/{shard}", attributes=("sk", "stage", "object", "size")):
            if "object" not in head:
                continue
            if listed.get(head["object"]) == head["size"] or not _is_lost(table, head):
                there += 1
            else:
                lost.append(head)
    return lost, there


def _is_lost(table: Table, head: Item) -> bool:
    """Checks again: it may have come after the listing, or the blob may be gone by now."""
    if table.objects.size(head["object"]) == head["size"]:
        return False
    again = table.get(blob_key(head["sk"]))
    return again is not None and again.get("object") == head["object"]


def _trash(table: Table) -> Finding:
    left = table.count(TRASH)
    if not left:
        return Finding("space", "ok", "nothing is left to sweep")
    text = f"{left} deletions were interrupted before everything was swept; the rest is invisible"
    return Finding("space", "warning", text, "`holdfast prune` sweeps it")


def _every_run(table: Table) -> Iterator[RunRow]:
    page = list_runs(table, limit=limits.RUN_PAGE_MAX, before=None, prefix="")
    while page:
        yield from page
        page = list_runs(table, limit=limits.RUN_PAGE_MAX, before=page[-1], prefix="")


def _records(table: Table) -> list[Finding]:
    """The names of all spaces are unknown, so the complete table is scanned for records."""
    try:
        damage = [found.damage for found in every_record(table) if found.damage]
    except AccessDenied:
        text = "they were not checked: dynamodb:Scan is not granted"
        return [
            Finding("records", "warning", text, "grant it to the user who runs doctor; agents do not need it")
        ]
    return list(
        row_checksums.findings("records", damage, "every record is what was written", row_checksums.AGAIN)
    )


def _links(table: Table, row: RunRow) -> Links:
    """The chain before a run's first own event; for a fork, it is in another journal."""
    name, seq = row.origin, row.origin_seq
    while seq and name is not None:
        origin = find_row(table, name)
        if origin is None:
            return Links(None, row.birth)
        if seq > origin.origin_seq:
            found = read_page(table, name, seq - 1, seq, 1)
            return Links(found[0].chain if found else None, row.birth)
        name = origin.origin
    return Links(0, row.birth)


def _damage(table: Table, row: RunRow, rows: list[str]) -> Iterator[str]:
    """What is wrong with its events. A row with a fence below its events' is added to ``rows``."""
    after, covered = 0, row.origin_seq
    links = _links(table, row)
    while True:
        events = read_page(table, row.run, after, None, limits.EVENT_PAGE_MAX)
        yield from filter(None, (row_checksums.event_damage(row.run, event, links) for event in events))
        if events and events[-1].chain and events[-1].fence > row.lease.fence:
            now = find_row(table, row.run) or row  # it may have been written since the row was read
            if events[-1].fence > now.lease.fence:
                rows.append(row_checksums.late_fence(row.run, now.lease.fence, events[-1].fence))
        for first, last in uncovered(covered, events):
            yield f"no event of run {row.run} covers {first} to {last}"
        if len(events) < limits.EVENT_PAGE_MAX:
            return
        after = covered = events[-1].seq
