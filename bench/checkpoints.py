"""What checkpoints of a growing state write, and what they cost."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from itertools import cycle
from pathlib import Path

import orjson

import holdfast
from bench.measuring import Figure, interleaved_us, size_on_disk
from bench.texts import Message, Text, noise, prose, turns

STEPS = 1_000
TRIM_EVERY = 100
LONG = 1_000
ROUNDS = 20
SHORT_RUNS = 10
SHORT_STEPS = 5
WARM = 10
"""Then it is known that new objects come each time."""


def figures(place: Path) -> Iterator[Figure]:
    """Bytes first, as they do not depend on the machine; then times, each against another of the same run."""
    yield _growth(place, "ordinary text", prose(), 1.0, trims=False)
    yield _growth(place, "incompressible text", noise(), 1.3, trims=False)
    yield _growth(place, "ordinary text, trimmed", prose(), 1.1, trims=True)
    yield _pace(place)
    for size in (100, 1_000, 4_000):
        yield _remembered(place, size)


def _growth(place: Path, what: str, text: Text, bar: float, *, trims: bool) -> Figure:
    """The whole state handed over at every step; all that the store has on disk once it is closed."""
    url, messages, unique, times = place / f"{what}.db", list[Message](), 0, list[float]()
    with holdfast.run("growing", store=url, retention=None) as run:
        for step, new in zip(range(1, STEPS + 1), turns(text), strict=False):
            unique += sum(len(orjson.dumps(each)) for each in new)
            messages += new
            if trims and step % TRIM_EVERY == 0:
                del messages[: len(messages) // 5]
            began = time.perf_counter()
            run.checkpoint({"step": step, "messages": messages})
            times.append((time.perf_counter() - began) * 1e3)
    holdfast.store(url).close()
    size = size_on_disk(url)
    early, late = statistics.median(times[5:25]), statistics.median(times[-20:])
    facts = f"{size:,} bytes of {unique:,}; p50 {early:.1f} ms at 10, {late:.1f} ms at {STEPS:,}"
    return Figure(f"{STEPS:,} checkpoints, {what}: file / unique", size / unique, bar, "×", facts)


def _remembered(place: Path, size: int) -> Figure:
    """A long history with one new message: the same objects as before, and equal ones that are new each time."""
    store = holdfast.store(place / f"long-{size}.db")

    def turning(name: str, copied: Callable[[list[Message]], list[Message]]) -> Callable[[], None]:
        run = runs[name] = copy_context().run(holdfast.run(name, store=store, retention=None).open)
        messages = [_message(number, size) for number in range(LONG)]

        def turn() -> None:
            messages.append(_message(len(messages), size))
            state = {"step": len(messages), "messages": copied(messages)}
            began = time.thread_time()
            run.checkpoint(state)
            spent[name].append((time.thread_time() - began) * 1e3)

        return turn

    runs: dict[str, holdfast.Run] = {}
    spent: dict[str, list[float]] = {"same": [], "new": []}
    works = [turning("same", list), turning("new", _parsed)]
    for _ in range(WARM + ROUNDS):
        for work in works:
            work()
    for run in runs.values():
        run.close()
    store.close()
    same, new = (statistics.median(spent[name][WARM:]) for name in ("same", "new"))
    facts = f"CPU, p50: {same:.2f} ms, {new:.2f} ms"
    what = f"a checkpoint of {LONG:,} messages of {size:,} bytes: the same objects again / new ones"
    return Figure(what, same / new, None, "×", facts)


def _message(number: int, size: int) -> Message:
    return {"role": "user", "id": f"m{number}", "content": f"{number:08x}" * (size // 8)}


def _parsed(messages: list[Message]) -> list[Message]:
    """As from another process: no text is the same object."""
    made: list[Message] = orjson.loads(orjson.dumps(messages))
    return made


def _pace(place: Path) -> Figure:
    """A turn through ``run.messages``: what it costs must not depend on how long the conversation is."""
    store = holdfast.store(place / "messages.db")
    new = turns(prose())

    def talking(name: str, steps: int) -> holdfast.Run:
        # In a context of its own: a run opened inside another would be its child.
        run = copy_context().run(holdfast.run(name, store=store).open)
        for _ in range(steps):
            turn(run)
        return run

    def turn(run: holdfast.Run) -> None:
        run.messages.extend(next(new))
        run.checkpoint({"step": run.position, "plan": ["survey", "compare", "draft"]})

    long = talking("long", STEPS)
    shorts = [talking(f"short-{number}", SHORT_STEPS) for number in range(SHORT_RUNS)]
    each = cycle(shorts)
    early, late = interleaved_us(
        [lambda: turn(next(each)), lambda: turn(long)], rounds=SHORT_RUNS * SHORT_STEPS * 2, block=1
    )
    for run in (long, *shorts):
        run.close()
    store.close()
    facts = f"p50 {early / 1e3:.2f} ms at 10 turns, {late / 1e3:.2f} ms at {STEPS:,}"
    return Figure(f"messages and a checkpoint: at {STEPS:,} turns / at 10", late / early, 3.0, "×", facts)
