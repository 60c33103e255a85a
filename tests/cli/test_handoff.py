"""``holdfast handoff`` and ``holdfast accept``: the giver is sealed or keeps going, the taker is told what is lost."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tests.cli.test_docs_page import documented

import holdfast
from holdfast.cli.app import app
from holdfast.core.transfer.handoff import SCHEMA

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of one's own to type in."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def elsewhere(path: Path, *args: str) -> tuple[int, str, str]:
    """A command line on another store."""
    found = CliRunner().invoke(app, [*args, "--store", str(path)], env={"COLUMNS": "80"})
    return found.exit_code, found.stdout, found.stderr


def test_a_run_in_doubt_is_handed_over_and_goes_on_in_another_store(own_shop: "Shop", place: Path) -> None:
    """Sealed and written; asked for again the same; accepted elsewhere with its doubt; both say where the work is."""
    own_shop.work("debt-cycles", "crash")
    handed = own_shop("handoff", "debt-cycles", "--to", "writer", "--seal")
    assert handed.code == 0, handed.err
    assert "handed over  debt-cycles to writer, up to #" in handed.out
    assert "it no longer acts here" in handed.out
    file = place / "debt-cycles.handoff.json"
    written = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert own_shop("handoff", "debt-cycles", "--to", "writer", "--seal").code == 0
    assert file.read_bytes() == written
    file.unlink()  # lost on the way: it is written again, the same
    assert own_shop("handoff", "debt-cycles", "--to", "writer", "--seal").code == 0
    assert file.read_bytes() == written

    shown = own_shop("show", "debt-cycles").out
    assert "it was handed over to writer, and no longer acts here" in shown
    assert "holdfast handoff debt-cycles --unseal" in shown
    refused = own_shop("resume", "debt-cycles")
    assert (refused.code, "was handed over to writer" in refused.err) == (1, True)
    other = own_shop("handoff", "debt-cycles", "--to", "somebody", "--seal", "--out", "other.json")
    assert (other.code, "writer" in other.err, Path("other.json").exists()) == (1, True, False)

    there = place / "there.db"
    code, out, err = elsewhere(there, "accept", str(file), "--as", "writing")
    assert code == 0, err
    assert "continues  the work of debt-cycles, handed over at #" in out
    assert "settle what is in doubt: create_contact" in out
    _, out, _ = elsewhere(there, "show", "writing")
    assert "handed over  by debt-cycles at #" in out
    assert "In doubt" in out
    _, out, _ = elsewhere(there, "runs")
    assert "from debt-cycles@#" in out
    _, out, _ = elsewhere(there, "show", "writing", "--tree")
    assert "handed over by debt-cycles at #" in out
    code, out, _ = elsewhere(there, "accept", str(file), "--as", "writing")
    assert (code, "which started with it before" in out) == (0, True)

    back = own_shop("handoff", "debt-cycles", "--unseal")
    assert (back.code, "taken back  debt-cycles" in back.out) == (0, True)
    now, _, acts = own_shop("show", "debt-cycles").out.partition("\nPeople\n")
    assert now.count("handed over to writer") == 0
    assert [line.split()[4:7] for line in acts.splitlines()[:2]] == [
        ["sealed", "handed", "over"],
        ["taken", "back", "from"],
    ]
    own_shop("handoff", "debt-cycles", "--to", "again", "--seal", "--out", "again.json")
    tree = own_shop("accept", "again.json", "--as", "here")
    assert tree.code == 0
    assert "└─ here  not started  handed over at #" in own_shop("show", "here", "--tree").out


def test_the_fields_of_handoff_and_accept(own_shop: "Shop", place: Path) -> None:
    """Documented and printed fields are the same."""
    own_shop.work("debt-cycles", "crash")
    made = own_shop("handoff", "debt-cycles", "--to", "w", "--seal", "--json")
    assert set(json.loads(made.out)) == documented("handoff") | {
        "sealed",
        "in_doubt",
    }  # which are statuses, too
    taken = own_shop("accept", str(place / "debt-cycles.handoff.json"), "--json")
    content = json.loads(taken.out)
    assert set(content) == documented("accept") | {"in_doubt"}
    assert (content["run"], content["is_new"]) == ("debt-cycles.2", True)
    back = own_shop("handoff", "debt-cycles", "--unseal", "--json")
    assert set(json.loads(back.out)) == {"store", "run", "status"}


def test_a_giver_that_keeps_going_is_left_as_it_is(own_shop: "Shop", place: Path) -> None:
    """Nothing is written to it; Markdown for people; and the taker is told that it may go on."""
    own_shop.work("debt-cycles", "crash")
    head = own_shop.store.get("debt-cycles").head
    kept = own_shop("handoff", "debt-cycles", "--keep", "--markdown")
    assert kept.out.startswith("# Handoff of debt-cycles\n")
    assert "## How to continue" in kept.out
    assert own_shop.store.get("debt-cycles").head == head
    taken = own_shop("accept", "debt-cycles.handoff.json", "--as", "second")
    assert "Not carried over" in taken.out
    assert "is not sealed: it may continue the same work" in taken.out
    assert json.loads(own_shop("handoff", "--schema").out) == SCHEMA
    assert list(place.iterdir()) == [place / "debt-cycles.handoff.json"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("handoff", "debt-cycles", "--to", "x"), 2, "choose --seal (the giver stops here)"),
        (("handoff", "debt-cycles", "--seal", "--keep"), 2, "choose --seal (the giver stops here)"),
        (("handoff", "--seal"), 2, "RUN"),
        (("handoff", "nobody", "--seal"), 1, "no run 'nobody'"),
        (("handoff", "debt-cycles", "--keep", "--out", "no/such/dir.json"), 2, "no directory"),
        (("handoff", "debt-cycles", "--seal", "--out", "taken.json"), 2, "already exists"),
        (("handoff", "debt-cycles", "--unseal"), 2, "is not sealed"),
        (("handoff", "live", "--seal"), 1, "run live is held by"),
        (("accept", "nowhere.json"), 2, "cannot be read"),
        (("accept", "taken.json"), 2, "taken.json is not JSON"),
        (("accept", "cut.json"), 2, "seems to be cut off"),
        (("accept", "edited.json"), 2, "its digest is another one"),
    ],
)
def test_what_is_refused(own_shop: "Shop", place: Path, args: tuple[str, ...], code: int, said: str) -> None:
    """With what is wrong and what to do, before anything is sealed, made or overwritten."""
    own_shop.work("debt-cycles", "crash")
    (place / "taken.json").write_text("my own notes")
    whole = json.dumps(own_shop.store.handoff("debt-cycles"))
    (place / "cut.json").write_text(whole[: len(whole) // 2])
    (place / "edited.json").write_text(whole.replace("GR", "XX"))
    with holdfast.run("live", store=own_shop.store):
        found = own_shop(*args)
    assert (found.code, said in found.err, "hint: " in found.err) == (code, True, True), found.err
    assert (place / "taken.json").read_text() == "my own notes"
    assert own_shop.store.get("debt-cycles").status != "sealed"
    assert {run.run for run in own_shop.store.runs()} == {"debt-cycles", "live"}


def test_promises_are_shown(own_shop: "Shop") -> None:
    """Made and received, with their states; in the log, too."""
    with holdfast.run("ada", store=own_shop.store, stops="suppress") as ada:
        ada.receive()
    with holdfast.run("r", store=own_shop.store) as run:
        run.keep(run.promise("send the figures", to="ada"), note="in the mail")
        run.promise("call back", due=1_900_000_000)
    shown = own_shop("show", "r").out
    assert "kept  to ada  send the figures: in the mail" in shown
    assert "open  made    call back, due 2030-03-17 17:46:40 UTC" in shown
    assert "kept  given by r  send the figures: in the mail" in own_shop("show", "ada").out
    assert "parked" in own_shop("runs").out
    assert "promised" in own_shop("log", "r").out
    (line,) = [one for one in json.loads(own_shop("show", "r", "--json").out)["promises"] if one["to"]]
    assert (line["state"], line["side"]) == ("kept", "made")
