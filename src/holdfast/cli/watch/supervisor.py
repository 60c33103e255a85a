"""Starting a command, waiting for it, and starting it again: the only place here that starts or signals a process.

The invariant: at most one child lives, and this leaves only after it has ended. What happens to the child when this
process itself is killed with SIGKILL cannot be helped from here: it works on, and holds its runs.
"""

import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from holdfast.cli.errors import EXIT_DONE, EXIT_REFUSED, RefusedError
from holdfast.cli.watch.breaker import WINDOW_S, Breaker
from holdfast.cli.watch.notices import Notice
from holdfast.cli.watch.progress import Books, Work
from holdfast.cli.watch.signals import Alarms, reaches_all
from holdfast.cli.watch.verdicts import Verdict, judge
from holdfast.clock import SystemClock
from holdfast.views.value_text import count, span

_SIGNAL_EXIT = 128


class End(NamedTuple):
    """How one start of the command ended; ``code`` is negative if a signal did it."""

    pid: int
    code: int
    took_s: float

    @property
    def exit_code(self) -> int:
        """The exit code as a shell shows it."""
        return _SIGNAL_EXIT - self.code if self.code < 0 else self.code

    def how(self) -> str:
        """In words: ``SIGKILL``, or ``exit code 1``."""
        return f"exit code {self.code}" if self.code >= 0 else signal_name(-self.code)


class Supervisor:
    """Keeps one command going."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        books: Books,
        breaker: Breaker,
        tell: Callable[[Notice], None],
    ) -> None:
        self._command = command
        self._environ = environ
        self._books = books
        self._breaker = breaker
        self._notify = tell

    def supervise(self) -> int:
        """Until it is done, needs a person, crashes too often, or this process is told to stop: the exit code."""
        with Alarms() as alarms:
            while True:
                self._books.begin()
                end = self._run_once(alarms)
                if alarms.received:
                    text = f"ended by {end.how()} after {span(end.took_s)}; not restarting"
                    self._tell("interrupted", text, end=end)
                    return end.exit_code
                work = self._look(end)
                verdict = judge(end.code, work.runs)
                if verdict.code is not None:
                    return self._stop(end, verdict.code, verdict)
                if verdict.until is not None:
                    delay_s: float | None = max(0.0, verdict.until - SystemClock.wall())
                    self._tell("waiting", f"{verdict.why}: starting it again then", end=end)
                else:
                    delay_s = self._crashed(end, got_on=work.got_on)
                if delay_s is None:
                    return EXIT_REFUSED
                signum = self._pause(delay_s, alarms)
                if signum is not None:
                    return _SIGNAL_EXIT + signum

    def _run_once(self, alarms: Alarms) -> End:
        began = SystemClock.monotonic()
        child = self._start()
        try:
            self._tell("started", f"started process {child.pid}: {shlex.join(self._command)}", pid=child.pid)
            passed = 0
            while child.poll() is None:
                for signum in alarms.received[passed:]:
                    self._pass_on(child, signum)
                    passed += 1
                alarms.wait()
        finally:
            # Only a defect of ours leads here with a living child, and it must not live on unwatched.
            if child.poll() is None:
                child.terminate()
                child.wait()
        assert child.returncode is not None
        return End(child.pid, child.returncode, SystemClock.monotonic() - began)

    def _start(self) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(self._command, env=self._environ)  # noqa: S603 - starting it is the purpose
        except OSError as error:
            raise RefusedError(
                f"cannot start {self._command[0]}: {error.strerror}",
                "give a command after --, as you would type it",
            ) from error

    def _pass_on(self, child: "subprocess.Popen[bytes]", signum: signal.Signals) -> None:
        if reaches_all(signum):
            self._tell("signalled", f"{signum.name}: waiting for process {child.pid} to end", pid=child.pid)
            return
        child.send_signal(signum)
        self._tell("signalled", f"passed {signum.name} on to process {child.pid}", pid=child.pid)

    def _look(self, end: End) -> Work:
        work = self._books.work(end.pid)
        if work.problem:
            self._tell("blind", f"only the exit code tells now: {work.problem}")
        return work

    def _stop(self, end: End, code: int, verdict: Verdict) -> int:
        took = span(end.took_s)
        if code == EXIT_DONE:
            self._tell("finished", f"finished after {took}", end=end)
        else:
            self._tell("stopped", f"stopped after {took}: {verdict.why}", hint=verdict.hint, end=end)
        return code

    def _crashed(self, end: End, *, got_on: bool) -> float | None:
        """Tell of a crash and what it leads to: a restart after so many seconds, or None for the end."""
        self._tell("crashed", f"crashed with {end.how()} after {span(end.took_s)}", end=end)
        delay_s = self._breaker.crashed(SystemClock.monotonic(), got_on=got_on)
        crashes, most = self._breaker.crashes, self._breaker.crashes_max
        if delay_s is None:
            times = count(crashes, "crash", "crashes")
            text = f"gave up: {times} within {WINDOW_S / 60:.0f} min without progress"
            self._tell("gave_up", text, hint="`holdfast runs` tells where its runs stand", crashes=crashes)
            return None
        told = f"crash {crashes} of {most} without progress" if crashes else "it had made progress"
        text = f"restarting in {span(delay_s)}: {told}"
        self._tell("restarting", text, delay_s=round(delay_s, 3), crashes=crashes)
        return delay_s

    def _pause(self, delay_s: float, alarms: Alarms) -> signal.Signals | None:
        """Wait before the next start; the signal, if one says that there is to be none."""
        until = SystemClock.monotonic() + delay_s
        while not alarms.received and (left_s := until - SystemClock.monotonic()) > 0:
            alarms.wait(left_s)
        if not alarms.received:
            return None
        self._tell("interrupted", f"{alarms.received[0].name} while waiting; not restarting")
        return alarms.received[0]

    def _tell(
        self,
        event: str,
        text: str,
        *,
        end: End | None = None,
        hint: str = "",
        pid: int | None = None,
        delay_s: float | None = None,
        crashes: int | None = None,
    ) -> None:
        at = SystemClock.wall()
        if end is None:
            self._notify(Notice(at, event, text, hint, pid, delay_s=delay_s, crashes=crashes))
        else:
            self._notify(Notice(at, event, text, hint, end.pid, end.code, round(end.took_s, 3)))


def signal_name(number: int) -> str:
    """``SIGKILL``; a real-time signal has no name, and is a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
