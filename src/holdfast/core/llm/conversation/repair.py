"""Repairs a conversation so that a provider accepts it, with as few changes as possible.

Calls without a result get one; each result comes once, behind its call; empty messages go. Arguments that are
no JSON stay as text inside an object. What cannot be repaired stays, and ``validate`` reports it.

The order of the passes matters: repeated calls go first, so that results are paired with the calls that stay;
ids change only after that, because pairing needs the ids that the results refer to.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from orjson import dumps

from holdfast.core.llm.conversation.message import (
    ITEM_CALLS,
    Ask,
    Reply,
    Turn,
    has_arguments,
    is_empty,
    read,
)
from holdfast.core.llm.conversation.unanswered_calls import DOUBT, PLACEHOLDERS
from holdfast.core.llm.conversation.validity import MENDABLE, validate
from holdfast.core.text.value_text import one_line
from holdfast.model.named_tuple import NamedTuple

INVALID_JSON: Final = "INVALID_JSON"
"""The key of arguments that were no JSON object."""


class Repair(NamedTuple):
    """One change: ``at`` is the index of the message before the repair."""

    at: int
    what: str
    text: str


Found = Callable[[Ask, int], str | None]
"""Finds the result of a call, given the index of its message; None if it is not known."""

_RESULT_CHARS_MAX: Final = 120

_Place = tuple[int, int]
"""A message, and a part of it."""


def mend(
    messages: Sequence[Any],
    results: Mapping[str, str | None] | None = None,
    found: Found | None = None,
    *,
    continues: bool = False,
) -> tuple[list[Any], list[Repair]]:
    """The repaired conversation, and the changes. One that needs no repair comes back with the same messages.

    ``results`` has results by the ids of calls, ``found`` finds others. A call that neither knows gets a
    result that says it is in doubt.
    """
    if not any(problem.code in MENDABLE for problem in validate(messages, continues=continues)):
        return list(messages), []
    mender = _Mender(messages, results or {}, found, continues=continues)
    return mender.mended(), sorted(mender.repairs)


class _Mender:
    def __init__(
        self,
        messages: Sequence[Any],
        results: Mapping[str, str | None],
        found: Found | None,
        *,
        continues: bool,
    ) -> None:
        self._messages = list(messages)
        self._turns = [read(message) for message in messages]
        self._results, self._found, self._continues = results, found, continues
        self.repairs: list[Repair] = []
        self._gone: set[_Place] = set()
        """Results and calls that go from their places."""
        self._pairs: dict[_Place, _Place] = {}
        """The place of each call's result."""
        self._behind: dict[int, list[Any]] = {}
        """Results to insert behind a message."""
        self._parts: dict[int, list[Any]] = {}
        """Results to insert at the beginning of a user's message."""

    def mended(self) -> list[Any]:
        self._drop_repeated_calls()
        self._pair()
        self._rename()
        for index, turn in enumerate(self._turns):
            for ask in self._asks(index):
                self._rewrite(index, ask)
                if ask.id:
                    self._settle(index, turn, ask)
        self._drop_strays()
        return [one for index in range(len(self._messages)) for one in self._emitted(index)]

    def _note(self, index: int, what: str, text: str) -> None:
        self.repairs.append(Repair(index, what, text))

    def _asks(self, index: int) -> list[Ask]:
        return [ask for ask in self._turns[index].asks if (index, ask.part) not in self._gone]

    # -- which result belongs to which call ------------------------------------------------------------------

    def _drop_repeated_calls(self) -> None:
        """A call that is twice in one message, with the same id, is one call."""
        for index, turn in enumerate(self._turns):
            known: dict[str, Ask] = {}
            for ask in turn.asks if turn.shape != "items" else ():
                first = known.setdefault(ask.id, ask)
                if ask.id and first is not ask and first._replace(part=0) == ask._replace(part=0):
                    self._gone.add((index, ask.part))
                    self._note(index, "dropped", f"{ask.named} stood in it twice")

    def _pair(self) -> None:
        calls: dict[str, list[_Place]] = {}
        for index in range(len(self._turns)):
            for ask in self._asks(index):
                calls.setdefault(ask.id, []).append((index, ask.part))
        results: dict[str, list[_Place]] = {}
        for index, turn in enumerate(self._turns):
            for reply in turn.replies:
                results.setdefault(reply.id, []).append((index, reply.part))
        for name, places in calls.items():
            if name:
                self._pair_alike(places, results.get(name, []))

    def _pair_alike(self, calls: list[_Place], results: list[_Place]) -> None:
        """Pair calls of one id with results: each gets the first result before the next call of that id."""
        left = results.copy()
        for place in calls:
            following = min((other[0] for other in calls if other[0] > place[0]), default=len(self._turns))
            mine = [one for one in left if place[0] < one[0] < following]
            if mine:
                # An earlier repair may have inserted a placeholder before the real result arrived.
                self._pairs[place] = next((one for one in mine if not self._is_placeholder(one)), mine[0])
                left.remove(self._pairs[place])
        # A result before its only call: the messages were stored in the wrong order.
        if len(calls) == 1 and calls[0] not in self._pairs and left:
            self._pairs[calls[0]] = left[0]

    def _is_placeholder(self, place: _Place) -> bool:
        content = _content_of(self._result_at(place))
        return isinstance(content, str) and content in PLACEHOLDERS

    # -- ids -------------------------------------------------------------------------------------------------

    def _rename(self) -> None:
        """Give a call with the id of another a new id, and its result too."""
        taken = {ask.id for turn in self._turns for ask in turn.asks}
        taken |= {reply.id for turn in self._turns for reply in turn.replies}
        seen: set[str] = set()
        for index, turn in enumerate(self._turns):
            own: set[str] = set()
            for ask in self._asks(index):
                if ask.id and ask.id in (own if turn.shape == "chat" else seen):
                    fresh = _fresh(ask.id, taken)
                    self._note(
                        index, "renamed", f"{ask.named} had the id of an earlier call: it is {fresh} now"
                    )
                    self._set_ask(index, ask, id=fresh)
                    if (index, ask.part) in self._pairs:
                        self._set_reply(self._pairs[index, ask.part], fresh)
                    ask = ask._replace(id=fresh)  # noqa: PLW2901 - it is that call from here on
                own.add(ask.id)
                seen.add(ask.id)

    def _set_ask(self, index: int, ask: Ask, **changes: Any) -> None:
        made = ask._replace(**changes)
        self._messages[index] = _with_ask(self._messages[index], self._turns[index], made)
        asks = tuple(made if one.part == ask.part else one for one in self._turns[index].asks)
        self._turns[index] = self._turns[index]._replace(asks=asks)

    def _set_reply(self, place: _Place, call: str) -> None:
        index, part = place
        self._messages[index] = _with_reply(self._messages[index], self._turns[index], part, call)
        replies = tuple(Reply(call, part) if one.part == part else one for one in self._turns[index].replies)
        self._turns[index] = self._turns[index]._replace(replies=replies)

    # -- results behind their calls --------------------------------------------------------------------------

    def _rewrite(self, index: int, ask: Ask) -> None:
        if not has_arguments(ask):
            self._note(index, "rewritten", f"the arguments of {ask.named} were no JSON object")
            self._set_ask(index, ask, arguments=_wrapped(ask.arguments))

    def _settle(self, index: int, turn: Turn, ask: Ask) -> None:
        place = self._pairs.get((index, ask.part))
        end = self._end_of(index, turn)
        if place is not None and self._is_in_place(index, turn, place, end):
            return
        if place is None:
            text = self._results.get(ask.id) or (self._found(ask, index) if self._found else None) or DOUBT
            self._note(index, "settled", f"{ask.named} had no result: {one_line(text, _RESULT_CHARS_MAX)}")
            result = _result(turn, ask, text)
        else:
            self._gone.add(place)
            self._note(place[0], "moved", f"the result of {ask.named} did not stand behind it")
            result = self._result_at(place)
            if self._turns[place[0]].shape != turn.shape:
                # The result is written in the shape of another API: only its content can be kept.
                result = _result(turn, ask, _content_of(result))
        if turn.shape == "parts":
            self._parts.setdefault(end, []).append(result)
        else:
            self._behind.setdefault(end, []).append(result)

    def _end_of(self, index: int, turn: Turn) -> int:
        """The message behind which missing results go; for parts, the message that must contain them."""
        if turn.shape == "parts":
            return index + 1
        end = index
        while end + 1 < len(self._turns):
            following = self._turns[end + 1]
            if turn.shape == "items":
                goes_on = following.shape == "items" and bool(following.asks)
            else:
                goes_on = following.shape == "chat" and bool(following.replies)
            if not goes_on:
                break
            end += 1
        return end

    def _is_in_place(self, index: int, turn: Turn, place: _Place, end: int) -> bool:
        if self._turns[place[0]].shape != turn.shape:
            return False
        if turn.shape == "items":
            return place[0] > index
        return place[0] == end if turn.shape == "parts" else index < place[0] <= end

    def _result_at(self, place: _Place) -> Any:
        message = self._messages[place[0]]
        return message["content"][place[1]] if self._turns[place[0]].shape == "parts" else message

    def _drop_strays(self) -> None:
        claimed = set(self._pairs.values())
        for index, turn in enumerate(self._turns):
            for reply in turn.replies:
                place = (index, reply.part)
                if not reply.id or place in claimed:
                    continue
                is_known = any(ask.id == reply.id for other in self._turns for ask in other.asks)
                if is_known or not self._continues:
                    self._gone.add(place)
                    why = "had a result already" if is_known else "is not in the conversation"
                    self._note(index, "dropped", f"a result: call {reply.id} {why}")

    # -- the new conversation --------------------------------------------------------------------------------

    def _emitted(self, index: int) -> list[Any]:
        message, turn = self._messages[index], self._turns[index]
        own: list[Any] = [message]
        if turn.shape == "odd":
            pass
        elif turn.role == "assistant":
            own = self._assistant(index, message, turn)
        elif turn.role == "user":
            own = self._user(index, message, turn)
        elif turn.replies and (index, 0) in self._gone:
            own = []
        results = self._parts.get(index, [])
        if results and (turn.role != "user"):
            own = [{"role": "user", "content": results}, *own]
        last = self._parts.get(index + 1, []) if index + 1 == len(self._messages) else []
        return [*own, *self._behind.get(index, []), *([{"role": "user", "content": last}] if last else [])]

    def _assistant(self, index: int, message: Any, turn: Turn) -> list[Any]:
        if is_empty(message):
            self._note(index, "dropped", "the assistant said nothing in it")
            return []
        gone = {ask.part for ask in turn.asks if (index, ask.part) in self._gone}
        if not gone:
            return [message]
        name = "tool_calls" if turn.shape == "chat" else "content"
        return [{**message, name: [one for part, one in enumerate(message[name]) if part not in gone]}]

    def _user(self, index: int, message: Any, turn: Turn) -> list[Any]:
        """A user's message that begins with the results of the calls before it."""
        placed = self._parts.get(index, [])
        replies = {reply.part for reply in turn.replies}
        gone = {part for part in replies if (index, part) in self._gone}
        leading = set(range(len(replies)))
        if not placed and not gone and replies == leading:
            return [message]
        content = message.get("content")
        if not isinstance(content, list):
            content = [{"type": "text", "text": content}] if content else []
        results = [one for part, one in enumerate(content) if part in replies - gone]
        others = [one for part, one in enumerate(content) if part not in replies]
        if not placed and not gone:
            self._note(index, "moved", "results stand first in their message")
        whole = [*results, *placed, *others]
        return [{**message, "content": whole}] if whole else []


def _fresh(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    taken.add(f"{name}-{number}")
    return f"{name}-{number}"


def _wrapped(arguments: Any) -> Any:
    wrapped = {INVALID_JSON: arguments}
    return dumps(wrapped).decode() if isinstance(arguments, str) else wrapped


def _with_ask(message: Mapping[str, Any], turn: Turn, ask: Ask) -> dict[str, Any]:
    if turn.shape == "items":
        return {**message, "call_id": ask.id, ITEM_CALLS[message["type"]]: ask.arguments}
    if turn.shape == "parts":
        parts = list(message["content"])
        parts[ask.part] = {**parts[ask.part], "id": ask.id, "input": ask.arguments}
        return {**message, "content": parts}
    calls = list(message["tool_calls"])
    call = calls[ask.part]
    kind, given = ("custom", "input") if ask.free else ("function", "arguments")
    calls[ask.part] = {**call, "id": ask.id, kind: {**call.get(kind, {}), given: ask.arguments}}
    return {**message, "tool_calls": calls}


def _with_reply(message: Mapping[str, Any], turn: Turn, part: int, call: str) -> dict[str, Any]:
    if turn.shape == "items":
        return {**message, "call_id": call}
    if turn.shape == "chat":
        return {**message, "tool_call_id": call}
    parts = list(message["content"])
    parts[part] = {**parts[part], "tool_use_id": call}
    return {**message, "content": parts}


def _result(turn: Turn, ask: Ask, text: Any) -> dict[str, Any]:
    """A result in the shape of its call."""
    if turn.shape == "items":
        kind = "custom_tool_call_output" if ask.free else "function_call_output"
        return {"type": kind, "call_id": ask.id, "output": text}
    if turn.shape == "parts":
        return {"type": "tool_result", "tool_use_id": ask.id, "content": text}
    return {"role": "tool", "tool_call_id": ask.id, "content": text}


def _content_of(result: Mapping[str, Any]) -> Any:
    return result.get("output", result.get("content", ""))
