"""``holdfast rewind``: moves a run's head back."""

import click

from holdfast.api.store.change_runs import Repeats
from holdfast.api.store.settle import whoami
from holdfast.cli.commands.artifacts import restored_blocks
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import PlaceArgument, by_option, command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Span
from holdfast.cli.output.later_effects_blocks import as_fields, effect_facts, effects_option, show_cost
from holdfast.core.lineage.points import parse_place
from holdfast.model.artifacts import Restored
from holdfast.model.run_info import Rewound
from holdfast.views.json_shape import as_plain
from holdfast.views.value_text import count


@click.command()
@click.argument("place", cls=PlaceArgument, metavar="RUN@POINT")
@click.option("--dry-run", is_flag=True, help="Show what that throws away and what stays; change nothing.")
@effects_option
@click.option(
    "--messages",
    type=click.Choice(["keep", "take-back"]),
    default="keep",
    show_default=True,
    help="Messages that the run sent after the point: keep them delivered, or take back the unread ones.",
)
@click.option("--files", is_flag=True, help="Restore the run's files as of that point, in place.")
@click.option("--force", is_flag=True, help="Overwrite files that another program changed.")
@by_option
@common_options
def command(
    *,
    place: str,
    effects: Repeats,
    messages: str,
    dry_run: bool,
    files: bool,
    force: bool,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Move a run's head back to a point, and keep what came after it as a fork.

    The run continues from there when you start it again. Refused while a process holds it. Effects after the
    point are listed, and the same call is answered from their record: see --effects. Children begun after the
    point go to the fork, and so do answers to its questions. Messages that the run received after the point
    are unread again. A file that another program changed is kept and reported.

    \b
    Example:
      holdfast rewind debt-cycles@44
      holdfast rewind debt-cycles@44 --dry-run
      holdfast rewind debt-cycles@44 --files
      holdfast rewind debt-cycles@44 --effects ask
    """  # noqa: D301 - click's own mark
    if parse_place(place).is_head:
        raise RefusedError(f"{place} names no point to go back to", f"write {place}@44", code=EXIT_MISUSE)
    store = open_existing(url)
    if dry_run:
        show_cost(store, place, effects, verb="throws away", as_json=as_json)
        return
    told: list[Restored] = []
    rewound = store.rewind(
        place,
        effects=effects,
        messages="keep" if messages == "keep" else "take_back",
        files=files,
        force=force,
        tell=told.append,
        by=by or whoami(),
    )
    if as_json:
        page = {
            "store": store.url,
            **rewound._asdict(),
            "letters": rewound.letters._asdict(),
            **as_fields(rewound.behind, effects, rewound.later_children),
        }
        render.show_json({**page, "files": as_plain(told)} if files else page)
        return
    facts = [
        ("rewound", [Span(rewound.run, "strong"), Span(f" to {place.partition('@')[2]}")]),
        ("kept", [Span(rewound.kept, "strong"), Span(" holds what came after it")]),
    ]
    facts += effect_facts(rewound.behind, effects, rewound.later_children)
    facts += _letter_facts(rewound)
    blocks: list[Block] = [*restored_blocks(told), Gap()] if told else []
    tree = command_builder(url).holdfast("show", rewound.run, "--tree")
    render.show([*blocks, Facts(facts), Gap(), Commands([(tree, "the branches")])])


def _letter_facts(rewound: Rewound) -> list[tuple[str, list[Span]]]:
    """What became of the letters: one line each for those kept, unread again and taken back."""
    kept, again, back = len(rewound.letters.kept), len(rewound.letters.again), len(rewound.taken_back)
    lines = [
        ("answers", kept, "letter", f"to questions and steps after it: {rewound.kept} has them"),
        ("unread", again, "message", "received after that point: in the inbox again"),
        ("taken back", back, "message", f"sent after that point: {', '.join(sorted({*rewound.taken_back}))}"),
    ]
    return [(name, [Span(f"{count(n, what)} {text}", "dim")]) for name, n, what, text in lines if n]
