"""What importing costs."""

from collections.abc import Iterator
from pathlib import Path

from bench.measuring import Figure, fresh_interpreter_ms


def figures(place: Path) -> Iterator[Figure]:  # noqa: ARG001 - imports leave nothing behind
    """``import holdfast`` against the stdlib's own parts for the job, and against everything a run loads."""
    base, bare, used = fresh_interpreter_ms(
        ["import sqlite3, json, hashlib", "import holdfast", "import holdfast; holdfast.run, holdfast.tool"],
        rounds=15,
    )
    facts = f"stdlib {base:.1f} ms, holdfast {bare:.1f} ms; first use loads the rest: {used:.1f} ms, {used / base:.1f} ×"
    yield Figure("import holdfast / import sqlite3, json, hashlib", bare / base, 4.0, "×", facts)
