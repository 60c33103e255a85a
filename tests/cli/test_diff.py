"""``holdfast diff``: in a pipe, on a terminal, as JSON."""

# ruff: noqa: RUF001 - a range is written with such a dash

import json
import re
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.test_docs_page import documented, paths, tops

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

TALK = [
    {"role": "user" if i % 2 == 0 else "assistant", "content": f"this is number {i} of it"} for i in range(12)
]
DRAFT = "Debt cycles are long. They begin with easy money, and end in a crisis that nobody saw coming."
WORLD = {"answer": ""}


def compare(country: str) -> str:
    return f"{country} {WORLD['answer']}"


def research(run: holdfast.Run, answer: str) -> None:
    WORLD["answer"] = answer
    run.think("more sources are needed")
    run.step("survey", str.upper, "debt")
    run.checkpoint({"step": 1, "messages": TALK, "draft": DRAFT}, label="first")
    for _ in range(3):
        run.step("search", str.upper, "greece")
    call = {"function": {"name": "search", "arguments": '{"query": "greece"}'}}
    new = [*TALK[8:], {"role": "assistant", "content": None, "tool_calls": [call]}]
    draft = DRAFT.replace("easy", "cheap and easy") + " Greece is one of many examples."
    run.checkpoint({"step": 2, "messages": new, "draft": draft, "facts": {"GR": 2}}, label="second")
    run.step("compare", compare, "Greece")
    run.once("send", str.upper, "mail")


@pytest.fixture
def talk(own_shop: "Shop") -> "Shop":
    with holdfast.run("talk", store=own_shop.store, loops=False) as run:
        research(run, "defaulted")
    return own_shop


def fork(shop: "Shop") -> None:
    shop.store.fork("talk@first", as_="try-b", effects="again")
    with holdfast.run("try-b", store=shop.store, loops=False) as run:
        research(run, "recovered")
        run.once("send", str.upper, "another mail")


def test_a_run_alone(talk: "Shop") -> None:
    """Its last two checkpoints: what there is to say, the state, the events, the steps; in a pipe nothing is coloured."""
    answer = talk("diff", "talk")
    assert answer == (
        0,
        dedent("""\
            from  talk@2  point 2, 2026-03-01 14:07:11
            to    talk@6  point 6, 2026-03-01 14:07:11, later in the same history

            · draft grew by 8 words
            · messages 1–8 were dropped from the front
            · 1 message was added
            · the thought did not change between 2 and 6
            · the same search ran 3 times, with the same result

            State  (771 bytes → 522 bytes)
            - messages 1–8 were dropped from the front
            + message 5 (assistant) added: call search(query="greece")
            + facts  {"GR": 2}
            ~ step  1 → 2
            ~ draft  … are long. They begin with {+cheap and +}easy money, and end in a crisis that nobody saw coming.{+ Greece is one of many examples.+}

            Events  (in between)
            step started      3
            step finished     3
            checkpoints       1
            time           0 µs
            in steps       0 µs

            Steps
            STEP    RAN  SAME CALL AGAIN
            search    3  same result
            """),
        "",
    )


def test_a_fork(talk: "Shop") -> None:
    """Both sides since the fork, the call where they went apart, and the effect that only one made."""
    fork(talk)
    assert talk("diff", "talk", "try-b").out == dedent("""\
        from    talk  point 8, 2026-03-01 14:07:11, state of point 6
        to      try-b  point 9, 2026-03-01 14:07:11, state of point 6, another branch
        common  up to point 2, event #6

        · the runs went apart at point 7: compare("Greece") came back differently
        · nothing changed in the state
        · try-b made 1 effect that talk did not: send

        Events  (of each since #6)
                         talk  try-b
        run finished        1      1
        run forked                 1
        attempt started            1
        step started        5      6
        step finished       5      6
        checkpoints         1      1
        attempt ended       1      1
        time             0 µs   0 µs
        in steps         0 µs   0 µs

        Steps
        STEP     talk RAN  try-b RAN  SAME CALL AGAIN
        search          3          3  same result
        send            1          2  same result
        compare         1          1  different results
        """)


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (("talk@2", "6"), ("talk@2", "talk@6")),
        (("talk@2", "#9"), ("talk@2", "talk@#9")),
        (("talk@first", "@second"), ("talk@first", "talk@second")),
        (("talk@2",), ("talk@2", "talk")),
        (("talk@6", "talk@2"), ("talk@6", "talk@2")),
        (("talk",), ("talk@2", "talk@6")),
    ],
)
def test_places_in_short(talk: "Shop", words: tuple[str, ...], places: tuple[str, str]) -> None:
    """The second may leave out the run, or be left out."""
    content = json.loads(talk("diff", *words, "--json").out)
    assert (content["a"]["place"], content["b"]["place"]) == places


def test_a_conversation(own_shop: "Shop") -> None:
    """What the run's own messages gained and lost, between the state and the events."""
    with holdfast.run("chat", store=own_shop.store) as run:
        run.messages.append({"role": "user", "content": "hello"})
        run.checkpoint({"turn": 1})
        run.messages.append({"role": "assistant", "content": "hello, and what now?"})
        run.messages.drop(1)
        run.checkpoint({"turn": 2})
    out = own_shop("diff", "chat").out
    assert (
        dedent("""\
        State  (10 bytes → 10 bytes)
        ~ turn  1 → 2

        Conversation
        + (assistant) hello, and what now?
        - the oldest message

        Events  (in between)
        """)
        in out
    )


def test_only_one_part(talk: "Shop") -> None:
    """All of the state, or all that happened, and no sentences."""
    state = talk("diff", "talk", "--state").out
    assert "\nState  (771 bytes → 522 bytes)\n" in state
    assert "Events" not in state
    assert "· " not in state
    events = talk("diff", "talk", "--events").out
    assert "\nEvents  (in between)\n" in events
    assert "State" not in events
    assert talk("diff", "talk@7", "8", "--state").out.endswith("\nnothing changed in the state\n")


def test_a_long_page_is_cut_and_says_so(own_shop: "Shop") -> None:
    """Twenty changes and ten steps are shown, and the commands that show the rest; long texts are cut, too."""
    with holdfast.run("wide", store=own_shop.store) as run:
        run.checkpoint({f"k{i}": 0 for i in range(30)} | {"text": "so it begins, and goes on"})
        for number in range(12):
            run.step(f"step-{number}", int, number)
        run.checkpoint(
            {f"k{i}": 1 for i in range(30)} | {"text": "so it begins, and goes on" + " and on" * 100}
        )
    out = own_shop("diff", "wide").out
    assert out.count("0 → 1") == 20
    assert "and 11 more\n" in out
    assert "Steps  (the first 10 of 12)" in out
    assert "holdfast diff wide@1 wide@14 --state --store STORE  # every change of the state" in out
    whole = own_shop("diff", "wide", "--state").out
    assert whole.count("0 → 1") == 30
    assert whole.count(" and on") == 100
    assert "holdfast diff" not in whole


def test_on_a_terminal(talk: "Shop") -> None:
    """It fits, what came and went is coloured, and what wraps stands below its text. Without colours the marks remain."""
    for columns in (80, 100):
        plain = talk.on_terminal("diff", "talk", columns=columns, NO_COLOR="1")
        assert max(map(len, plain.splitlines())) <= columns
    assert (
        "~ draft  … are long. They begin with {+cheap and +}easy money, and end in a crisis that nobody saw\n  coming."
        in plain
    )
    coloured = talk.on_terminal("diff", "talk", columns=100)
    assert "\x1b[32m{+cheap and +}\x1b[0m" in coloured
    assert "\x1b[31m- \x1b[0mmessages 1–8 were dropped" in coloured


def test_what_is_recorded_cannot_steer_the_terminal(own_shop: "Shop") -> None:
    """Neither in a key, nor in a text, nor in the name of a step. Planted: texts not made safe."""
    evil = "\x1b[2J\x07"
    with holdfast.run("evil", store=own_shop.store) as run:
        run.checkpoint({evil: 1, "m": [{"role": evil, "content": "a"}], "t": f"a b c d e f {evil}"})
        run.step("look" + "x", str.upper, evil)
        run.checkpoint(
            {evil: 2, "m": [{"role": evil, "content": evil}], "t": f"a b c d e f g {evil}", "n": evil}
        )
    for shown in (own_shop("diff", "evil").out, own_shop.on_terminal("diff", "evil", NO_COLOR="1")):
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_bad_places(talk: "Shop") -> None:
    """Refused with what there is and what to type next; a run without checkpoints still has events to compare."""
    unknown = talk("diff", "talk@1", "99")
    assert unknown.code == 1
    assert unknown.err == dedent("""\
        error: run talk has no 99; its last point is 8, its last event #19
        hint: `holdfast log talk --store STORE` lists what is recorded
        """)
    assert talk("diff", "nobody", "talk").code == 1
    assert talk("diff", "talk", "talk@").code == 2
    with holdfast.run("bare", store=talk.store) as run:
        run.step("survey", str.upper, "debt")
        run.step("survey", str.upper, "credit")
    alone = talk("diff", "bare")
    assert alone.code == 1
    assert alone.err == dedent("""\
        error: run bare has 0 checkpoints, and two are needed to compare it with itself
        hint: `holdfast diff bare@1 bare --store STORE` compares its first point with its end, checkpoints or not
        """)
    compared = talk("diff", "bare@1", "bare")
    assert compared.code == 0
    assert "· there is no state to compare: no checkpoint up to 1 and 2\n" in compared.out


def test_the_same_point(talk: "Shop") -> None:
    """One sentence, and the exit code of success: that nothing differs is an answer."""
    answer = talk("diff", "talk@2", "talk@first")
    assert (answer.code, answer.out.splitlines()[2:]) == (0, ["", "· both are the same point"])


def test_json(talk: "Shop") -> None:
    """The state as a JSON Patch and told; what nothing is recorded of is null."""
    content = json.loads(talk("diff", "talk", "--json").out)
    operations = [(one["op"], one["path"]) for one in content["state_patch"]]
    assert operations[:2] == [("add", "/facts"), ("replace", "/step")]
    assert operations.count(("remove", "/messages/0")) == 8
    assert [(one["what"], one["kind"], one["times"]) for one in content["state"]][:2] == [
        ("messages", "removed", 8),
        ("message", "added", 1),
    ]
    assert (content["b"]["tokens"], content["b"]["cost"]) == (None, None)
    assert content["relation"] == "forward"
    assert json.loads(talk("diff", "talk@1", "--json").out)["state_patch"] is None


def test_the_fields(talk: "Shop") -> None:
    """Documented and printed fields are the same; those of ``b`` are those of ``a``."""
    fork(talk)
    with holdfast.run("chat", store=talk.store) as run:
        run.messages.append({"role": "user", "content": "hello"})
    found: set[str] = set()
    for words in (["talk"], ["talk", "try-b"], ["try-b", "talk"], ["talk", "chat"]):
        content: dict[str, Any] = json.loads(talk("diff", *words, "--json").out)
        content["state_patch"] = []  # RFC 6902 has its own page
        found |= {re.sub(r"^(diverged\.)?b(?=\.|$)", r"\1a", path) for path in paths(content)}
    assert tops(found) == tops({path.removesuffix("[]") for path in documented("diff")})
