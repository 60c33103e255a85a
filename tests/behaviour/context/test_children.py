"""The context of a run tells of its children: how far each got, what it waits for, and what is in doubt in it."""

from typing import Any

import pytest
from tests.behaviour.lineage.test_children import Stop, editor, enter, made
from tests.support.context_check import verify

import holdfast
from holdfast.engine.journal.blob_content import read_blob
from holdfast.stores.url import open_store


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


def told(url: str, place: str, section: str = "children", **options: Any) -> list[str]:
    """The lines of a section of a run's context, each checked against the journals of the run and its children."""
    store = holdfast.store(url)
    context = store.context(place, **options)
    run = place.partition("@")[0]
    origins = [run, "talk"] if run != "talk" else [run]
    children = {
        info.run[len(name) + 1 :]: store.events(info.run)
        for name in reversed(origins)
        for info in store.runs(prefix=f"{name}/")
    }
    assert verify(context, store.events(run), lambda at: read_blob(open_store(url), at), children) == []
    return [line.text for line in context.lines if line.section == section]


def test_finished_children_with_their_results(url: str) -> None:
    """Those begun before a place only; in a fork they are told before it has asked for them."""
    enter(url, "talk", editor)
    whole = [
        'first is finished after 1 step; its result is "first is out"',
        'second is finished after 1 step; its result is ["second is out", "deep is out"]',
        '"second/deep" is finished after 1 step; its result is "deep is out"',
    ]
    assert told(url, "talk") == whole
    assert told(url, "talk@2") == whole[:1]
    holdfast.store(url).fork("talk", as_="try")
    assert told(url, "try") == whole
    enter(url, "try", editor)
    assert sorted(told(url, "try")) == sorted(whole)
    assert told(url, "talk", style="facts")[0] == 'first finished, 1 step = "first is out"'


def test_children_that_are_not_finished(url: str) -> None:
    """What each waits for, or how it ended; they are the most valuable lines of their section."""

    def asks(run: holdfast.Run) -> None:
        with holdfast.run("asks") as child:
            child.step("look", len, "ab")
            child.ask("Go on?", wait_s=0)

    def fails(run: holdfast.Run) -> None:
        with holdfast.run("fails"):
            raise ValueError("no way")

    def is_cut(run: holdfast.Run) -> None:
        with holdfast.run("cut"):
            raise KeyboardInterrupt

    with holdfast.run("talk", store=url) as run:
        with holdfast.run("done") as child:
            child.finish(1)
        for body, error in (
            (asks, holdfast.AwaitingAnswer),
            (fails, ValueError),
            (is_cut, KeyboardInterrupt),
        ):
            with pytest.raises(error):
                body(run)
        with holdfast.run("under-way"):
            assert told(url, "talk")[-1] == "under-way is under way, after 0 steps"
        text = run.context()
        assert str(holdfast.store(url).context("talk")) == text
    assert told(url, "talk") == [
        "done is finished after 0 steps; its result is 1",
        "under-way is finished after 0 steps",
        'asks waits for an answer to "Go on?", after 1 step',
        'fails failed after 0 steps with ValueError: "no way"',
        "cut is not finished, after 0 steps",
    ]


def test_what_is_in_doubt_in_a_child(url: str) -> None:
    """It is as valuable as an effect of the run itself, and there in the smallest context."""

    def broken(what: str) -> None:
        raise Stop

    fails = holdfast.tool(effect="once", name="publish", settle_s=0)(broken)
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("talk", store=url), holdfast.run("kid"):
        fails("one")
    (line,) = told(url, "talk", "doubt")
    assert line.startswith('In child kid: publish(what="one") was begun at ')
    assert line.endswith(". Do not repeat it.")
    assert told(url, "talk", "doubt", budget_tokens=160) == [line]


def test_the_result_of_a_child_is_told_once(url: str) -> None:
    """Its step in the parent has no arguments to tell it by, so the line of the child replaces that of the step."""

    @holdfast.agent("context-writer")
    def writer(run: holdfast.Run, topic: str) -> str:
        return f"{topic} is out"

    enter(url, "talk", lambda run: run.child("kid", writer, topic="one"))
    assert told(url, "talk") == ['kid is finished after 0 steps; its result is "one is out"']
    assert told(url, "talk", "done") == []


def test_a_handoff_tells_of_the_children(url: str) -> None:
    """The summary for the taker has the same lines."""
    enter(url, "talk", editor)
    document = holdfast.store(url).handoff("talk")
    assert [item["text"] for item in document["summary"] if item["about"] == "Children"] == told(url, "talk")
