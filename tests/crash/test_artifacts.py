"""Files of a run, killed at every file operation and every port call: whole versions, each recorded once, orphans told.

The property: after a kill and a second start the files hold exactly the right bytes, exactly one version is recorded for
each real one, no temporary file is left, and an orphan was reported if and only if there was one.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest
from tests.support.sampling import OFTEN

from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill
from holdfast.testing.killing_store import WHENS

PROGRAMS = Path(__file__).parent / "programs"
WRITING = PROGRAMS / "writing.py"
BACK = PROGRAMS / "bringing_back.py"
FIRST, SECOND = b"first\n" * 3, b"second\n" * 2_000
REPORT = [sha256(content).hexdigest() for content in (FIRST, SECOND)]


@pytest.mark.parametrize("how", ["blocking", "async"])
def test_killed_at_every_file_operation(
    crash_matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Before and after each, and in the middle of each write.

    Planted: no record that a file is ready (orphans are not known), the rename before that record (the same), a
    temporary file that is not removed on recovery, and an orphan whose finding is recorded without what is relied on
    from then on: each is caught.
    """
    whens = ("before", "after", "torn")
    struck = []
    for case, name in file_kills(crash_matrix, monkeypatch, WRITING, how, whens=whens):
        recover(case, how=how)
        struck.append(name)
    assert {"make_directory", "create", "write", "sync", "rename", "sync_directory"} <= set(struck)
    assert len(struck) >= 20


def test_killed_at_every_port_call(crash_matrix: CrashMatrix) -> None:
    """Before and after each, at the usual pace."""
    kills = 0
    for when in WHENS:
        for at in count(WHENS.index(when), min(OFTEN, 4)):
            case = crash_matrix.case(WRITING, start="fork")
            case.run(Kill(at, when))
            if case.struck is None:
                break
            recover(case, how="blocking")
            kills += 1
    assert kills >= 10


def test_a_recovery_is_killed_too(crash_matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch) -> None:
    """An orphan is left, and the attempt that finds it is killed at port calls: it is told, and never taken for a change.

    Planted: the finding of an orphan, appended before what is relied on from then on: a run that is killed in between
    pauses at its own file.
    """
    kills = 0
    for at in range(24 if OFTEN > 1 else 1_000):  # what is left of an attempt is looked at early in the next
        case = crash_matrix.case(WRITING, start="fork")
        monkeypatch.setenv("FILE_KILL", "rename#2:after")
        monkeypatch.setenv("FILE_KILL_MARK", str(case.directory / ".operation"))
        case.run()
        monkeypatch.delenv("FILE_KILL")
        assert is_orphan(case)
        case.run(Kill(at, "before"))
        if case.struck is None:
            break
        ended = case.run()
        assert ended.code == 0, ended.output
        assert (case.directory / "out/sub/report.md").read_bytes() == SECOND
        check_no_temps(case)
        found = [event for event in case.store.events("agent") if event.kind == "premise.broken"]
        assert found
        assert all(b'"orphan_of"' in event.body for event in found)
        case.close()
        kills += 1
    assert kills >= 20


def test_bringing_back_is_killed_at_every_file_operation(
    crash_matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restoring, a fork with files and a rewind with files: done again, each is whole, with nothing left beside.

    Planted: a restoring that writes in place instead of beside it leaves a torn file that is then kept as somebody's change.
    """
    kills = 0
    for case, _ in file_kills(crash_matrix, monkeypatch, BACK, whens=("before", "torn")):
        check_brought_back(case)
        kills += 1
    assert kills >= 12


def test_bringing_back_is_killed_at_every_port_call(crash_matrix: CrashMatrix) -> None:
    """The same, around calls of the store, at the usual pace: a fork whose files have not come yet gets them by a restoring."""
    kills = 0
    for when in WHENS:
        for at in count(WHENS.index(when), OFTEN):
            case = crash_matrix.case(BACK, start="fork")
            case.run(Kill(at, when))
            if case.struck is None:
                break
            check_brought_back(case)
            kills += 1
    assert kills >= 10


def check_brought_back(case: Case) -> None:
    """Done again, everything is where it belongs, whole, and relied on as it is."""
    ended = case.run()
    assert ended.code == 0, ended.output
    for place in ("then/out/report.md", "forked/out/report.md", "out/report.md"):
        assert (case.directory / place).read_bytes() == b"first\n", place
    check_no_temps(case)
    assert [one.on_disk for one in case.store.artifacts("other")] == ["as recorded"]
    assert case.store.resume_plan("agent").pauses == ()
    assert case.store.resume_plan("other").pauses == ()
    case.close()


def file_kills(
    matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch, script: Path, *arguments: str, whens: Sequence[str]
) -> Iterator[tuple[Case, str]]:
    """A case for each place at which a start can be killed, struck there; and the operation."""
    operations: list[str] = []
    for when in whens:
        for at in count():
            if when != whens[0] and at == len(operations):
                break
            if when == "torn" and operations[at] != "write":
                continue
            case = matrix.case(script, *arguments, start="fork")
            mark = case.directory / ".operation"
            monkeypatch.setenv("FILE_KILL", f"{at}:{when}")
            monkeypatch.setenv("FILE_KILL_MARK", str(mark))
            ended = case.run()
            monkeypatch.delenv("FILE_KILL")
            if not mark.exists():
                assert ended.code == 0, ended.output
                assert when == whens[0], "the same script makes the same operations"
                break
            if when == whens[0]:
                operations.append(mark.read_text())
            yield case, mark.read_text()


def recover(case: Case, *, how: str) -> None:
    """Start it again, and see that everything is as it is to be."""
    orphan = is_orphan(case)
    ended = case.run()
    assert ended.code == 0, ended.output
    assert (case.directory / "out/sub/report.md").read_bytes() == SECOND
    check_no_temps(case)
    versions = case.store.artifact_versions("agent")
    assert [v.sha256 for v in versions if v.path.endswith("report.md")] == REPORT
    assert [v.number for v in versions if v.path.endswith("report.md")] == [1, 2]
    assert len(versions) == (3 if how == "blocking" else 2)
    assert {artifact.on_disk for artifact in case.store.artifacts("agent")} == {"as recorded"}
    found = [event for event in case.store.events("agent") if event.kind == "premise.broken"]
    assert [b'"orphan_of"' in event.body for event in found] == [True] * orphan, ended.output
    assert ("an orphan" in ended.output) == orphan
    case.close()


def is_orphan(case: Case) -> bool:
    """Whether a file lies there, whole, that nobody recorded: the truth, told from disk and journal."""
    place = case.directory / "out/sub/report.md"
    runs = [info.run for info in case.store.runs()]
    recorded = (
        [v.sha256 for v in case.store.artifact_versions("agent")]
        if runs and case.store.get("agent").head
        else []
    )
    case.close()
    return place.exists() and sha256(place.read_bytes()).hexdigest() not in recorded


def check_no_temps(case: Case) -> None:
    """Nothing of ours is left beside the files."""
    left = [path for path in case.directory.rglob(".holdfast-*") if path.is_file()]
    assert left == []
