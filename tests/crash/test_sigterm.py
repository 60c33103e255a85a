"""SIGTERM at every write of a store: no payment is in doubt afterwards, none is lost, none is made twice.

Planted once in a copy, and caught here: the signal held back only from behind the intent on.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import forked

import holdfast

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "programs" / "terminated.py"
APPENDS_MAX = 30


def start(place: Path, mode: str, k: int, when: str) -> "subprocess.CompletedProcess[str]":
    return forked.run(
        [sys.executable, str(PROGRAM), f"sqlite:///{place}/runs.db", mode, str(k), when],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("when", ["before", "behind"])
@pytest.mark.parametrize("mode", ["plain", "async"])
def test_sigterm_at_every_write(mode: str, when: str, tmp_path: Path) -> None:
    """Started again, the program finishes by itself: nothing waits for a person."""
    for k in range(1, APPENDS_MAX):
        place = tmp_path / str(k)
        place.mkdir()
        struck = start(place, mode, k, when)
        assert struck.returncode in {0, 143}, (k, struck.stderr)
        if (place / "no more appends").exists():
            assert k > 5, "fewer writes than there are records"
            return
        store = holdfast.store(f"sqlite:///{place}/runs.db")
        assert store.doubts("run") == [], k
        assert store.get("run").lease.owner == "", k
        store.close()
        again = start(place, mode, APPENDS_MAX + 1, when)
        assert again.returncode == 0, (k, again.stderr)
        assert (place / "ledger").read_text().splitlines() == ["first", "second"], k
    raise AssertionError("it never survived")
