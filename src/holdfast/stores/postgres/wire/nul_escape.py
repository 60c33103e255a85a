r"""Texts that PostgreSQL cannot hold: its text has no NUL, and the name of a step may be anything.

Knows nothing but characters. A NUL is kept as \1 0, and a \1 as \1 1, so that every text comes back as it
was; nearly all texts have neither and stay as they are, readable for people with psql.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.model.events import Event


def escaped(text: str) -> str:
    """The stored text."""
    if "\0" in text or "\1" in text:
        return text.replace("\1", "\1" + "1").replace("\0", "\1" + "0")
    return text


def plain(text: str) -> str:
    """The original text."""
    return text.replace("\1" + "0", "\0").replace("\1" + "1", "\1") if "\1" in text else text


def event_of(row: tuple[Any, ...]) -> Event:
    """The event of a row of nine columns."""
    seq, at, kind, name, key, fence, body, crc, chain = row
    if "\1" in name or "\1" in key:
        name, key = plain(name), plain(key)
    return Event(seq, at, kind, name, key, fence, body, crc, chain)


def events_of(rows: Sequence[tuple[Any, ...]]) -> list[Event]:
    """The events of a page; texts are unescaped one by one only if some text needs it."""
    if "\1" in "".join([row[3] for row in rows]) or "\1" in "".join([row[4] for row in rows]):
        return [event_of(row) for row in rows]
    return list(map(Event._make, rows))
