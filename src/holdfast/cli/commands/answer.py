"""``holdfast answer``: answer what a run has asked, or see what it asks."""

import sys
from typing import Any

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_DONE, EXIT_WAITING
from holdfast.cli.options import desk_before, open_existing, surface, whole_run
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Span, text
from holdfast.cli.output.show_blocks import question_blocks
from holdfast.core.people.questions import UnfitError, offered, read_typed
from holdfast.errors import BadAnswer
from holdfast.model.run_info import OpenQuestion
from holdfast.model.store_rows import OVER
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import Desk, answer_choices, is_workers, resume_choices
from holdfast.views.questions import question_line, unanswered
from holdfast.views.value_text import readable, status_word


@click.command(short_help="Answer what a run has asked, or see what it asks.")
@click.argument("run")
@click.argument("words", metavar="[ID] [VALUE]", nargs=-1)
@click.option("--by", metavar="NAME", help="Who answers; by default, you.")
@click.option(
    "--reason", metavar="TEXT", default="", help="Why; recorded, and told to a model that is denied."
)
@surface
def command(
    *, run: str, words: tuple[str, ...], by: str | None, reason: str, url: str | None, as_json: bool
) -> int:
    """Answer what a run has asked. Without a value, list what it asks: exit code 3 if anything waits for you.

    ID is the question's, like q2; it may be left out while the run asks one thing. VALUE is yes or no, a choice, a
    number, text or JSON, whatever was asked for; - reads it from stdin. The answer is durable at once; a run that
    waits goes on by itself, any other when it is started again.

    \b
    Example:
      holdfast answer debt-cycles
      holdfast answer debt-cycles yes
      holdfast answer debt-cycles q2 no --reason "too expensive"
    """  # noqa: D301 - click's own mark
    run = whole_run(run, "answer")
    store = open_existing(url)
    open_questions = store.questions(run)
    id_, value = _parse(words, {asked.id for asked in open_questions})
    if value is None:
        chosen = open_questions if id_ is None else [store.find_question(run, id_)]
        return _list(store, desk_before(store, run, url), run, chosen, as_json=as_json)
    asked = store.find_question(run, id_)
    typed = _read(asked, sys.stdin.read() if value == "-" else value)
    # Before it is answered: a process that waits for this may be gone, its run finished, when the command looks again.
    is_held = store.get(run).holder == "alive"
    answered = store.answer(run, typed, asked.id, by=by, reason=reason)
    _tell(store, desk_before(store, run, url), answered, is_held=is_held, as_json=as_json)
    return EXIT_DONE


def _parse(words: tuple[str, ...], ids: set[str]) -> tuple[str | None, str | None]:
    """The question and the value; one word alone is a question if the run asks one of that id."""
    if len(words) > 2:
        raise click.UsageError("a value of several words needs quotes")
    if len(words) == 2:
        return words[0], words[1]
    if len(words) == 1:
        return (words[0], None) if words[0] in ids else (None, words[0])
    return None, None


def _read(asked: OpenQuestion, value: str) -> Any:
    try:
        return read_typed(asked.wants, value)
    except UnfitError as unfit:
        raise BadAnswer(
            run=asked.run, question=asked.id, problem=str(unfit), offered=offered(asked.wants), advice=""
        ) from None


# -- what is told -----------------------------------------------------------------------------------------------


def _list(store: Store, at: Desk, run: str, questions: list[OpenQuestion], *, as_json: bool) -> int:
    store.get(run)
    lines = [question_line(asked) for asked in questions]
    waiting = unanswered(questions)
    if as_json:
        render.show_json({"run": run, "questions": as_plain(lines)})
    elif not lines:
        render.show([text(f"run {run} asks nothing")])
    else:
        choices = answer_choices(questions, at) or resume_choices(
            store.view(run), at, meaning="the run takes it in"
        )
        more: list[Block] = [Gap(), Commands(choices)] if choices else []
        render.show([*question_blocks(lines), *more])
    return EXIT_WAITING if waiting else EXIT_DONE


def _tell(store: Store, at: Desk, answered: OpenQuestion, *, is_held: bool, as_json: bool) -> None:
    view, status = store.view(answered.run), store.get(answered.run).status
    if is_held:
        following = "the process that holds the run takes it in"
    elif status in OVER:  # by another process, which came in between
        following = f"nothing: the run is {status_word(status)} by now"
    elif is_workers(view):
        following = "any worker of its agent takes it in and goes on"
    else:
        following = "start its program again: it takes this in and goes on"
    choices = resume_choices(view, at) if following.startswith("start") else ()
    line = question_line(answered)
    if as_json:
        render.show_json({"run": answered.run, **as_plain(line), "next": as_plain(choices)})
        return
    shown = (
        {True: "yes", False: "no"}[line.answer] if isinstance(line.answer, bool) else readable(line.answer)
    )
    facts = [
        ("answered", [Span(f"{line.id} ", "strong"), Span(line.question)]),
        ("answer", [Span(shown, "good"), Span(f", by {line.answered_by}", "dim")]),
        ("next", [Span(following)]),
    ]
    render.show([Facts(facts), Commands(choices)] if choices else [Facts(facts)])
