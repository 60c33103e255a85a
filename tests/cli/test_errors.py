"""Every way a command line can be refused: the exit code, what stderr says, and the hint. Never a traceback."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Shop


@pytest.mark.parametrize("command", ["show", "log", "resolve"])
def test_an_unknown_run(shop: "Shop", command: str) -> None:
    """Refused, with the command that lists the known ones."""
    answer = shop(command, "nope")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "error: no run 'nope' in URL\nhint: `holdfast runs --store URL` lists its runs\n"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a#b", "holds '#', which marks an event"),
        ("x" * 201, "is 201 characters long"),
        ("a//b", "has an empty part or begins with a dash"),
    ],
)
def test_a_name_that_no_run_can_have(shop: "Shop", name: str, problem: str) -> None:
    """Misuse: the hint says what names are made of."""
    answer = shop("show", name)
    assert answer.code == 2
    assert problem in answer.err
    assert "hint: use 1 to 200 characters" in answer.err


def test_choices_stand_in_one_line(shop: "Shop") -> None:
    """What may be given, with commas; it had ``\\t`` and breaks between, as if a terminal were to be protected."""
    answer = shop("completion")
    assert answer.code == 2
    assert answer.err.startswith("error: missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish\n")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite://host/path", "names a host ('host/path'); a path follows three slashes"),
        ("mysql://x", "has the scheme 'mysql', which no store here answers to"),
        ("sqlite:///x?lease=3", "has an unknown option 'lease'"),
        ("://", "is malformed"),
    ],
)
def test_a_malformed_url(
    tmp_path: Path, holdfast_in: "Callable[..., Answer]", url: str, problem: str
) -> None:
    """Misuse, whichever command; nothing is created."""
    for command in (["runs"], ["show", "a"], ["log", "a"], ["resolve", "a"], ["doctor"]):
        answer = holdfast_in(tmp_path, *command, "--store", url)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == (
            f"error: store URL {url!r} {problem}\n"
            "hint: use sqlite:///path/to/file.db, a bare path, postgresql://user@host/database, dynamodb://table?region=…, or memory://name\n"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_not_there(tmp_path: Path, holdfast_in: "Callable[..., Answer]") -> None:
    """A named store must exist; one looked for must be found. Neither is made, also not from an empty file."""
    (tmp_path / "empty.db").touch()
    for name in ("missing.db", "empty.db", "no/such/directory/x.db", "empty.db/x.db"):
        answer = holdfast_in(tmp_path, "runs", "--store", name)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == (
            f'error: there is no store at {name}\nhint: a run creates one: with holdfast.run("my-run") as run: …\n'
        )
    answer = holdfast_in(tmp_path, "show", "a")
    assert answer.code == 1
    assert answer.err.startswith(f"error: there is no store in {tmp_path} or above it\n")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_file_that_is_not_ours(tmp_path: Path, holdfast_in: "Callable[..., Answer]") -> None:
    """Text, and another program's database: refused and left as they are, byte for byte."""
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("not a database, and long enough to have a header that one could read from it" * 20)
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    before = (text.read_bytes(), other.read_bytes())
    for path, problem in (
        (text, "the file is not a SQLite database"),
        (other, "this SQLite database belongs to another application"),
    ):
        answer = holdfast_in(tmp_path, "runs", "--store", str(path))
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == f"error: store {path}: {problem}\nhint: choose another path\n"
    assert (text.read_bytes(), other.read_bytes()) == before


def test_a_newer_format(own_shop: "Shop") -> None:
    """A file of a later Holdfast is not read with half an understanding."""
    own_shop.store.close()
    connection = apsw.Connection(str(own_shop.path))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    answer = own_shop("runs")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: store STORE: its format is 99; this Holdfast knows formats up to ")
    assert answer.err.endswith("hint: upgrade holdfast\n")


@pytest.fixture
def readable_directory() -> Iterator[Path]:
    """A directory that any user may look into, which pytest's own are not."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


_LOOK_AS_ANYBODY = """
import os
import holdfast.cli.app, holdfast.cli.commands.runs
import holdfast.stores.sqlite
if os.geteuid() == 0:  # after the imports: the interpreter may be root's alone
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
from holdfast.cli import main
main()
"""


def test_a_read_only_directory(readable_directory: Path) -> None:
    """Refused with what the system said. Root may write anywhere, so it looks as somebody else."""
    path = readable_directory / "r.db"
    with holdfast.run("a", store=path):
        pass
    holdfast.store(path).close()
    for file in readable_directory.iterdir():
        file.chmod(0o444)
    readable_directory.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", _LOOK_AS_ANYBODY, "runs", "--store", str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: store {path}: ")
    assert "Permission denied" in done.stderr
    assert done.stderr.endswith("hint: check the permissions, or point HOLDFAST_URL somewhere else\n")


def test_a_damaged_event(own_shop: "Shop") -> None:
    """The first damaged event is named and nothing of it is shown; the hint leads to the full list."""
    with holdfast.run("hurt", store=own_shop.store):
        pass
    connection = apsw.Connection(str(own_shop.path))
    connection.set_busy_timeout(10_000)
    connection.execute("UPDATE events SET fence = fence + 1 WHERE seq = 2")
    connection.close()
    for command in ("show", "log", "resolve"):
        answer = own_shop(command, "hurt")
        assert (answer.code, answer.out) == (1, "")
        assert "event #2 of run hurt is damaged" in answer.err
        assert "hint: `holdfast doctor --store " in answer.err


# -- naming a place ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("debt-cycles@99", "run debt-cycles has no point 99; its last is 6"),
        ("debt-cycles@#99", "run debt-cycles has no event #99; its last is #21"),
        ("debt-cycles@final", "run debt-cycles has no point labelled 'final'"),
    ],
)
def test_a_place_that_is_not_there(shop: "Shop", place: str, problem: str) -> None:
    """Refused, with how far the run has come."""
    answer = shop("show", place)
    assert (answer.code, answer.out) == (1, "")
    assert (
        answer.err
        == f"error: {problem}\nhint: `holdfast log debt-cycles --store STORE` lists what is recorded\n"
    )


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("@3", "names no run"),
        ("debt-cycles@", "names no point after the @"),
        ("debt-cycles@#", "names no event: '' is not a number from 1"),
        ("debt-cycles@#x", "names no event: 'x' is not a number from 1"),
        ("debt-cycles@#-1", "names no event: '-1' is not a number from 1"),
        ("debt-cycles@0", "names no point: '0' is not a number from 1"),
        ("debt-cycles@٣", "names no point: '٣' is not a number from 1"),
    ],
)
def test_a_place_that_cannot_be_read(shop: "Shop", place: str, problem: str) -> None:
    """Misuse; the hint shows the forms there are."""
    answer = shop("show", place)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"error: {place!r} {problem}\n"
        "hint: write RUN for a run, RUN@44 for a point, RUN@#1203 for an event, RUN@draft-1 for a label\n"
    )


@pytest.mark.parametrize("command", ["log", "resolve"])
def test_a_point_where_a_run_is_meant(shop: "Shop", command: str) -> None:
    """Misuse; the hint names the run and the command that takes a point."""
    answer = shop(command, "debt-cycles@3")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"error: `holdfast {command}` takes a run, and debt-cycles@3 is a point of one\n"
        "hint: use debt-cycles; `holdfast show debt-cycles@3 --store STORE` shows that point\n"
    )


# -- resolving --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"id": 7,}', "at line 1, column 10"),
        ("sent", "expecting value at line 1, column 1"),
        ("", "expecting value at line 1, column 1"),
        ('{\n  "id": }', "expecting value at line 2, column 9"),
        ("[" * 100_000, "it is nested too deeply"),
        ("9" * 5000, "digits"),
    ],
)
def test_done_that_is_not_json(shop: "Shop", content: str, problem: str) -> None:
    """Misuse with the position; the hint knows what people forget in a shell. Nothing is written."""
    answer = shop("resolve", "debt-cycles", "--done", content)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: --done is not JSON: ")
    assert problem in answer.err
    assert answer.err.endswith(
        """hint: text needs quotes of its own: --done '"sent"'; for a call that returns nothing: --done null\n"""
    )
    assert '"pending": null' in shop("resolve", "debt-cycles", "--json").out


def test_a_value_that_no_inbox_takes(shop: "Shop") -> None:
    """A letter has a limit; the error names the size."""
    answer = shop("resolve", "debt-cycles", "--done", "-", stdin=f'"{"x" * 1_000_001}"')
    assert answer.code == 2
    assert "the limit is 1,000,000" in answer.err
    assert "docs/limits.md" in answer.err


def test_two_answers_at_once(shop: "Shop") -> None:
    """Exactly one may be given."""
    answer = shop("resolve", "debt-cycles", "--retry", "--done", "1")
    assert answer.code == 2
    assert answer.err == "error: --done and --retry contradict each other\nhint: give exactly one\n"


def test_a_step_whose_outcome_is_known(shop: "Shop") -> None:
    """Already resolved: it cannot be in doubt again."""
    answer = shop("resolve", "debt-cycles", "survey", "--retry")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: step 'survey' of run debt-cycles is not in doubt: its outcome is recorded\n"
        "hint: `holdfast show debt-cycles --store STORE` shows what is recorded and what is in its inbox\n"
    )
    answer = shop("resolve", "debt-cycles", "survey")
    assert answer.code == 1
    assert answer.err == (
        "error: step 'survey' of run debt-cycles is not in doubt\n"
        "hint: `holdfast resolve debt-cycles --store STORE` lists what is\n"
    )


def test_a_step_that_is_not_there(shop: "Shop") -> None:
    """The steps that are in doubt are named, with their keys."""
    answer = shop("resolve", "debt-cycles", "charge", "--retry")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: run debt-cycles has no step in doubt called 'charge'; it has: create_contact (d18)\n"
        "hint: `holdfast show debt-cycles --store STORE` lists the steps in doubt with their keys\n"
    )


def test_nothing_to_resolve(shop: "Shop") -> None:
    """A decision without a doubt is refused."""
    answer = shop("resolve", "daily.2", "--retry")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: nothing is in doubt in run daily.2\nhint: `holdfast show daily.2 --store STORE` shows its status\n"
    )


# -- the command line itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["nope"], "no such command 'nope'", "`holdfast --help` shows how it is used"),
        (["runs", "--foo"], "no such option '--foo'", "`holdfast runs --help` shows how it is used"),
        (["show"], "missing argument 'RUN'", "`holdfast show --help` shows how it is used"),
        (
            ["runs", "--limit", "0"],
            "invalid value for '--limit'",
            "`holdfast runs --help` shows how it is used",
        ),
        (
            ["log", "a", "--tail", "x"],
            "invalid value for '--tail'",
            "`holdfast log --help` shows how it is used",
        ),
        (
            ["log", "a", "--kind", "x"],
            "there are no events of kind 'x'",
            "use one of run, attempt, journal, step, checkpoint",
        ),
        (["runs", "extra"], "got unexpected extra argument", "`holdfast runs --help` shows how it is used"),
    ],
)
def test_misuse(
    tmp_path: Path, holdfast_in: "Callable[..., Answer]", args: list[str], message: str, hint: str
) -> None:
    """Exit code 2, in the same form as every other error."""
    answer = holdfast_in(tmp_path, *args)
    assert (answer.code, answer.out) == (2, "")
    error, advice = answer.err.rstrip("\n").split("\n")
    assert error.startswith(f"error: {message}")
    assert advice.startswith(f"hint: {hint}")


def test_a_hint_names_the_store_that_was_named(shop: "Shop") -> None:
    """A command that was given ``--store`` advises commands that look into the same one."""
    from holdfast.cli.errors import with_store

    hint = "`holdfast show a` tells; `holdfast runs --store x` lists; `holdfast --help` helps; `ls` too"
    assert with_store(hint, ["show", "a"]) == hint
    named = with_store(hint, ["show", "a", "--store", "/tmp/my store"])
    assert named == hint.replace("`holdfast show a`", "`holdfast show a --store '/tmp/my store'`")
    assert with_store(hint, ["--store=x", "show"]) == hint.replace("show a`", "show a --store x`")
    secret = ["show", "--store", "postgresql://me:hush/hush@host/db?password=hush"]
    assert with_store(hint, secret) == hint.replace("show a`", "show a --store postgresql://me@host/db`")


def test_a_defect_is_not_hidden(shop: "Shop", monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is understood is explained: any other exception keeps its traceback."""
    monkeypatch.setattr(holdfast.Store, "overview", lambda *_, **__: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        shop("runs")


def test_what_was_meant_is_named(own_shop: "Shop") -> None:
    """Commands, runs and labels that are like the word that was typed, in every command; else nothing."""
    with holdfast.run("debt-cycles", store=own_shop.store) as run:
        run.checkpoint({}, label="draft-1")
    assert "no such command 'shwo'; did you mean show?" in own_shop("shwo").err
    assert "did you mean debt-cycles? `holdfast runs" in own_shop("show", "debt-cycle").err
    assert "did you mean debt-cycles?" in own_shop("cancel", "Debt").err
    for args in (("show", "debt-cycles@draft"), ("fork", "debt-cycles@drfat-1", "--as", "b")):
        assert "did you mean draft-1?" in own_shop(*args).err
    for line in ("zzz", "show zzz", "show debt-cycles@zzz", "show debt-cycles@99"):
        assert "did you mean" not in own_shop(*line.split()).err


def test_the_store_may_be_named_before_the_command(
    own_shop: "Shop", holdfast_in: Callable[..., "Answer"]
) -> None:
    """In both forms; what follows ``--`` is left alone, and a --store behind the command wins."""
    with holdfast.run("debt-cycles", store=own_shop.store):
        pass
    store = str(own_shop.path)
    for before in (["--store", store], [f"--store={store}"]):
        assert "debt-cycles" in holdfast_in(own_shop.beside, *before, "runs").out
    found = holdfast_in(own_shop.beside, "--store", "elsewhere.db", "runs", "--store", store)
    assert "debt-cycles" in found.out
    missing = holdfast_in(own_shop.beside, "--store", store, "show", "debt-cycles@zzz")
    assert f"`holdfast log debt-cycles --store {store}`" in missing.err
