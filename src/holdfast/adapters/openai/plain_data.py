"""Objects of the OpenAI client as plain data."""

from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """A request as JSON data, with the SDK's own objects converted."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if callable(dump) else value
