"""Questions to people: the question, the type of its answer, and the answer."""

from typing import Any, Literal

from holdfast.model.named_tuple import NamedTuple

WantsKind = Literal["bool", "text", "int", "number", "choice", "object", "json"]


class Wants(NamedTuple):
    """The type of an answer, as data: a process without the program's classes must be able to check it.

    ``name`` is the class that the program gets; ``fields`` are the required fields of an object.
    """

    kind: WantsKind = "json"
    choices: tuple[Any, ...] = ()
    name: str = ""
    fields: tuple[str, ...] = ()


class Question(NamedTuple):
    """A recorded question without an answer. ``scope``, ``after`` and ``forked`` are its place."""

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
        """Whether it can no longer be answered."""
        return self.expires_at is not None and now >= self.expires_at


class Answer(NamedTuple):
    """An answer, who gave it, and the reason if there is one."""

    value: Any
    by: str
    reason: str = ""
