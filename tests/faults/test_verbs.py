"""Every verb of a run in a process that has no descriptor left: it works, or says so in Holdfast's words, and harms nothing.

The program in ``verbs`` has loaded what it takes to enter a run, and no more: whatever a verb imports, it has to open files for.
With the table ``full``, one descriptor is held back for that. With ``limit``, not even that one helps.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.faults import verbs

import holdfast

_PROGRAM = Path(verbs.__file__)
_NO_RECORD = {"bind", "options", "scope"}
"""What only prepares a call."""
_NEEDS_FILES = {"FileFailed", "PremiseMissing"}
"""What a verb says whose subject is a file, or an endpoint."""
_PARKS = {"AwaitingAnswer", "AwaitingChild", "AwaitingMessage", "StepInDoubt"}


class Told(NamedTuple):
    """What the program tells of a verb."""

    verb: str
    first: str
    again: str
    effects: int
    wrong: str


def walked(place: Path, how: str, shortage: str) -> list[Told]:
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), str(place), how, shortage],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return [Told(verb, first, again, int(count), wrong) for verb, first, again, count, wrong in lines]


@pytest.mark.parametrize(
    ("how", "shortage"), [("blocking", "full"), ("blocking", "limit"), ("awaiting", "full")]
)
def test_every_verb_without_descriptors(tmp_path: Path, how: str, shortage: str) -> None:
    """No raw OSError; the verb works afterwards, and so does the run; what was acknowledged is answered, and no once effect happens twice.

    Planted, and caught: no spare descriptor; one without the error of its own; a price table that is loaded behind a
    model call; a thread pool that is loaded behind the intent; an error that is no OSError, which kept an outcome from being recorded.
    """
    told = walked(tmp_path, how, shortage)
    assert {each.verb for each in told} >= set(verbs.VERBS)
    allowed = {"ok", *_NEEDS_FILES, *_PARKS} | ({"OutOfDescriptors"} if shortage == "limit" else set())
    for each in told:
        assert each.first in allowed, each
        assert each.again in {"ok", *_PARKS} or each.verb == "depends_on endpoint", each
        assert not each.wrong, each
        assert "StepInDoubt" not in each or each.verb == "once failing", each
        if each.verb.startswith("once") and each.verb != "once harmless":
            assert each.effects == 1, each
        if each.verb in {"model", "stream"}:  # a new call each time, and paid for only if it is answered
            assert each.effects == [each.first, each.again].count("ok"), each


def test_every_verb_is_walked() -> None:
    """A verb that is added to ``Run`` is added here."""
    public = {name for name, made in vars(holdfast.Run).items() if callable(made) and name[0] != "_"}
    public |= {name for name in dir(holdfast.Run) if name[0] != "_" and callable(getattr(holdfast.Run, name))}
    assert public - _NO_RECORD <= {verb.split()[0].split(".")[0] for verb in verbs.VERBS}
