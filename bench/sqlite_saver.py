"""Beside LangGraph's SqliteSaver, on the same states, step by step in turn, on the same disk.

It is opened as its documentation says and left as it is; ``make bench-peers`` runs this where it is installed.
"""

import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdfast
from bench.measuring import Figure, size_on_disk
from bench.texts import Message, prose, turns

STEPS = 1_000
FEWER_STEPS = 250
LATE_STEPS = 40
SPACE_BYTES = 8_000_000_000
"""The saver writes about 2.8 GB at 1,000 steps, and its WAL comes on top."""


def figures(place: Path) -> Iterator[Figure]:
    """Both are handed the whole state at every step: what lies on disk afterwards, and how long the last steps took."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    steps = STEPS if shutil.disk_usage(place).free > SPACE_BYTES else FEWER_STEPS
    ours, theirs = place / "holdfast.db", place / "langgraph.db"
    our_times, their_times, growth = list[float](), list[float](), list[str]()
    messages: list[Message] = []
    with (
        holdfast.run("growing", store=ours, retention=None) as run,
        SqliteSaver.from_conn_string(str(theirs)) as saver,
    ):
        config: Any = {"configurable": {"thread_id": "growing", "checkpoint_ns": ""}}
        for step, new in zip(range(1, steps + 1), turns(prose()), strict=False):
            messages += new
            state = {"step": step, "messages": messages}
            began = time.perf_counter()
            run.checkpoint(state)
            done = time.perf_counter()
            config = saver.put(config, {**empty_checkpoint(), "channel_values": state}, {"step": step}, {})
            their_times.append(time.perf_counter() - done)
            our_times.append(done - began)
            if step % (steps // 4) == 0:
                growth.append(f"{size_on_disk(theirs) / size_on_disk(ours):,.0f} × at {step:,}")
        pragmas = [f"{name}={saver.conn.execute(f'PRAGMA {name}').fetchone()[0]}" for name in _PRAGMAS]
    holdfast.store(ours).close()
    sizes = size_on_disk(theirs), size_on_disk(ours)
    facts = f"{sizes[0]:,} and {sizes[1]:,} bytes; while open {', '.join(growth)}"
    # What they write grows with the square of the steps, what we write with the steps: so the ratio grows with them.
    ratio, what = sizes[0] / sizes[1] * STEPS / steps, f"{steps:,} checkpoints"
    if steps < STEPS:
        what = f"{STEPS:,} checkpoints, told from {steps:,} for want of disk space"
    yield Figure(f"{what}: SqliteSaver's file / ours", ratio, 300, "×", facts, at_least=True)
    our_ms, their_ms = (statistics.median(times[-LATE_STEPS:]) * 1e3 for times in (our_times, their_times))
    facts = (
        f"p50 of the last {LATE_STEPS}: put {their_ms:.1f} ms ({', '.join(pragmas)}), ours {our_ms:.1f} ms"
    )
    subject = f"a state at step {steps:,}: SqliteSaver.put / our checkpoint"
    bar = 5 if steps == STEPS else None  # it is about large states, and says nothing of a smaller one
    yield Figure(subject, their_ms / our_ms, bar, "×", facts, at_least=True)


_PRAGMAS = ("journal_mode", "synchronous", "wal_autocheckpoint")
