"""Small parts of a folded view: attempts, and the counts of sites."""

from holdfast.model.event_fields import fields_of, rewritten
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple


class Attempt:
    """The work of one process on a run. ``how`` is None while it runs, and if no event says how it ended."""

    __slots__ = ("ended_at", "event", "how", "number")

    def __init__(self, number: int, event: Event) -> None:
        self.number = number
        self.event = event
        self.how: str | None = None
        self.ended_at: float | None = None

    def start_in(self, cwd: str) -> None:
        """Let its program start in another directory: a fork got the origin's files there.

        ``argv_cwd`` is the directory in which the words of its command were written.
        """
        was = fields_of(self.event.body)
        written_in = was.get("argv_cwd") or was.get("cwd", "")
        self.event = self.event._replace(body=rewritten(self.event.body, cwd=cwd, argv_cwd=written_in))

    def argv_cwd(self, argv: list[str], cwd: str) -> str:
        """Where the words of this command were written, if it is that of this attempt; empty if here."""
        fields = fields_of(self.event.body)
        is_same = (fields.get("argv"), fields.get("cwd")) == (argv, cwd)
        return str(fields.get("argv_cwd", "")) if is_same else ""


class Site(NamedTuple):
    """How far the calls of one site were counted: the highest count in use, and the counts that failed."""

    used: int
    free: tuple[int, ...] = ()
