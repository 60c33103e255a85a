"""Texts that a request decides: the same request gets the same answer, token by token, in every process.

A token is a word with the space before it, as models make them; some are longer than a byte a character, so that whoever
counts characters and whoever counts bytes do not agree by accident.
"""

import hashlib
import json
import re
from typing import Any, Final, NamedTuple

_TEXT: Final = (
    "anchor tide kelp rock storm harbour swell drift beacon hull keel mast rope sail wake reef gull foam "
    "salt wind wave deep shore sand shell pearl brine current channel lantern compass chart über naïve "
    "café — 海 🌊 north south east west holds breaks turns rises falls waits carries remembers the a and of "
    "under over through beyond"
)
_WORDS: Final = _TEXT.split()
_DIRECTIVE: Final = re.compile(r"#(\w+)=(\S+)")


def fingerprint(value: Any) -> str:
    """Eight hex digits of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def tokens_of(seed: str, count: int) -> list[str]:
    """``count`` tokens of the endless text that belongs to this seed. A longer one begins with the shorter."""
    tokens: list[str] = []
    block = b""
    for index in range(count):
        if index % 16 == 0:
            block = hashlib.sha256(f"{seed}/{index // 16}".encode()).digest()
        pick = int.from_bytes(block[index % 16 * 2 : index % 16 * 2 + 2])
        end = "." if pick % 11 == 0 else ",\n" if pick % 13 == 0 else ""
        tokens.append((" " if index else "") + _WORDS[pick % len(_WORDS)] + end)
    return tokens


def text_of(seed: str, count: int) -> str:
    """The text that belongs to this seed."""
    return "".join(tokens_of(seed, count))


def split(text: str) -> list[str]:
    """Any text as tokens: words with what stands before them. Joined they are the text."""
    return re.findall(r"\s*\S+|\s+$", text)


def rest_of(tokens: list[str], begun: str) -> list[str] | None:
    """What comes after the text that was begun, or None if these tokens do not begin with it."""
    text = "".join(tokens)
    if not text.startswith(begun):
        return None
    left: list[str] = []
    place = 0
    for token in tokens:
        place += len(token)
        if place > len(begun):
            left.append(token[max(0, len(begun) - place + len(token)) :])
    return left


class Directives(NamedTuple):
    """What the last message of a user asks of the answer, as in ``Write on. #tokens=120 #reasoning=20 #call=note``."""

    tokens: int | None = None
    reasoning: int = 0
    call: str = ""

    @classmethod
    def read(cls, message: str) -> "Directives":
        """The directives that stand in a message."""
        found = dict(_DIRECTIVE.findall(message))
        return cls(
            tokens=int(found["tokens"]) if "tokens" in found else None,
            reasoning=int(found.get("reasoning", "0")),
            call=found.get("call", ""),
        )
