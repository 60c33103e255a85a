"""The reference of commands: a page for each, cut from docs/commands.md, with the usage and the options that the code has."""

import re
from typing import Final

import click

from holdfast.cli.app import GROUPS, app

_SECTION: Final = re.compile(r"^## `holdfast ([\w-]+)`\n", re.MULTILINE)


def usage(name: str) -> str:
    """The help of a command, as it prints it, 100 characters wide."""
    command = app.get_command(click.Context(app), name)
    assert command is not None, name
    context = click.Context(command, info_name=f"holdfast {name}", max_content_width=100, terminal_width=100)
    return command.get_help(context)


def sections(page: str) -> tuple[str, dict[str, str]]:
    """What is before the commands, and the text of each command."""
    before, *cut = _SECTION.split(page)
    return before, dict(zip(cut[::2], cut[1::2], strict=True))


def command_pages(page: str) -> tuple[str, dict[str, str]]:
    """The page that leads to all, and the page of each command. Each link of the page is still relative to docs/."""
    before, texts = sections(page)
    made = {}
    for name, text in texts.items():
        body = re.sub(r"^###", "##", text, flags=re.MULTILINE)
        made[name] = f"# holdfast {name}\n\n{body.strip()}\n\n## Usage\n\n```text\n{usage(name)}\n```\n"
    rows = []
    for group, commands in GROUPS.items():
        rows += [f"**{group}**", "", "| command | |", "|---|---|"]
        rows += [
            f"| [`holdfast {one}`](commands.md#holdfast-{one}) | {about} |" for one, about in commands.items()
        ]
        rows += [""]
    return before.rstrip() + "\n\n## All commands\n\n" + "\n".join(rows), made
