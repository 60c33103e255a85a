"""``holdfast fork --files DIR``: the fork's program starts in DIR and leaves the files of its origin alone.

Real processes: a script that writes a file relative to its working directory, killed with SIGKILL.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import forked

import holdfast

HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]
DEADLINE_S = 120
WRITER = """\
import os, signal, holdfast

def note(text):
    with open("plain.txt", "a") as file:
        file.write(text + "\\n")
    return text

with holdfast.run("job", store="sqlite:///" + os.environ["HERE"] + "/holdfast.db") as run:
    with run.open("report.md") as file:
        file.write("one\\n")
    run.checkpoint(1, label="first")
    who = os.environ.get("HOLDFAST_RUN", "job")
    run.step("note", note, who)
    with run.open("report.md") as file:
        file.write(f"one\\ntwo of {who}\\n")
    if not os.path.exists("go"):
        os.kill(os.getpid(), signal.SIGKILL)
"""


class Place:
    """A directory with the script, and a store beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.origin, self.forked = path / "origin", path / "forked"
        self.origin.mkdir()
        (self.origin / "writer.py").write_text(WRITER)
        (self.origin / "package").mkdir()
        (self.origin / "package" / "__init__.py").write_text("")
        (self.origin / "package" / "__main__.py").write_text(WRITER)

    def environ(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        return {**plain, "HERE": str(self.path)}

    def __call__(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return forked.run(
            words, cwd=cwd or self.path, env=self.environ(), capture_output=True, text=True, timeout=DEADLINE_S,
            check=False,
        )  # fmt: skip

    def holdfast(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self(*HOLDFAST, *words, "--store", f"sqlite:///{self.path}/holdfast.db")

    def begin(self, *program: str) -> None:
        assert self(sys.executable, *program, cwd=self.origin).returncode == -signal.SIGKILL

    def files(self, directory: Path) -> dict[str, str]:
        return {path.name: path.read_text() for path in directory.iterdir() if path.suffix in {".md", ".txt"}}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("program", [("writer.py",), ("-m", "package")], ids=["script", "module"])
def test_a_fork_with_files_starts_beside_them(place: Place, program: tuple[str, ...]) -> None:
    """Killed and resumed again, it writes there; the origin's files stay as they are.

    Also where the script was named relative to the origin's directory, or is a module found in it.
    """
    place.begin(*program)
    before = place.files(place.origin)
    assert before == {"report.md": "one\ntwo of job\n", "plain.txt": "job\n"}
    done = place.holdfast("fork", "job@first", "--as", "b", "--files", str(place.forked))
    assert done.returncode == 0, done.stderr
    assert f"{'holdfast resume b'} --store" in done.stdout
    killed = place.holdfast("resume", "b")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (place.forked / "go").touch()
    done = place.holdfast("resume", "b")
    assert done.returncode == 0, done.stderr
    assert place.files(place.forked) == {"report.md": "one\ntwo of b\n", "plain.txt": "b\n"}
    assert place.files(place.origin) == before


def test_what_show_prints_opens_the_fork(place: Place) -> None:
    """Before its first attempt, and after it was killed: the command names the fork, not the origin's script alone."""
    place.begin("writer.py")
    place.holdfast("fork", "job@first", "--as", "b", "--files", str(place.forked))
    for _ in range(2):
        shown = place.holdfast("show", "b").stdout
        assert "holdfast resume b --store" in shown
        assert "writer.py" not in "".join(line for line in shown.splitlines() if line.startswith("  "))
        plan = json.loads(place.holdfast("resume", "b", "--dry-run", "--json").stdout)
        assert plan["launch"]["cwd"] == str(place.forked)
        assert plan["launch"]["environ"]["HOLDFAST_RUN"] == "b"
        place.holdfast("resume", "b")


def test_a_fork_of_the_fork_starts_there_too(place: Place) -> None:
    """Without files of its own it has the directory of the fork that it comes from; with files it has its own."""
    place.begin("writer.py")
    for origin, name, files in (("job@first", "b", "forked"), ("b", "c", ""), ("c", "d", "other")):
        words = ("--files", str(place.path / files)) if files else ()
        assert place.holdfast("fork", origin, "--as", name, *words).returncode == 0
    store = holdfast.store(f"sqlite:///{place.path}/holdfast.db")
    found = {name: command.cwd for name in "bcd" if (command := store.command(name)) is not None}
    store.close()
    assert found == {
        name: str(place.path / at) for name, at in (("b", "forked"), ("c", "forked"), ("d", "other"))
    }


def test_a_run_without_files_has_its_directory_all_the_same(place: Place) -> None:
    """The directory is made, so that the program can start there."""
    with pytest.raises(KeyError), holdfast.run("bare", store=f"sqlite:///{place.path}/holdfast.db") as run:
        run.step("one", int, 1)
        raise KeyError
    holdfast.store(f"sqlite:///{place.path}/holdfast.db").fork("bare", as_="b", files=place.forked)
    assert place.forked.is_dir()
