"""``holdfast keys``: makes a master key, and gives an encrypted store another one."""

import os
from base64 import b64encode

import click

from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, RefusedError
from holdfast.cli.options import common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import text
from holdfast.stores.encryption_mark import read_key

ACTIONS = ("new", "rotate")
_KEY_BYTES = 32


@click.command()
@click.argument("action", type=click.Choice(ACTIONS))
@click.option("--new-env", metavar="NAME", help="Rotate: the variable with the new key.")
@click.option("--new-file", metavar="FILE", help="Rotate: the file with the new key.")
@click.option("--new-command", metavar="LINE", help="Rotate: the command that prints the new key.")
@click.option("--keep-old", is_flag=True, help="Rotate: the old key opens the store as well, for now.")
@common_options
def command(
    *,
    action: str,
    new_env: str | None,
    new_file: str | None,
    new_command: str | None,
    keep_old: bool,
    url: str | None,
    as_json: bool,
) -> int:
    """Make a master key, or give an encrypted store another one.

    \b
    new       print a new key: 32 random bytes in base64. It is stored nowhere
    rotate    wrap the keys of the store by the new key; HOLDFAST_KEY (or
              _FILE, _COMMAND) is the old one. One write: killed, run it again

    With --keep-old both keys open the store, so that processes can be restarted one by one; the same line
    without it, with the new key set, ends that.

    \b
    Example:
      holdfast keys new
      holdfast keys rotate --new-file /run/secrets/holdfast-2027 --keep-old
    """  # noqa: D301 - click's own mark
    if action == "new":
        made = b64encode(os.urandom(_KEY_BYTES)).decode()
        if as_json:
            render.show_json({"key": made})
        else:
            click.echo(made)
        return EXIT_DONE
    given = [
        (name, told)
        for name, told in (
            ("HOLDFAST_KEY", os.environ.get(new_env, "") if new_env else None),
            ("HOLDFAST_KEY_FILE", new_file),
            ("HOLDFAST_KEY_COMMAND", new_command),
        )
        if told is not None
    ]
    if len(given) != 1:
        raise RefusedError(
            "`holdfast keys rotate` needs the new key, once",
            "name it by --new-env, --new-file or --new-command",
            code=EXIT_MISUSE,
        )
    store = open_existing(url)
    keys = store.rotate_key(read_key(*given[0]), keep_old=keep_old)
    if as_json:
        render.show_json({"store": store.url, "keys": keys, "kept_old": keep_old})
    else:
        both = "the old key opens it as well" if keep_old else "the old key no longer opens it"
        render.show([text(f"{store.url} has a new key; {both}")])
    return EXIT_DONE
