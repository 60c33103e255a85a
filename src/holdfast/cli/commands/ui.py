"""``holdfast ui``: the inspector in a browser."""

import webbrowser
from contextlib import nullcontext
from typing import Final

import click

from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Lines, Span

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    metavar="N",
    help="The port; 0 for any free one.",
)
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
@click.option("--read-only", is_flag=True, help="Show everything, and allow no acts.")
@click.option("--as", "person", metavar="NAME", default=None, help="Your name in the record of what you do.")
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. Another address than loopback needs --token, and TLS or --behind-proxy.",
)
@click.option(
    "--token",
    metavar="TEXT",
    default=None,
    envvar="HOLDFAST_UI_TOKEN",
    help="A token of your own, of at least 16 characters.",
)
@click.option(
    "--tls-cert", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="A certificate."
)
@click.option("--tls-key", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="Its key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy of yours ends TLS and checks the Host.")
@common_options
def command(
    *,
    port: int,
    no_open: bool,
    read_only: bool,
    person: str | None,
    host: str,
    token: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    behind_proxy: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Look at runs in a browser: what each did, where it died, what it kept, and what waits for you.

    The page is served on loopback by this process, from this store, until Ctrl-C. Nothing is loaded from
    elsewhere, and there is no account: the first line that is printed is the address with its token.

    \b
    Example:
      holdfast ui
      holdfast ui --read-only --port 8080 --no-open
    """  # noqa: D301 - click's own mark
    _check(host, token, tls_cert, tls_key, behind_proxy=behind_proxy)
    try:
        from holdfast.ui.access import new_token
        from holdfast.ui.server import Options, listen, serve, url_of
    except ImportError as error:
        raise RefusedError(
            f"the inspector needs {error.name}, which is not installed", "pip install 'holdfast[ui]'"
        ) from None
    from holdfast.api.store.settle import whoami
    from holdfast.api.store.store import hook_patrol

    store = open_existing(url)
    options = Options(
        host, port, token or new_token(), read_only, person or whoami(), tls_cert, tls_key, behind_proxy, url
    )
    try:
        listening = listen(options)
    except OSError as refused:
        raise RefusedError(
            f"cannot listen on {host}:{port}: {refused.strerror or refused}",
            "choose another with --port, or 0 for any",
        ) from None
    with listening:
        address = f"{url_of(options, listening.getsockname()[1])}?token={options.token}"
        if as_json:
            render.show_json_line({"url": address, "store": store.url, "read_only": read_only})
        else:
            render.show_text(f"{address}\n")
            about = f"{store.url}; Ctrl-C ends it" + ("; read-only" if read_only else "")
            render.report([Lines([[Span(about, "dim")]])])
        render.flush()  # who started it waits for this line
        if not no_open:
            webbrowser.open(address)
        # A page that shows what needs a person also tells the store's hooks of it. A look changes nothing.
        with nullcontext() if read_only else hook_patrol(url):
            serve(store, options, listening)


def _check(host: str, token: str | None, cert: str | None, key: str | None, *, behind_proxy: bool) -> None:
    if (cert is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if token is not None and len(token) < 16:
        raise click.UsageError("a token has at least 16 characters: it is all that keeps others out")
    if host in _LOOPBACK:
        return
    if token is None or (cert is None and not behind_proxy):
        raise RefusedError(
            f"{host} can be reached from other machines, and the page shows everything that your agents did",
            "give --token, and --tls-cert with --tls-key or --behind-proxy; or listen on 127.0.0.1",
            code=EXIT_MISUSE,
        )
