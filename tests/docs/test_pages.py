"""README and guide are executed: every Python block runs, and the terminal of the first screen really happened."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"docs/frameworks/crewai.md"}
"""Pages whose programs need an environment of their own: they are run there, by ``tests/adapters/crewai``."""
FRAMEWORKS = sorted(f"docs/frameworks/{page.name}" for page in (ROOT / "docs/frameworks").glob("*.md"))
PAGES = [
    "README.md",
    "docs/guide.md",
    "docs/models.md",
    "docs/memory.md",
    "docs/artifacts.md",
    "docs/handoff.md",
    "docs/frameworks.md",
    *FRAMEWORKS,
]


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: the rest of the opening line, and the content."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}[ ]?([^\n]*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


PYTHON = [
    (page, code)
    for page in PAGES
    if page not in ELSEWHERE
    for name, code in blocks(page, "python")
    if not name
]


@pytest.mark.parametrize(("page", "code"), PYTHON, ids=[f"{page}-{n}" for n, (page, _) in enumerate(PYTHON)])
def test_python_blocks_run(page: str, code: str, tmp_path: Path) -> None:
    """Each block is a program of its own."""
    program = tmp_path / "block.py"
    program.write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, "-W", "error", str(program)], cwd=tmp_path, check=True, timeout=60)


def test_the_first_screen_really_happened(tmp_path: Path) -> None:
    """The README's program, killed with ``kill -9`` by the README's own commands, does what the README shows."""
    shown = blocks("README.md", "console")[0][1]
    for number in range(5):
        killed, listing, resumed, again, published = typed(shown, tmp_path / str(number))
        if (
            len(killed) > 1
        ):  # a machine that took a second to start Python is killed before it finished anything
            break
    expected = re.findall(r"^\$ [^\n]*\n((?:[^$][^\n]*\n?)*)", shown, flags=re.MULTILINE)
    assert listing[0].split() == expected[1].splitlines()[0].split()
    assert listing[1].split()[:2] == ["debt-cycles", "crashed"]
    # The kill falls where the machine is by then: what was finished before it is not compared again.
    finished_before = set(killed[:-1])
    assert finished_before
    assert not finished_before & set(resumed)
    assert set(killed) | set(resumed) == {"comparing DE", "comparing FR", "comparing JP", "published"}
    assert resumed[-1] == "published"
    assert again == []
    assert published == expected[4].splitlines()


def typed(shown: str, place: Path) -> list[list[str]]:
    """The lines that each command of a terminal on the page gives, in a place with the page's program."""
    place.mkdir()
    ((name, program),) = [(n, code) for n, code in blocks("README.md", "python") if n]
    (place / name).write_text(program, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "100",
    }
    environment.pop("HOLDFAST_URL", None)
    outputs = []
    for command in re.findall(r"^\$ (.*)$", shown, flags=re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", command], cwd=place, env=environment, capture_output=True, text=True, timeout=60
        )
        outputs.append([line for line in done.stdout.splitlines() if line.strip()])
    return outputs


def test_the_make_targets_exist() -> None:
    """The commands of the README are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_links_lead_somewhere() -> None:
    """Every relative link of a page is a file here."""
    for page in [*PAGES, "CHANGELOG.md", "docs/glossary.md"]:
        here = (ROOT / page).parent
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (here / link).exists(), f"{page}: {link}"
