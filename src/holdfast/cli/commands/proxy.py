"""``holdfast proxy``: journals the model calls of an agent in another program, or in another language."""

import asyncio
from shutil import which
from typing import Any, Final

import click

from holdfast.cli.errors import RefusedError
from holdfast.cli.options import common_options
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Facts, Gap, Lines, Span
from holdfast.cli.watch.signals import reaches_all
from holdfast.errors import CommandFailed, HoldfastError
from holdfast.views.value_text import count

_LIMITS: Final = ("cost", "tokens", "calls", "wall_s")


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--run", "run_id", metavar="ID", required=True, help="The run that records the calls.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    metavar="N",
    help="The port on 127.0.0.1; 0 for any free one.",
)
@click.option(
    "--to",
    metavar="URL",
    help="Where requests are sent. Default: the address in the provider's own variable, else the provider.",
)
@click.option(
    "--passthrough",
    metavar="PATH",
    multiple=True,
    help="Let requests to this path pass without a record, like images or audio/speech. Repeatable.",
)
@click.option(
    "--budget",
    metavar="NAME=N",
    multiple=True,
    help="What the run may spend: cost (US dollars), tokens, calls or wall_s. Repeatable.",
)
@click.argument("command_line", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
@common_options
def command(
    *,
    run_id: str,
    port: int,
    to: str | None,
    passthrough: tuple[str, ...],
    budget: tuple[str, ...],
    command_line: tuple[str, ...],
    url: str | None,
    as_json: bool,
) -> int:
    """Record the model calls of any program, and answer recorded ones from the journal.

    Start your agent as COMMAND: it gets the variables that lead OpenAI's, Anthropic's, Gemini's and Ollama's
    clients to the proxy. Exit code 0 finishes the run. After a crash, `holdfast resume ID` starts both again:
    the agent repeats its requests, and gets the recorded answers. Without COMMAND, the proxy prints the
    variables and serves until Ctrl-C; start it again whenever you start the agent again. Keys pass through
    and are never stored. The proxy reports on stderr; stdout belongs to the command.

    \b
    Example:
      holdfast proxy --run review -- node agent.js
      holdfast proxy --run review --budget cost=5 -- ./agent --task review
      holdfast proxy --run review --port 8787
    """  # noqa: D301 - click's own mark
    from holdfast.api.enter import run
    from holdfast.proxy.providers import check_address
    from holdfast.proxy.server import Options, exit_code, serve

    if command_line and which(command_line[0]) is None:
        raise click.UsageError(f"there is no command {command_line[0]!r}")
    tell = _print_json if as_json else _print if command_line else _print_while_served
    options = Options(port, check_address(to) if to else None, passthrough, command_line, tell)
    opening = run(run_id, store=url, budget=_budget(budget))
    try:
        return asyncio.run(serve(opening, options, reaches_all))
    except CommandFailed as failed:
        raise RefusedError(str(failed), failed.hint, code=exit_code(failed.code)) from None
    except HoldfastError:  # some are an OSError, too
        raise
    except OSError as refused:
        what = f"start {refused.filename}" if refused.filename else f"listen on port {port}"
        hint = "" if refused.filename else "choose another with --port, or 0 for any"
        raise RefusedError(f"cannot {what}: {refused.strerror or refused}", hint) from None


def _budget(given: tuple[str, ...]) -> dict[str, float] | None:
    limits = {}
    for one in given:
        name, _, value = one.partition("=")
        if name not in _LIMITS or not value.replace(".", "", 1).isdecimal():
            raise click.UsageError(f"--budget {one} is no limit; give {'=N, '.join(_LIMITS)}=N")
        limits[name] = float(value) if "." in value else int(value)
    return limits or None


def _print_json(event: str, **fields: Any) -> None:
    render.report_json_line({"event": event, **fields})


def _print_while_served(event: str, **fields: Any) -> None:
    """Print all that happens: the terminal belongs to the proxy."""
    _print(event, **fields)
    if event == "listening":
        lines = [[Span(f"export {name}={value}")] for name, value in fields["variables"].items()]
        render.report([Gap(), Lines(lines), Gap()])
    elif event == "called":
        _line(f"{fields['number']:>3}  {fields['name']}", "  from the journal" if fields["replayed"] else "")
    elif event == "ended":
        _line("", "the same command continues the run")


def _print(event: str, **fields: Any) -> None:
    """Print the beginning and the end: the terminal belongs to the command."""
    match event:
        case "listening":
            over = fields["status"] == "finished"
            about = " is finished: nothing new is recorded" if over else f", attempt {fields['attempt']}"
            run = [Span(fields["run"], "strong"), Span(about)]
            render.report([Facts([("listening", [Span(fields["url"], "strong")]), ("run", run)])])
        case "waiting":
            calls = count(fields["calls"], "call")
            _line(f"waiting for {calls}, which will be recorded; Ctrl-C again ends at once")
        case "repeated":
            _line(
                "the agent asks its first question again, and that is a new call. "
                "If you started the agent again, start the proxy again too: then the journal answers"
            )
        case "ended":
            calls = count(fields["calls"], "model call")
            _line(f"{fields['run']}: {calls}, {fields['replayed']} from the journal")


def _line(text: str, note: str = "") -> None:
    render.report([Lines([[Span(text), Span(note, "dim")]])])
