"""The options that every command has, and how it finds the store. Reading never creates a store."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.api.store.store import Store, find_store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.suggestions import label_names, run_names
from holdfast.core.lineage.points import parse_place
from holdfast.stores.url import place_of, url_of, without_password
from holdfast.views.next_commands import CommandBuilder

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

store_option = click.option(
    "--store",
    "url",
    metavar="URL",
    default=None,
    help="Where the runs are kept: a path, sqlite:///path, postgresql://user@host/database or "
    "dynamodb://table. Default: HOLDFAST_URL, else the nearest .holdfast.",
)
by_option = click.option("--by", metavar="NAME", help="Who asks for it, for the record. Default: you.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON with stable fields.")


class PlaceArgument(click.Argument):
    """A run, or a place in one, which the shell completes from the store."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The runs that begin with what was typed, newest first; behind an ``@``, the run's labels."""
        from click.shell_completion import CompletionItem

        store = find_store(ctx.params.get("url"))
        if store is None:
            return []
        run, sign, _ = incomplete.partition("@")
        names = [f"{run}@{label}" for label in label_names(store, run)] if sign else run_names(store)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def common_options(function: F) -> F:
    """Add the options that every command has."""
    return store_option(json_option(function))


def open_existing(url: str | None, *, may_be_plain: bool = False) -> Store:
    """Open a store that must exist; with ``may_be_plain`` also a plain one, although a key is set."""
    store = find_store(url, may_be_plain=may_be_plain)
    if store is None:
        raise RefusedError(
            f"there is no store {where(url)}", 'a run creates one: with holdfast.run("my-run") as run: …'
        )
    return store


def where(url: str | None) -> str:
    """The place that was searched, in words."""
    named = url or os.environ.get("HOLDFAST_URL")
    return f"at {without_password(named)}" if named else f"in {Path.cwd()} or above it"


def child_url(url: str | None) -> str:
    """The store's URL for a program that starts in another directory.

    Absolute, with reserved characters quoted.
    """
    return url_of(place_of(url))


def run_only(text: str, name: str) -> str:
    """The run that was typed, for a command that takes no point."""
    place = parse_place(text)
    if not place.is_head:
        message = f"`holdfast {name}` takes a run, and {text} is a point of one"
        raise RefusedError(
            message, f"use {place.run}; `holdfast show {text}` shows that point", code=EXIT_MISUSE
        )
    return place.run


def command_builder(url: str | None) -> CommandBuilder:
    """The context of this command line, from which the next commands are built."""
    return CommandBuilder(str(Path.cwd()), without_password(url or ""))


def command_builder_for(store: Store, run: str, url: str | None) -> CommandBuilder:
    """The same for a run whose command may be foreign."""
    command, builder = store.command(run), command_builder(url)
    if command is None:
        return builder
    return builder._replace(
        untrusted=run if command.needs_trust else "", of_lineage=run if command.is_of_lineage else ""
    )
