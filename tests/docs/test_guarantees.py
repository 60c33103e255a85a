"""docs/guarantees.md is what its sources say, and they name only what there is.

Planted: a count changed in a result, a sentence changed on the page, a trial that names a test file which was moved, a
result of a target that the Makefile does not have, a promise that the tour words in another way, a row that is there twice.
"""

import re
from pathlib import Path

import pytest
from scripts.guarantees import PAGE, page
from scripts.promises import PROMISES, Promise
from tests.support.results import ROOT, Result, age, load_all

RESULTS = load_all()
TARGETS = set(
    re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
)


def test_the_page_is_made_of_its_sources() -> None:
    """``make guarantees`` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page(RESULTS), "make guarantees"


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.title)
def test_a_promise_names_what_there_is(promise: Promise) -> None:
    """Each trial is a test file, a folder with tests or a target; a promise without a gap has not been thought through."""
    assert promise.trials
    assert promise.not_covered
    places = [where for where, _ in promise.trials]
    assert len({*places}) == len(places), "one row for each"
    for where, _ in promise.trials:
        if where.startswith("make "):
            assert where.removeprefix("make ") in TARGETS, where
        else:
            place = ROOT / where
            assert place.is_file() or any(place.rglob("test_*.py")), where


def test_the_tour_promises_the_same() -> None:
    """The first six promises are those of the page that users read, word for word in their titles."""
    told = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md") if path != PAGE)
    listed = re.findall(r"^[1-6]\. \*\*(.+?)\.\*\*", told, flags=re.MULTILINE)
    assert [promise.title for promise in PROMISES[:6]] == listed[:6]


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_whole(name: str) -> None:
    """It is of a target that there is, has counted something, and has passed. Its age is printed."""
    result = RESULTS[name]
    commits = age(result)
    print(f"{name}: {result.date}, {'an unknown number of' if commits is None else commits} commits behind")
    assert result.target == name.partition(".")[0]
    assert result.target in TARGETS
    assert result.counts
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result.date)
    assert re.fullmatch(r"[0-9a-f]{7,40}\+?", result.commit)
    assert result.passed, f"the last make {result.target} has failed"


def test_counts_of_every_shape_are_shown() -> None:
    """Numbers, texts and groups; a failed run is called one; a bar in a cell does not end it."""
    counts = {"kills": 1200, "part lost": "0.3%", "by folder": {"tests/unit": 3}}
    made = page(
        {
            "kills": Result(
                "kills", "2026-01-02", "0123456789", "python -m bench.kills", counts, 61.0, passed=False
            ),
            "mutants": Result(
                "mutants", "2026-01-02", "0123456789", "x", {"a": 1}, 1, True, ({"by": "a|b"},)
            ),
        }
    )
    assert "**failed**: 1,200 kills, part lost 0.3%, 3 by folder tests/unit" in made
    assert "| a\\|b |" in made


def test_results_of_this_machine_name_no_place_of_it() -> None:
    """Commands are such as anybody may type."""
    for result in RESULTS.values():
        assert str(Path.home()) not in result.command
        assert "/work" not in result.command
        assert "/tmp" not in result.command
