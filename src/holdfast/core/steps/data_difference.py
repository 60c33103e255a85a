"""Decides whether the data that a function reads from its module is other than in the record of its call."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

_DIGEST_BYTES = 10


def differing(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names whose values differ, by their hashes.

    A name on one side only is a change of the code, which the premises of the function tell.
    """
    return sorted(name for name in recorded.keys() & now.keys() if recorded[name] != now[name])


def name_of(step: str, names: Iterable[str], recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    """A name for this change, so that one decision covers every call of the step that it concerns."""
    parts = [step, *(f"{name} {recorded[name]} {now[name]}" for name in names)]
    return blake2b("\0".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
