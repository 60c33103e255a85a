"""Starts a command, waits for it, and restarts it. Only this module starts or signals a process.

The invariant: at most one child lives, and the supervisor returns only after it has ended. If the supervisor
is killed with SIGKILL, its child keeps running and holds its runs; nothing here can prevent that.
"""

import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from holdfast.cli.errors import EXIT_DONE, EXIT_REFUSED, RefusedError
from holdfast.cli.watch.breaker import WINDOW_S, Breaker
from holdfast.cli.watch.notices import Notice
from holdfast.cli.watch.progress import RunProgress, Work
from holdfast.cli.watch.signals import SignalWatch, reaches_all
from holdfast.cli.watch.verdicts import Verdict, judge
from holdfast.clock import SystemClock
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import count, span

_SIGNAL_EXIT = 128


class End(NamedTuple):
    """How one start of the command ended; ``code`` is negative for a signal."""

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
    """Keeps one command running."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        progress: RunProgress,
        breaker: Breaker,
        tell: Callable[[Notice], None],
    ) -> None:
        self._command = command
        self._environ = environ
        self._progress = progress
        self._breaker = breaker
        self._notify = tell

    def supervise(self) -> int:
        """Run until it is done, needs a person, crashes too often, or a signal stops it.

        Returns the exit code.
        """
        with SignalWatch() as signals:
            while True:
                self._progress.begin()
                end = self._run_once(signals)
                if signals.received:
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
                signum = self._pause(delay_s, signals)
                if signum is not None:
                    return _SIGNAL_EXIT + signum

    def _run_once(self, signals: SignalWatch) -> End:
        began = SystemClock.monotonic()
        child = self._start()
        try:
            self._tell("started", f"started process {child.pid}: {shlex.join(self._command)}", pid=child.pid)
            passed = 0
            while child.poll() is None:
                for signum in signals.received[passed:]:
                    self._pass_on(child, signum)
                    passed += 1
                signals.wait()
        finally:
            # Only a defect of ours gets here with a living child. It must not run on unwatched.
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
        work = self._progress.work(end.pid)
        if work.problem:
            self._tell("blind", f"using only the exit code: {work.problem}")
        return work

    def _stop(self, end: End, code: int, verdict: Verdict) -> int:
        took = span(end.took_s)
        if code == EXIT_DONE:
            self._tell("finished", f"finished after {took}", end=end)
        else:
            self._tell("stopped", f"stopped after {took}: {verdict.why}", hint=verdict.hint, end=end)
        return code

    def _crashed(self, end: End, *, got_on: bool) -> float | None:
        """Report a crash and its consequence: the seconds until the restart, or None to give up."""
        self._tell("crashed", f"crashed with {end.how()} after {span(end.took_s)}", end=end)
        delay_s = self._breaker.crashed(SystemClock.monotonic(), got_on=got_on)
        crashes, most = self._breaker.crashes, self._breaker.crashes_max
        if delay_s is None:
            times = count(crashes, "crash", "crashes")
            text = f"gave up: {times} within {WINDOW_S / 60:.0f} min without progress"
            self._tell("gave_up", text, hint="`holdfast runs` shows the status of its runs", crashes=crashes)
            return None
        told = f"crash {crashes} of {most} without progress" if crashes else "it had made progress"
        text = f"restarting in {span(delay_s)}: {told}"
        self._tell("restarting", text, delay_s=round(delay_s, 3), crashes=crashes)
        return delay_s

    def _pause(self, delay_s: float, signals: SignalWatch) -> signal.Signals | None:
        """Wait before the next start. Returns the signal that cancels it, if one comes."""
        until = SystemClock.monotonic() + delay_s
        while not signals.received and (left_s := until - SystemClock.monotonic()) > 0:
            signals.wait(left_s)
        if not signals.received:
            return None
        self._tell("interrupted", f"{signals.received[0].name} while waiting; not restarting")
        return signals.received[0]

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
    """``SIGKILL``; or the number of a real-time signal, which has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
