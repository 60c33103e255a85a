"""Erasing a secret, killed before and after every port call: run again, nothing of it is left and all is sound.

Planted once in a copy, and caught here: old contents not written down before the events that name them are replaced (they
stay for ever). That the pages fit one by one is tested in ``tests/unit/test_core_new_chains.py``.
"""

import os
from pathlib import Path

import pytest
from tests.support.known_secrets import known_secrets, places
from tests.support.sampling import EVERY

from holdfast.engine.state.blob_references import references
from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "programs" / "erasing.py"
NAME, VALUE = "LATE_KEY", "late-Secret-42"


def check(case: Case) -> None:
    """No file has it, the journals fit, no content is too much, and the program gets its values back."""
    store = case.store
    sealed = "HOLDFAST_KEY" in os.environ
    port = store._port
    assert places(VALUE, case.directory, store=None if sealed else port) == []
    assert not [
        one for one in [*store.examine(), *store.examine_blobs(full=True)] if one.verdict == "failure"
    ]
    assert {info.run for info in store.runs()} == {"first", "first/child", "second"}
    events = [event for info in store.runs() for event in store.events(info.run, whole=True)]
    assert all(event.chain > 0 for event in events), "a chain was not completed"
    needed = {port.blob_name(one) for one in references(port, *events)}
    assert {blob.address for blob in port.scan_blobs(limit=1000)} == needed
    with known_secrets(**{NAME: VALUE}):
        assert store.erase_secret(NAME, VALUE).runs == ()


@pytest.mark.parametrize("how", ["plain", "sealed"])
def test_killed_at_every_call(crash_matrix: CrashMatrix, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a plain store and on an encrypted one."""
    if how == "sealed":
        monkeypatch.setenv("HOLDFAST_KEY", "00" * 32)
    report = crash_matrix.walk(PROGRAM, how, check=check, start="fork", every=EVERY, same_result=False)
    assert report.calls >= 60
