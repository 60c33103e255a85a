"""Finds what is wrong with a conversation: what a provider would refuse, before a request is sent.

A call must have one result: directly behind it (chat completions, content parts) or anywhere behind it
(items).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.core.llm.conversation.message import Ask, Turn, has_arguments, is_empty, read
from holdfast.model.named_tuple import NamedTuple

MENDABLE: Final = frozenset(
    {
        "orphaned_call",
        "result_without_call",
        "duplicate_result",
        "misplaced_result",
        "duplicate_id",
        "bad_arguments",
        "empty_assistant",
    }
)
"""The problems that ``mend`` repairs. It cannot know what a nameless call or an unknown role meant."""

_SAID: Final = Turn("plain")
_TEXT_ROLES: Final = frozenset({"system", "developer", "user", "assistant"})
_TEXT_FIELDS: Final = frozenset({"role", "content", "name"})


class Problem(NamedTuple):
    """One problem: the index of its message, a stable code, a text, and the id of the call."""

    at: int
    code: str
    text: str
    call: str = ""


def validate(messages: Sequence[Any], *, continues: bool = False) -> list[Problem]:
    """The problems of a conversation, in the order of its messages.

    ``continues``: the provider has the messages before these, so a result may come without its call.
    """
    turns = [_SAID if is_text(message) else read(message) for message in messages]
    if all(turn is _SAID for turn in turns):
        return []
    judge = _Judge(turns, continues=continues or _refers(messages))
    return sorted([*_each(messages, turns), *judge.problems()], key=lambda problem: problem.at)


def is_text(message: Any) -> bool:
    """Whether it is only a text of its role, as most messages are: nothing is wrong with it by itself."""
    if type(message) is not dict:
        return False
    role, text = message.get("role"), message.get("content")
    if type(role) is not str or type(text) is not str:
        return False
    return text != "" and role in _TEXT_ROLES and message.keys() <= _TEXT_FIELDS


def are_texts(messages: Sequence[Any]) -> bool:
    """Whether all of them are only texts."""
    for message in messages:  # as ``is_text`` says, without a call for each
        if type(message) is not dict:
            return False
        role, text = message.get("role"), message.get("content")
        if type(role) is not str or type(text) is not str or text == "":
            return False
        if role not in _TEXT_ROLES or not message.keys() <= _TEXT_FIELDS:
            return False
    return True


def ids_in(messages: Sequence[Any]) -> frozenset[str] | None:
    """The ids of all calls and results; None if a message is only a reference to what the provider has."""
    if _refers(messages):
        return None
    turns = [read(message) for message in messages if not is_text(message)]
    asked = [ask.id for turn in turns for ask in turn.asks]
    return frozenset(asked).union([reply.id for turn in turns for reply in turn.replies])


def open_turn(messages: Sequence[Any]) -> int:
    """The index at which an unfinished turn begins: calls at the end that lack results.

    The length if there is none.
    """
    index = len(messages)
    while index and read(messages[index - 1]).replies:
        index -= 1
    while index and read(messages[index - 1]).shape == "items" and read(messages[index - 1]).asks:
        index -= 1
    if index and read(messages[index - 1]).asks:
        index -= 1
    is_open = any(problem.code == "orphaned_call" for problem in validate(messages[index:]))
    return index if is_open else len(messages)


def _refers(messages: Sequence[Any]) -> bool:
    """Whether some messages are only references to what the provider has."""
    return any(isinstance(one, Mapping) and one.get("type") == "item_reference" for one in messages)


def _each(messages: Sequence[Any], turns: Sequence[Turn]) -> Iterator[Problem]:
    """The problems of messages by themselves."""
    for index, (message, turn) in enumerate(zip(messages, turns, strict=True)):
        if turn is _SAID:
            continue
        if turn.why == "not_an_object":
            yield Problem(index, turn.why, f"it is {type(message).__name__}, not an object with a role")
        elif turn.why:
            yield Problem(index, turn.why, f"its role is {message.get('role')!r}")
        elif turn.role == "assistant" and is_empty(message):
            yield Problem(index, "empty_assistant", "the assistant says nothing in it")
        yield from _parts(index, turn)


def _parts(index: int, turn: Turn) -> Iterator[Problem]:
    for ask in turn.asks:
        if not ask.id:
            yield Problem(index, "missing_id", f"{ask.named} has no id")
        elif not ask.name:
            yield Problem(index, "nameless_call", f"call {ask.id} has no name")
        if not has_arguments(ask):
            yield Problem(index, "bad_arguments", f"the arguments of {ask.named} are no JSON object")
    for reply in turn.replies:
        if not reply.id:
            yield Problem(index, "missing_id", "it is a result without the id of its call")


class _Judge:
    """Walks through the turns once and knows which calls wait for their results."""

    def __init__(self, turns: Sequence[Turn], *, continues: bool) -> None:
        self.turns = turns
        self._continues = continues
        self._called = {ask.id for turn in turns for ask in turn.asks}
        self._seen: set[str] = set()
        self._waiting: dict[str, tuple[int, Ask]] = {}
        """Calls whose results must come now."""
        self._items: dict[str, tuple[int, Ask]] = {}
        """Calls whose results may still come."""
        self._answered: set[str] = set()

    def problems(self) -> Iterator[Problem]:
        for index, turn in enumerate(self.turns):
            if turn is _SAID:
                if self._waiting:
                    yield from self._close()
            elif turn.shape == "items":
                yield from self._item(index, turn)
            elif turn.replies:
                yield from self._results(index, turn)
                if turn.shape == "parts":  # all results must be in this one message
                    yield from self._close()
            else:
                yield from self._close()
                yield from self._calls(index, turn)
        yield from self._close()
        yield from map(_orphaned, self._items.values())

    def _item(self, index: int, turn: Turn) -> Iterator[Problem]:
        for ask in turn.asks:
            if ask.id and ask.id in self._seen:
                yield _twice(index, ask)
            elif ask.id:
                self._seen.add(ask.id)
                self._items[ask.id] = index, ask
        for reply in turn.replies:
            if self._items.pop(reply.id, None) is not None:
                self._answered.add(reply.id)
            elif reply.id:
                yield from self._stray(index, reply.id)

    def _calls(self, index: int, turn: Turn) -> Iterator[Problem]:
        for ask in turn.asks:
            # In chat completions only the ids of one message must differ: many servers restart at 0 in each
            # message.
            seen = self._waiting if turn.shape == "chat" else self._seen
            if ask.id and ask.id in seen:
                yield _twice(index, ask)
            elif ask.id:
                self._seen.add(ask.id)
                self._waiting[ask.id] = index, ask
                self._answered.discard(ask.id)

    def _results(self, index: int, turn: Turn) -> Iterator[Problem]:
        for number, reply in enumerate(turn.replies):
            if self._waiting.pop(reply.id, None) is not None:
                self._answered.add(reply.id)
                if turn.shape == "parts" and reply.part != number:
                    text = f"the result of call {reply.id} does not stand first in its message"
                    yield Problem(index, "misplaced_result", text, reply.id)
            elif reply.id:
                yield from self._stray(index, reply.id)

    def _stray(self, index: int, call: str) -> Iterator[Problem]:
        if call in self._answered:
            yield Problem(index, "duplicate_result", f"call {call} has a result already", call)
        elif call in self._called:
            text = f"the result of call {call} does not stand behind it"
            yield Problem(index, "misplaced_result", text, call)
        elif not self._continues:
            yield Problem(index, "result_without_call", f"there is no call {call} for this result", call)

    def _close(self) -> Iterator[Problem]:
        yield from map(_orphaned, self._waiting.values())
        self._waiting = {}


def _orphaned(waiting: tuple[int, Ask]) -> Problem:
    return Problem(waiting[0], "orphaned_call", f"{waiting[1].named} has no result", waiting[1].id)


def _twice(index: int, ask: Ask) -> Problem:
    return Problem(index, "duplicate_id", f"{ask.named} has the id of an earlier call", ask.id)
