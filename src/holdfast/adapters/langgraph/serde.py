"""Values of a graph to plain data and back, element by element, so that unchanged elements are stored once.

Text, numbers, lists and objects stay what they are, and so do LangChain's messages, by their fields: people
read them, and a diff shows which one changed. All else goes through the saver's serializer, one element at a
time. A serializer that is not LangGraph's own (for instance one that encrypts) gets every element: only names
and the shape of lists stay readable.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde import types
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast.model.stored_names import fixed_name

_TAG: Final = "lc"
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_ROLES: Final[dict[type[BaseMessage], str]] = {
    AIMessage: "assistant",
    HumanMessage: "user",
    SystemMessage: "system",
    ToolMessage: "tool",
    FunctionMessage: "function",
    RemoveMessage: "remove",
}
_UNSAID: Final[dict[type[BaseMessage], dict[str, Any]]] = {
    kind: {
        name: field.get_default(call_default_factory=True)
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }
    for kind in _ROLES
}
_CLASSES: Final = {kind.__name__: kind for kind in _ROLES}
DELTA: Final[Any] = getattr(types, "_DeltaSnapshot", None)
"""The value of a complete delta channel; LangGraph before 1.2 has none."""
_KEPT_MAX: Final = 20_000


class Values:
    """Values of one serializer."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self.is_open = type(serde) is JsonPlusSerializer
        self._opaque: dict[bytes, Any] = {}
        """Elements as a foreign serializer wrote them.

        Writing them again would give other bytes each time.
        """

    def plain(self, value: Any) -> Any:
        """A copy of the value as plain data; other parts stay as they are."""
        kind = type(value)
        if kind is list or kind is tuple:
            return kind([self.plain(item) for item in value])
        if kind is DELTA:
            return {_TAG: "delta", "v": self.plain(value.value)}
        if not self.is_open:
            return self._sealed(value)
        if kind in _PLAIN:
            return value
        if kind is dict and all(type(key) is str for key in value):
            made = {key: item if type(item) in _PLAIN else self.plain(item) for key, item in value.items()}
            return {_TAG: "dict", "v": made} if _TAG in made else made
        if kind in _ROLES:
            return self._message(value, kind)
        if fixed_name(kind.__module__, kind.__qualname__) is not None:
            return value  # the serializer would write the module of our class, which may move
        return self._written(value)

    def _message(self, message: BaseMessage, kind: type[BaseMessage]) -> dict[str, Any]:
        """A message by its fields, without empty ones.

        Not by ``model_dump``: it is too slow for all of a thread's messages.
        """
        made = {_TAG: kind.__name__, "role": _ROLES[kind]}
        unsaid = _UNSAID[kind]
        for name, item in (*vars(message).items(), *(message.__pydantic_extra__ or {}).items()):
            if name not in unsaid or item != unsaid[name]:
                made[name] = item if type(item) in _PLAIN else self.plain(item)
        return made

    def revived(self, value: Any) -> Any:
        """The value from plain data."""
        kind = type(value)
        if kind is list or kind is tuple:
            return kind(self.revived(item) for item in value)
        if kind is not dict:
            return value
        tag = value.get(_TAG)
        if tag is None:
            return {key: self.revived(item) for key, item in value.items()}
        if tag == "serde":
            return self._read(value)
        if tag == "delta":
            return DELTA(self.revived(value["v"]))
        if tag == "dict":
            return {key: self.revived(item) for key, item in value["v"].items()}
        fields = {key: self.revived(item) for key, item in value.items() if key not in {_TAG, "role"}}
        make: Callable[..., Any] = _CLASSES[tag]
        return make(**fields)

    def _written(self, value: Any) -> Any:
        try:
            kind, data = self.serde.dumps_typed(value)
        except Exception:  # noqa: BLE001 - the journal refuses it later, with its path and advice
            return value
        return opaque(kind, data)

    def _sealed(self, value: Any) -> Any:
        mark = _mark(value)
        found = None if mark is None else self._opaque.get(mark)
        if found is None:
            found = self._written(value)
            self._keep(mark, found)
        return found

    def _read(self, opaque: dict[str, Any]) -> Any:
        value = self.serde.loads_typed((opaque["type"], opaque["data"]))
        if not self.is_open:
            self._keep(_mark(value), opaque)
        return value

    def _keep(self, mark: bytes | None, opaque: Any) -> None:
        if mark is not None:
            while len(self._opaque) >= _KEPT_MAX:
                del self._opaque[next(iter(self._opaque))]
            self._opaque[mark] = opaque


def opaque(kind: str, data: bytes) -> dict[str, Any]:
    """One element as a serializer wrote it."""
    return {_TAG: "serde", "type": kind, "data": bytes(data)}


def _mark(value: Any) -> bytes | None:
    """What identifies an element; None if nothing can."""
    try:
        kind, data = JsonPlusSerializer().dumps_typed(value)
    except Exception:  # noqa: BLE001 - then it is written again
        return None
    return sha256(kind.encode() + b"\0" + data).digest()
