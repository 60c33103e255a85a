"""The hooks that a program declares: for one run, or for every run that this process enters.

They are not stored: neither their URL nor their function. A delivery records the id of its hook, which is the
same in every process that runs the same program. So the next attempt delivers what this one could not.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.engine.run.entry import Entry
from holdfast.engine.run.features import WANTED
from holdfast.errors import Misuse
from holdfast.model.hooks import OCCASIONS, Hook

_PROGRAM: Final = "program-"
_lock: Final = Lock()
_declared: Final[dict[str, Hook]] = {}
"""The hooks for every run of this process, by id."""


def declare(hook: Hook) -> Hook:
    """Notify this hook about every run that this process enters. One that is declared again is replaced."""
    made = checked(hook)
    with _lock:
        _declared[made.id] = made
        WANTED.add("hooks")
    return made


def forget_declared() -> None:
    """Drop the hooks of this process: for tests."""
    with _lock:
        _declared.clear()
        WANTED.discard("hooks")


def hooks_for(given: Sequence[Hook]) -> tuple[Hook, ...]:
    """The hooks of one run: its own, and those of the process. Each has an id, and no two the same."""
    with _lock:
        every = [*given, *_declared.values()]
    found: dict[str, Hook] = {}
    for hook in every:
        made = checked(hook)
        number = 1
        while (known := found.get(made.id)) is not None and known.target != made.target:
            number += 1  # two functions of one name
            made = made._replace(id=f"{checked(hook).id}-{number}")
        found[made.id] = made
    return tuple(found.values())


def as_hooks(given: "Iterable[Hook | str | Sequence[str] | Callable[..., Any]]") -> tuple[Hook, ...]:
    """What ``hooks=`` of ``holdfast.run`` gives, as hooks."""
    return tuple(one if isinstance(one, Hook) else Hook(one) for one in given)


def check_hooks(entry: Entry) -> None:
    """Misuse for a hook of the run that cannot be used."""
    for hook in entry.hooks:
        checked(hook)


def checked(hook: Hook) -> Hook:
    """The hook with its id. Misuse if it cannot be used."""
    on: Any = hook.on
    if isinstance(on, str) or not on or any(one not in OCCASIONS for one in on):
        raise Misuse(
            problem=f"a hook on {on!r}, which is no list of occasions",
            advice=f"use some of {', '.join(OCCASIONS)}",
        )
    if hook.timeout_s <= 0:
        raise Misuse(problem=f"a hook with timeout_s={hook.timeout_s}", advice="give seconds above 0")
    problem = target_problem(hook)
    if problem:
        raise Misuse(
            problem=problem, advice="give a URL, a list of words for a command, or a function of a notice"
        )
    return hook if hook.id else hook._replace(id=_PROGRAM + _digest(hook))


def target_problem(hook: Hook) -> str:
    """What is wrong with the target; empty if nothing."""
    target = hook.target
    if callable(target):
        return ""
    if isinstance(target, str):
        return "" if hook.url_env and not target else url_problem(target)
    if not target or not all(isinstance(word, str) and word and "\0" not in word for word in target):
        return f"{target!r} is no command: a list of words, the first of which is a program"
    return ""


def url_problem(url: str) -> str:
    """What is wrong with the URL of a webhook; empty if nothing. It shows no path: that may be a secret."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"the URL of a webhook is malformed: {error}"
    if parts.scheme not in {"http", "https"} or not host:
        return f"{parts.scheme or 'a text'} is no http or https URL of a webhook"
    if parts.username or parts.password or not url.isprintable() or " " in url:
        return "the URL of a webhook has a user, a password or a blank in it"
    return ""


def label_of(hook: Hook) -> str:
    """The hook as it is shown. The path of a URL may be a secret, so that only its host is shown."""
    target = hook.target
    if callable(target):
        return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', repr(target))}"
    if not isinstance(target, str):
        return " ".join(target)
    if hook.url_env:
        return f"URL in {hook.url_env}"
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc}/…" if parts.path.strip("/") or parts.query else target


def _digest(hook: Hook) -> str:
    """The same in every process that runs the program, and telling nothing of a URL."""
    target = hook.target
    known = label_of(hook) if callable(target) else target if isinstance(target, str) else "\0".join(target)
    return sha256(known.encode("utf-8", "surrogatepass")).hexdigest()[:12]
