"""``holdfast completion``: prints the script that completes command lines in a shell."""

import click

from holdfast.cli.completions import SCRIPTS
from holdfast.cli.options import common_options
from holdfast.cli.output import render


@click.command()
@click.argument("shell", type=click.Choice(tuple(SCRIPTS)))
@common_options
def command(*, shell: str, url: str | None, as_json: bool) -> None:  # noqa: ARG001 - every command takes a store
    """Print a script that completes commands, options, runs and labels in your shell.

    \b
    Example:
      holdfast completion bash
      source <(holdfast completion bash)     # in ~/.bashrc
      source <(holdfast completion zsh)      # in ~/.zshrc, behind compinit
      holdfast completion fish | source      # in ~/.config/fish/config.fish
    """  # noqa: D301 - click's own mark
    if as_json:
        render.show_json({"shell": shell, "script": SCRIPTS[shell]})
    else:
        render.show_text(SCRIPTS[shell])
