"""``holdfast copy``: what it prints on a terminal, in a pipe and as JSON, and its exit codes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def prepare(shop: "Shop") -> None:
    with holdfast.run("talk", store=shop.store, goal="find out why") as run:
        run.step("ask", str.upper, "why " * 5000)
        run.checkpoint({"a": 1}, label="sent")
    shop.store.fork("talk@sent", as_="deep")
    with holdfast.run("deep", store=shop.store) as run:
        run.step("ask", str.upper, "why " * 5000)
        run.step("ask", str.upper, "how")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    """Where the runs go; opened by whoever looks."""
    place = tmp_path / "other" / "copies.db"
    place.parent.mkdir()
    yield place
    if place.exists():
        holdfast.store(place).close()


def told(text: str) -> str:
    """Without sizes, which depend on the machine, and with a name for the other store."""
    text = text.replace("sqlite:///HERE/other/copies.db", "OTHER-URL").replace(
        "HERE/other/copies.db", "OTHER"
    )
    return re.sub(r" +(\d+(\.\d)? (kB|bytes)|SIZE)\b", "  SIZE", text)


def test_copying_says_what_lies_there(own_shop: "Shop", other: Path) -> None:
    """Each run, what had to be written, that it was compared; and who acts."""
    prepare(own_shop)
    answer = own_shop("copy", "--to", str(other))
    assert answer.code == 0
    assert told(answer.out) == dedent("""\
        RUN   OUTCOME  THERE   EVENTS  BLOBS  SIZE
        talk  copied   sealed       7      2  SIZE
        deep  copied   sealed       6  SIZE

        copied    2 runs: 13 events and 2 blobs  SIZE
        from      URL
        to        OTHER-URL
        verified  2 runs read back from there, every event and blob compared
        sealed    the copies do not act; the originals continue
        """)
    assert answer.err == "1 of 2: copying talk\n2 of 2: copying deep\n"
    again = own_shop("copy", "--to", str(other))
    assert re.findall(r"^(\w+) +already there +sealed$", again.out, re.MULTILINE) == ["talk", "deep"]
    assert "copied    0 runs: 0 events and 0 blobs" in again.out


def test_moving_says_who_acts(own_shop: "Shop", other: Path) -> None:
    """The runs have their status there, and are sealed here; what is done twice says so."""
    prepare(own_shop)
    answer = own_shop("copy", "--to", str(other), "--move")
    assert answer.code == 0
    assert re.findall(r"^(\w+) +moved +(\w+)", answer.out, re.MULTILINE) == [
        ("talk", "finished"),
        ("deep", "finished"),
    ]
    assert "moved     2 runs: " in answer.out
    assert "sealed    the originals no longer act" in answer.out
    assert answer.err.splitlines()[2:] == [
        "1 of 2: sealing talk",
        "2 of 2: sealing deep",
        "1 of 2: waking deep",
        "2 of 2: waking talk",
    ]
    refused = own_shop("resume", "deep")
    assert (refused.code, told(refused.err).splitlines()[0]) == (
        1,
        "error: run deep was moved to OTHER-URL",
    )
    again = own_shop("copy", "--to", str(other), "--move")
    assert again.out.count("already there  finished") == 2
    assert again.out.count("it was moved there before") == 2
    assert "verified" not in again.out


def test_a_dry_run_writes_nothing(own_shop: "Shop", other: Path) -> None:
    """What would go, and the line that does it."""
    prepare(own_shop)
    answer = own_shop("copy", "--to", str(other), "--dry-run", "--move", "deep")
    assert answer.code == 0
    assert "deep  would move" in answer.out
    assert "with the history of talk" in answer.out
    line = told(answer.out).splitlines()[-1]
    assert line == "  holdfast copy --from STORE --to OTHER --move deep  # do it"
    assert not list(other.parent.iterdir())


def test_what_is_refused_is_told_by_name(own_shop: "Shop", other: Path) -> None:
    """Exit code 1; the others went; and the line to type when nothing stands in the way any more."""
    prepare(own_shop)
    with holdfast.run("live", store=own_shop.store) as run:
        run.step("ask", str.upper, "what")
        answer = own_shop("copy", "--to", str(other))
    assert answer.code == 1
    assert "run live is held by process 4242 on host (this process) since" in answer.out
    assert sorted(re.findall(r"^(\w+) +(copied|refused) ", answer.out, re.MULTILINE)) == [
        ("deep", "copied"),
        ("live", "refused"),
        ("talk", "copied"),
    ]
    assert "refused   1 run\n" in answer.out
    assert answer.out.endswith("# again, when nothing prevents it: it continues\n")
    assert own_shop("copy", "--to", str(other)).code == 0


def test_misuse(own_shop: "Shop", other: Path) -> None:
    """The same store twice, a point instead of a run, no target, a run that is not there."""
    prepare(own_shop)
    same = own_shop("copy", "--to", str(own_shop.path))
    assert (same.code, same.err.splitlines()) == (
        2,
        [
            "error: URL is both where the runs are and where they are to go",
            "hint: name two stores, with --from and --to",
        ],
    )
    assert own_shop("copy", "--to", str(other), "talk@1").code == 2
    assert "missing option '--to'" in own_shop("copy").err
    assert own_shop("copy", "--to", str(other), "nobody").code == 1
    assert own_shop("copy", "--to", "mysql://x").code == 2
    assert not list(other.parent.iterdir()), "nothing was made for it"


def test_nothing_to_copy(own_shop: "Shop", other: Path) -> None:
    """Is said."""
    own_shop.store.runs()
    assert own_shop("copy", "--to", str(other)).out == "there is nothing to copy in URL\n"


def test_json(own_shop: "Shop", other: Path) -> None:
    """One document, and no progress beside it."""
    prepare(own_shop)
    answer = own_shop("copy", "--to", str(other), "--json")
    assert answer.err == ""
    made = json.loads(answer.out)
    assert (made["move"], made["dry_run"], made["verified"], made["events"]) == (False, False, 2, 13)
    assert [run["run"] for run in made["runs"]] == ["talk", "deep"]


def test_a_bar_on_a_terminal(own_shop: "Shop", other: Path) -> None:
    """It fills up in one line, which is gone when it is done; the table stays."""
    prepare(own_shop)
    out = own_shop.on_terminal("copy", "--to", str(other), columns=100)
    bar, table = out.split("\x1b[?25h")
    assert "1/2" in bar
    assert "copying deep" in bar
    assert "\n" not in bar.rstrip("\n")
    assert "✓" in table
    assert "copying" not in table
    plain = own_shop.on_terminal("copy", "--to", str(other), columns=100, TERM="dumb")
    assert "1 of 2: copying talk\n" in plain
