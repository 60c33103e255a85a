"""The command with which a run's last attempt was started: what it is, where it comes from, and whether it may be started again."""

from typing import Literal, NamedTuple


class Command(NamedTuple):
    """A recorded command. It is foreign where ``origin`` says, in words, how it came here without this user's doing.

    ``trusted_by`` and ``trusted_at`` tell who has said that it may be started here all the same; empty and None while
    nobody has. ``event`` is the seq of the attempt that recorded it.
    """

    python: str
    arguments: tuple[str, ...]
    cwd: str
    event: int
    starter: Literal["program", "worker", "client"] = "program"
    """Who goes on with the run: only where it is its program is this command ever started again."""
    origin: str = ""
    trusted_by: str = ""
    trusted_at: float | None = None
    is_remembered: bool = True
    """Whether trust can be remembered: not in a store that belongs to somebody else, who could have written it there."""

    @property
    def line(self) -> tuple[str, ...]:
        """The interpreter and its arguments."""
        return (self.python, *self.arguments)

    @property
    def needs_trust(self) -> bool:
        """Whether it would be started again, and must not be unless somebody says so."""
        return self.is_foreign and self.starter == "program"

    @property
    def is_foreign(self) -> bool:
        """Whether it came from elsewhere, and nobody has trusted it."""
        return bool(self.origin) and not self.trusted_by


class Here(NamedTuple):
    """Who asks, and where: the host and the user of this process, and whose the store is (see ``StorePort.owned_by``)."""

    host: str
    uid: int | None
    owned_by: str | None
