"""``docs/architecture.md`` and ``CONTRIBUTING.md`` say what is so: the trees, the arrows, and every file and function they name."""

import ast
import re
from pathlib import Path

import pytest
from scripts.draw_arrows import arrows, drawn, redrawn

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(title: str) -> list[str]:
    """The lines of a drawing on the page."""
    found = re.search(rf"^```text {title}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1].splitlines()


def folders(path: Path) -> set[str]:
    return {one.name for one in path.iterdir() if one.is_dir() and (one / "__init__.py").exists()}


def test_the_tree_of_layers_is_the_tree() -> None:
    """Each layer and each module beside them has one line, and nothing else has."""
    named = [line.split()[0] for line in block("tree of layers")]
    files = {path.name for path in PACKAGE.glob("*.py")}
    assert sorted(named) == sorted(folders(PACKAGE) | files)


def test_the_tree_of_subjects_is_the_tree() -> None:
    """Each subject has one line, which says whether it is in core, in engine or in both."""
    named = {}
    for line in block("tree of subjects"):
        subject, *words = line.split()
        named[subject] = {word for word in words[:2] if word in {"core", "engine"}}
    layers = {layer: folders(PACKAGE / layer) for layer in ("core", "engine")}
    assert named == {
        subject: {layer for layer, subjects in layers.items() if subject in subjects}
        for subject in layers["core"] | layers["engine"]
    }


def test_the_arrows_are_the_imports() -> None:
    """The drawings are what ``python -m scripts.draw_arrows`` makes of the sources: run it if this fails."""
    assert redrawn(PAGE) == PAGE


def test_a_new_import_changes_the_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import inside a function counts like one at the top; an arrow to a layer open to all is left out."""
    monkeypatch.setattr("tests.architecture.test_arrows.PACKAGE", tmp_path)
    module = tmp_path / "core" / "steps" / "step.py"
    module.parent.mkdir(parents=True)
    (tmp_path / "core" / "prune").mkdir()
    module.write_text("from holdfast.errors import X\n\ndef f():\n    from holdfast.core.prune import plan\n")
    found = arrows([module])
    assert found["arrows between layers"] == {}
    assert drawn(found["arrows between the subjects of core"]) == "steps → prune\n"


def defined(path: Path) -> set[str]:
    """The names of a module: functions, classes, constants, and the methods of its classes."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
            }
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


NAMED = [
    (page, *found)
    for page, text in (("architecture.md", PAGE), ("CONTRIBUTING.md", CONTRIBUTING))
    for found in re.findall(r"`([\w/]+\.py) → ([\w.]+)`", text)
]


def test_every_function_that_is_named_exists() -> None:
    """Each ``file → function`` names a file of the package and a function, class, method or constant in it."""
    assert len(NAMED) > 60, "the pages name their walks in another form: the test sees nothing"
    for page, file, name in NAMED:
        assert (PACKAGE / file).is_file(), f"{page}: {file}"
        assert name in defined(PACKAGE / file), f"{page}: {file} has no {name}"


def test_every_file_that_is_named_exists() -> None:
    """Paths in backticks are files or folders of the project, or of the package; ``<name>`` is yours to choose."""
    for page, text in (("architecture.md", PAGE), ("CONTRIBUTING.md", CONTRIBUTING)):
        for path in re.findall(r"`([\w.]+/[\w./]*\w/?)`", text):
            assert (ROOT / path).exists() or (PACKAGE / path).exists(), f"{page}: {path}"
