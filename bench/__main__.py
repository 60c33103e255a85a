"""``make bench``: measure everything and print the table. Exits 1 if a bar is missed.

``make bench-peers`` measures beside other people's libraries, which live in an environment of their own.
"""

import logging
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import (
    branching,
    checkpoints,
    concurrency,
    diffing,
    dynamodb,
    importing,
    langgraph,
    mcp_server,
    models,
    openai_agents,
    peers,
    postgres,
    recording,
    replaying,
    resuming,
    takeover,
)
from bench.measuring import Figure

SUBJECTS = {
    "recording": recording,
    "replaying": replaying,
    "importing": importing,
    "concurrency": concurrency,
    "checkpoints": checkpoints,
    "diffing": diffing,
    "branching": branching,
    "resuming": resuming,
    "models": models,
    "mcp": mcp_server,
    "postgres": postgres,
    "dynamodb": dynamodb,
    "takeover": takeover,
}
PEERS = {"peers": peers, "openai_agents": openai_agents, "langgraph": langgraph}


def main(names: list[str]) -> int:
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    figures: list[Figure] = []
    for name in names or SUBJECTS:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=Path.cwd()) as place:
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            figures += (SUBJECTS | PEERS)[name].figures(Path(place))
    table = Table("what", "measured", "bar", "", "facts")
    for figure in figures:
        bar = "" if figure.bar is None else f"{'≥' if figure.at_least else '≤'} {figure.bar:g}"
        verdict = "" if not bar else "[green]pass[/]" if figure.passes else "[red]miss[/]"
        table.add_row(
            figure.subject,
            f"{figure.value:.2f} {figure.unit}",
            bar,
            verdict,
            figure.facts,
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    return 0 if all(figure.passes for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
