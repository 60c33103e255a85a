"""Names of runs and labels that a person may have meant."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.text.close_names import did_you_mean
from holdfast.errors import HoldfastError, UnknownPoint, UnknownRun
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind

if TYPE_CHECKING:
    from holdfast.api.store.store import Store

_RUNS_MAX: Final = 2000
"""Only the newest runs are compared: the time grows with their number."""


def run_names(store: "Store") -> list[str]:
    """The newest runs of a store."""
    return [info.run for info in store.runs(limit=_RUNS_MAX)]


def label_names(store: "Store", run: str) -> list[str]:
    """The labels of a run, newest first: those that its program gave, then those that people gave."""
    checkpoints = (event for event in store.events(run) if event.kind == Kind.CHECKPOINT)
    labels = [fields_of(event.body).get("label") for event in checkpoints]
    given = [label.name for label in store.labels(run)]
    return [*dict.fromkeys(label for label in [*reversed(labels), *reversed(given)] if label)]


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
            return did_you_mean(error.what, label_names(store, error.run))
    return ""
