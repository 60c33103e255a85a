"""The command of a run's last attempt: what it is, its origin, and whether it may be started again."""

from typing import Literal

from holdfast.model.named_tuple import NamedTuple


class Command(NamedTuple):
    """A recorded command. It is foreign if ``origin`` says, in words, how it came here.

    ``trusted_by`` and ``trusted_at`` say who trusted it here; empty and None for an untrusted one. ``event``
    is the seq of the attempt that recorded it.
    """

    python: str
    arguments: tuple[str, ...]
    cwd: str
    event: int
    starter: Literal["program", "worker", "client"] = "program"
    """Who continues the run. Only a program's command is ever started again."""
    origin: str = ""
    trusted_by: str = ""
    trusted_at: float | None = None
    is_of_lineage: bool = False
    """Whether the run is a fork or has another name by now.

    Then the command alone may open the run that it comes from: HOLDFAST_RUN has to name this one.
    """
    is_remembered: bool = True
    """Whether trust can be stored: not in a store of another user, who could have written it."""

    @property
    def line(self) -> tuple[str, ...]:
        """The interpreter and its arguments."""
        return (self.python, *self.arguments)

    @property
    def needs_trust(self) -> bool:
        """Whether it could be started again, but only with a person's trust."""
        return self.is_foreign and self.starter == "program"

    @property
    def is_foreign(self) -> bool:
        """Whether it is foreign and not trusted."""
        return bool(self.origin) and not self.trusted_by


class Here(NamedTuple):
    """Who asks, and where: host and user of this process, and the store's owner (``StorePort.owned_by``)."""

    host: str
    uid: int | None
    owned_by: str | None
