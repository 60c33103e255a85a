"""Why a value was refused and where it is, and why recorded bytes could not be read.

These two errors stay inside this package: ``values`` turns them into ``NotStorable`` and ``ValueUnreadable``,
which also name the thing that was written or read. The invariant: a refusal at any depth arrives with its
full path. The path is built while the error travels up, so that a valid value pays nothing.
"""

import json
from typing import Any, Final

from holdfast.errors import NotStorable, ValueUnreadable
from holdfast.limits import VALUE_DEPTH_MAX
from holdfast.model.explained_error import masked_message

ADVICE: Final = "return plain data, or register a codec with holdfast.register(...)"

_KNOWN_UNSTORABLE: Final = {
    "_thread.lock": "a lock",
    "_thread.RLock": "a lock",
    "_io._IOBase": "an open file",
    "_socket.socket": "a socket",
    "threading.Thread": "a thread",
    "threading.Condition": "a lock",
    "threading.Event": "a lock",
    "builtins.function": "a function",
    "builtins.method": "a method",
    "builtins.builtin_function_or_method": "a function",
    "builtins.module": "a module",
    "builtins.type": "a class",
    "builtins.generator": "a generator",
    "builtins.async_generator": "an async generator",
    "builtins.coroutine": "a coroutine",
    "builtins.ellipsis": "an Ellipsis",
    "builtins.BaseException": "an exception",
}

_BUILTIN_BASES: Final = (dict, list, tuple, set, frozenset, str, bytes, bytearray, bool, int, float, complex)


class RefusedError(Exception):
    """A part of a value cannot be written. Containers add their segment of the path on the way up."""

    def __init__(self, found: str, advice: str = ADVICE) -> None:
        super().__init__(found)
        self.found = found
        self.advice = advice
        self.too_deep = False
        self._task_calls: list[tuple[int, str]] = []

    def inside(self, container: object, segment: str) -> None:
        """Note that the fault is in ``container``, at ``segment``."""
        self._task_calls.append((id(container), segment))

    def explain(self, what: str) -> NotStorable:
        """The error that the user sees."""
        task_calls = self._task_calls[::-1]
        if self.too_deep:
            task_calls = self._up_to_cycle(task_calls)
        path = _shortened("$" + "".join(segment for _, segment in task_calls))
        error = NotStorable(
            what=what,
            path=path,
            found=self.found,
            problem=f"{what} holds {self.found} at {path}",
            advice=self.advice,
        )
        error.__cause__ = self.__cause__
        return error

    def _up_to_cycle(self, task_calls: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """A container inside itself is a cycle: cut the path where it first repeats."""
        seen: set[int] = set()
        for length, (identity, _) in enumerate(task_calls):
            if identity in seen:
                self.found = "a cycle"
                self.advice = (
                    "a value that contains itself has no end on paper: refer to the inner one by name"
                )
                return task_calls[:length]
            seen.add(identity)
        return task_calls


def too_deep() -> RefusedError:
    """The refusal of a value that nests too deeply, or without end; ``explain`` decides which."""
    error = RefusedError(
        f"nesting deeper than {VALUE_DEPTH_MAX} levels", "keep the value flatter, or keep it in a file"
    )
    error.too_deep = True
    return error


def unstorable(value: object) -> RefusedError:
    """The refusal of a value whose type has no stored form."""
    kind = type(value)
    known = _known(kind)
    if known:
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        return RefusedError(f"{known} ({name})" if isinstance(name, str) else known)
    for base in _BUILTIN_BASES:
        if issubclass(kind, base):
            return RefusedError(
                f"a subclass of {base.__name__} ({kind.__qualname__})",
                f"it would come back as a plain {base.__name__}: convert it with {base.__name__}(...), "
                "or register a codec with holdfast.register(...)",
            )
    return RefusedError(
        f"{_article(kind.__name__)} {kind.__name__} ({kind.__module__}.{kind.__qualname__})",
        "return plain data, make the class a dataclass, or register a codec with holdfast.register(...)",
    )


def member(name: object) -> str:
    """The path segment of a mapping's entry or an object's field."""
    if isinstance(name, str):
        return f".{name}" if name.isidentifier() else f"[{json.dumps(name)}]"
    return f"[{_brief(name)}]"


def _shortened(path: str) -> str:
    """Both ends of a path that is too long to read. Only cycles make such paths."""
    if len(path) <= 400:
        return path
    path = masked_message(path)  # half a secret is none that a mask would be put on later
    return f"{path[:200]}…{path[-100:]}"


def _known(kind: type) -> str | None:
    for base in kind.__mro__:
        found = _KNOWN_UNSTORABLE.get(f"{base.__module__}.{base.__qualname__}")
        if found:
            return found
    return None


def _article(name: str) -> str:
    return "an" if name[:1] in "AEIOUaeiou" else "a"


def _brief(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a path is for people; a broken repr must not hide the refusal
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else f"{masked_message(text)[:57]}..."


class UnreadableError(Exception):
    """Recorded bytes cannot become the value they were."""

    def __init__(self, type_name: str, problem: str) -> None:
        super().__init__(problem)
        self.type_name = type_name
        self.problem = problem

    def explain(self, what: str) -> ValueUnreadable:
        """The error that the user sees."""
        error = ValueUnreadable(what=what, type_name=self.type_name, problem=self.problem)
        error.__cause__ = self.__cause__
        return error


def shape_error(tag: Any, cause: BaseException) -> UnreadableError:
    """The refusal of a tag whose content its writer would not have written."""
    error = UnreadableError(str(tag), f"but its content has another shape ({type(cause).__name__}: {cause})")
    error.__cause__ = cause
    return error
