"""Names that a person may have meant: of commands, runs and labels."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError, UnknownPoint, UnknownRun
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind

if TYPE_CHECKING:
    from holdfast.api.store.store import Store

_SHOWN_MAX: Final = 3
_RUNS_MAX: Final = 2000
"""Only the newest runs are compared: the time grows with their number."""


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


def run_names(store: "Store") -> list[str]:
    """The newest runs of a store."""
    return [info.run for info in store.runs(limit=_RUNS_MAX)]


def label_names(events: Sequence[Event]) -> list[str]:
    """The labels of a run's checkpoints, newest first."""
    labels = [fields_of(event.body).get("label") for event in events if event.kind == Kind.CHECKPOINT]
    return [*dict.fromkeys(label for label in reversed(labels) if label)]


def suggestion_for(error: BaseException, url: str | None) -> str:
    """What a person may have meant who typed a run or a label that is not there."""
    if not isinstance(error, (UnknownRun, UnknownPoint)):
        return ""
    from holdfast.api.store.store import find_store

    with suppress(HoldfastError, OSError):  # the error itself is the news
        store = find_store(url)
        if store is not None and isinstance(error, UnknownRun):
            return did_you_mean(error.run, run_names(store))
        if store is not None and isinstance(error, UnknownPoint) and not error.what[:1].isdecimal():
            return did_you_mean(error.what, label_names(store.events(error.run)))
    return ""
