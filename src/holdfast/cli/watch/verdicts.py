"""What a child's end means: restart it, or stop, and with which exit code. It only decides."""

from collections.abc import Sequence
from typing import Final

from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, EXIT_REFUSED, EXIT_WAITING
from holdfast.cli.watch.progress import RunStatus
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import moment, status_word

_STOPS: Final = {
    "in_doubt": EXIT_WAITING,
    "parked": EXIT_WAITING,
    "diverged": EXIT_REFUSED,
    "sealed": EXIT_REFUSED,
    "cancelled": EXIT_REFUSED,
}
_HINTS: Final = {
    "in_doubt": "`holdfast resolve {run}` shows what to settle",
    "parked": "`holdfast show {run}` shows what it waits for",
    "diverged": "`holdfast show {run}` shows how to continue",
    "sealed": "`holdfast show {run}` shows how to continue",
    "cancelled": "`holdfast show {run}` shows who and why",
}


class Verdict(NamedTuple):
    """``code`` is the exit code to stop with; None to restart, not before ``until``."""

    code: int | None
    why: str = ""
    hint: str = ""
    until: float | None = None


def judge(returncode: int, runs: Sequence[RunStatus]) -> Verdict:
    """The runs' statuses count before the exit code: a program may swallow or wrap what stopped it."""
    if returncode != EXIT_DONE and any(run.status == "crashed" for run in runs):
        return Verdict(None)  # a crashed run is restarted first, even if another one waits for a person
    for status, code in _STOPS.items():
        for run in runs:
            if run.status == status:
                why = f"run {run.run} {'is ' if status != 'diverged' else ''}{status_word(status)}"
                if run.until is not None:
                    return Verdict(None, f"{why} until {moment(run.until)}", until=run.until)
                return Verdict(code, why, _HINTS[status].format(run=run.run))
    if returncode == EXIT_DONE:
        return Verdict(EXIT_DONE)
    if returncode == EXIT_MISUSE:
        return Verdict(EXIT_MISUSE, "exit code 2 is misuse: starting it again does not help")
    if returncode == EXIT_WAITING:
        return Verdict(
            EXIT_WAITING, "exit code 3 means in doubt or waiting", "`holdfast runs` lists what needs you"
        )
    return Verdict(None)
