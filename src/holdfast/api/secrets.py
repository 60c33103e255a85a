"""Secrets for the rooms that show things: masks on the way out, and the words of a command that is started again.

These rooms read records, which have references; what is masked here was recorded in clear, or is no record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.codec.secrets import mask, refill

__all__ = ["filled", "mask", "masked_data"]


def masked_data(content: Any) -> Any:
    """Plain data with masks in its texts, for known secrets and for what has the shape of a token."""
    if isinstance(content, str):
        return mask(content)
    if isinstance(content, Mapping):
        return {masked_data(name): masked_data(part) for name, part in content.items()}
    return [masked_data(part) for part in content] if isinstance(content, (list, tuple)) else content


def filled(words: Sequence[str], hidden: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a recorded command with their secrets. SecretMissing names one that is not here."""
    return tuple(refill(hidden[str(at)]) if str(at) in hidden else word for at, word in enumerate(words))
