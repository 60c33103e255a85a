"""What people write in their first hour and is wrong: the error's hint says how to write it."""

import asyncio
import copy
from typing import Any

import pytest

import holdfast
from holdfast.errors import BadName, Misuse, Unjournaled


def look_up(topic: str) -> str:
    return f"{topic} is fine"


def hints_of(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


def test_a_function_where_the_name_belongs_is_answered_with_the_order(url: str) -> None:
    """``run.step(look_up, topic)``: the hint shows the same call with a name. It said how long names may be."""
    wrong: Any = look_up
    with pytest.raises(BadName) as refused, holdfast.run("report", store=url) as run:
        run.step(wrong, wrong, "rates")
    assert str(refused.value) == "step name 'look_up' is of type function, not text"
    assert "run.step('look_up', look_up, …)" in hints_of(refused.value)


def test_a_name_that_is_no_text_is_shown_whole(url: str) -> None:
    """A number as a run's id is shown as it is; it had an ellipsis behind it."""
    wrong: Any = 7
    with pytest.raises(BadName, match=r"^run name '7' is of type int, not text"):
        holdfast.run(wrong, store=url).open()


def test_a_call_where_the_function_belongs_is_refused_before_anything_is_recorded(url: str) -> None:
    """``run.step("x", look_up("rates"))`` says what was given and how to pass it.

    It was a TypeError from ``inspect``.
    """
    wrong: Any = look_up("rates")
    with (
        pytest.raises(
            Misuse, match="'x' was given a value of type str where its function belongs"
        ) as refused,
        holdfast.run("report", store=url) as run,
    ):
        run.step("x", wrong)
    assert "run.step('x', fn, …), not run.step('x', fn(…))" in hints_of(refused.value)
    assert not [event for event in holdfast.store(url).events("report") if event.kind.startswith("step.")]


def test_a_value_as_an_effect_with_a_key_is_not_in_doubt(url: str) -> None:
    """An explicit key does not hide the mistake: it was recorded as an effect that is in doubt."""
    wrong: Any = None
    with pytest.raises(Misuse, match="NoneType"), holdfast.run("report", store=url) as run:
        run.options(key="march").once("pay", wrong)
    assert holdfast.store(url).doubts("report") == []


def test_a_coroutine_where_the_function_belongs_is_refused(url: str) -> None:
    """``await run.step("x", ask("why"))`` in an async run is the same mistake."""

    async def ask(question: str) -> str:
        return question

    async def main() -> None:
        wrong: Any = ask("why")
        try:
            async with holdfast.run("report", store=url) as run:
                await run.step("x", wrong)
        finally:
            wrong.close()

    with pytest.raises(Misuse, match="'x' was given a value of type coroutine"):
        asyncio.run(main())


def test_a_run_that_was_not_entered_says_so(url: str) -> None:
    """``run = holdfast.run(…)`` and then ``run.step(…)``: the hint has the ``with``. It named a private class."""
    opening: Any = holdfast.run("report", store=url)
    with pytest.raises(AttributeError, match="has no attribute 'step' before it is entered") as refused:
        opening.step("look up", look_up, "rates")
    assert "with holdfast.run('report') as run:" in hints_of(refused.value)
    assert repr(opening) == "<holdfast.run('report'), to be entered by `with`>"


def test_what_asks_for_attributes_gets_the_usual_answer(url: str) -> None:
    """``hasattr``, copies and names that no run has see an ordinary object, without a hint."""
    opening: Any = holdfast.run("report", store=url)
    assert not hasattr(opening, "step")
    assert not hasattr(copy.copy(opening), "stepp")
    with pytest.raises(AttributeError) as refused:
        _ = opening.stepp
    assert hints_of(refused.value) == ""


def test_a_class_where_a_client_belongs_is_answered_with_its_call() -> None:
    """``holdfast.wrap(openai.OpenAI)``: the hint has the brackets. It spoke of a ``builtins.type``."""
    from openai import OpenAI

    with pytest.raises(Unjournaled, match="was given the class OpenAI, not a client") as refused:
        holdfast.wrap(OpenAI)
    assert "holdfast.wrap(OpenAI(...))" in hints_of(refused.value)
