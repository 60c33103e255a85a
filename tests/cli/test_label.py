"""``holdfast label``: names that people give to points, and who did what in ``holdfast show``."""

import json
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


@pytest.fixture
def shop(own_shop: "Shop", monkeypatch: pytest.MonkeyPatch) -> "Shop":
    """A run with a label of its program, and a person who types."""
    monkeypatch.setenv("LOGNAME", "grace")
    with holdfast.run("talk", store=own_shop.store) as run:
        run.step("ask", str.upper, "why")
        run.step("tell", str.upper, "so")
        run.checkpoint({"a": 1}, label="draft")
    return own_shop


def test_a_point_gets_a_name(shop: "Shop") -> None:
    """What to type next uses it; every command takes it; the labels are listed with who gave them."""
    made = shop("label", "talk@1", "asked")
    assert (made.code, "labelled  talk@asked by grace" in made.out) == (0, True)
    assert "holdfast fork talk@asked --as NAME" in made.out
    shown = shop("show", "talk@asked")
    assert (shown.code, "step     ask" in shown.out) == (0, True)
    assert shop("label", "talk").out == dedent("""\
        LABEL  POINT  EVENT  BY           GIVEN
        asked      1     #4  grace        2026-03-01 14:07:11 UTC
        draft      3     #7  its program  2026-03-01 14:07:11 UTC
        """)
    found = json.loads(shop("label", "talk", "--json").out)["labels"]
    assert [(one["name"], one["point"], one["by"]) for one in found] == [
        ("asked", 1, "grace"),
        ("draft", 3, ""),
    ]


def test_names_are_changed_and_taken_back(shop: "Shop") -> None:
    """Renamed by naming the point again; a name of the program cannot be taken back."""
    shop("label", "talk@1", "asked")
    assert shop("label", "talk@asked", "question", "--by", "ada").code == 0
    assert shop("label", "talk@question", "--remove").code == 0
    refused = shop("label", "talk@draft", "--remove")
    assert (refused.code, "has no name that a person gave it" in refused.err) == (1, True)
    assert [one["name"] for one in json.loads(shop("label", "talk", "--json").out)["labels"]] == ["draft"]


@pytest.mark.parametrize(
    ("words", "code", "problem", "hint"),
    [
        (
            ["talk@1", "draft"],
            1,
            "run talk has a label 'draft' already: talk@3, from its program",
            "another name",
        ),
        (["talk@1", "12"], 2, "would be read as the number", ""),
        (["talk@1"], 2, "talk@1 gets no name", "talk@1 NAME"),
        (["talk@1", "x", "--remove"], 2, "--remove takes a point, and no name", "talk@1 --remove"),
        (["talk@nothing", "x"], 1, "has no nothing", ""),
    ],
)
def test_what_is_refused(shop: "Shop", words: list[str], code: int, problem: str, hint: str) -> None:
    """The error names the thing, and the next move."""
    answer = shop("label", *words)
    assert answer.code == code
    assert problem in answer.err
    assert hint in answer.err


def test_a_mistyped_label_is_suggested(shop: "Shop") -> None:
    """Those of people, too; the shell completes them."""
    shop("label", "talk@1", "question")
    assert "did you mean question" in shop("show", "talk@questoin").err.replace("'", "").replace("`", "")
    assert "did you mean question" in shop("fork", "talk@questoin", "--as", "x").err.replace("'", "").replace(
        "`", ""
    )


def test_checkpoints_show_the_names_of_people(shop: "Shop") -> None:
    """In the column of labels, where the program gave none."""
    with holdfast.run("talk", store=shop.store, if_finished="reopen") as run:
        run.step("ask", str.upper, "why")
        run.step("tell", str.upper, "so")
        run.checkpoint({"a": 1}, label="draft")
        run.checkpoint({"a": 2})
    shop("label", "talk@4", "second")
    assert [
        line["label"] for line in json.loads(shop("checkpoints", "talk", "--json").out)["checkpoints"]
    ] == [
        "draft",
        "second",
    ]


def test_show_says_who_did_what(shop: "Shop") -> None:
    """Labels, pins, prunes, exports, handoffs, and what was taken back, each with the person."""
    shop("label", "talk@1", "asked")
    shop("label", "talk@asked", "--remove", "--by", "ada")
    shop("prune", "--pin", "talk@2")
    shop("prune", "--unpin", "talk@2", "--by", "eve")
    shop("prune", "--pin", "talk@3")
    shop("export", "talk", "-o", str(shop.beside / "talk.holdfast"), "--by", "ada")
    shop("handoff", "talk", "--to", "writer", "--keep", "-o", str(shop.beside / "talk.json"))
    acts = json.loads(shop("show", "talk", "--json").out)["acts"]
    assert sorted((act["by"], act["what"]) for act in acts) == [
        ("ada", "exported"),
        ("ada", "label removed"),
        ("eve", "unpinned"),
        ("grace", "handed over"),
        ("grace", "pinned"),
    ]
    people = shop("show", "talk").out.partition("\nPeople\n")[2]
    assert "grace  handed over    to writer" in people
    assert "ada    exported" in people


def test_a_prune_and_a_move_name_the_person(shop: "Shop") -> None:
    """A prune in the runs that it changed; a move in the event that seals the run."""
    with holdfast.run("long", store=shop.store) as run:
        run.restore(None)
        for n in range(40):
            run.checkpoint({"n": n, "text": str(n) * 200})
    shop("prune", "--keep-checkpoints", "1", "--by", "ada")
    acts = {run: json.loads(shop("show", run, "--json").out)["acts"] for run in ("long", "talk")}
    assert [(act["by"], act["what"]) for act in acts["long"]] == [("ada", "pruned")]
    assert acts["talk"] == []
    shop("export", "long", "--move", "-o", str(shop.beside / "long.holdfast"), "--by", "eve")
    acts["long"] = json.loads(shop("show", "long", "--json").out)["acts"]
    assert {(act["by"], act["what"]) for act in acts["long"]} == {("ada", "pruned"), ("eve", "moved")}
