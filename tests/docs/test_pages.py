"""The pages are executed and read: every Python block runs, the README's terminal really happened, links lead somewhere,
and prose keeps to the width and the words of the project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.wrap_markdown import EXEMPT, WIDTH, WRITTEN, wrapped
from tests.support.fork_server import fork_server

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "docs/frameworks/agent-framework.md",
    "docs/frameworks/claude-agent-sdk.md",
    "docs/frameworks/crewai.md",
    "docs/frameworks/google-adk.md",
    "docs/frameworks/llama-index.md",
    "docs/frameworks/smolagents.md",
    "docs/frameworks/strands.md",
}
"""Pages whose programs need an environment of their own: they are run there, by ``tests/adapters``."""
PIECES = {"docs/deploying.md", "docs/testing.md"}
"""Pages whose blocks are pieces of programs that are tested whole, elsewhere."""
PAGES = [
    "README.md",
    *sorted(
        str(page.relative_to(ROOT))
        for page in (ROOT / "docs").rglob("*.md")
        if page.parent.name != "adr" and str(page.relative_to(ROOT)) not in PIECES
    ),
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
    program, output = tmp_path / "block.py", tmp_path / "output"
    program.write_text(f"import warnings; warnings.simplefilter('error')\n{code}", encoding="utf-8")
    with open(os.devnull) as nothing, output.open("wb") as file:
        child = fork_server().start(
            [str(program)], cwd=tmp_path, env=os.environ, stdin=nothing.fileno(), stdout=file.fileno()
        )
    try:
        assert child.wait(60) == 0, output.read_text(encoding="utf-8")
    finally:
        child.kill()


def test_the_first_screen_really_happened(tmp_path: Path) -> None:
    """The README's program, killed with ``kill -9`` by the README's own commands, does what the README shows."""
    shown = blocks("README.md", "console")[0][1]
    for number in range(5):
        killed, listing, resumed, again, published = typed(shown, tmp_path / str(number))
        if len(killed) == 2:  # else the machine paused for two seconds before the kill, and FR was finished
            break
    expected = [block.splitlines() for block in re.split(r"^\$ .*\n", shown, flags=re.MULTILINE)[1:]]
    assert killed == expected[0]
    assert listing[0].split() == expected[1][0].split()
    assert listing[1].split()[:4] == expected[1][1].split()[:4] == ["debt-cycles", "crashed", "point", "1"]
    assert listing[2:] == expected[1][2:]
    assert (resumed, again, published) == tuple(expected[2:])


SLEEP = """
sleep() {  # until the program has printed as much as on the page: however fast the machine is, the kill falls there
    for _ in $(seq 1200); do
        if [ "$(wc -l < output)" -ge "$SHOWN" ]; then return; fi
        command sleep 0.05
    done
}
"""


def typed(shown: str, place: Path) -> list[list[str]]:
    """The lines that each command of a terminal on the page gives, in a place with the page's program."""
    place.mkdir()
    ((name, program),) = [(n, code) for n, code in blocks("README.md", "python") if n]
    (place / name).write_text(program, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "110",
    }
    environment.pop("HOLDFAST_URL", None)
    output = place / "output"
    outputs = []
    for command, lines in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", shown, flags=re.MULTILINE):
        environment["SHOWN"] = str(len(lines.splitlines()))
        with output.open("wb") as file:
            subprocess.run(
                ["bash", "-c", SLEEP + command],
                cwd=place,
                env=environment,
                stdout=file,
                timeout=120,
                check=False,
            )
        outputs.append(output.read_text(encoding="utf-8").splitlines())
    return outputs


def test_the_demo_of_the_readme_runs(tmp_path: Path) -> None:
    """What the README says to type after installing works as it is typed."""
    _, installing = blocks("README.md", "console")
    install, demo = re.findall(r"^\$ (.*)$", installing[1], flags=re.MULTILINE)
    assert install == "pip install ."
    words = [str(Path(sys.executable).parent / demo.split()[0]), *demo.split()[1:]]
    subprocess.run(words, cwd=tmp_path, stdout=subprocess.DEVNULL, check=True, timeout=120)


def test_the_make_targets_exist() -> None:
    """The commands of the pages are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        target for page in WRITTEN for target in re.findall(r"`make ([\w-]+)", (ROOT / page).read_text())
    }
    assert len(targets) > 20
    there = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    assert targets - there - {"openai"} == set()


def rows(page: str) -> list[list[str]]:
    """The cells of the rows of a page's tables."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_the_table_on_the_front_is_the_measured_one() -> None:
    """Each row of it is one of docs/kills.md, with the same figures in the columns of the same names."""
    measured = {row[0]: row for row in rows("docs/kills.md")}
    head = next(row for row in rows("docs/kills.md") if "payments doubled" in row)
    front = rows("README.md")
    named = next(row for row in front if "payments doubled" in row)
    shown = [
        row
        for row in front
        if row[0] in measured and len(row) == len(named) and row[0] and "-" not in row[0][:1]
    ]
    assert len(shown) >= 8
    for row in shown:
        of_the_page = dict(zip(head, measured[row[0]], strict=True))
        assert row[1:] == [of_the_page[name] for name in named[1:]], row[0]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_no_line_installs_the_other_holdfast() -> None:
    """In the index that name is another project's. An extra of what is installed is safe, if all of it is there.

    ``pip install 'holdfast[memory]'`` replaced this package by the other one, on Python 3.12 (ADR 66).
    """
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "packages").rglob("*.md")]
    code = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    seen = 0
    for path in pages + code:
        if "adr" in path.parts or path.name == "history.md":
            continue
        for command in re.findall(r"pip install ([^`\n]*holdfast[^`\n]*)", path.read_text(encoding="utf-8")):
            seen += 1
            assert re.match(r"""['"]holdfast\[(?!memory)[\w{}.\[\]-]+\]['"]""", command), f"{path}: {command}"
    assert seen > 30


def test_links_lead_somewhere() -> None:
    """Every relative link of a page is a file here, and its anchor a heading there."""
    seen = 0
    for page in WRITTEN:
        for link in re.findall(r"\]\((?!http)([^)]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            file, _, anchor = link.partition("#")
            target = (ROOT / page).parent / file if file else ROOT / page
            assert target.exists(), f"{page}: {link}"
            assert not anchor or anchor in anchors(target), f"{page}: {link}"
            seen += bool(anchor)
    assert seen > 10


def prose(page: str) -> list[tuple[int, str]]:
    """The lines of a page outside of blocks, with their numbers."""
    lines, is_block = [], False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("```"):
            is_block = not is_block
        elif not is_block:
            lines.append((number, line))
    return lines


def test_no_page_has_two_versions_of_a_line() -> None:
    """Nothing is left of a merge. Found once, in a page that no other test reads line by line."""
    marked = [
        f"{page}:{number}"
        for page in WRITTEN
        for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith(("<<<<<<< ", ">>>>>>> "))
    ]
    assert marked == []


def test_prose_is_wrapped() -> None:
    """A line of a page has at most 110 characters, but for rows of tables: ``python -m scripts.wrap_markdown`` sees to it."""
    long = [
        f"{page}:{number}"
        for page in WRITTEN
        if page not in EXEMPT
        for number, line in prose(page)
        if len(line) > WIDTH and not line.startswith("|")
    ]
    assert long == []


def test_wrapping_changes_nothing_but_the_lines() -> None:
    """Words, code and links stay whole; blocks, tables, headings and short paragraphs stay as they are."""
    word, code, link = "word " * 30, "`a b c`" * 5, "[a link](docs/a b.md)"
    kept = f"# {word}\n\n| {word} |\n\n```text\n{word}\n```\n\nshort\nlines\n\n"
    page = f"{kept}- {word}{code}\n  {word}{link}\n- next\n\n{word}\n"
    made = wrapped(page)
    assert made.startswith(kept)
    assert made.split() == page.split()
    assert code in made
    assert link in made
    assert all(len(line) <= WIDTH for line in made.removeprefix(kept).splitlines())
    items = made.removeprefix(kept).partition("\n\n")[0].splitlines()
    assert {line[:2] for line in items} == {"- ", "  "}
    assert wrapped(made) == made


UNPLAIN = re.compile(r"\bwhoever\b|\bsomebody\b|\bstands\b|\b(?:is|are) told\b|\bcircles?\b", re.IGNORECASE)


def test_the_pages_are_in_plain_english() -> None:
    """Subject, verb, object; and one word per idea: loops are not circles. Decisions keep the words of their time."""
    found = [
        f"{page}:{number}: {word[0]}"
        for page in WRITTEN
        if page not in EXEMPT and not page.startswith("docs/adr/")
        for number, line in prose(page)
        if (word := UNPLAIN.search(re.sub(r"`[^`]*`", "", line)))
    ]
    assert found == []
