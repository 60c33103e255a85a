"""Stop-signals that a framework swallows: in a thread or a task of its own, or as a message to the model."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import StopSignal


class SwallowedStops:
    """Remembers the first stop-signal of a framework's calls, and lets no further call be made."""

    def __init__(self) -> None:
        self.stop: BaseException | None = None
        """The stop-signal; or an error of an adapter that has to end the framework's work like one."""

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Make a call, unless the run was stopped; remember a stop-signal of this call."""
        self.check()
        try:
            yield
        except StopSignal as stop:
            self.stop = self.stop or stop
            raise

    def check(self) -> None:
        """Raise the stop-signal again, if there was one."""
        if self.stop is not None:
            raise self.stop

    @contextmanager
    def raised_at_end(self) -> Iterator[None]:
        """Raise the stop-signal at the end of the block, also in place of what the framework made of it."""
        try:
            yield
        except Exception as error:
            if self.stop is not None:
                raise self.stop from error
            raise
        self.check()
