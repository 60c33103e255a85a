"""What a step calls and reads in the user's own modules is part of what it relies on.

Every case is seen twice: by the plan, which reads source files, and by the resumed program. Planted once, and
caught here: following names without asking whether a local name hides them; members of a class left out;
imports inside functions left out; the condition around a constant left out.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.premises.reach_cases import AGENT, FILES, INNOCENT, TAMPERED, Edit
from tests.behaviour.premises.scenario import Found, Scene

OWN = {"agent", "rates", "shop", "tools"}


class Shop(Scene):
    """The scene with a program of several modules."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        for name, text in FILES.items():
            self.write(name, text)
        self.write("shop/tax2.py", FILES["shop/tax.py"].replace("RATES[0]", "RATES[1]"))

    def program(self) -> Any:
        forget()
        return super().program()

    def change(self, edit: Edit) -> None:
        path = self.place / edit.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert edit.old in text, edit
        self.write(edit.file, text.replace(edit.old, edit.new))

    def broken(self) -> list[Any]:
        return [one for one in self.store.resume_plan(self.run).premises if one.verdict != "holds"]


def forget() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in OWN:
            del sys.modules[name]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for name in ("HOLDFAST_URL", "HOLDFAST_RUN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path / "project")
    before = Path.cwd()
    scene = Shop(tmp_path / "project")
    yield scene
    scene.store.close()
    forget()
    os.chdir(before)


@pytest.mark.parametrize("name", TAMPERED)
def test_a_change_is_told(shop: Shop, name: str) -> None:
    """The plan and the program tell the step that relies on it, and the name of what changed."""
    edit = TAMPERED[name]
    shop.attempt(lambda *_: None)
    shop.change(edit)
    told = [one for one in shop.broken() if one.premise.id == edit.premise]
    assert [one.verdict for one in told] == ["changed"], shop.planned()
    assert edit.told in told[0].text
    assert Found(edit.premise, "changed", "warn", "run") in shop.resume()
    assert [one for one in shop.resume() if one.premise.startswith("source")] == []


@pytest.mark.parametrize("name", INNOCENT)
def test_an_innocent_edit_is_not(shop: Shop, name: str) -> None:
    """Neither the plan nor the program tells anything."""
    shop.attempt(lambda *_: None)
    shop.change(INNOCENT[name])
    assert shop.resume() == []


def moved(text: str, definition: str, before: str) -> str:
    """The text with a definition put before another one."""
    begin = text.index(definition)
    end = text.index("\n\n\n", begin) + 3
    taken = text[begin:end]
    return text.replace(taken, "").replace(before, taken + before)


def test_the_order_of_definitions_does_not_count(shop: Shop) -> None:
    """Functions, classes and methods in another order are the same program."""
    shop.attempt(lambda *_: None)
    text = moved(AGENT, "def clamp", "class Basket")
    text = moved(text, "def scale", "def main")
    length = "    def __len__(self):\n        return self.n\n\n"
    text = text.replace(length, "").replace("    def idle", length + "    def idle")
    assert text != AGENT
    shop.write("agent.py", text)
    assert shop.resume() == []


def test_a_helper_that_moves_to_another_module_is_the_same(shop: Shop) -> None:
    """Its import changes, and neither its code nor its name."""
    shop.attempt(lambda *_: None)
    shop.change(Edit("rates.py", "def discount(n):\n    return -n\n", ""))
    shop.write("shop/cuts.py", "def discount(n):\n    return -n\n")
    shop.change(Edit("agent.py", "from rates import discount", "from shop.cuts import discount"))
    assert shop.resume() == []
