"""``make bench``: measure everything and print the table. Exits 1 if a bar is missed.

``make bench-peers`` and ``make bench-frameworks`` measure beside other people's libraries, which live in environments of their own.
"""

import logging
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measuring import Figure

SUBJECTS = (
    "recording",
    "replaying",
    "importing",
    "concurrency",
    "checkpoints",
    "diffing",
    "branching",
    "growth",
    "resuming",
    "code_changes",
    "encryption",
    "redaction",
    "models",
    "postgres",
    "postgres_search",
    "dynamodb",
    "takeover",
    "memory",
    "memory_quality",
)
"""What is measured where nobody asks for something. Beside other people's libraries: sqlite_saver, langgraph, openai_agents, pydantic_ai, crewai, mcp."""
_MODULES = {"mcp": "mcp_server"}
"""A module is loaded when it is asked for: what one needs, another's environment may not have."""


def main(names: list[str]) -> int:
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    figures: list[Figure] = []
    for name in names or SUBJECTS:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=Path.cwd()) as place:
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            figures += import_module(f"bench.{_MODULES.get(name, name)}").figures(Path(place))
    return printed(figures)


def printed(figures: list[Figure]) -> int:
    """Print the table. Returns the exit code: 1 if a bar is missed."""
    table = Table("what", "measured", "spread", "bar", "", "facts")
    for figure in figures:
        bar = "" if figure.bar is None else f"{'≥' if figure.at_least else '≤'} {figure.bar:,g}"
        verdict = "" if not bar else "[green]pass[/]" if figure.passes else "[red]miss[/]"
        digits = 0 if abs(figure.value) >= 1_000 else 2
        measured = f"{figure.value:,.{digits}f} {figure.unit}"
        table.add_row(figure.subject, measured, figure.spread, bar, verdict, figure.facts)
    Console(width=None if sys.stdout.isatty() else 170).print(table)
    return 0 if all(figure.passes for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
