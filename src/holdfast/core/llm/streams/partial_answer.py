"""The partial answer: what the deltas of one stream add up to so far.

A delta may have these keys, absent if empty: ``text``, ``reasoning``, ``refusal`` (texts that are appended),
``calls`` (fragments of tool calls), ``facts`` (the last value wins), ``logprobs``, ``more`` (other fields of
the message, each as the list of its pieces), ``items`` (finished items of a response), and ``choices``
(deltas of a second, third … answer to the same request, each with its ``index``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.model.named_tuple import NamedTuple

ENDED_WELL: Final = frozenset({"stop", "tool_calls", "function_call"})
"""The finish reasons of an answer that the model ended itself; ``length`` and the like cut it off."""

NO_ANSWER: Final = frozenset({"interrupted", "error", "failed", "cancelled"})
"""The finish reasons of a stream that did not bring the whole answer."""

_TEXTS: Final = ("text", "reasoning", "refusal")


class Fragment(NamedTuple):
    """A tool call, as far as it has arrived."""

    place: int
    """Its index, as the provider counts."""
    id: str = ""
    name: str = ""
    arguments: str = ""
    type: str = "function"


class Partial:
    """What has arrived of an answer. It grows by ``add``; see ``fold_partial``."""

    __slots__ = ("calls", "facts", "items", "logprobs", "more", "others", "reasoning", "refusal", "text")

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""
        self.refusal = ""
        self.calls: list[Fragment] = []
        self.facts: dict[str, Any] = {}
        self.logprobs: dict[str, list[Any]] = {}
        self.more: dict[str, list[Any]] = {}
        self.items: list[dict[str, Any]] = []
        self.others: dict[int, Partial] = {}
        """Further answers by index, if the request asked for several."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partial) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        known = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}
        return f"Partial({known})"

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the answer itself has arrived."""
        return not (self.text or self.reasoning or self.refusal or self.calls or self.more or self.others)

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add a delta."""
        self.text += delta.get("text", "")
        self.reasoning += delta.get("reasoning", "")
        self.refusal += delta.get("refusal", "")
        for fragment in delta.get("calls", ()):
            self._add_fragment(fragment)
        self.facts.update(delta.get("facts", {}))
        for name, entries in delta.get("logprobs", {}).items():
            self.logprobs[name] = self.logprobs.get(name, []) + entries
        for name, pieces in delta.get("more", {}).items():
            self.more[name] = _strung(self.more.get(name, []), pieces)
        self.items += delta.get("items", ())
        for choice in delta.get("choices", ()):
            self.others.setdefault(choice["index"], Partial()).add(choice)

    def _add_fragment(self, fragment: Mapping[str, Any]) -> None:
        place = self._place_of(fragment)
        call, given = self.calls[place], fragment.get("arguments", "")
        self.calls[place] = call._replace(
            id=call.id or fragment.get("id", ""),
            name=call.name or fragment.get("name", ""),  # some servers repeat the name in every piece
            type=fragment.get("type", call.type),
            arguments=given if fragment.get("whole") else call.arguments + given,
        )

    def _place_of(self, fragment: Mapping[str, Any]) -> int:
        """The call of a fragment: by its id, else by its index. Some servers give every call index 0."""
        index, named = fragment.get("index"), fragment.get("id")
        newest_first = list(enumerate(self.calls))[::-1]
        for place, call in newest_first:
            if named and call.id == named:
                return place
        for place, call in newest_first:
            if (index is None or call.place == index) and not (named and call.id):
                return place
        self.calls.append(Fragment(len(self.calls) if index is None else index))
        return len(self.calls) - 1


def merge(deltas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One delta that adds what these add in turn. The journal gets it as one chunk."""
    merged: dict[str, Any] = {}
    for delta in deltas:
        for name in _TEXTS:
            if delta.get(name):
                merged[name] = merged.get(name, "") + delta[name]
        for fragment in delta.get("calls", ()):
            _merge_fragment(merged.setdefault("calls", []), fragment)
        if delta.get("facts"):
            merged["facts"] = {**merged.get("facts", {}), **delta["facts"]}
        for name in ("more", "logprobs"):
            for key, pieces in delta.get(name, {}).items():
                held = merged.setdefault(name, {})
                held[key] = (
                    _strung(held.get(key, []), pieces) if name == "more" else held.get(key, []) + pieces
                )
        for name in ("items", "choices"):
            if delta.get(name):
                merged[name] = [*merged.get(name, ()), *delta[name]]
    return merged


def _merge_fragment(calls: list[dict[str, Any]], fragment: Mapping[str, Any]) -> None:
    """Append a fragment. It is merged only with the fragment directly before it, of the same index.

    Which call another fragment means depends on all earlier chunks, so only the fold can decide that.
    """
    bare = {"index", "arguments"}
    goes_on = fragment.keys() <= bare and bool(calls) and calls[-1].keys() <= bare
    if goes_on and fragment.get("index") is not None and calls[-1].get("index") == fragment["index"]:
        calls[-1]["arguments"] = calls[-1].get("arguments", "") + fragment.get("arguments", "")
    else:
        calls.append(dict(fragment))


def _strung(held: list[Any], pieces: list[Any]) -> list[Any]:
    """Append pieces; neighbouring texts become one text, and neighbouring lists one list."""
    strung = held.copy()
    for piece in pieces:
        if strung and type(piece) in {str, list} and type(strung[-1]) is type(piece):
            strung[-1] = strung[-1] + piece
        else:
            strung.append(piece)
    return strung


def is_whole(partial: Partial) -> bool:
    """Whether the whole answer arrived: the process was killed between the last piece and the outcome."""
    ends = [one.facts.get("finish_reason") for one in (partial, *partial.others.values())]
    return all(isinstance(end, str) and end not in NO_ANSWER for end in ends)


def complete_calls(partial: Partial) -> list[Fragment]:
    """The tool calls that may be executed: those whose arguments are a complete JSON object.

    A call without arguments counts only if the model ended its answer: before that, they may be still to
    come.
    """
    ended_well = partial.facts.get("finish_reason") in ENDED_WELL
    return [call for call in partial.calls if call.name and _has_its_arguments(call, ended_well)]


def _has_its_arguments(call: Fragment, ended_well: bool) -> bool:
    if not call.arguments.strip():
        return ended_well
    if call.type == "custom":
        # Free text has no closing brace, so only the end of the answer shows that it is complete.
        return ended_well
    return is_json_object(call.arguments)


def is_json_object(text: str) -> bool:
    """Whether this is a complete JSON object."""
    try:
        return type(loads(text)) is dict
    except JSONDecodeError:
        return False


def calls_as_written(calls: Sequence[Fragment]) -> list[dict[str, Any]]:
    """The calls in the shape of a chat completion."""
    return [
        {"id": call.id, "type": call.type, "custom": {"name": call.name, "input": call.arguments}}
        if call.type == "custom"
        else {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]
