"""``holdfast patches``: which runs still need the old branch of a patched program."""

from collections import Counter

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_DONE, EXIT_WAITING
from holdfast.cli.options import common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Span, Table, text
from holdfast.core.drift.drift_fold import DRIFT
from holdfast.errors import Corrupt
from holdfast.model.store_rows import OVER
from holdfast.views.value_text import count, status_word

_EVERYTHING = 1 << 40
_WORDS = {True: "new", False: "old", None: "not asked"}


@click.command()
@click.argument("name", required=False)
@common_options
def command(*, name: str | None, url: str | None, as_json: bool) -> int:
    """List the patches of runs that are not over, or who still needs the old branch of one.

    A run on the old branch needs it until it is over. One that never asked was begun, and may have passed the
    place: it may need it, too. When NAME lists none, remove the old branch and `run.patched(NAME)`. The exit
    code is 3 while there are any.

    \b
    Example:
      holdfast patches
      holdfast patches new-invoice
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    asked = _asked(store)
    if name is None:
        names = sorted({one for _, _, patches in asked for one in patches})
        counted = {one: Counter(_WORDS[patches.get(one)] for _, _, patches in asked) for one in names}
        if as_json:
            render.show_json({"store": store.url, "patches": {one: dict(counted[one]) for one in names}})
        else:
            render.show(_table(counted))
        return EXIT_DONE
    needing = [(run, status, patches.get(name)) for run, status, patches in asked if not patches.get(name)]
    if as_json:
        runs = [{"run": run, "status": status, "branch": _WORDS[new]} for run, status, new in needing]
        render.show_json({"store": store.url, "patch": name, "runs": runs})
    else:
        render.show(_needing(name, needing))
    return EXIT_WAITING if needing else EXIT_DONE


def _asked(store: Store) -> list[tuple[str, str, dict[str, bool]]]:
    """The runs that have begun and are not over, with their answers. A damaged run is left to `doctor`."""
    found = []
    for info in store.runs(limit=_EVERYTHING):
        if info.status not in OVER:
            try:
                view = store.view(info.run)
            except Corrupt:
                continue
            if view.attempts:
                found.append((info.run, info.status, DRIFT.of(view).patches))
    return found


def _table(counted: dict[str, Counter[str]]) -> list[Block]:
    if not counted:
        return [text("no run that is not over has asked for a patch")]
    rows = [
        (Span(name, "strong"), *(Span(str(told[word])) for word in _WORDS.values()))
        for name, told in counted.items()
    ]
    columns = (
        Column("PATCH"),
        Column("NEW", right=True),
        Column("OLD", right=True),
        Column("NOT ASKED", right=True),
    )
    return [Table(columns, rows)]


def _needing(name: str, needing: list[tuple[str, str, bool | None]]) -> list[Block]:
    if not needing:
        return [text(f"no run needs the old branch of {name}: it can go, and run.patched({name!r}) with it")]
    rows = [
        (
            Span(run, "strong"),
            Span(status_word(status)),
            Span("old branch" if new is False else "never asked"),
        )
        for run, status, new in needing
    ]
    told = text(f"{count(len(needing), 'run')} may need the old branch of {name}:")
    return [told, Table((Column(), Column(), Column()), rows)]
