"""``holdfast rewind``: move a run's head back."""

import click

from holdfast.cli import render
from holdfast.cli.blocks import Commands, Facts, Gap, Span
from holdfast.cli.options import desk, open_existing, surface
from holdfast.cli.refusals import EXIT_MISUSE, RefusedError
from holdfast.core.points import parse_place
from holdfast.views.words import count


@click.command(short_help="Move a run's head back to a point.")
@click.argument("place", metavar="RUN@POINT")
@surface
def command(*, place: str, url: str | None, as_json: bool) -> None:
    """Move a run's head back to a point, and keep what lay after it as a fork.

    The run goes on from there when it is started again. Refused while somebody holds it.

    \b
    Example:
      holdfast rewind debt-cycles@44
    """  # noqa: D301 - click's own mark
    if parse_place(place).is_head:
        raise RefusedError(f"{place} names no point to go back to", f"write {place}@44", code=EXIT_MISUSE)
    store = open_existing(url)
    later = store.later_effects(place)
    rewound = store.rewind(place)
    if as_json:
        render.show_json({"store": store.url, **rewound._asdict(), "repeatable": later})
        return
    facts = [
        ("rewound", [Span(rewound.run, "strong"), Span(f" to {place.partition('@')[2]}")]),
        ("kept", [Span(rewound.kept, "strong"), Span(" holds what lay after it")]),
    ]
    if later:
        names = ", ".join(dict.fromkeys(later))
        facts.append(
            (
                "careful",
                [Span(f"{count(len(later), 'effect')} after that point may happen again: {names}", "doubt")],
            )
        )
    render.show(
        [Facts(facts), Gap(), Commands([(desk(url).holdfast("show", rewound.run, "--tree"), "the branches")])]
    )
