"""``holdfast resume`` alone: a list to pick from on a terminal, and a refusal elsewhere."""

import os
import pty
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.cli.output.picker import Choice, Pick, matching

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

BEGUN = 1772373731.0
DEADLINE_S = 30.0


def prepare(shop: "Shop") -> None:
    for number, name in enumerate(("debt-cycles", "nightly", "pumps")):
        shop.work(name, "fail", BEGUN + number)
    with holdfast.run("done", store=shop.store):
        pass


def pressed(keys: str, number: int = 3) -> Pick:
    state = Pick()
    for key in keys.split():
        state = state.pressed(
            {"up": "\x1b[A", "down": "\x1b[B", "back": "\x7f", "clear": "\x15"}.get(key, key), number
        )
    return state


def test_keys_move_and_filter() -> None:
    """The mark stays inside the list, and goes back to the first when the filter changes."""
    assert pressed("down down down") == Pick("", 2)
    assert pressed("down up up") == Pick("", 0)
    assert pressed("down a b") == Pick("ab", 0)
    assert pressed("a b back") == Pick("a", 0)
    assert pressed("a b clear") == Pick()
    assert pressed("down", number=0) == Pick()
    choices = [Choice("debt-cycles"), Choice("nightly")]
    assert [one.name for one in matching(choices, "CYC debt")] == ["debt-cycles"]
    assert [one.name for one in matching(choices, "")] == ["debt-cycles", "nightly"]


def test_off_a_terminal_the_runs_are_listed_and_none_is_started(own_shop: "Shop") -> None:
    """Newest first, with the exit code of misuse; finished runs are not among them."""
    prepare(own_shop)
    found = own_shop("resume")
    assert found.code == 2
    assert [line.split()[0] for line in found.out.splitlines()[1:4]] == ["pumps", "nightly", "debt-cycles"]
    assert "done" not in found.out
    assert "which run is to be resumed?" in found.err
    assert "`holdfast resume --last --store STORE`" in found.err


@pytest.mark.parametrize(("keys", "code", "shown"), [(b"nig\r", 0, "nightly"), (b"\x1b[B\x03", 130, "")])
def test_a_person_picks_or_leaves(own_shop: "Shop", keys: bytes, code: int, shown: str) -> None:
    """Typing filters, Enter picks; Ctrl-C leaves with 130. The terminal is as it was before."""
    prepare(own_shop)
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        own_shop.command("resume", "--dry-run"),
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(slave), os.O_RDWR)),  # noqa: PLW1509 - its own terminal
        env={**os.environ, "TERM": "xterm-256color"},
    )
    try:
        screen, deadline = b"", time.monotonic() + DEADLINE_S
        while b"Ctrl-C leaves" not in screen and time.monotonic() < deadline:
            screen += os.read(master, 65536)
        os.write(master, keys)
        out = process.communicate(timeout=DEADLINE_S)[0].decode()
    finally:
        process.kill()
        process.wait()
        after = termios.tcgetattr(slave)
        os.close(slave)
        os.close(master)
    assert process.returncode == code, out
    assert (f"run               {shown}\n" in out) if shown else out == ""
    assert after == before
