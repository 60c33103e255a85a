"""Hooks: where people are notified about runs, what a notice says, and what is recorded of its delivery."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from holdfast.limits import HOOK_TIMEOUT_S
from holdfast.model.named_tuple import NamedTuple

Occasion = Literal["needs-person", "finished", "failed", "in-doubt"]

NEEDS_PERSON: Final = "needs-person"
FINISHED: Final = "finished"
FAILED: Final = "failed"
IN_DOUBT: Final = "in-doubt"
TEST: Final = "test"
"""The occasion of the notice that a person sends to try a hook."""
OCCASIONS: Final[tuple[Occasion, ...]] = (NEEDS_PERSON, FINISHED, FAILED, IN_DOUBT)


class Hook(NamedTuple):
    """A place that receives notices.

    ``target`` is a URL (a webhook), a list of words (a command), or a function that takes a ``Notice``.
    ``on`` are the occasions. The secret that signs a webhook is named, never stored: it is in an environment
    variable or in a file.
    """

    target: "str | Sequence[str] | Callable[[Notice], Any]"
    on: tuple[str, ...] = OCCASIONS
    secret_env: str = ""
    secret_file: str = ""
    timeout_s: float = HOOK_TIMEOUT_S
    children: bool = False
    """Whether children report, too, that they finished or failed. Their questions and doubts always count."""
    id: str = ""
    since: float = 0.0
    """Of a store's hook: when it was added. Older events make no notice for it."""
    url_env: str = ""
    """Of a store's hook: the environment variable with its URL, if the URL itself is a secret."""
    cwd: str = ""
    """Of a command: the directory in which it starts."""
    host: str = ""
    uid: int | None = None
    """Of a store's command: on which host and by which user it was added."""

    @property
    def kind(self) -> str:
        """``webhook``, ``command`` or ``callable``."""
        if isinstance(self.target, str):
            return "webhook"
        return "callable" if callable(self.target) else "command"


class AskedQuestion(NamedTuple):
    """An open question in a notice, and the commands that answer it."""

    id: str
    question: str
    answers: str
    """What may be answered, in words."""
    choices: tuple[Any, ...]
    about: str
    """What it is about, for example a tool and its arguments, on one line."""
    expires_at: float | None
    commands: tuple[str, ...]


class DoubtedStep(NamedTuple):
    """A step in doubt in a notice, and the commands that settle it."""

    id: str
    step: str
    commands: tuple[str, ...]


class Notice(NamedTuple):
    """What a hook receives.

    ``id`` is the same whenever and by whichever process this notice is delivered, so that a receiver can
    drop repetitions.
    """

    id: str
    on: str
    what: str
    """The case of the occasion: question, finished, failed, crashed, out-of-budget, premise-missing, …"""
    text: str
    """One sentence for people."""
    at: float
    run: str
    status: str
    """The run's status when the notice was sent; it may have changed since ``at``."""
    attempt: int = 0
    agent: str = ""
    goal: str = ""
    store: str = ""
    error: str = ""
    questions: tuple[AskedQuestion, ...] = ()
    in_doubt: tuple[DoubtedStep, ...] = ()
    commands: tuple[str, ...] = ()
    """What a person can type next."""


class Mark(NamedTuple):
    """The place of a notice in a run's journal: enough to make the notice from the journal again."""

    id: str
    on: tuple[str, ...]
    """Its occasions; the first is the one that it is reported as."""
    what: str
    seq: int
    at: float
    attempt: int = 0
    key: str = ""
    """The key of the question that was asked."""


class Delivery(NamedTuple):
    """One notice for one hook, and how far its delivery has come.

    ``state`` is ``waiting``, ``sending``, ``delivered``, ``overtaken`` (its question needs no answer any
    more) or ``given_up``.
    """

    id: str
    hook: str
    run: str
    on: str
    what: str
    at: float
    state: str
    tries: int
    status_code: int | None
    """Of a webhook's last answer, or the exit code of a command."""
    error: str
    tried_at: float | None
    next_at: float | None


class Sent(NamedTuple):
    """How one try ended. ``later_s`` is the pause that the receiver asked for."""

    good: bool
    code: int | None = None
    error: str = ""
    is_final: bool = False
    """Whether no later try could succeed."""
    later_s: float = 0.0


class DeliveryCounts(NamedTuple):
    """What one pass over the store came to."""

    found: int = 0
    """Notices that were new."""
    delivered: int = 0
    failed: int = 0
    """Tries that failed and are repeated."""
    given_up: int = 0
    waiting: int = 0
    """Deliveries whose next try is later."""
