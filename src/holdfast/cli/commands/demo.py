"""``holdfast demo``: kills an agent with SIGKILL in the middle of its work, restarts it, proves the result.

The exit code is 0 only if every claim of the proof holds.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from holdfast.cli.errors import EXIT_DONE, EXIT_REFUSED, RefusedError
from holdfast.cli.options import json_option
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.cli.demo.fake_model import Provider

SEEDS = 1_000_000
KILLS_MAX = 20

EPILOG = """
\b
Examples:
  holdfast demo
  holdfast demo --kills 3 --keep /tmp/demo
  holdfast demo --llm http://localhost:11434 --model llama3.2
"""


class DemoOptions(NamedTuple):
    """The options of one demo."""

    seed: int
    kills: int
    llm: str | None
    model: str | None
    keep: Path | None
    as_json: bool


@click.command("demo", epilog=EPILOG)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Repeat the kills of this seed. Default: a random one."
)
@click.option(
    "--kills", type=click.IntRange(1, KILLS_MAX), default=1, show_default=True, help="How often to kill it."
)
@click.option("--llm", metavar="URL", help="Ask a real OpenAI-compatible endpoint (Ollama, vLLM, llama.cpp).")
@click.option("--model", metavar="NAME", help="The model at --llm. Default: the first it has.")
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the store and the ledger there, to look at.",
)
@json_option
def command(
    seed: int | None, kills: int, llm: str | None, model: str | None, keep: Path | None, *, as_json: bool
) -> int:
    """Kill an agent in the middle of its work and watch it continue.

    Runs a small research agent in a child process, kills it with SIGKILL at a random write, starts it again,
    and shows what was recorded, what was replayed and what ran again. Never touches a store of yours.
    """
    from holdfast.cli.demo.killer import DemoFailed
    from holdfast.cli.demo.model_client import Unanswered

    if model is not None and llm is None:
        raise click.UsageError("--model names a model at --llm URL, which is missing")
    chosen = secrets.randbelow(SEEDS) if seed is None else seed
    try:
        with _directory(keep) as directory:
            holds = _run_demo(directory, DemoOptions(chosen, kills, llm, model, keep, as_json))
    except (Unanswered, DemoFailed) as failed:
        raise RefusedError(str(failed), failed.hint) from failed
    return EXIT_DONE if holds else EXIT_REFUSED


def _run_demo(directory: Path, options: "DemoOptions") -> bool:
    """Run the demo and print it. True if the proof holds."""
    from holdfast.cli.demo import report
    from holdfast.cli.demo.evidence import rows_of
    from holdfast.cli.demo.killer import run_demo, store_in
    from holdfast.cli.demo.proof import check_claims, undisturbed_result

    began = time.monotonic()
    printer = report.Printer(quiet=options.as_json)
    with printer.working("waiting for the model"):
        provider = _provider(options)
    with provider:
        printer.opening(seed=options.seed, kills=options.kills, model=provider.model)
        with printer.working("the agent works"):
            seen = run_demo(
                provider, directory, seed=options.seed, kills=options.kills, tell=printer.happened
            )
    undisturbed = undisturbed_result() if options.llm is None else None
    made = report.Report(
        options.seed,
        options.kills,
        provider.model,
        seen.run,
        time.monotonic() - began,
        len(provider.asked),
        seen.processes,
        tuple(rows_of(seen.events, seen.processes)),
        check_claims(seen, provider.asked, kills=options.kills, undisturbed=undisturbed),
        str(store_in(directory)) if options.keep else None,
        str(seen.ledger) if options.keep else None,
    )
    if options.as_json:
        click.echo(report.as_json(made))
    else:
        printer.closing(made)
    return made.holds


def _provider(options: "DemoOptions") -> "Provider":
    from holdfast.cli.demo.fake_model import real_provider, scripted_provider

    return scripted_provider() if options.llm is None else real_provider(options.llm, options.model)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """A temporary directory, or the one to keep. Refuses one that already has a demo in it."""
    from holdfast.cli.demo.killer import DemoFailed, store_in

    if keep is None:
        with TemporaryDirectory(prefix="holdfast-demo-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    if store_in(keep).exists() or (keep / "ledger.jsonl").exists():
        raise DemoFailed(f"{keep} holds a store already", "give --keep a new directory")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoFailed(f"cannot make {keep}: {error.strerror}", "give --keep another directory") from None
    yield keep.resolve()
