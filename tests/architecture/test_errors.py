"""The error tree: drawn as it is, with fields, hints and docstrings, and able to cross a process boundary."""

import inspect
import pickle
import re
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from holdfast import errors
from holdfast.model.explained_error import Explained

CLASSES = [
    value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Explained) and not name.startswith("_")
]


def sample(cls: type[Explained]) -> Explained:
    """One of each, with every field its texts name."""
    names = {name for text in (cls.says, cls.advises) for _, name, _, _ in Formatter().parse(text) if name}
    numbers = {
        "size",
        "size_max",
        "fence",
        "fence_now",
        "head",
        "seq",
        "opened_by",
        "used_by",
        "length_max",
        "timeout_s",
    }
    fields: dict[str, Any] = {name: 7 if name in numbers else f"<{name}>" for name in names}
    return cls(**fields)


def test_errors_explain_themselves() -> None:
    """Each has a docstring, its message names its fields, the hint is a note, and it survives pickling."""
    for cls in CLASSES:
        assert cls.__doc__, cls
        if cls.says:  # else a family, never raised by itself
            check_told(sample(cls))


def check_told(error: Explained) -> None:
    assert str(error), type(error)
    for name, value in error.fields.items():
        assert getattr(error, name) == value, error
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.hint, again.fields) == (str(error), error.hint, error.fields)
    if error.hint:
        assert error.__notes__ == [f"hint: {error.hint}"], error


def test_the_tree_is_drawn_as_it_is() -> None:
    """Each class stands in the docstring's drawing under its parent."""
    drawing = (errors.__doc__ or "").split("::", 1)[1]
    stack: list[tuple[int, str]] = []
    drawn: dict[str, str | None] = {}
    for line in drawing.splitlines():
        match = re.search(r"[A-Z]\w+", line)
        if match is None or not line.strip() or not re.match(r"^[\s│├└─]*[A-Z]\w+", line):
            continue
        depth = match.start()
        while stack and stack[-1][0] >= depth:
            stack.pop()
        drawn[match.group()] = stack[-1][1] if stack else None
        stack.append((depth, match.group()))
    for cls in CLASSES:
        assert cls.__name__ in drawn, cls.__name__
        parent = drawn[cls.__name__]
        if parent is not None:
            assert cls.__bases__[0].__name__ == parent
    assert set(drawn) == {c.__name__ for c in CLASSES} | {"Terminated"}


def test_stop_signals_are_not_exceptions() -> None:
    """Frameworks swallow Exception and call the tool again; a stop-signal passes."""
    for cls in CLASSES:
        assert issubclass(cls, Exception) != issubclass(cls, errors.StopSignal)


def test_hints_name_commands_that_exist() -> None:
    """A hint's next command is one that can be typed."""
    from holdfast.cli.app import COMMANDS

    text = Path(errors.__file__).read_text(encoding="utf-8")
    for command in re.findall(r"`holdfast (\w+)", text):
        assert command in COMMANDS, command


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_a_fixed_text_promises_nothing(cls: type[Explained]) -> None:
    """A message or hint is printed whatever happened: that records are safe, or not lost, only those who looked can say.

    Seen: "nothing acknowledged is lost", from a store that had just lost commits.
    """
    told = f"{cls.says} {cls.advises}"
    assert not re.search(
        r"\b(is|are) (safe|intact)\b|acknowledged is lost|(nothing|not) .*\blost\b|left behind", told
    ), told
