"""Events without a secret: what a run would have recorded, had the secret been known.

Data of the program get references, and come back when they are read; texts for people and models get masks,
as in ``engine/journal/drafts.py``. Keys of calls stay: they are hashes, and the program's calls are found by
them. Views of compacted events hold bodies as texts, and these are rewritten like the others.

It knows which parts are which. It writes nothing; contents are the subject of ``rewritten_contents``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.codec.recorded_secrets import (
    hidden,
    hidden_document,
    hidden_failure,
    hidden_json,
    may_have_tags,
)
from holdfast.codec.secrets import mask_known, masked, masks_in, split
from holdfast.engine.secrets.rewritten_contents import Contents
from holdfast.model.event_fields import blobs_in, contents_of, is_model, rewritten, values_in, write
from holdfast.model.event_fields import split as split_body
from holdfast.model.events import CHAINED, FILES, HANDED_OVER, HANDOFF, Event, Kind, checksum

_DATA: Final = frozenset({"args", "module_data", "value", "inputs", "request", "state", "about"})
"""Parts that the codec decodes. All others are read as they are."""
_SAID: Final = frozenset({"plan", "decision", "discovery", "said", "child"})
"""The names of marks whose value is text for people and models."""
_ROOTS: Final = {"state": "state_bytes", "request": "request_bytes"}
"""The parts that are roots of trees, and the field that has their size."""
_FORKS: Final = frozenset({Kind.RUN_FORKED, Kind.RUN_REWOUND})
_EVENT_FIELDS: Final = 8
_CALL_FIELDS: Final = 9


class EventWriter:
    """Rewrites the events of one lineage."""

    def __init__(self, contents: Contents, has_secret: Callable[[bytes], bool], lineage: str) -> None:
        self._contents = contents
        self._has_secret = has_secret
        self._lineage = lineage

    def events(self, run: str, events: Sequence[Event]) -> list[Event]:
        """The run's own events without the secret; those that have none are the same objects."""
        made = [self._event(run, event) for event in events]
        for number, body in _chunks(made):
            made[number] = made[number]._replace(body=body)
        return made

    def _event(self, run: str, event: Event) -> Event:
        body = self.body(event.kind, event.name, event.body, run)
        has_name = self._has_secret(event.name.encode("utf-8", "surrogatepass"))
        name = mask_known(event.name) if has_name else event.name
        return event if body == event.body and name == event.name else event._replace(name=name, body=body)

    def body(self, kind: str, name: str, body: bytes, run: str = "") -> bytes:
        """A body without the secret; the same bytes if it has none, and refers to nothing that has."""
        if not self._may_have(kind, body):
            return body
        try:
            contents = contents_of(body)
        except ValueError:  # not a body of ours: damage has another name
            return body
        made = dict(contents)
        fields, parts = split_body(contents)
        for field, found in fields.items():
            made[field] = self._field(kind, name, field, found, made)
        for part, found in parts.items():
            made[part] = self._part(kind, name, part, found, made, run)
        if kind == Kind.ATTEMPT_STARTED:
            made |= _command(fields)
        if type(made.get("blobs")) is list and kind not in FILES:  # of the parts, which are moved by now
            moved = self._contents.moved
            named: list[str] = made["blobs"]
            made["blobs"] = sorted({moved.get(one, one) for one in named})
        if made == contents:
            return body
        # ``rewritten`` knows where a note that a body was pruned must stand.
        return rewritten(write(*split_body(made)))

    def _may_have(self, kind: str, body: bytes) -> bool:
        is_tree = kind in {Kind.CHECKPOINT, Kind.COMPACTED} or is_model(body)
        return is_tree or self._has_secret(body) or may_have_tags(body) or bool(blobs_in(body))

    # -- fields, and what they refer to ----------------------------------------------------------------------

    def _field(self, kind: str, name: str, field: str, found: Any, made: dict[str, Any]) -> Any:
        if field.endswith("_blob") and type(found) is str:
            part = field.removesuffix("_blob")
            moved = self._contents.value(found, f"{kind} {name} {part}", self._change(kind, name, part))
            if moved is None:
                return found
            made[f"{part}_bytes"] = moved.size
            return moved.address
        if field.endswith("_bytes") and f"{field.removesuffix('_bytes')}_blob" in made:
            return made[field]
        return masked(found)

    def _part(self, kind: str, name: str, part: str, found: Any, made: dict[str, Any], run: str) -> Any:
        if part in _ROOTS and (kind != Kind.STEP_STARTED or made.get("effect") == "model"):
            moved = self._contents.tree(found, self._lineage)
            if moved is None:
                return found
            made[_ROOTS[part]] = moved.size
            return moved.root
        if part == "view":
            return self._view(found, run)
        if part == "value" and kind in _FORKS:
            return hidden(self.referring(found))
        return _changed(kind, name, part, found)

    def referring(self, tree: Any) -> Any:
        """A tree of fields, such as a letter, that refers to the contents that replace others."""
        if type(tree) is list:
            return [self.referring(part) for part in tree]
        if type(tree) is not dict:
            return tree
        made = {name: self.referring(part) for name, part in tree.items()}
        for name, found in tree.items():
            if name.endswith("_blob") and type(found) is str:
                made[name] = self._field("", "", name, found, made)
        return made

    def _change(self, kind: str, name: str, part: str) -> Callable[[bytes], bytes]:
        """How the content of a part is changed that lies in a blob."""
        if part == "view":
            return partial(hidden_json, change=partial(self._view, run=""))
        return partial(hidden_json, change=partial(_changed, kind, name, part))

    # -- the views of compacted events -----------------------------------------------------------------------

    def _view(self, view: Any, run: str) -> Any:
        if type(view) is not dict:
            return masked(view)
        made = {name: self._in_view(part, run) for name, part in view.items()}
        if type(view.get("calls")) is list:
            made["calls"] = [self._call(fields, run) for fields in view["calls"]]
        if type(view.get("result")) is str:
            made["result"] = self._text(Kind.RUN_FINISHED, "", view["result"])
        return made

    def _call(self, fields: Any, run: str) -> Any:
        if type(fields) is not list or len(fields) != _CALL_FIELDS:
            return self._in_view(fields, run)
        key, name, seq, *rest, body, outcomes = fields
        kind = Kind.STEP_FINISHED if seq else Kind.MARK
        ended = [
            [*one[:3], *(self._text(kind, name, text) for text in one[3:])] if type(one) is list else one
            for one in outcomes
        ]
        return [key, masked(name), seq, *rest, self._text(Kind.STEP_STARTED, name, body), ended]

    def _in_view(self, tree: Any, run: str) -> Any:
        if type(tree) is str:
            return self._text("", "", tree)
        if type(tree) is dict:
            return {mask_known(name): self._in_view(part, run) for name, part in tree.items()}
        if type(tree) is not list:
            return tree
        if len(tree) >= _EVENT_FIELDS and type(tree[2]) is str and type(tree[6]) is str:
            return self._dumped_event(tree, run)
        return [self._in_view(part, run) for part in tree]

    def _dumped_event(self, fields: list[Any], run: str) -> list[Any]:
        kind, name, text, crc = fields[2], fields[3], fields[6], fields[7]
        made = [*fields[:3], masked(name), *fields[4:6], self._text(kind, name, text), *fields[7:]]
        if made != fields and _crc(run, fields) == crc:
            made[7] = _crc(run, made)
        return made

    def _text(self, kind: str, name: str, text: Any) -> Any:
        """A text in a view: a body if it is one."""
        if type(text) is not str:
            return text
        made = self.body(kind, name, text.encode("utf-8", "surrogatepass"))
        shown = made.decode("utf-8", "surrogatepass")
        return mask_known(text) if shown == text and not _is_body(text) else shown


def file_contents(events: Iterable[Event]) -> set[str]:
    """The addresses of the pieces of files that events name."""
    return {one for event in events if event.kind in FILES for one in blobs_in(event.body)}


def value_contents(events: Iterable[Event]) -> set[str]:
    """The addresses of the values that events name."""
    return {one for event in events for one in values_in(event.body)}


def _changed(kind: str, name: str, part: str, found: Any) -> Any:
    """A part with references if it is data, else with masks."""
    if part == "error":
        return hidden_failure(found)
    if part == "value" and name in {HANDOFF, HANDED_OVER}:
        return hidden_document(found)
    if part == "value" and kind == Kind.MARK and name in _SAID:
        return masked(found)
    return hidden(found) if part in _DATA or (part == "note" and name == CHAINED) else masked(found)


def _command(fields: dict[str, Any]) -> dict[str, Any]:
    """A recorded command: masked for people, and in parts for the one who starts it again."""
    words = fields.get("argv")
    if type(words) is not list:
        return {}
    split_words = ((str(at), split(word)) for at, word in enumerate(words) if type(word) is str)
    hidden_words = {at: parts for at, parts in split_words if parts is not None}
    return {"argv_hidden": {**fields.get("argv_hidden", {}), **hidden_words}} if hidden_words else {}


def _crc(run: str, fields: list[Any]) -> int:
    seq, at, kind, name, key, fence, text = fields[:7]
    return checksum(run, seq, at, kind, name, key, fence, text.encode("utf-8", "surrogatepass"))


def _is_body(text: str) -> bool:
    try:
        return type(loads(text.partition("\n")[0])) is dict
    except JSONDecodeError:
        return False


# -- the pieces of a streamed answer: a secret may begin in one and end in another ----------------------------


def _chunks(events: Sequence[Event]) -> Iterator[tuple[int, bytes]]:
    """The bodies of pieces that change when they are read as one text, each with the number of its event."""
    streams: dict[tuple[str, Any], list[int]] = {}
    for number, event in enumerate(events):
        if event.kind == Kind.STREAM_CHUNK:
            try:
                tried = contents_of(event.body).get("try")
            except ValueError:
                continue
            streams.setdefault((event.key, tried), []).append(number)
    for numbers in streams.values():
        bodies = [split_body(contents_of(events[number].body)) for number in numbers]
        if _mask_across([parts for _, parts in bodies]):
            for number, (fields, parts) in zip(numbers, bodies, strict=True):
                yield number, write(fields, parts)


def _mask_across(chunks: Sequence[dict[str, Any]]) -> bool:
    """Mask what several chunks have together; whether there was anything. Changes the chunks."""
    leaves: dict[tuple[Any, ...], list[tuple[Any, Any]]] = {}
    for parts in chunks:
        for path, holder, key in _leaves(parts, ()):
            leaves.setdefault(path, []).append((holder, key))
    found_any = False
    for places in leaves.values():
        texts = [holder[key] for holder, key in places]
        for start, end, mask in reversed(masks_in("".join(texts))):
            found_any = True
            _cut(texts, start, end, mask)
        for (holder, key), text in zip(places, texts, strict=True):
            holder[key] = text
    return found_any


def _cut(texts: list[str], start: int, end: int, mask: str) -> None:
    """Replace a part of the joined texts: the mask goes into the first text that has some of it."""
    at = 0
    for number, text in enumerate(texts):
        first, last = max(start - at, 0), min(end - at, len(text))
        if first < last:
            texts[number] = text[:first] + mask + text[last:]
            mask = ""
        at += len(text)


def _leaves(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Every text in a tree: its path, its container, and its place there. Fragments tell their own number."""
    pairs = list(tree.items() if type(tree) is dict else enumerate(tree))
    for key, part in pairs:
        number = part.get("index", key) if type(part) is dict and type(tree) is list else key
        if type(part) is str:
            yield (*path, number), tree, key
        elif type(part) in {dict, list}:
            yield from _leaves(part, (*path, number))
