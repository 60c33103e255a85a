"""``holdfast hooks``: lists, adds, removes, tries and delivers a store's hooks."""

import shlex

import click

from holdfast.api.store.store import Store
from holdfast.api.store.store import store as open_store
from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, EXIT_REFUSED, RefusedError
from holdfast.cli.options import common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Column, Facts, Lines, Mood, Span, Table, text
from holdfast.clock import SystemClock
from holdfast.errors import StoreError
from holdfast.limits import HOOK_POLL_S, HOOK_TIMEOUT_S
from holdfast.model.hooks import OCCASIONS, Delivery, DeliveryCounts, Hook
from holdfast.views.hooks import hook_line, state_words
from holdfast.views.json_shape import as_plain
from holdfast.views.value_text import count, moment

ACTIONS = ("list", "add", "remove", "test", "log", "deliver")
_MOODS: dict[str, Mood] = {"delivered": "good", "given_up": "bad", "waiting": "doubt", "sending": "busy"}
_COLUMNS = (
    Column("ID"),
    Column("KIND", drops=2),
    Column("TARGET", grows=True),
    Column("ON", drops=1),
    Column("SECRET", drops=3),
)
_LOG = (
    Column("WHEN", drops=2),
    Column("HOOK"),
    Column("RUN"),
    Column("WHAT"),
    Column("STATE", grows=True),
)


@click.command()
@click.argument("action", type=click.Choice(ACTIONS), default="list")
@click.argument("target", required=False)
@click.option(
    "--on", "occasions", metavar="LIST", help=f"Add: only on these, by comma: {', '.join(OCCASIONS)}."
)
@click.option("--command", "command_line", metavar="LINE", help="Add: start this command, without a shell.")
@click.option("--url-env", metavar="NAME", help="Add: the variable with the URL, if the URL is a secret.")
@click.option("--secret-env", metavar="NAME", help="Add: sign requests with the secret in this variable.")
@click.option("--secret-file", metavar="FILE", help="Add: sign requests with the secret in this file.")
@click.option(
    "--timeout-s",
    type=click.FloatRange(min=0.1, max=600),
    default=HOOK_TIMEOUT_S,
    show_default=True,
    metavar="S",
    help="Add: how long one try may take.",
)
@click.option("--children", is_flag=True, help="Add: also when a child run finishes or fails.")
@click.option("--follow", is_flag=True, help="Deliver: go on until Ctrl-C.")
@common_options
def command(
    *,
    action: str,
    target: str | None,
    occasions: str | None,
    command_line: str | None,
    url_env: str | None,
    secret_env: str | None,
    secret_file: str | None,
    timeout_s: float,
    children: bool,
    follow: bool,
    url: str | None,
    as_json: bool,
) -> int:
    """Notify people when a run needs them, finishes, fails or is in doubt.

    \b
    list             the hooks of the store
    add URL          a webhook; or --command LINE, or --url-env NAME
    remove ID        a hook, and what it has not delivered yet
    test ID          send a test notice now
    log [RUN]        what was delivered, what waits and what was given up
    deliver          find and deliver what waits, also for killed processes

    \b
    Example:
      holdfast hooks add https://example.org/runs --secret-env HOOK_SECRET
      holdfast hooks add --command "python tell.py" --on needs-person,failed
      holdfast hooks test h1
      holdfast hooks deliver --follow
    """  # noqa: D301 - click's own mark
    if action == "add":
        on = OCCASIONS if occasions is None else tuple(filter(None, map(str.strip, occasions.split(","))))
        words = _words(target, command_line, url_env)
        made = open_store(url).hooks.add(
            words,
            on=on,
            secret_env=secret_env or "",
            secret_file=secret_file or "",
            url_env=url_env or "",
            timeout_s=timeout_s,
            children=children,
        )
        return _changed(open_store(url), made, "added", as_json=as_json)
    store = open_existing(url)
    if action in {"remove", "test"} and target is None:
        raise RefusedError(
            f"`holdfast hooks {action}` needs the id of a hook",
            "`holdfast hooks` lists them",
            code=EXIT_MISUSE,
        )
    if action == "remove":
        return _changed(store, store.hooks.remove(target or ""), "removed", as_json=as_json)
    if action == "test":
        return _test(store, target or "", as_json=as_json)
    if action == "log":
        return _log(store, target, as_json=as_json)
    if action == "deliver":
        return _deliver(store, follows=follow, as_json=as_json)
    return _list(store, as_json=as_json)


def _words(target: str | None, command_line: str | None, url_env: str | None) -> "str | list[str]":
    """What to add: a URL, the words of a command, or nothing beside a variable."""
    if sum(one is not None for one in (target, command_line, url_env)) != 1:
        raise RefusedError(
            "a hook is one of a URL, --command and --url-env",
            "holdfast hooks add https://example.org/runs",
            code=EXIT_MISUSE,
        )
    if command_line is None:
        return target or ""
    try:
        return shlex.split(command_line)
    except ValueError as error:
        raise RefusedError(
            f"--command cannot be split into words: {error}", "close every quote", code=EXIT_MISUSE
        ) from None


def _list(store: Store, *, as_json: bool) -> int:
    lines = [hook_line(hook, store.hooks.label(hook)) for hook in store.hooks.list()]
    if as_json:
        render.show_json({"hooks": as_plain(lines)})
    elif not lines:
        render.show([text("no hooks; `holdfast hooks add URL` adds one")])
    else:
        rows = [
            (
                Span(line.id, "strong"),
                Span(line.kind, "dim"),
                Span(line.target),
                Span(", ".join(line.on)),
                Span(line.secret or "not signed", "dim"),
            )
            for line in lines
        ]
        render.show([Table(_COLUMNS, rows)])
    return EXIT_DONE


def _changed(store: Store, hook: Hook, verb: str, *, as_json: bool) -> int:
    line = hook_line(hook, store.hooks.label(hook))
    if as_json:
        render.show_json({"hook": as_plain(line)})
        return EXIT_DONE
    render.show(
        [
            Facts(
                [
                    ("hook", [Span(line.id, "strong"), Span(f" {verb}")]),
                    ("to", [Span(line.target)]),
                    ("on", [Span(", ".join(line.on))]),
                ]
            )
        ]
    )
    if verb == "added" and line.kind == "webhook" and not line.secret:
        render.show([text("its requests are not signed: --secret-env NAME signs them")])
    return EXIT_DONE


def _test(store: Store, id_: str, *, as_json: bool) -> int:
    sent = store.hooks.test(id_)
    if as_json:
        render.show_json({"is_delivered": sent.good, "status_code": sent.code, "error": sent.error})
    elif sent.good:
        render.show([Lines([[Span("delivered", "good"), Span(f" a test to {id_}")]])])
    else:
        render.show([Lines([[Span("not delivered", "bad"), Span(f": {sent.error}")]])])
    return EXIT_DONE if sent.good else EXIT_REFUSED


def _log(store: Store, run: str | None, *, as_json: bool) -> int:
    found = store.hooks.log(run)
    if as_json:
        render.show_json({"deliveries": as_plain(found)})
    elif found:
        render.show([Table(_LOG, [_row(one) for one in found])])
    else:
        render.show([text("nothing was delivered, and nothing waits")])
    return EXIT_DONE


def _row(one: Delivery) -> tuple[Span, ...]:
    return (
        Span(moment(one.at), "dim"),
        Span(one.hook, "strong"),
        Span(one.run),
        Span(one.what),
        Span(state_words(one), _MOODS.get(one.state, "plain")),
    )


def _deliver(store: Store, *, follows: bool, as_json: bool) -> int:
    while True:
        try:
            counts = store.deliver_hooks()
        except StoreError as error:
            if not follows:
                raise
            render.report([text(f"the store cannot be read: {error}")])
            counts = DeliveryCounts()
        if not follows or any(counts[:4]):
            _show_counts(counts, as_json=as_json)
        if not follows:
            return EXIT_DONE
        render.flush()
        SystemClock.sleep(HOOK_POLL_S)


def _show_counts(counts: DeliveryCounts, *, as_json: bool) -> None:
    if as_json:
        render.show_json_line(as_plain(counts))
        return
    parts = [f"{count(counts.delivered, 'notice')} delivered"]
    parts += [f"{counts.failed} failed and tried again later"] if counts.failed else []
    parts += [f"{counts.given_up} given up"] if counts.given_up else []
    parts += [f"{counts.waiting} waiting"] if counts.waiting else []
    render.show([text(", ".join(parts))])
