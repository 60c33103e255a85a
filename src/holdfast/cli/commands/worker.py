"""``holdfast worker``: runs queued, orphaned and answered runs until you stop it."""

import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, EXIT_REFUSED, RefusedError
from holdfast.cli.options import common_options
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Lines, Mood, Span
from holdfast.clock import SystemClock
from holdfast.limits import WORKER_CRASHES_MAX, WORKER_DRAIN_S, WORKER_RUNS
from holdfast.views.json_shape import iso
from holdfast.views.value_text import clock_time, count, span

if TYPE_CHECKING:
    from holdfast.api.worker import Report, Worker

_MOODS: Final[dict[str, Mood]] = {
    "started": "busy",
    "took": "busy",
    "finished": "good",
    "failed": "bad",
    "in_doubt": "doubt",
    "diverged": "bad",
    "parked": "doubt",
    "cancelled": "plain",
    "refused": "bad",
    "lost": "bad",
    "store": "bad",
    "left": "bad",
}
_LOOK_S: Final = 0.2


@click.command()
@click.argument("modules", metavar="MODULE...", nargs=-1, required=True)
@click.option(
    "--agent",
    "names",
    metavar="NAME",
    multiple=True,
    help="Only this agent. Repeatable. Default: all agents of the modules.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1, max=1000),
    default=WORKER_RUNS,
    show_default=True,
    metavar="N",
    help="The maximum of runs at a time.",
)
@click.option(
    "--drain-s",
    type=click.FloatRange(min=0),
    default=WORKER_DRAIN_S,
    show_default=True,
    metavar="S",
    help="When it stops, how long steps in flight may take to end.",
)
@click.option(
    "--crashes",
    type=click.IntRange(min=1),
    default=WORKER_CRASHES_MAX,
    show_default=True,
    metavar="N",
    help="Park a run after this many attempts in a row that crashed without progress.",
)
@click.option("--until-idle", is_flag=True, help="Stop when nothing runs and nothing is due.")
@common_options
def command(
    *,
    modules: tuple[str, ...],
    names: tuple[str, ...],
    concurrency: int,
    drain_s: float,
    crashes: int,
    until_idle: bool,
    url: str | None,
    as_json: bool,
) -> int:
    """Import modules and run the due runs of their agents.

    A run is due when it is queued, its worker died, its question was answered, or its wait is over. Start as
    many workers as you like, on every machine that shares the store. SIGTERM and Ctrl-C drain it: no new run
    starts, each run stops at its next call, and another worker continues it. A second signal ends it at once.
    The worker reports on stderr; stdout belongs to the agents.

    \b
    Example:
      holdfast worker my_agents --store postgresql://me@db/agents
      holdfast worker agents.py --concurrency 16 --drain-s 60
    """  # noqa: D301 - click's own mark
    from holdfast.api.worker import worker

    for module in modules:
        _load(module)
    made = worker(
        *names,
        store=url,
        concurrency=concurrency,
        drain_s=drain_s,
        crashes_max=crashes,
        tell=_json if as_json else _line,
    )
    return _serve(made, until_idle=until_idle)


def _serve(worker: "Worker", *, until_idle: bool) -> int:
    signals: list[int] = []

    def on_signal(signum: int, _: Any) -> None:
        signals.append(signum)
        if len(signals) > 1:
            raise SystemExit(128 + signum)

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, on_signal)
    worker.start()
    # Poll: Python handles a signal in the main thread only, and only between two waits.
    while not signals and not (until_idle and worker.is_idle):
        worker.wait_idle(_LOOK_S) if until_idle else SystemClock.sleep(_LOOK_S)
    return EXIT_DONE if worker.stop() else EXIT_REFUSED


def _load(module: str) -> None:
    """Import a module by its name or its file. Its directory goes on the path, as ``python FILE`` does it."""
    path = Path(module)
    if path.suffix == ".py":
        if not path.is_file():
            raise RefusedError(
                f"there is no file {module}", "name a module, or the path of its file", code=EXIT_MISUSE
            )
        sys.path.insert(0, str(path.resolve().parent))
        module = path.stem
    else:
        sys.path.insert(0, str(Path.cwd()))
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module and not module.startswith(f"{error.name}."):
            raise
        raise RefusedError(
            f"there is no module {module!r}",
            "start it where the module can be imported, or name its file",
            code=EXIT_MISUSE,
        ) from None


def _line(report: "Report") -> None:
    at = SystemClock().wall()
    time = clock_time(at) if render.is_stderr_terminal() else iso(at)
    spans = [Span(f"{time} ", "dim"), Span(_report_text(report), _MOODS.get(report.what, "plain"))]
    if report.run:
        spans += [Span(f" {report.run}", "strong"), Span(f" ({report.agent})", "dim")]
    if report.took_s:
        spans.append(Span(f" after {span(report.took_s)}", "dim"))
    if report.text and report.what not in {"started", "took", "draining", "left"}:
        spans.append(Span(f": {' '.join(report.text.split())}"))
    render.report([Lines([spans])])


def _report_text(report: "Report") -> str:
    match report.what:
        case "started":
            return f"serving {report.agent} from {report.text}"
        case "took":
            return {"queued": "starting", "running": "taking over", "parked": "waking"}.get(
                report.text, "resuming"
            )
        case "draining":
            runs = len(report.text.split(", ")) if report.text else 0
            return f"draining: {count(runs, 'run')} active" if runs else "draining: no run is active"
        case "left":
            return f"leaving in the middle of a step: {report.text}; another worker takes over"
        case "store":
            return "the store cannot be read"
        case "in_doubt":
            return "in doubt"
    return report.what


def _json(report: "Report") -> None:
    render.report_json_line(
        {
            "at": iso(SystemClock().wall()),
            "event": report.what,
            **{k: v for k, v in report._asdict().items() if k != "what"},
        }
    )
