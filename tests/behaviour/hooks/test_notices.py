"""Which notices a run makes, what each says, and who receives it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.receiver import Receiver

import holdfast
from holdfast import Notice


def attempt(url: str, run: str, body: Any, **options: Any) -> BaseException | None:
    """One attempt; what it raised."""
    try:
        with holdfast.run(run, store=url, **options) as entered:
            body(entered)
    except BaseException as error:
        return error
    return None


def test_a_question_says_how_to_answer_it(url: str) -> None:
    """The text, what may be answered, what it is about, and the very commands; and the command works."""
    got: list[Notice] = []
    ask = lambda run: run.ask("Deploy?", choices=["staging", "prod"], about={"build": 7})  # noqa: E731
    attempt(url, "ship", ask, hooks=[got.append], goal="ship it")
    (notice,) = got
    assert (notice.on, notice.what, notice.run) == ("needs-person", "question", "ship")
    assert notice.status in {"running", "parked"}  # it is sent at once, while the run parks
    assert notice.text == "run ship asks: Deploy? (staging, prod)"
    assert notice.goal == "ship it"
    (question,) = notice.questions
    assert (question.question, question.choices) == ("Deploy?", ("staging", "prod"))
    assert question.about == '{"build": 7}'
    assert question.commands[1].startswith(f"holdfast answer ship {question.id} prod --store ")
    assert "://" not in notice.text


def test_an_approval_is_a_question_about_a_call(url: str) -> None:
    """It names the tool and its arguments, and is answered by yes or no."""
    got: list[Notice] = []

    @holdfast.tool(effect="once", approve=True)
    def pay(amount: int) -> str:
        return "paid"

    attempt(url, "books", lambda run: pay(5), hooks=[got.append])
    (question,) = got[0].questions
    assert "pay" in question.question
    assert question.about == '{"arguments": {"amount": 5}, "tool": "pay"}'
    assert [command.split()[4] for command in question.commands] == ["yes", "no"]


def test_the_ends_of_runs(url: str) -> None:
    """Finished, failed, out of budget, in doubt, diverged, in a loop: each is reported once, with its occasion."""
    got: list[Notice] = []
    hooks = [got.append]

    def fails(run: holdfast.Run) -> None:
        raise ValueError("no such page")

    def spends(run: holdfast.Run) -> None:
        raise holdfast.BudgetExceeded(run=run.id, reason="$1 is spent", limit="usd", spent=1.0, allowed=1.0)

    def diverges(run: holdfast.Run) -> None:
        raise holdfast.Diverged(run=run.id, step="s", key="k", seq=1, diff="other words")

    def circles(run: holdfast.Run) -> None:
        raise holdfast.Looping(run=run.id, reason="it searched five times")

    def breaks(run: holdfast.Run) -> None:
        run.once("pay", lambda: 1 / 0)

    attempt(url, "good", lambda run: run.finish(1), hooks=hooks)
    attempt(url, "bad", fails, hooks=hooks)
    attempt(url, "poor", spends, hooks=hooks)
    attempt(url, "unsure", breaks, hooks=hooks)
    attempt(url, "other", diverges, hooks=hooks)
    attempt(url, "round", circles, hooks=hooks)
    seen = [(one.run, one.on, one.what) for one in got]
    assert seen == [
        ("good", "finished", "finished"),
        ("bad", "failed", "failed"),
        ("poor", "failed", "out-of-budget"),
        ("unsure", "in-doubt", "in-doubt"),
        ("other", "failed", "diverged"),
        ("round", "needs-person", "looping"),
    ]
    assert got[1].error == "ValueError: no such page"
    assert [step.step for step in got[3].in_doubt] == ["pay"]
    assert (
        got[3].in_doubt[0].commands[1].startswith(f"holdfast resolve unsure {got[3].in_doubt[0].id} --retry")
    )


def test_a_missing_premise(url: str, tmp_path: Path) -> None:
    """It stops the run before its program begins; the failure before the hook was declared is not reported."""
    got: list[Notice] = []
    data = tmp_path / "data.csv"
    data.write_text("1")

    def relies(run: holdfast.Run) -> None:
        run.depends_on(data)
        raise KeyError("later")

    attempt(url, "reader", relies, workspace=tmp_path)
    data.unlink()
    error = attempt(url, "reader", relies, workspace=tmp_path, hooks=[got.append], premises={"file": "pause"})
    assert isinstance(error, holdfast.PremiseMissing)
    assert [(one.on, one.what) for one in got] == [("failed", "premise-missing")]
    assert "--accept" in got[0].commands[1]


def test_waiting_needs_no_person(url: str) -> None:
    """A run that sleeps, and one that is asked again and parks again, make no further notice."""
    got: list[Notice] = []
    hooks = [got.append]
    attempt(url, "sleeper", lambda run: run.sleep(3600, wait_s=0), hooks=hooks)
    ask = lambda run: run.ask("Well?")  # noqa: E731
    attempt(url, "asker", ask, hooks=hooks)
    attempt(url, "asker", ask, hooks=hooks)
    assert [(one.run, one.what) for one in got] == [("asker", "question")]


def test_only_the_wanted_occasions(url: str, receiver: Receiver) -> None:
    """Each hook has its own list."""
    got: list[Notice] = []
    hooks = [holdfast.Hook(got.append, on=("finished",)), holdfast.Hook(receiver.url, on=("failed",))]
    attempt(url, "a", lambda run: None, hooks=hooks)
    attempt(url, "b", lambda run: 1 / 0, hooks=hooks)
    assert [one.run for one in got] == ["a"]
    assert receiver.seen == [("b", "failed")]


def test_children_report_only_what_a_person_must_do(url: str) -> None:
    """A child's end is its parent's affair, unless the hook asks for it; its question is not."""
    few: list[Notice] = []
    all_: list[Notice] = []

    def told(notice: Notice) -> None:
        all_.append(notice)

    holdfast.hook(few.append)
    holdfast.hook(told, children=True)
    with holdfast.run("p", store=url), holdfast.run("c", store=url):
        pass
    error = attempt(url, "q", lambda run: _ask_in_child(url))
    assert isinstance(error, holdfast.AwaitingAnswer)
    assert [(one.run, one.what) for one in few] == [("p", "finished"), ("q/c", "question")]
    assert (all_[0].run, all_[0].what) == ("p/c", "finished")


def _ask_in_child(url: str) -> None:
    with holdfast.run("c", store=url) as run:
        run.ask("Well?")


def test_a_hook_never_fails_a_run(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A function that raises is logged, recorded and tried again later; the run is finished."""

    def broken(notice: Notice) -> None:
        raise RuntimeError("the hook is broken")

    assert attempt(url, "a", lambda run: None, hooks=[broken]) is None
    (delivery,) = holdfast.store(url).hooks.log()
    assert (delivery.state, delivery.tries) == ("waiting", 1)
    assert delivery.error == "RuntimeError: the hook is broken"
    assert "the hook is broken" in caplog.text
    assert holdfast.store(url).get("a").status == "finished"


def test_an_async_function_and_an_async_run(url: str) -> None:
    """The function is awaited in a loop of its own, in a thread."""
    got: list[str] = []

    async def told(notice: Notice) -> None:
        await asyncio.sleep(0)
        got.append(notice.what)

    async def main() -> None:
        async with holdfast.run("a", store=url, hooks=[told]) as run:
            await run.step("s", len, "x")

    asyncio.run(main())
    assert got == ["finished"]


def test_a_command_gets_the_notice(url: str, tmp_path: Path) -> None:
    """As JSON on its input, and in variables; without a shell, and without the run of the process."""
    out = tmp_path / "out"
    script = tmp_path / "tell.py"
    script.write_text(
        "import json, os, sys\n"
        "notice = json.load(sys.stdin)\n"
        "said = [notice['what'], os.environ['HOLDFAST_NOTICE_RUN'], sys.argv[2], 'HOLDFAST_RUN' in os.environ]\n"
        "open(sys.argv[1], 'w').write(json.dumps(said))\n"
    )
    store = holdfast.store(url)
    hook = store.hooks.add([sys.executable, str(script), str(out), "$HOME; x"])
    assert attempt(url, "a", lambda run: None) is None
    assert json.loads(out.read_text()) == ["finished", "a", "$HOME; x", False]
    assert store.hooks.log()[0].status_code == 0
    assert hook.kind == "command"


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": "ftp://x"},
        {"target": "http://me:secret@x/"},
        {"target": []},
        {"target": "http://x", "on": ("never",)},
        {"target": "http://x", "on": ()},
        {"target": "http://x", "timeout_s": 0},
    ],
)
def test_a_wrong_hook_is_refused_at_once(url: str, wrong: dict[str, Any]) -> None:
    """Before anything is recorded, and without showing a password."""
    with (
        pytest.raises(holdfast.Misuse) as refused,
        holdfast.run("a", store=url, hooks=[holdfast.Hook(**wrong)]),
    ):
        pass
    assert "secret" not in str(refused.value)
    assert holdfast.store(url).runs() == []
