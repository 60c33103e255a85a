"""What resuming a long run from its state costs, beside the bare load of that state's nodes."""

import gc
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
from backports import zstd

import holdfast
from bench.measuring import Figure, ratio
from bench.texts import Message, prose, turns
from holdfast.core.state.assemble import packs_of
from holdfast.core.state.nodes import unpack_nodes
from holdfast.engine.state.state_store import fetcher
from holdfast.model.event_fields import part_of
from holdfast.stores.sqlite import SqliteStore

EVENTS = 10_000
CHECKPOINTS = 1_000
ROUNDS = 11


class Again(Exception):
    """Ends an attempt without finishing the run."""


def work(number: int) -> dict[str, object]:
    return {"number": number, "text": "a short result, as most tools give"}


def figures(place: Path) -> Iterator[Figure]:
    """A run of 10,000 events whose state has grown to 5 MB over 1,000 checkpoints.

    For the record, one that was saved only once, at its end: its nodes lie in a few large packs, which load in half the
    time, while there are as many events to verify and fold. So the ratio is another one, though a resume is faster.
    """
    yield from _figures(place / "grown.db", "5 MB grown over 1,000 checkpoints", CHECKPOINTS, 2.5)
    yield from _figures(place / "whole.db", "5 MB checkpointed once", 1, None)


def _figures(url: Path, what: str, checkpoints: int, bar: float | None) -> Iterator[Figure]:
    """The whole resume; and the part of it that depends on the state, which is not to be longer for few large packs."""
    events = _record(url, checkpoints)
    addresses = _packs(url)
    entering, restoring, bare = list[float](), list[float](), list[float]()
    for number in range(ROUNDS):
        # A copy each: every resume is the first after the crash, and no handle has seen anything of it.
        copy = url.with_name(f"{url.stem}-{number}.db")
        shutil.copyfile(url, copy)
        bare.append(_bare(copy, addresses))
        enter_s, restore_s = _resume(copy)
        entering.append(enter_s)
        restoring.append(restore_s)
        copy.unlink()
    enter_ms, restore_ms, bare_ms = (statistics.median(times) * 1e3 for times in (entering, restoring, bare))
    resume_ms = statistics.median(map(sum, zip(entering, restoring, strict=True))) * 1e3
    facts = f"bare {bare_ms:.0f} ms of {len(addresses):,} packs; entering {enter_ms:.0f}, restoring {restore_ms:.0f}"
    yield Figure(f"resume, {events:,} events, {what} / bare load", resume_ms / bare_ms, bar, "×", facts)
    yield ratio(f"restoring alone, {what} / bare load", restoring, bare, None, "")


def _record(url: Path, checkpoints: int) -> int:
    """A run that is not finished, with about as many events as asked for; how many."""
    messages: list[Message] = []
    new = turns(prose())
    steps = (EVENTS - checkpoints) // 2
    try:
        with holdfast.run("bench", store=url) as run:
            for number in range(CHECKPOINTS):
                for step in range(number * steps // CHECKPOINTS, (number + 1) * steps // CHECKPOINTS):
                    run.step("work", work, step)
                messages += next(new)
                if (number + 1) % (CHECKPOINTS // checkpoints) == 0:
                    run.checkpoint({"step": number, "messages": messages})
            raise Again
    except Again:
        store = holdfast.store(url)
        head = store.get("bench").head
        store.close()
        return head
    raise AssertionError


def _packs(url: Path) -> list[str]:
    port = SqliteStore(url)
    store = holdfast.Store(port)
    latest = [event for event in store.events("bench") if event.kind == "checkpoint"][-1]
    addresses = packs_of(part_of(latest.body, "state"), fetcher(port))
    store.close()
    return sorted(addresses)


def _bare(url: Path, addresses: list[str]) -> float:
    """Read, decompressed and decoded, and there in the end; nothing is verified, and nothing put together."""
    port = SqliteStore(url)
    gc.disable()  # as a resume does: what is loaded is no garbage
    began = time.perf_counter()
    nodes = [
        orjson.loads(node)
        for packed in port.get_blobs(addresses).values()
        for node in unpack_nodes(zstd.decompress(packed))
    ]
    taken = time.perf_counter() - began
    gc.enable()
    assert len(nodes) > len(addresses)
    port.close()
    return taken


def _resume(url: Path) -> tuple[float, float]:
    store = holdfast.store(url)
    began = time.perf_counter()
    try:
        with holdfast.run("bench", store=store) as run:
            entered = time.perf_counter()
            state = run.restore()
            restored = time.perf_counter()
            assert len(state["messages"]) == 2 * CHECKPOINTS
            raise Again
    except Again:
        store.close()
        return entered - began, restored - entered
    raise AssertionError
