"""Writes recorded texts, names and calls into a sentence: shortened, and distinct from its own words."""

import re
from collections.abc import Sequence
from typing import Any, Final

from holdfast.core.llm.reasoning import ToolRequest
from holdfast.core.text.value_text import ELLIPSIS, literal, quoted
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of

_CALLS_MAX: Final = 3
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,60}")


class Words:
    """Shows each recorded text or value in about ``chars`` characters."""

    def __init__(self, chars: int) -> None:
        self._chars = chars

    def quote(self, text: str, times: int = 1) -> str:
        """A text in quotes, up to ``times`` the usual length."""
        return quoted(text, times * self._chars)

    def name(self, name: str) -> str:
        """A name, without quotes only if it is a plain word: a name may be anything printable."""
        return name if _PLAIN.fullmatch(name) else self.quote(name)

    def call(self, call: Call) -> str:
        """``survey(topic="debt")``.

        An ellipsis if the arguments are in a blob, pruned, or a whole conversation.
        """
        fields = contents_of(call.body) if call.body is not None else {}
        if "args_blob" in fields or "pruned" in fields or fields.get("effect") == "model":
            return f"{self.name(call.name)}({ELLIPSIS})"
        return self._called(call.name, fields.get("args"))

    def calls(self, calls: Sequence[ToolRequest]) -> str:
        """The first few of the calls that a model asks for."""
        shown = [self._called(call.name, call.arguments) for call in calls[:_CALLS_MAX]]
        return ", ".join(shown + [ELLIPSIS] * (len(calls) > _CALLS_MAX))

    def _called(self, name: str, arguments: Any) -> str:
        if isinstance(arguments, dict) and "$" not in arguments:
            room = max(20, self._chars // 2 // max(1, len(arguments)))
            inside = ", ".join(f"{self.name(key)}={literal(value, room)}" for key, value in arguments.items())
        else:
            inside = "" if arguments is None else literal(arguments, self._chars // 2)
        return f"{self.name(name)}({inside})"
