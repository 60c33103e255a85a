"""What really happened: the world's files beside the journals. Nothing here asks a worker."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tests.long.soak import agents

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event


class Books(NamedTuple):
    """The counts, and whatever is not as it must be, in words."""

    runs: int
    statuses: dict[str, int]
    attempts: int
    takeovers: int
    entries: int
    in_doubt: int
    duplicates: int
    lost: int
    repeated: int
    wrong: list[str]


def examine(url: str, place: Path, runs: int) -> Books:
    """Compare what stands recorded with what was done."""
    agents.PLACE = place
    ledger = Counter((line["run"], line["entry"]) for line in agents.lines("ledger"))
    calls = agents.lines("calls")
    store = holdfast.store(url)
    books = Books(0, {}, 0, 0, sum(ledger.values()), 0, 0, 0, 0, [])
    statuses: Counter[str] = Counter()
    for number in range(runs):
        for run, result in agents.expected(number).items():
            row = store._port.find_run(run)
            if row is None:
                books.wrong.append(f"{run} is not there")
                continue
            statuses[row.status] += 1
            events = store.events(run, whole=True)  # which verifies every checksum
            books = books._replace(
                runs=books.runs + 1,
                attempts=books.attempts + _count(events, "attempt.started"),
                takeovers=books.takeovers + _count(events, "attempt.crashed"),
            )
            books.wrong.extend(_wrong_with(store, row, events, result))
            doubts = {_entry_of(events, doubt.key) for doubt in store.doubts(run)}
            entries = ["part"] if run.endswith("/part") else list(agents.ENTRIES)
            for entry in entries:
                found = ledger.pop((run, entry), 0)
                is_due = row.status == "finished" or _is_paid(events, entry)
                is_doubted = entry in doubts
                books = books._replace(
                    duplicates=books.duplicates + max(0, found - 1),
                    lost=books.lost + (is_due and not found and not is_doubted),
                    in_doubt=books.in_doubt + is_doubted,
                )
                if found > 1 or (is_due and not found and not is_doubted):
                    books.wrong.append(f"{run}: {entry} was paid {found} times")
            books = books._replace(repeated=books.repeated + _repeated(run, events, calls, books.wrong))
    books.wrong.extend(f"{run}: nobody knows of the payment {entry}" for run, entry in ledger)
    store.close()
    return books._replace(statuses=dict(statuses))


def _wrong_with(store: holdfast.Store, row: Any, events: list[Event], result: Any) -> list[str]:
    run, found = row.run, []
    if row.status == "finished":
        told = contents_of(store.view(run).result or b"{}").get("value")
        if told != result:
            found.append(f"{run} came to {told} and not to {result}")
        if row.due_at is not None:
            found.append(f"{run} is finished and due")
        if letters := store._port.scan_records(f"inbox/{run}", limit=10):
            found.append(f"{run} is finished and has letters: {[letter.key for letter in letters]}")
    elif row.status == "in_doubt":
        if not store.doubts(run):
            found.append(f"{run} is in doubt and nobody is told about what")
    elif (
        row.status != "parked"
        or (child := store._port.find_run(f"{run}/part")) is None
        or child.status != "in_doubt"
    ):
        last = contents_of(events[-1].body)
        found.append(f"{run} is {row.status}, due {row.due_at}: {events[-1].kind} {last.get('error', last)}")
    if row.lease.owner:
        found.append(f"{run} is {row.status} and held by {row.lease.owner}")
    finished = Counter(event.key for event in events if event.kind == "step.finished")
    found += [f"{run}: {key} was recorded {n} times" for key, n in finished.items() if n > 1]
    # Killed behind its result and before the end of its attempt, a run is finished, and nobody enters it again.
    ended = _count(events, "attempt.ended") + _count(events, "attempt.crashed")
    if _count(events, "attempt.started") - (events[-1].kind == "run.finished") != ended:
        found.append(f"{run}: an attempt has no end")
    return found


def _repeated(run: str, events: list[Event], calls: list[dict[str, Any]], wrong: list[str]) -> int:
    """Read steps that were made again by an attempt that began after their outcome had been recorded."""
    done: dict[int, int] = {}
    attempt = 0
    for event in events:
        if event.kind == "attempt.started":
            attempt = contents_of(event.body)["number"]
        elif event.kind == "step.finished" and event.name == "read":
            done[contents_of(event.body)["value"]] = attempt
    again = [c for c in calls if c["run"] == run and c["number"] in done and c["attempt"] > done[c["number"]]]
    wrong += [f"{run}: read {c['number']} was made again in attempt {c['attempt']}" for c in again]
    return len(again)


def _count(events: list[Event], kind: str) -> int:
    return sum(event.kind == kind for event in events)


def _is_paid(events: list[Event], entry: str) -> bool:
    ends = [e for e in events if e.kind in {"step.finished", "step.settled"} and e.name == "pay"]
    bodies = [contents_of(event.body) for event in ends]
    return any(b.get("value") == entry and b.get("how", "done") == "done" for b in bodies)


def _entry_of(events: list[Event], key: str) -> str:
    intent = next(event for event in events if event.kind == "step.started" and event.key == key)
    return str(contents_of(intent.body)["args"]["entry"])
