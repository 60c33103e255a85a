"""The site has every page once, the reference has everything that is public, and links lead somewhere.

What needs Sphinx is in ``make docs``. This reads what Sphinx would read, in a second.
"""

import json
import os
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from scripts import newcomer, replay_picture, try_packages
from scripts.site import stage
from scripts.site.api_pages import CLASSES, PAGES, error_names, grouped_names
from scripts.site.command_pages import sections, usage
from scripts.site.error_pages import PAGES as ERROR_PAGES
from scripts.site.error_pages import _template, cure, errors_of, every_error
from scripts.site.navigation import PARTS, UNDER

import holdfast
from holdfast.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "packages").rglob("*.py")]


@pytest.fixture(scope="module")
def site() -> stage.Site:
    made = stage.Site()
    made.collect()
    return made


def test_every_page_is_in_the_navigation_once(site: stage.Site) -> None:
    """A page that is added to docs/ needs a place; a place needs its page."""
    placed = Counter(page for pages in PARTS.values() for page in pages)
    assert max(placed.values()) == 1
    made = ("commands/", "reference/api/", "reference/errors/", *(f"{folder}/" for folder in UNDER.values()))
    pages = {place.removesuffix(".md") for place in site.pages} - {"index"}
    assert {page for page in pages if page in placed or not page.startswith(made)} == set(placed)


def test_every_public_name_is_in_the_reference() -> None:
    """Once, in a group or as an error. A name that becomes public needs a place where a user would look for it."""
    names = [name for name in grouped_names() if "." not in name]
    assert Counter(names) == Counter(set(holdfast.__all__) - {"__version__"} - set(error_names()))
    assert set(error_names()) <= set(holdfast.__all__)


@pytest.mark.parametrize("owner", CLASSES)
def test_every_attribute_is_in_the_reference(owner: str) -> None:
    """Of the classes that users hold: once, in a group. AsyncRun has the names of Run."""
    grouped = Counter(name.partition(".")[2] for name in grouped_names() if name.startswith(f"{owner}."))
    public = {name for name in dir(getattr(holdfast, owner)) if not name.startswith("_")}
    assert grouped == Counter(public)
    if owner == "Run":
        assert public == {name for name in dir(holdfast.AsyncRun) if not name.startswith("_")}


def test_docstrings_have_the_groups_of_the_reference() -> None:
    """``help(holdfast)`` names the five first, then every other name once; ``help(holdfast.Run)`` groups its attributes.

    They were lists of 120 and 51 names, in the order of the alphabet.
    """
    first, _, others = (holdfast.__doc__ or "").partition("The others come")
    five = {"run", "step", "tool", "checkpoint", "wrap"}
    assert five <= set(re.findall(r"(?:holdfast|run)\.(\w+)", first))
    names = Counter(name for group in grouped_in(others).values() for name in group)
    assert names == Counter(set(holdfast.__all__) - five - set(error_names()) - {"__version__"})
    assert {"HoldfastError", "StopSignal"} <= set(re.findall(r"\w+", others))

    _, _, groups = PAGES["run"]
    on_page = {group.title.lower(): {name.partition(".")[2] for name in group.names} for group in groups[1:]}
    on_page["do work"].add("step")  # on the page of the five
    on_page["state"].add("checkpoint")
    assert {title: set(names) for title, names in grouped_in(holdfast.Run.__doc__ or "").items()} == on_page


def grouped_in(docstring: str) -> dict[str, list[str]]:
    """The names of each ``- title: one, other``, which may go on in the next line."""
    lines = re.findall(r"^ *- ([a-z, ]+): (\w+(?:,\s+\w+)*)$", docstring, flags=re.MULTILINE)
    return {title: re.split(r",\s+", names) for title, names in lines}


def test_every_error_has_a_page_a_cause_and_a_cure() -> None:
    """On exactly one page. The cause is its docstring, the cure its hint; one without a hint is in CURES."""
    on_pages = Counter(cls for page in ERROR_PAGES for cls in errors_of(page))
    assert max(on_pages.values()) == 1
    assert {cls.__name__ for cls in on_pages} == set(error_names())
    families = {cls for _, cls in ERROR_PAGES.values()}
    for cls in every_error():
        assert cls.__doc__
        assert not cls.says or cls in families or cure(cls), cls


def test_what_an_error_says_has_one_field_a_word() -> None:
    """On its page. A part that may be missing was glued to the field before it: "at ATWHY"."""
    for cls in every_error():
        for one, other in re.findall(r"\{(\w+)[^}]*\}\{(\w+)", cls.says):
            assert f"{one}{other}".upper() not in _template(cls.says)
    assert _template(holdfast.RunCancelled.says) == "run RUN was cancelled by BY at AT"
    assert "AGAIN" not in cure(holdfast.ForeignCommand)


def test_titles_of_decisions_are_of_one_form() -> None:
    """ "29. Effects behind a fork", with the number of the file. The index had them in two forms."""
    for path in sorted((ROOT / "docs" / "adr").glob("*.md")):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        assert re.match(rf"# {int(path.name[:3])}\. [^a-z]", first), first


def test_every_command_has_a_page_with_its_usage(site: stage.Site) -> None:
    """The text is cut from docs/commands.md, the usage is what the command prints."""
    assert {place for place in site.pages if place.startswith("commands/")} == {
        f"commands/{one}.md" for one in COMMANDS
    }
    assert "--keep-checkpoints" in usage("prune")
    _, texts = sections((ROOT / "docs" / "commands.md").read_text(encoding="utf-8"))
    assert all(len(text.strip()) > 100 for text in texts.values())


def test_every_link_of_the_site_leads_somewhere(site: stage.Site) -> None:
    """To a page that is there, and to a heading of it. Links out of the site have become text."""
    headings = {place: anchors(text) for place, (_, text) in site.pages.items()}
    seen = 0
    for place, (source, text) in site.pages.items():
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", without_code(site.linked(place, source, text))):
            file, _, anchor = link.partition("#")
            wanted = os.path.normpath(Path(place).parent / file) if file else place
            assert wanted in headings or wanted in site.files, f"{place}: {link}"
            assert not anchor or anchor in headings[wanted], f"{place}: {link}"
            seen += 1
    assert seen > 300


def test_a_link_out_of_the_site_becomes_text(site: stage.Site) -> None:
    """And one to a command leads to the page of that command; in code nothing changes."""
    made = site.linked(
        "tour.md", "docs/tour.md", "[x](../src/a.py) [y `z`](commands.md#holdfast-runs)\n\n```\n[x](a)\n```\n"
    )
    assert made == "x [y `z`](commands/runs.md)\n\n```\n[x](a)\n```\n"


def without_code(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    return {
        stage.slug(heading) for heading in re.findall(r"^#+ (.*)$", without_code(text), flags=re.MULTILINE)
    }


def test_every_variable_is_on_the_page() -> None:
    """Of the environment: those that the code names, and no others."""
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCES if "testing" not in path.parts)
    named = set(re.findall(r"(?<![A-Z_])HOLDFAST_[A-Z_]+[A-Z]", code))
    assert set(re.findall(r"(?<![A-Z_])HOLDFAST_[A-Z_]+[A-Z]", page)) == named


def test_every_option_of_a_run_is_on_the_page() -> None:
    """``holdfast.run`` takes what the configuration page says it takes."""
    import inspect

    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    _, _, options = page.partition("## Options of a run")
    named = set(re.findall(r"`(\w+)=`", options.partition("## Logging")[0]))
    assert named == set(inspect.signature(holdfast.run).parameters) - {"id", "run_id"}


def test_every_kind_of_event_is_on_the_page() -> None:
    """Of the storage format: whoever reads a journal finds what its kinds mean."""
    from holdfast.model.event_schema import SCHEMAS

    page = (ROOT / "docs" / "reference" / "storage-format.md").read_text(encoding="utf-8")
    table = page.partition("| kind |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z]+(?:\.[a-z]+)?)`", table)) - {"effect", "key", "name"} >= set(SCHEMAS)


def test_the_picture_is_what_its_script_draws() -> None:
    """Of what runs again. Run ``python -m scripts.replay_picture`` if this fails."""
    assert (ROOT / replay_picture.FILE).read_text(encoding="utf-8") == replay_picture.picture()


def test_the_newcomer_types_what_the_page_says() -> None:
    """The figures on the last of the Start pages are those of the pages as they are."""
    page = " ".join((ROOT / "docs" / "start" / "your-agent.md").read_text(encoding="utf-8").split())
    counted = newcomer.counted(newcomer.blocks())
    assert counted.commands < 20
    assert str(counted) in page


def test_every_extra_is_tried_in_an_empty_environment() -> None:
    """By ``make packages``. One was left out, because nothing compared its list with the project's."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(try_packages.EXTRAS) == set(declared["optional-dependencies"])


def test_a_notebook_is_a_page(site: stage.Site) -> None:
    """Every cell of it, in order: the list of examples had a name there that led nowhere."""
    cells = json.loads((ROOT / "examples/notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    _, page = site.pages["examples/notebook.md"]
    places = [page.index("".join(cell["source"])) for cell in cells]
    assert places == sorted(places)
    assert page.count("```python") == sum(cell["cell_type"] == "code" for cell in cells)


def test_pages_made_from_the_code_are_linked(site: stage.Site) -> None:
    """The table of the Python API names them; on the site each name leads there."""
    source, text = site.pages["reference/index.md"]
    made = site.linked("reference/index.md", source, text)
    assert "[`reference/api/run`](api/run.md)" in made
    assert "[`reference/errors`](errors.md)" in made


def test_a_picture_is_shown_as_the_reader_has_the_site(site: stage.Site) -> None:
    """In the dark, the dark one. One without a dark sister stays as it is."""
    made = site.pictured("index.md", "![A run](images/inspector-light.png)\n![x](images/replay-light.png)")
    assert ":class: only-dark" in made
    assert "images/inspector-dark.png" in made
    assert made.endswith("![x](images/replay-light.png)")
