"""``holdfast resume`` and commands that came from elsewhere: shown with their origin, and started only when a person says so.

Planted once, and caught here: asking only whether the run was imported, and not the store's owner; a question that takes
Enter for yes; trust that is forgotten when the program dies before it opens the run.
"""

import fcntl
import json
import os
import pty
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.cli.test_resume import DEADLINE_S, HOLDFAST, environ
from tests.support import forked

import holdfast
from holdfast.cli.app import app
from holdfast.model.store_rows import TRUSTS
from holdfast.stores.sqlite import file_owner
from holdfast.stores.sqlite.file_owner import other_owner

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

AGENT = """\
import os, sys
import holdfast

print("started", *sys.argv[1:], flush=True)
if os.path.exists("dies"):
    sys.exit(7)
with holdfast.run("job") as run:
    run.step("one", int, 1)
    if not os.path.exists("ends"):
        raise SystemExit(9)
"""


class Two:
    """A sender's directory with an agent that has begun a run, and the user's own with a store into which it was imported."""

    def __init__(self, path: Path) -> None:
        self.sender, self.user = path / "sender", path / "user"
        self.sender.mkdir()
        self.user.mkdir()
        (self.sender / "agent.py").write_text(AGENT)
        assert self.begin() == 9
        self.file = path / "job.holdfast"
        self.bring()

    def begin(self, *words: str) -> int:
        command = [sys.executable, "agent.py", *words]
        return self._run(command, self.sender).returncode

    def bring(self) -> None:
        giver = holdfast.store(self.sender / ".holdfast")
        giver.export("job", self.file)
        giver.close()
        assert self("import", str(self.file)).returncode == 0

    def __call__(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self._run([*HOLDFAST, *words], self.user, **options)

    def _run(self, command: list[str], cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
        return forked.run(
            command, cwd=cwd, env=environ(), capture_output=True, text=True, timeout=DEADLINE_S, check=False,
            stdin=subprocess.DEVNULL, **options,
        )  # fmt: skip

    @property
    def store(self) -> holdfast.Store:
        return holdfast.store(self.user / ".holdfast")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    yield made
    made.store.close()


def test_an_imported_command_is_refused_and_the_hint_starts_it(two: Two) -> None:
    """Without a terminal: exit code 1, run, command and origin; what is printed works as it is printed, and is remembered."""
    refused = two("resume", "job~1")
    assert (refused.returncode, refused.stdout) == (1, "")
    error, hint = refused.stderr.splitlines()
    assert error.startswith(
        f"error: run job~1 is not started: its command is not yours (imported from {two.file} on "
    )
    assert error.endswith(f"): {sys.executable} agent.py in {two.sender}")
    assert hint == "hint: if you trust it: `holdfast resume 'job~1' --trust`"

    (two.sender / "dies").touch()
    typed = shlex.split(hint.partition("`")[2].rstrip("`"))[1:]
    assert (two(*typed).stdout, two.store.get("job~1").head) == ("started\n", two.store.get("job").head)
    again = two("resume", "job~1")
    assert (again.returncode, again.stdout) == (7, "started\n"), (
        "it died before it opened the run, and is trusted still"
    )
    (two.sender / "dies").unlink()
    (two.sender / "ends").touch()
    assert two("resume", "job~1").returncode == 0
    assert two.store.get("job~1").status == "finished"


def test_another_command_needs_trust_again(two: Two) -> None:
    """The sender has gone on with other arguments: the newer export brings a command that nobody has seen."""
    assert two("resume", "job~1", "--trust").returncode == 9
    assert two("resume", "job~1").returncode == 9, "its own by now"
    assert two.begin("--other") == 9
    two.bring()
    refused = two("resume", "job~2")
    assert (refused.returncode, "agent.py --other in " in refused.stderr) == (1, True)


def test_what_is_shown_before(two: Two) -> None:
    """``show`` and the plan say where the run came from, and that its command is not trusted; and later, by whom it is."""
    shown = two("show", "job~1").stdout
    assert f"\nfrom elsewhere  imported from {two.file} on " in shown
    assert (
        f"\ncommand         {sys.executable} agent.py in {two.sender}: not yours, and not trusted\n" in shown
    )
    assert "\n  holdfast resume 'job~1' --dry-run  # see the command, which is not yours\n" in shown
    assert "\n  holdfast resume 'job~1' --trust  # start it, if you trust it" in shown
    assert f"cd {two.sender}" not in shown, "it is not put before people to be typed"
    plan = two("resume", "job~1", "--dry-run").stdout
    assert (
        "\n  which is  not yours, and not trusted\n  holdfast resume 'job~1' --trust  # start it, if you trust it"
        in plan
    )
    told = json.loads(two("resume", "job~1", "--dry-run", "--json").stdout)
    assert (told["command"]["arguments"], told["command"]["trusted_at"]) == (["agent.py"], None)
    assert told["command"]["origin"] == told["came_from"]
    assert json.loads(two("show", "job~1", "--json").stdout)["command"]["origin"] == told["came_from"]

    two.store.trust("job~1", by="ada")
    assert "not yours, and trusted by ada on " in two("show", "job~1").stdout
    assert "not yours, and trusted by ada on " in two("resume", "job~1", "--dry-run").stdout
    assert two("resume", "job~1", "--dry-run", "--trust").returncode == 2


@pytest.mark.parametrize(("typed", "code", "out"), [("y\n", 9, True), ("n\n", 1, False), ("\n", 1, False)])
def test_on_a_terminal_it_asks(two: Two, typed: str, code: int, out: bool) -> None:
    """Command, directory and origin, and then the question; only yes is yes."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 300, 0, 0))
    with forked.Popen(
        [*HOLDFAST, "resume", "job~1"], cwd=two.user, env={**environ(), "TERM": "xterm", "NO_COLOR": "1"},
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(slave)
        try:
            told = until(master, b"[y/N]")
            assert f"{sys.executable} agent.py" in told
            assert str(two.sender) in told.replace("\r\n", "").replace(" ", "")
            assert f"importedfrom{two.file}" in told.replace("\r\n", "").replace(" ", "")
            os.write(master, typed.encode())
            told = until(master, b"")
            assert process.wait(DEADLINE_S) == code, told
        finally:
            process.kill()
    os.close(master)
    assert ("started\r\n" in told) is out
    assert ("is not started: its command is not yours" in told) is not out
    assert bool(two.store._port.scan_records(TRUSTS, limit=9)) is out


def until(master: int, wanted: bytes) -> str:
    """What is written to a terminal until this comes, or to its end."""
    seen, deadline = b"", time.monotonic() + DEADLINE_S
    terminal = select.poll()  # select takes no descriptor above 1,023
    terminal.register(master, select.POLLIN)
    while not (wanted and wanted in seen):
        assert time.monotonic() < deadline, seen
        if terminal.poll(1_000):
            try:
                piece = os.read(master, 4096)
            except OSError:  # everybody has left
                break
            if not piece:
                break
            seen += piece
    return seen.decode()


def test_a_command_cannot_paint_on_the_terminal(
    two: Two, own_shop: "Shop", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown for a person to judge is what would be started, and not what its sender would like to have read."""
    hostile = "\x1b[2K\x1b[1A\x1b]0;owned\x07\u202egnihtyreve"
    monkeypatch.setattr(sys, "orig_argv", ["python", hostile, "line\nbreak"])
    with pytest.raises(KeyError), holdfast.run("evil", store=two.sender / "evil.db") as run:
        run.step("one", int)
        raise KeyError
    giver = holdfast.store(two.sender / "evil.db")
    giver.export("evil", two.sender / "evil.holdfast")
    giver.close()
    own_shop.store.import_(two.sender / "evil.holdfast")
    for words in (("show", "evil~1"), ("resume", "evil~1"), ("resume", "evil~1", "--dry-run")):
        answer = own_shop(*words)
        assert not {"\x1b", "\x07", "\u202e"} & {*answer.out, *answer.err}, words


# -- stores of others ---------------------------------------------------------------------------------------------


@pytest.fixture
def uids(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Owners of files as a test says, by the end of their path; this user is 1000."""
    known: dict[str, int] = {}
    real = file_owner._owner

    def owner(place: Path) -> int | None:
        found = real(place)
        told = [uid for end, uid in known.items() if str(place).endswith(end)]
        return None if found is None else told[0] if told else 1000

    monkeypatch.setattr(file_owner, "_owner", owner)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("SUDO_UID", raising=False)
    return known


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / ".holdfast" / "holdfast.db"
    made.parent.mkdir()
    for suffix in ("", "-wal", "-shm", "-journal", "-owners", "-search"):
        made.with_name(made.name + suffix).touch()
    return made


@pytest.mark.parametrize(
    "end", ["holdfast.db", "-wal", "-shm", "-journal", "-owners", "-search", "/.holdfast"]
)
def test_every_file_that_is_read_must_be_this_users(uids: dict[str, int], place: Path, end: str) -> None:
    """Whoever can put a write-ahead log or a journal beside the database decides what is read."""
    assert other_owner(place) == ""
    uids[end] = 4711
    assert other_owner(place) == "the user with uid 4711"
    uids[end] = 0
    assert bool(other_owner(place)) is (end != "/.holdfast"), (
        "a directory of root's, like /tmp, is nobody's trap"
    )


def test_root_and_sudo(uids: dict[str, int], place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with git: root is careful with the files of others, but not with those of the user who called sudo."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "1000" in other_owner(place)
    monkeypatch.setenv("SUDO_UID", "1000")
    assert other_owner(place) == ""
    uids["-wal"] = 1001
    assert "1001" in other_owner(place)
    monkeypatch.setenv("SUDO_UID", "junk")
    assert other_owner(place)
    uids |= {".db": 0, "-wal": 0, "-shm": 0, "-journal": 0, "-owners": 0, "-search": 0, "/.holdfast": 0}
    assert other_owner(place) == ""


def test_sudo_means_nothing_to_others_than_root(
    uids: dict[str, int], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can set a variable."""
    uids[".db"] = 1001
    monkeypatch.setenv("SUDO_UID", "1001")
    assert other_owner(place)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a file away")
def test_a_log_of_somebody_elses_is_remembered_when_it_is_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite gives the log to the database's owner when root opens it, and its content is folded in: still it is foreign."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    program = tmp_path / "agent.py"
    program.write_text(f"""
import os
import holdfast
with holdfast.run("job", store={url!r}) as run:
    run.step("one", int, 1)
    os.kill(os.getpid(), 9)
""")
    forked.run([sys.executable, str(program)], timeout=60, check=False)
    os.chown(tmp_path / "a.db-wal", 65534, -1)
    started: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *words: started.append(words))
    for _ in range(2):
        done = CliRunner().invoke(app, ["resume", "job", "--store", url])
        assert (done.exit_code, started) == (1, [])
        assert "its command is not yours (the store belongs to " in done.stderr
        assert "65534" in done.stderr
        holdfast.store(url).close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such owners")
def test_a_store_found_above_that_belongs_to_somebody_else(
    two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read; its command is not started, and trusting it once is no trust for the next time."""
    inner = two.sender / "deep" / "inside"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    monkeypatch.delenv("HOLDFAST_RUN", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: real + 1)
    started: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *words: started.append(words))

    def call(*words: str) -> Any:
        return CliRunner().invoke(app, list(words))

    assert call("runs").exit_code == 0
    refused = call("resume", "job")
    assert (refused.exit_code, started) == (1, [])
    assert f"its command is not yours (the store belongs to {file_owner._name(real)}): " in refused.stderr
    assert f"agent.py in {two.sender}" in refused.stderr
    for _ in range(2):
        call("resume", "job", "--trust")
    assert len(started) == 2
    assert call("resume", "job").exit_code == 1
    assert len(started) == 2
    monkeypatch.setattr(os, "geteuid", lambda: real)
    call("resume", "job")
    assert len(started) == 3, "to its owner it is his own"


def test_what_a_worker_left_is_only_ever_a_submission(
    own_shop: "Shop", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words that are put before people come from the journal, and that may have come from elsewhere."""
    from holdfast.views.next_commands import submission

    assert submission({"again": ["submit", "auditor", "audit-7"]}) == ("submit", "auditor", "audit-7")
    for again in (
        ["erase", "x", "y"],
        ["submit", "a"],
        ["submit", "--help", "x"],
        "submit",
        None,
        ["submit", 1, 2],
    ):
        assert submission({"again": again}) == ()
    assert submission({}) == ()


def test_a_password_is_not_shown_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program gets it; whoever looks over a shoulder does not."""
    from holdfast.cli.relaunch import words

    secret = {"HOLDFAST_RUN": "job", "HOLDFAST_URL": "postgresql://me:hu%2Fsh@host/db"}
    assert words(secret) == "HOLDFAST_RUN=job HOLDFAST_URL=postgresql://me@host/db"
