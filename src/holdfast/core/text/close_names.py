"""The names that a person or a model may have meant."""

from collections.abc import Iterable
from typing import Final

_SHOWN_MAX: Final = 3


def did_you_mean(typed: str, names: Iterable[str]) -> str:
    """``did you mean show?``; empty if no name is close."""
    found = close_names(typed, names)
    if not found:
        return ""
    *others, last = found
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


def close_names(typed: str, names: Iterable[str]) -> list[str]:
    """The names that are most like it, the closest first; upper and lower case are the same."""
    from difflib import get_close_matches

    by_form: dict[str, str] = {}
    for name in names:
        by_form.setdefault(name.lower(), name)
    form = typed.lower()
    close = get_close_matches(form, by_form, n=_SHOWN_MAX)
    longer = [name for name in by_form if name.startswith(form) and len(form) > 1]
    return [by_form[name] for name in dict.fromkeys([*close, *longer])][:_SHOWN_MAX]
