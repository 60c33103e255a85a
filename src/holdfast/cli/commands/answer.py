"""``holdfast answer``: answers a run's question, or lists its questions."""

import sys
from typing import Any

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_DONE, EXIT_WAITING
from holdfast.cli.options import (
    PlaceArgument,
    command_builder,
    command_builder_for,
    common_options,
    open_existing,
    run_only,
)
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Heading, Span, text
from holdfast.cli.output.show_blocks import question_blocks
from holdfast.core.people.questions import UnfitError, offered, read_typed
from holdfast.errors import BadAnswer
from holdfast.model.run_info import OpenQuestion
from holdfast.model.store_rows import OVER
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder, answer_choices, is_workers, resume_choices
from holdfast.views.questions import question_line, unanswered
from holdfast.views.value_text import readable, status_word


@click.command()
@click.argument("run", cls=PlaceArgument, required=False)
@click.argument("words", metavar="[ID] [VALUE]", nargs=-1)
@click.option("--by", metavar="NAME", help="Who answers. Default: you.")
@click.option(
    "--reason",
    metavar="TEXT",
    default="",
    help="Why. Recorded, and passed to a model whose request you deny.",
)
@common_options
def command(
    *, run: str | None, words: tuple[str, ...], by: str | None, reason: str, url: str | None, as_json: bool
) -> int:
    """Answer a run's question. Without a value, list its questions; exit code 3 if one is open.

    Without RUN, list the open questions of all runs, and the commands that answer them.

    ID is the question's id, like q2. You may leave it out while the run has one open question. VALUE is yes
    or no, a choice, a number, text or JSON, as the question asks; - reads it from stdin. The answer is
    durable at once. A waiting run continues by itself; any other continues when you start it again.

    \b
    Example:
      holdfast answer
      holdfast answer debt-cycles
      holdfast answer debt-cycles yes
      holdfast answer debt-cycles q2 no --reason "too expensive"
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    if run is None:
        return _list_all(store, command_builder(url), as_json=as_json)
    run = run_only(run, "answer")
    open_questions = store.questions(run)
    id_, value = _parse(words, {asked.id for asked in open_questions})
    if value is None:
        chosen = open_questions if id_ is None else [store.find_question(run, id_)]
        return _list(store, command_builder_for(store, run, url), run, chosen, as_json=as_json)
    asked = store.find_question(run, id_)
    typed = _read(asked, sys.stdin.read() if value == "-" else value)
    # Asked before the answer: a process that waits for it may have finished the run by the next look.
    is_held = store.get(run).holder == "alive"
    answered = store.answer(run, typed, asked.id, by=by, reason=reason)
    _tell(store, command_builder_for(store, run, url), answered, is_held=is_held, as_json=as_json)
    return EXIT_DONE


def _parse(words: tuple[str, ...], ids: set[str]) -> tuple[str | None, str | None]:
    """The question id and the value. A single word is an id if the run has a question with that id."""
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


# -- output --------------------------------------------------------------------------------------------------


def _list_all(store: Store, at: CommandBuilder, *, as_json: bool) -> int:
    """The open questions of every run, oldest first."""
    questions = store.questions()
    if as_json:
        render.show_json(
            {"questions": [{"run": one.run, **as_plain(question_line(one))} for one in questions]}
        )
    elif not questions:
        render.show([text("no run has an open question")])
    else:
        blocks: list[Block] = []
        for run in dict.fromkeys(one.run for one in questions):
            own = [one for one in questions if one.run == run]
            blocks += [Gap()] if blocks else []
            blocks += [Heading(run), *question_blocks([question_line(one) for one in own])]
            choices = answer_choices(own, at)
            blocks += [Commands(choices)] if choices else []
        render.show(blocks)
    return EXIT_WAITING if unanswered(questions) else EXIT_DONE


def _list(store: Store, at: CommandBuilder, run: str, questions: list[OpenQuestion], *, as_json: bool) -> int:
    store.get(run)
    lines = [question_line(asked) for asked in questions]
    waiting = unanswered(questions)
    if as_json:
        render.show_json({"run": run, "questions": as_plain(lines)})
    elif not lines:
        render.show([text(f"run {run} has no questions")])
    else:
        choices = answer_choices(questions, at) or resume_choices(
            store.view(run), at, meaning="the run reads it"
        )
        more: list[Block] = [Gap(), Commands(choices)] if choices else []
        render.show([*question_blocks(lines), *more])
    return EXIT_WAITING if waiting else EXIT_DONE


def _tell(store: Store, at: CommandBuilder, answered: OpenQuestion, *, is_held: bool, as_json: bool) -> None:
    view, status = store.view(answered.run), store.get(answered.run).status
    if is_held:
        following = "the process that holds the run takes it in"
    elif status in OVER:  # by another process, which came in between
        following = f"nothing: the run is {status_word(status)} by now"
    elif is_workers(view):
        following = "any worker of its agent reads it and continues"
    else:
        following = "start its program again: it reads this and continues"
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
