"""What really happened: the world's files beside the journals. Nothing here asks a worker."""

from collections import Counter
from typing import Any, NamedTuple

from tests.long.soak import agents
from tests.long.soak.killer import is_still
from tests.long.soak.places import Place

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event

_PAID = frozenset({"step.finished", "step.settled"})


class Books(NamedTuple):
    """The counts, and whatever is not as it must be, in words."""

    counts: Counter[str]
    statuses: Counter[str]
    wrong: list[str]


def examine(place: Place) -> Books:
    """Compare what stands recorded with what was done."""
    agents.PLACE = place.path
    paid = Counter(line["key"] for line in agents.lines("ledger"))
    calls = agents.lines("calls")
    store = holdfast.store(place.url)
    counts, wrong = Counter[str](), list[str]()
    statuses = {info.run: info.status for info in store.runs()}
    known = set[str]()
    for run in sorted(statuses):
        events = store.events(run, whole=True)  # which verifies every checksum, and the chain
        counts["runs"] += 1
        counts["records verified"] += len(events)
        counts["attempts"] += _count(events, "attempt.started")
        counts["takeovers"] += _count(events, "attempt.crashed")
        counts["in doubt"] += len(store.doubts(run))
        wrong += _wrong_with(store, run, statuses, events)
        wrong += _repeated(run, events, calls)
        bodies = b"\n".join(event.body for event in events)
        known |= {key for key in paid if key.encode() in bodies}
        for key in _paid_keys(events):
            counts["effects checked"] += 1
            if not paid[key]:
                wrong.append(f"{run}: {key} is recorded as paid, and nobody paid it")
    counts["ledger entries"] = sum(paid.values())
    wrong += [f"{key} was paid {times} times" for key, times in paid.items() if times > 1]
    wrong += [f"nobody knows of the payment {key}" for key in paid.keys() - known]
    findings = [*store.examine(), *store.examine_blobs(full=True)]
    wrong += [f"doctor: {one.text}" for one in findings if one.verdict == "failure"]
    store.close()
    return Books(counts, Counter(statuses.values()), wrong)


def _wrong_with(store: holdfast.Store, run: str, statuses: dict[str, str], events: list[Event]) -> list[str]:
    row, found = store._port.find_run(run), list[str]()
    assert row is not None
    wanted = agents.expected(run)
    if row.status == "finished":
        told = contents_of(store.view(run).result or b"{}").get("value")
        if wanted is not None and told != wanted:
            found.append(f"{run} came to {told} and not to {wanted}")
        if row.due_at is not None:
            found.append(f"{run} is finished and due")
    elif row.status == "in_doubt":
        if not store.doubts(run):
            found.append(f"{run} is in doubt and nobody is told about what")
    elif not is_still(run, statuses) or row.status == "failed":
        last = contents_of(events[-1].body) if events else {}
        found.append(f"{run} is {row.status}, due {row.due_at}: {str(last.get('error', last))[:300]}")
    if row.lease.owner:
        found.append(f"{run} is {row.status} and held by {row.lease.owner}")
    finished = Counter(event.key for event in events if event.kind == "step.finished")
    if not _count(events, "run.rewound"):
        found += [f"{run}: {key} was recorded {n} times" for key, n in finished.items() if n > 1]
    return found


def _repeated(run: str, events: list[Event], calls: list[dict[str, Any]]) -> list[str]:
    """Read steps that an attempt made again which began after their outcome had been recorded."""
    if agents.expected(run) is None or _count(events, "run.rewound") or _count(events, "compacted"):
        return []
    done: dict[int, int] = {}
    attempt = 0
    for event in events:
        if event.kind == "attempt.started":
            attempt = contents_of(event.body)["number"]
        elif event.kind == "step.finished" and event.name == "read":
            done[contents_of(event.body)["value"]] = attempt
    return [
        f"{run}: read {call['number']} was made again in attempt {call['attempt']}"
        for call in calls
        if call["run"] == run and call["number"] in done and call["attempt"] > done[call["number"]]
    ]


def _paid_keys(events: list[Event]) -> set[str]:
    """The idempotency keys of the payments that are recorded as made."""
    intents = {e.key: contents_of(e.body).get("idempotency_key") for e in events if e.kind == "step.started"}
    ended = [e for e in events if e.kind in _PAID and e.name == "pay"]
    good = [e for e in ended if contents_of(e.body).get("how", "done") == "done"]
    return {key for e in good if (key := intents.get(e.key))}


def _count(events: list[Event], kind: str) -> int:
    return sum(event.kind == kind for event in events)
