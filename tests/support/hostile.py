"""How data from elsewhere can be wrong, and what must hold afterwards: for suites that feed them to a store.

``HOLDFAST_FUZZ`` multiplies the number of cases: 1 is what fits into seconds, 50 is a night's worth.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

import holdfast
from holdfast.core.journal.lineage import effective
from holdfast.errors import RunSealed
from holdfast.model.store_rows import inbox_space
from holdfast.views.event_detail import event_detail
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.run_summary import summarize
from holdfast.views.runs import run_line
from holdfast.views.stats import arrange
from holdfast.views.timeline import Timeline

TIMES = max(1, int(os.environ.get("HOLDFAST_FUZZ", "1")))

Path = tuple[str | int, ...]


def nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -0.0, 1e308, -1e300,
    "", "x", " ", "0", "\0", "a\nb", "\x1b[31m", "\u202e", "../../etc/passwd", "x" * 5_000, "ab" * 32,
    [], {}, [[]], [None], ["x"], [1, "x"], {"": ""}, {"a": 1}, nested(30), nested(460), nested(900),
)  # fmt: skip


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a document, but for its top."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*at, name)
        yield from paths(one, (*at, name))


def mutated(document: Any, random: Random, times: int = 1) -> tuple[str, Any]:
    """The document with one thing in it, or several, that is not as it was; and what was done."""
    changed, places = deepcopy(document), [*paths(document)]
    told = []
    for path in random.choices(places, k=times):
        holder = changed
        with suppress(LookupError, TypeError):  # what was changed before may have taken it away
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]]
            told.append(_change(holder, path, random))
    return ", ".join(told), changed


def _change(holder: Any, path: Path, random: Random) -> str:
    name: Any = path[-1]
    way, at = random.choice(WAYS), ".".join(map(str, path))
    if way == "drop":
        del holder[name]
    elif way == "rename" and isinstance(holder, dict):
        holder[f"{name}_"] = holder.pop(name)
    elif way == "duplicate" and isinstance(holder, list):
        holder.insert(name, holder[name])
    elif way == "nest":
        holder[name] = random.choice(
            [[holder[name]], {"value": holder[name]}, nested(random.choice([2, 300, 900]))]
        )
    elif way == "enlarge":
        holder[name] = _larger(holder[name], random)
    else:
        holder[name] = value = random.choice(HOSTILE)
        return f"retype {at} as {str(value)[:60] if not isinstance(value, (dict, list)) else type(value)}"
    return f"{way} {at}"


WAYS = ("drop", "retype", "retype", "retype", "rename", "duplicate", "nest", "enlarge")


def _larger(value: Any, random: Random) -> Any:
    if isinstance(value, str):
        return value * random.choice([2, 1_000]) + "x"
    if isinstance(value, list):
        return (value or [0]) * random.choice([2, 300])
    if isinstance(value, dict):
        return {**value, **{f"more{number}": number for number in range(300)}}
    return random.choice([2**40, 2**62, 1e300, -(2**40)])


def content(store: holdfast.Store) -> Any:
    """Everything that lies in a store, to see that it did not change."""
    port = store._port
    rows = port.list_runs(limit=1000)
    spaces = [
        "moves/taken",
        "moves/given",
        "labels",
        "pins",
        "facts",
        *(inbox_space(row.run) for row in rows),
    ]
    return (
        rows,
        [port.read_events(row.run, limit=2000) for row in rows],
        port.scan_blobs(limit=10_000),
        [port.scan_records(space, limit=1000) for space in spaces],
    )


def look_at_everything(store: holdfast.Store) -> None:
    """What people and programs see of every run of a store: none of it may fail."""
    for one in store.overview():
        line = run_line(one, now=store.now())
        as_plain(line)
        if line.status not in {"damaged", "importing"}:
            look_at(store, one.info.run)
    as_plain(arrange(store.stats()))
    store.search("paid")
    store.questions()
    store.prune(dry_run=True)
    store.examine()


def look_at(store: holdfast.Store, run: str) -> None:
    """One run, in full."""
    info, events = store.get(run), store.events(run)
    builder = CommandBuilder("")
    doubts, questions, promises = store.doubts(run), store.questions(run), store.promises(run)
    as_plain(
        summarize(
            info, events, doubts, questions, now=store.now(), size_bytes=store.size(run), builder=builder, promises=promises,
            read=store.content,
        )
    )  # fmt: skip
    as_plain(Timeline().lines(store.events(run, whole=True)))
    for event in effective(events):
        as_plain(event_detail(run, event, store.content(event)))
    for thought in map(store.thoughts(run).add, events):
        as_plain(thought)
    as_plain(store.resume_plan(run))
    str(store.context(run))
    with suppress(RunSealed):  # another run has taken it over
        store.handoff(run)
    store.lineage(run)
    store.ailments(run)
    store.later_effects(f"{run}@#{info.head}")
