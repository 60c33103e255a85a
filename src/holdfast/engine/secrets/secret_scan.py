"""Finds secrets that a store has in clear: recorded before they were known, or by an earlier version.

It reads the rows of runs, their events and contents, and records. It names the place and the secret, never
the value. The contents of files are not looked at: they are no records.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.codec.recorded_secrets import decoded_bytes
from holdfast.codec.secrets import mask_known
from holdfast.engine.journal.blob_content import read_blobs
from holdfast.engine.memory import facts
from holdfast.engine.state.blob_references import references, refers
from holdfast.limits import EVENT_PAGE_MAX, RECORD_PAGE_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.events import FILES, Event
from holdfast.model.store_rows import HOOKS, RUN_SPACES, Finding, RunRow, inbox_space
from holdfast.model.token_shapes import shapes_in
from holdfast.stores.port import StorePort

_SUBJECT: Final = "secrets"
_ADVICE: Final = (
    "replace the secret where it is valid; `holdfast erase --secret NAME` takes it out of the store"
)


def scan(store: StorePort, rows: Iterable[RunRow]) -> Iterator[Finding]:
    """What stands in clear: a failure for each known secret, a warning for what has the shape of a token."""
    seen: set[str] = set()
    spaces = [*RUN_SPACES, HOOKS, facts.SPACE]
    for row in rows:
        spaces.append(inbox_space(row.run))
        yield from _found(f"the row of run {row.run}", _tree(row.body))
        for event in _events(store, row.run):
            place = f"event #{event.seq} of run {row.run}"
            yield from _found(place, {"name": event.name, **_contents(event.body)})
            wanted = sorted(_named(store, event) - seen)
            seen.update(wanted)
            for _, data in read_blobs(store, wanted):
                yield from _found(f"content of {place}", _tree(data))
    for space in spaces:
        for record in _records(store, space):
            yield from _found(f"record {space} {record.key}", _tree(record.body))


def _named(store: StorePort, event: Event) -> set[str]:
    """The contents that an event needs, those of its state included; of a file, none."""
    return references(store, event) if event.kind not in FILES and refers(event) else set()


def _events(store: StorePort, run: str) -> Iterator[Any]:
    after = 0
    while page := store.read_events(run, after_seq=after, upto_seq=None, limit=EVENT_PAGE_MAX):
        yield from page
        after = page[-1].seq


def _records(store: StorePort, space: str) -> Iterator[Any]:
    after = ""
    while page := store.scan_records(space, after=after, limit=RECORD_PAGE_MAX):
        yield from page
        after = page[-1].key


def _contents(body: bytes) -> dict[str, Any]:
    try:
        return contents_of(body)
    except ValueError:
        return {"body": body.decode("utf-8", "replace")}


def _tree(data: bytes) -> Any:
    """JSON as a tree; anything else, such as packed nodes of a state, as text."""
    try:
        return loads(data)
    except JSONDecodeError:
        return data.decode("utf-8", "replace")


def _found(place: str, tree: Any) -> Iterator[Finding]:
    for path, text in _texts(tree, "$"):
        shown = mask_known(text)
        at = mask_known(f"{place}, at {path}")
        if shown != text:
            names = sorted({name for name in _names(shown) if name not in _names(text)})
            told = ", ".join(names) or "a secret"
            yield Finding(_SUBJECT, "failure", f"{told} stands in clear in {at}", _ADVICE)
        for _, _, begins in shapes_in(shown):
            what = f"what looks like a key ({begins}…) stands in clear in {at}"
            yield Finding(_SUBJECT, "warning", what, _ADVICE)


def _names(text: str) -> list[str]:
    return [part.partition(">")[0] for part in text.split("<secret ")[1:]]


def _texts(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text in a tree, with its path; keys as well."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, list):
        for number, part in enumerate(tree):
            yield from _texts(part, f"{path}[{number}]")
    elif isinstance(tree, dict):
        if tree.get("$") in {"bytes", "bytearray"} and isinstance(tree.get("v"), str):
            yield f"{path}.v", decoded_bytes(tree["v"]).decode("utf-8", "replace")
        for name, part in tree.items():
            yield f"a key of {path}", str(name)
            yield from _texts(part, f"{path}.{name}")
