"""What a step calls and reads in the user's own modules is part of what it relies on.

Every case is seen twice: by the plan, which reads source files, and by the resumed program. Planted once, and
caught here: following names that a local name hides; members of a class left out; the condition around a
constant left out; facts of a process kept although a file has changed; facts of an earlier version compared
with today's.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.behaviour.premises.reach_cases import AGENT, FILES, INNOCENT, QUOTE, TAMPERED, Edit
from tests.behaviour.premises.scenario import Found, Scene

from holdfast import limits
from holdfast.core.premises import reach
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.premises.source_change import judge_source
from holdfast.engine.premises import probes, sources
from holdfast.views.resume_plan import Launch, arrange

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


# -- facts of earlier versions -------------------------------------------------------------------------------


def by_tokens(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that records as earlier versions did."""
    with monkeypatch.context() as patch:
        patch.setattr(probes, "source_of", probes.tokens_of)
        shop.attempt(lambda *_: None)


def facts_of(shop: Shop, premise: str) -> dict[str, Any]:
    return PREMISES.of(shop.store.view(shop.run))[premise].facts or {}


def test_an_upgrade_alarms_nobody(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts of an earlier version are compared as they were made: the function itself, by its tokens."""
    by_tokens(shop, monkeypatch)
    assert set(facts_of(shop, QUOTE)) == {"file", "function", "hash"}
    shop.change(TAMPERED["a helper"])
    assert shop.resume() == []
    shop.change(TAMPERED["the function itself"])
    assert [(one.premise, one.by) for one in shop.resume()] == [(QUOTE, "plan"), (QUOTE, "run")]


def test_the_next_live_call_records_the_new_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on, helpers are seen for that function, too."""
    by_tokens(shop, monkeypatch)
    again = lambda run, program: run.step("quote", program.quote, 4)  # noqa: E731
    assert shop.resume(again) == []
    assert facts_of(shop, QUOTE)["version"] == 2
    shop.change(TAMPERED["a helper"])
    assert {one.premise for one in shop.resume(again)} == {QUOTE}


def test_facts_of_a_later_version_are_unknown() -> None:
    """They stop nobody and warn nobody."""
    now = {"file": "a.py", "function": "f", "hash": "1", "version": 2}
    assert judge_source({**now, "version": 3, "hash": "2"}, now)[0] == "unknown"


def test_a_function_in_a_large_file_is_compared_by_itself(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is not parsed at the first call. Its own change is found."""
    monkeypatch.setattr(sources, "PREMISE_TREE_BYTES_MAX", 100)
    shop.attempt(lambda *_: None)
    assert "version" not in facts_of(shop, QUOTE)
    shop.change(TAMPERED["the function itself"])
    assert QUOTE in {one.premise for one in shop.resume()}


def test_beyond_the_bound_nothing_is_compared(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first names are compared, and those that another edit brings into view are no change."""
    with monkeypatch.context() as bounded:
        bounded.setattr(reach, "PREMISE_USES_MAX", 4)
        shop.attempt(lambda *_: None)
        facts = facts_of(shop, QUOTE)
        assert (facts["partial"], len(facts["uses"])) == (True, 4)
    assert [one for one in shop.broken() if one.premise.id == QUOTE] == []


def test_a_helper_that_cannot_be_read_is_no_change(shop: Shop) -> None:
    """A file with an error in it is told by Python, when it is loaded."""
    shop.attempt(lambda *_: None)
    shop.write("rates.py", "def base(:\n")
    assert [one for one in shop.broken() if one.premise.kind == "source"] == []


# -- cost, and what is kept ----------------------------------------------------------------------------------


def test_a_function_is_read_once_in_a_process(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run in the same process looks at no syntax tree."""
    calls: list[Any] = []

    def counted(*args: Any) -> reach.Reached:
        calls.append(args)
        return reach.reach(*args)

    monkeypatch.setattr(sources, "reach", counted)
    shop.attempt(lambda *_: None)
    first = len(calls)
    shop.run = "other"
    shop.attempt(lambda *_: None)
    assert (first, len(calls)) == (6, 6)


@pytest.mark.parametrize(("more", "kept"), [(-1, ["m.f", "m.g"]), (0, ["m.f"]), (1, ["m.g"])])
def test_the_edge_of_the_source_that_is_kept(more: int, kept: list[str]) -> None:
    """As much as the bound is kept; what does not fit is left out, and what is shorter still is not.

    Planted: no bound. The test below noticed nothing, because its program is short.
    """
    walk = reach._Walk(None)  # type: ignore[arg-type]  # it reads nothing here
    for name, text in (("f", "x" * (limits.PREMISE_TEXT_CHARS_MAX + more)), ("g", "y")):
        walk._keep(reach._Unit(SimpleNamespace(name="m"), name, ()), text)  # type: ignore[arg-type]
    assert list(walk._texts) == kept


def test_the_source_that_is_kept_is_bounded(shop: Shop) -> None:
    """The function comes first; findings and handoffs have none of it; a key is nowhere."""
    shop.attempt(lambda *_: None)
    texts = facts_of(shop, QUOTE)["texts"]
    assert sum(map(len, texts.values())) <= limits.PREMISE_TEXT_CHARS_MAX
    assert next(iter(texts)) == "agent.quote"
    shop.change(TAMPERED["a helper"])
    shop.resume()
    (broken,) = [one for one in shop.store.events(shop.run) if one.kind == "premise.broken"]
    assert b"texts" not in broken.body
    assert not any(b"sk-1" in event.body for event in shop.store.events(shop.run))
    assert "def scale" not in json.dumps(shop.store.handoff(shop.run, to="another"))


def test_the_plan_shows_the_difference(shop: Shop) -> None:
    """Of the helper that changed, as far as its source was kept."""
    shop.attempt(lambda *_: None)
    shop.change(TAMPERED["a helper"])
    launch = Launch((), "", {})
    (line,) = [one for one in arrange(shop.store.resume_plan(shop.run), launch).premises if one.diffs]
    assert line.premise == QUOTE
    assert line.text == "uses what has changed: agent.scale"
    (diff,) = line.diffs
    assert diff == (
        "agent.scale",
        (
            '     """Scale it."""',
            "-    return clamp(n * factor) + MARGIN",
            "+    return clamp(n - factor) + MARGIN",
        ),
    )


# -- the digest ----------------------------------------------------------------------------------------------

TEXT = '''
def outer(a, *, b: "int" = 3) -> str:
    """Doc."""
    class Inner:
        field: int = 2 ** 70

        async def method(self, é):
            s = f"é {é!r:>{10}} {f'{a}'} x" "more" f"{a=}" f""
            return f"""a
  {s}
b""" + s + "\\U0001fae8"
    match a:
        case {"x": 1, **rest} | [*rest]:
            return rest
    try:
        return [x async for x in a if (y := x)]
    except* (ValueError, *b) as error:
        return 0x10, 1e9, 2j, b"c", ..., None, True, lambda q=a, /, *r: -q
    finally:
        del a[1:2, ...], b.c
'''
KNOWN = "2aa18726acd39f1d0548ec5f"
"""Written down, so that any Python that sees it otherwise is noticed, whichever runs these tests."""
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.core.premises.syntax import code_of, digest_of
import ast
code = code_of(ast.parse(sys.argv[2]).body, lambda _: False)
print(digest_of(code.text), sorted(code.names), sorted(code.attributes))
"""


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_python_sees_the_same(python: str) -> None:
    """The digest, the free names and the attributes, where that Python is installed."""
    found = next(iter(map(str, Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))), None)
    found = found or shutil.which(f"python{python}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no Python {python} here; the written digest is compared in any case")
    place = str(Path(reach.__file__).parents[3])
    told = subprocess.run([found, "-c", CODE, place, TEXT], capture_output=True, text=True, check=True).stdout
    assert told == f"{KNOWN} [('ValueError',), ('int',)] ['c']\n"
