"""Questions to people: what is asked, what an answer may be, and what came of it."""

from typing import Any, Literal, NamedTuple

WantsKind = Literal["bool", "text", "int", "number", "choice", "object", "json"]


class Wants(NamedTuple):
    """What may be answered, as data: another process, which knows none of the program's classes, must be able to check it.

    ``name`` is the class that the program gets; ``fields`` are those that an object must have.
    """

    kind: WantsKind = "json"
    choices: tuple[Any, ...] = ()
    name: str = ""
    fields: tuple[str, ...] = ()


class Question(NamedTuple):
    """A question that stands in the journal without an answer. ``scope``, ``after`` and ``forked`` are its place."""

    key: str
    id: str
    seq: int
    asked_at: float
    text: str
    wants: Wants
    about_sha256: str
    expires_at: float | None
    scope: str
    after: str
    forked: bool

    def is_expired(self, now: float) -> bool:
        """Whether nobody can answer it any more."""
        return self.expires_at is not None and now >= self.expires_at


class Answer(NamedTuple):
    """What somebody answered, who, and why if they said so."""

    value: Any
    by: str
    reason: str = ""
