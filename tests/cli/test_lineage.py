"""``holdfast fork``, ``rewind`` and ``show --tree``."""

import json
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def prepare(shop: "Shop") -> None:
    with holdfast.run("talk", store=shop.store) as run:
        run.step("ask", str.upper, "why")
        run.once("send", str.upper, "mail")
        run.checkpoint({"a": 1}, label="sent")


def test_fork_says_what_it_made_and_what_may_happen_again(own_shop: "Shop") -> None:
    """The new run, the effects after the point, and what to type next."""
    prepare(own_shop)
    answer = own_shop("fork", "talk@1", "--as", "other")
    assert answer.code == 0
    assert "forked    other from talk@1" in answer.out
    assert (
        "answered  1 effect after that point: the same call is answered from the record: send" in answer.out
    )
    assert "holdfast resume other" in answer.out
    assert own_shop.store.get("other").status == "not_begun"


def test_what_becomes_of_later_effects_is_chosen(own_shop: "Shop") -> None:
    """``--effects`` of both commands, told as it is; a word that is none of them is misuse."""
    prepare(own_shop)
    again = own_shop("fork", "talk@1", "--as", "again", "--effects", "again")
    assert "careful  1 effect after that point may happen again: send" in again.out
    asked = own_shop("fork", "talk@1", "--as", "asked", "--effects", "ask", "--json")
    found = json.loads(asked.out)
    assert (found["effects"], found["repeatable"]) == ("ask", ["send"])
    assert [(one["step"], one["how"], one["run"]) for one in found["behind"]] == [("send", "done", "talk")]
    assert own_shop("fork", "talk@1", "--as", "c", "--effects", "maybe").code == 2
    rewound = own_shop("rewind", "talk@1", "--effects", "ask")
    assert "asked    1 effect after that point: you decide about the same call: send" in rewound.out


def test_fork_overrides(own_shop: "Shop") -> None:
    """A recorded outcome is replaced; bad JSON and unknown steps are refused."""
    prepare(own_shop)
    assert own_shop("fork", "talk@1", "--as", "b", "--override", 'ask="BECAUSE"').code == 0
    with holdfast.run("b", store=own_shop.store) as run:
        assert run.step("ask", str.upper, "why") == "BECAUSE"
    bad = own_shop("fork", "talk@1", "--as", "c", "--override", "ask=BECAUSE")
    assert (bad.code, "is not JSON" in bad.err) == (2, True)
    assert own_shop("fork", "talk@1", "--as", "c", "--override", "nothing").code == 2
    unknown = own_shop("fork", "talk@1", "--as", "c", "--override", "nothing=1")
    assert (unknown.code, "no recorded step 'nothing'" in unknown.err) == (1, True)
    assert [info.run for info in own_shop.store.runs(prefix="c")] == []


def test_rewind_moves_back_and_keeps_the_rest(own_shop: "Shop") -> None:
    """The head is where it was asked to be; the rest has a name."""
    prepare(own_shop)
    answer = own_shop("rewind", "talk@1", "--json")
    found = json.loads(answer.out)
    assert (found["run"], found["kept"], found["repeatable"]) == ("talk", "talk~1", ["send"])
    assert own_shop.store.view("talk").points == 1
    assert own_shop("rewind", "talk").code == 2
    assert "has no 9" in own_shop("rewind", "talk@9").err


def test_the_tree_is_drawn(own_shop: "Shop") -> None:
    """Each run with its status and the event it hangs on."""
    prepare(own_shop)
    own_shop.store.fork("talk@1", as_="b")
    own_shop.store.fork("talk@sent", as_="c")
    own_shop.store.fork("c", as_="d")
    answer = own_shop("show", "c", "--tree")
    assert answer.out == dedent("""\
        talk  finished
        ├─ b  not started  from #4
        ├─ c  not started  from #7
        └─ d  not started  from #7
        """)


def test_log_tells_of_forks_and_rewinds(own_shop: "Shop") -> None:
    """The whole journal is shown, with what was left behind."""
    prepare(own_shop)
    own_shop.store.rewind("talk@1")
    out = own_shop("log", "talk").out
    assert "rewound" in out
    assert "to #4; talk~1 keeps what came after it" in out
    assert "checkpoint" in out


PAID: list[int] = []


def pay(n: int) -> int:
    """At module level: a captured list would be an argument, and another one in the second attempt."""
    PAID.append(n)
    return n


def test_a_changed_prompt_is_one_decision(own_shop: "Shop") -> None:
    """A run that stopped at a changed model call offers one command that goes on, with what it throws away.

    Effects behind that point stay: their record answers, and nothing is paid twice.
    """
    PAID.clear()

    def work(prompt: str, *, dies: bool = False) -> None:
        with holdfast.run("chat", store=own_shop.store) as run:
            run.step("survey", abs, 1)
            for turn in range(3):
                request = {"model": "gpt-4o", "messages": [{"role": "system", "content": f"{prompt} {turn}"}]}
                run.model("think", lambda _: {"usage": {"prompt_tokens": 100}, "choices": []}, request)
                run.once("pay", pay, turn)
            if dies:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work("brief", dies=True)
    with pytest.raises(holdfast.Diverged) as stopped:
        work("long")
    assert "`holdfast show chat` has the commands" in stopped.value.hint
    place = f"chat@#{stopped.value.seq - 1}"
    told = "throws away 3 model calls, 300 tokens"
    found = own_shop("show", "chat").out
    if True:
        assert (
            f"holdfast rewind '{place}' --store STORE  # continue from there with the change: {told}" in found
        )
    assert "3 effects stay recorded" in found
    assert f"holdfast fork '{place}' --as chat-changed --store STORE" in found
    plan = own_shop("rewind", place, "--dry-run").out
    assert told in plan
    assert plan.count("the same call is answered from the record") == 3
    assert own_shop.store.get("chat").status == "diverged"  # nothing was changed
    assert "does without 3 model calls" in own_shop("fork", place, "--as", "b", "--dry-run").out
    assert own_shop("rewind", place).code == 0
    work("long")
    assert own_shop.store.get("chat").status == "finished"
    assert PAID == [0, 1, 2]


def test_a_dry_run_counts_the_children_that_go_along(own_shop: "Shop") -> None:
    """Each child begun after the point has a line of its own with what it recorded, and its effects are in the table.

    Before, they were neither counted nor named.
    """
    with holdfast.run("talk", store=own_shop.store) as run:
        run.step("ask", str.upper, "why")
        with holdfast.run("talk/early", store=own_shop.store) as child:
            child.step("look", str.upper, "a")
        run.step("plan", str.upper, "then")
        with holdfast.run("talk/late", store=own_shop.store) as child:
            child.step("look", str.upper, "b")
            child.once("send", str.upper, "mail")
    place = "talk@2"
    plan = own_shop("rewind", place, "--dry-run").out
    assert "talk/late" in plan
    assert "talk/late: throws away 1 step" in plan
    assert "1 effect stays recorded" in plan
    assert "early" not in plan
    assert "send" in plan
    assert "talk/late: does without 1 step" in own_shop("fork", place, "--as", "b", "--dry-run").out
    found = json.loads(own_shop("rewind", place, "--dry-run", "--json").out)
    assert [(one["place"], one["steps"]) for one in found["children"]] == [("talk/late", 2)]
    assert [(one["run"], one["name"]) for one in found["behind"]] == [("talk/late", "send")]
    assert (
        own_shop.store.later_children(place) == own_shop.store.rewind(place).later_children == ("talk/late",)
    )


def prepare_state(shop: "Shop") -> None:
    """A run that restores its state and keeps its messages."""
    with holdfast.run("debate", store=shop.store, inputs={"topic": "debt"}) as run:
        run.restore(None)
        run.messages.append({"role": "user", "content": "why?"})
        run.checkpoint({"round": 1, "notes": ["one"]})
        run.close()


def test_a_fork_with_edits_says_before_what_it_changes(own_shop: "Shop") -> None:
    """Path by path, and what the program makes of it. What is printed as editable can be given back."""
    prepare_state(own_shop)
    form = json.loads(own_shop("fork", "debate@1", "--editable").out)
    assert (form["inputs"], form["state"]) == ({"topic": "debt"}, {"round": 1, "notes": ["one"]})
    assert [one["content"] for one in form["messages"]] == ["why?"]
    edits = [
        "--state",
        json.dumps({**form["state"], "round": 7}),
        "--inputs",
        '{"topic": "credit"}',
        "--message",
        '0={"role": "user", "content": "how?"}',
    ]
    told = own_shop("fork", "debate@1", "--as", "b", *edits, "--dry-run")
    assert told.code == 0
    assert told.out.endswith(
        dedent("""\

        Other inputs
          topic: "debt" → "credit"
          A script that names its inputs must be started with these, or it is refused (InputsChanged).

        Other state
          round: 1 → 7
          run.restore() returns it, and the program continues from there.

        Other message 0
          content: "why?" → "how?"
          The program begins with it when it restores its state; models are asked with it from there.
        """)
    )
    assert "b" not in {info.run for info in own_shop.store.runs()}
    made = own_shop("fork", "debate@1", "--as", "b", *edits, "--by", "ada")
    assert "edited  state: run.restore() returns it" in made.out
    with holdfast.run("b", store=own_shop.store, inputs={"topic": "credit"}) as run:
        assert run.restore() == {"round": 7, "notes": ["one"]}
        assert run.messages[0]["content"] == "how?"
    assert "state edited" in own_shop("log", "b").out
    assert "ada" in own_shop("show", "b").out


def test_edits_that_are_no_json_or_no_use_are_refused(own_shop: "Shop") -> None:
    """Misuse for what was typed wrong; a refusal for what no program would see."""
    prepare_state(own_shop)
    (own_shop.beside / "state.json").write_text('{"round": 3}')
    for words in (
        ["--state", "{"],
        ["--state", "@nothing.json"],
        ["--message", "first={}"],
        ["--message", "0=}"],
    ):
        assert own_shop("fork", "debate@1", "--as", "b", *words).code == 2, words
    assert own_shop("fork", "debate@1").code == 2
    refused = own_shop("fork", "debate@1", "--as", "b", "--message", '3={"role": "user", "content": "x"}')
    assert (refused.code, "has no message 3 there" in refused.err) == (2, True)
    made = own_shop("fork", "debate@1", "--as", "b", "--state", f"@{own_shop.beside}/state.json", "--json")
    assert json.loads(made.out)["edits"][0]["after"] == {"round": 3}
