"""Remembers which conversation was found ready, so that one that only grew is checked from there.

Invariant: the answer is that of ``outgoing.is_ready``. What is remembered is a conversation as bytes, and the
ids of its calls; nothing that a program could change afterwards. A ready conversation has a result for each
of its calls. So messages behind it are ready with it if they are by themselves, and have other ids.
"""

from collections.abc import Sequence
from typing import Any, Final

from orjson import dumps

from holdfast.core.llm.conversation.outgoing import is_ready
from holdfast.core.llm.conversation.validity import are_texts, ids_in
from holdfast.model.named_tuple import NamedTuple

_RUNS_MAX: Final = 8
_BYTES_MAX: Final = 4_000_000
"""Longer conversations are not remembered."""
_COMMA: Final = ord(",")


class _Ready(NamedTuple):
    """A ready conversation: its JSON without the last bracket, its length, the ids of its calls."""

    data: bytes
    length: int
    ids: frozenset[str]


class CheckedMessages:
    """The latest ready conversation of each of a few runs."""

    def __init__(self) -> None:
        self._ready: dict[str, _Ready] = {}

    def is_ready(self, run: str, messages: Sequence[Any]) -> bool:
        """Whether any model may get these messages as they are. They must have been parsed from JSON."""
        if are_texts(messages):
            return True
        data = dumps(messages)[:-1]
        known = self._ready.get(run)
        if known is None or not _continues(data, known.data):
            known = _Ready(b"", 0, frozenset())
        rest = messages[known.length :]
        ids = ids_in(rest)
        if known.length and (ids is None or not known.ids.isdisjoint(ids) or not is_ready(rest)):
            known, rest = _Ready(b"", 0, frozenset()), messages
            ids = ids_in(rest)
        if not known.length and not is_ready(messages):
            return False
        if ids is not None and len(data) <= _BYTES_MAX:
            self._remember(run, _Ready(data, len(messages), known.ids | ids))
        return True

    def _remember(self, run: str, ready: _Ready) -> None:
        if run not in self._ready and len(self._ready) >= _RUNS_MAX:
            self._ready.clear()
        self._ready[run] = ready


def _continues(data: bytes, earlier: bytes) -> bool:
    """Whether the one conversation begins with all messages of the other."""
    size = len(earlier)
    # ``12`` is also how ``123`` begins.
    return data.startswith(earlier) and (len(data) == size or data[size] == _COMMA)
