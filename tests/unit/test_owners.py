"""Whether a process lives, asked of the kernel by its name."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from holdfast.stores import server_owners

_TELL = "from holdfast.stores.server_owners import owner_here; print(owner_here(), flush=True); input()"


def test_the_dead_are_dead_to_all_who_ask_at_once() -> None:
    """Also while others ask. Planted: a probe that binds the name for a moment, which the next one takes for a sign of life."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    owner = process.stdout.readline().strip()
    assert server_owners.probe(owner) == "alive"
    process.kill()
    process.communicate()
    with ThreadPoolExecutor(8) as askers:
        told = list(askers.map(server_owners.probe, [owner] * 4000))
    assert set(told) == {"dead"}


def test_nothing_is_said_of_other_places() -> None:
    """Another machine, another boot, or a name that is none."""
    assert server_owners.probe(server_owners.owner_here()) == "alive"
    assert server_owners.probe(f"1@elsewhere/{'a' * 32}.{'b' * 16}") == "unknown"
    assert server_owners.probe("somebody") == "unknown"
