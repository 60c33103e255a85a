"""What a program sees of a graph, in a form in which two savers can be compared: ids and times by their order."""

import re
from typing import Any

from langgraph.types import Interrupt

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?")


class Observed:
    """Observations of one program: each id is replaced by the order in which it was first seen."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        """The value with ids and times replaced."""
        if isinstance(value, str):
            named = _ID.sub(lambda found: self._ids.setdefault(found[0], f"id{len(self._ids)}"), str(value))
            return _TIME.sub("time", named)
        if isinstance(value, dict):
            # one of LangGraph's savers puts its caller's private keys into the config that it returns
            return {self(name): self(part) for name, part in value.items() if not name.startswith("__pregel")}
        if hasattr(value, "_asdict"):
            return type(value).__name__, self(value._asdict())
        if isinstance(value, list | tuple):
            if value and all(isinstance(part, Interrupt) for part in value):
                value = sorted(
                    value, key=lambda one: repr(one.value)
                )  # of nodes that run at once, in any order
            return [self(part) for part in value]
        if isinstance(value, Interrupt):
            return self(repr(value))
        return value
