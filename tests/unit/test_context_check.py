"""Whether a context is true: planted lies are found, of every sort."""

from typing import Any

import pytest
from tests.support.context_check import verify
from tests.unit.journals import Journal, completion

from holdfast.core.context.child_lines import Children, ChildStory
from holdfast.core.context.context import context_of, rendered
from holdfast.model.context import Context, Style
from holdfast.model.events import Kind


def history() -> Journal:
    journal = Journal().start("Explain debt", {"depth": 3})
    journal.mark("plan", {"steps": ["survey", "compare"]})
    journal.step("survey", ["GR", "AR"], {"topic": "sovereign debt"})
    journal.mark("decision", {"text": "do not pay Ada", "because": "the invoice is wrong"})
    journal.fail("fetch", "OSError", "down", {"url": "x"})
    journal.answer(completion("A long answer. " * 20, calls=[("search", {"query": "GR"})]))
    journal.step("large", ["word"] * 20_000)
    journal.begin("pay", {"to": "Ada"}, effect="once")
    journal.crash(after_s=60).attempt()
    return journal


def context(journal: Journal, style: Style = "summary") -> Context:
    return context_of(journal.events, journal.look, style=style, is_held=True)


def changed(journal: Journal, before: str, after: str, style: Style = "summary") -> Context:
    """The context with one of its lines saying something else, in the text too."""
    honest = context(journal, style)
    lines = tuple(line._replace(text=line.text.replace(before, after, 1)) for line in honest.lines)
    assert lines != honest.lines, before
    return honest._replace(lines=lines, text=honest.text.replace(before, after, 1))


def problems(journal: Journal, told: Context) -> list[str]:
    return [problem.problem for problem in verify(told, journal.events, journal.whole)]


@pytest.mark.parametrize("style", ["summary", "full", "facts"])
def test_what_is_true_is_not_objected_to(style: Style) -> None:
    """In every style."""
    journal = history()
    assert problems(journal, context(journal, style)) == []


LIES = [
    ("a quoted text", '"do not pay Ada"', '"pay Ada"'),
    ("a text shortened where it changes its meaning", '"do not pay Ada"', '"do not"'),
    ("a shortened text that never began so", '"A long answer.', '"A short answer.'),
    ("a reason", "the invoice is wrong", "the invoice is right"),
    ("a result", '["GR", "AR"]', '["GR", "FR"]'),
    ("an argument", 'topic="sovereign debt"', 'topic="private debt"'),
    ("the name of an argument", "survey(topic=", "survey(subject="),
    ("the name of a step", "survey(", "review("),
    ("the name of an exception", "OSError", "ValueError"),
    ("a number in a value", '{"depth": 3}', '{"depth": 4}'),
    ("how long it was", "1 min 2 s", "2 min 2 s"),
    ("the number of an attempt", "attempt 2 began", "attempt 3 began"),
    ("when it began", "2026-03-01 14:02:24", "2026-03-01 14:02:26"),
    ("a call that a model asked for", 'search(query="GR")', 'search(query="AR")'),
    ("the model", "gpt-4o-mini", "gpt-5"),
    ("the status of an item", '"survey": worked on last; what was begun of it is done', '"survey": failed'),
    ("an item that is done", '"compare": not begun', '"compare": done'),
    ("how an attempt ended", "Attempt 1 crashed", "Attempt 1 finished"),
    ("a word of its own", "survey(topic", "Wonderful: survey(topic"),
    ("a sentence more", "Do not repeat it.", "Do not repeat it. All is well."),
]


@pytest.mark.parametrize(("before", "after"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_a_lie_is_found(before: str, after: str) -> None:
    """Whatever is changed in a sentence: it is not borne out by the events that it cites."""
    journal = history()
    assert problems(journal, changed(journal, before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"do not pay Ada"', '"pay Ada"'),
        ('= ["GR", "AR"]', '= ["GR"], once, = ["AR"]'),
        ("OSError", "KeyError"),
    ],
)
def test_a_lie_is_found_in_terse_facts(before: str, after: str) -> None:
    """There too."""
    journal = history()
    assert problems(journal, changed(journal, before, after, "facts"))


def recited(journal: Journal, section: str, refs: tuple[int, ...]) -> Context:
    """The context with the first line of a section citing something else, in the text too."""
    honest = context(journal)
    line = next(line for line in honest.lines if line.section == section)
    old, new = (rendered("summary", section, line.text, cited) for cited in (line.refs, refs))
    lines = tuple(one._replace(refs=refs) if one is line else one for one in honest.lines)
    return honest._replace(lines=lines, text=honest.text.replace(old, new))


@pytest.mark.parametrize(
    ("section", "refs", "problem"),
    [
        ("decided", (), "cites nothing"),
        ("decided", (99,), "not there"),
        ("decided", (3,), "does not stand"),
        ("decided", (5,), "step.finished"),
        ("done", (8,), "step.failed"),
        ("done", (4,), "step.started"),
        ("plan", (5,), "cites nothing of"),
        ("doubt", (15,), "which is attempt.started"),
    ],
)
def test_a_wrong_reference_is_found(section: str, refs: tuple[int, ...], problem: str) -> None:
    """One that is not there, of the wrong kind, or of an event that says something else."""
    journal = history()
    assert any(problem in found for found in problems(journal, recited(journal, section, refs)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("## Next\n", "## Next\n- Pay everybody. (#1)\n"),
        ("- survey", "- Survey"),
        ("(#1)", "(#2)"),
        ("## Plan", "## Plot"),
    ],
)
def test_the_text_says_the_lines_and_nothing_else(before: str, after: str) -> None:
    """A line that is only in the text, a changed one, a changed reference, another heading."""
    journal = history()
    honest = context(journal)
    assert before in honest.text
    assert problems(journal, honest._replace(text=honest.text.replace(before, after, 1)))


def test_what_was_left_out_is_checked_too() -> None:
    """Its events are there, and its line counts it."""
    journal = history()
    honest = context_of(journal.events, journal.look, is_held=True, budget_tokens=250)
    assert honest.left
    assert problems(journal, honest) == []
    assert problems(journal, honest._replace(left=(honest.left[0]._replace(refs=(99,)), *honest.left[1:])))
    assert problems(journal, honest._replace(left=honest.left[1:]))


def test_numbers_have_to_count_what_is_cited() -> None:
    """Twice means two events."""
    journal = Journal().start()
    key = journal.fail("fetch", "OSError", "down")
    journal.fail("fetch", "OSError", "down", key=key)
    assert problems(journal, context(journal)) == []
    assert problems(journal, changed(journal, "failed 2 times", "failed 9 times"))


def test_pieces_of_a_stream_are_quoted_together() -> None:
    """Neither with a piece that is not cited nor in another order."""
    journal = Journal().start()
    key = journal.ask_model()
    for n, text in enumerate(("Debt ", "cycles ", "are")):
        journal.chunk(key, n, 1, text=text)
    assert problems(journal, context(journal)) == []
    assert problems(journal, changed(journal, "Debt cycles are", "cycles Debt are"))


def test_a_compacted_history_is_cited_by_what_stands_for_it() -> None:
    """The goal and the plan are in it, as data in data."""
    journal = Journal()
    view: dict[str, Any] = {"goal": "Explain", "inner": '{"value":{"steps":["survey"]}}'}
    journal.add(Kind.COMPACTED, from_seq=1, events=90, note=view)
    told = context(journal)
    assert [line.text for line in told.lines] == ["Of the 90 events before only what they came to is kept."]
    assert problems(journal, told) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [("kid is finished", "cat is finished"), ("1 step", "2 steps"), ('"a paper"', '"a book"')],
)
def test_a_lie_about_a_child_is_found(before: str, after: str) -> None:
    """Its name, how many steps have ended, its result."""
    journal, kid = history(), Journal().start("Write")
    kid.step("look", 1)
    kid.add(Kind.RUN_FINISHED, value="a paper")
    children = Children([ChildStory("kid", is_over=True, is_held=False, read=lambda: kid.events)], ["r"])
    honest = context_of(journal.events, journal.look, is_held=True, children=children)
    assert verify(honest, journal.events, journal.whole, {"kid": kid.events}) == []
    lines = tuple(line._replace(text=line.text.replace(before, after)) for line in honest.lines)
    lying = honest._replace(lines=lines, text=honest.text.replace(before, after))
    assert len(verify(lying, journal.events, journal.whole, {"kid": kid.events})) == 1
