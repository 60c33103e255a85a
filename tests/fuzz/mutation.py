"""Changes of an input: bits, cuts and splices, and changes of the JSON in it, which a blind change would only break.

Every change is decided by a ``Random``: a seed gives the same inputs again.
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from orjson import JSONDecodeError, dumps, loads
from tests.support.hostile import mutated

TOKENS: Final = (
    b"null", b"true", b"-0", b"1e999", b"NaN", b"18446744073709551616", b"9223372036854775808", b'"\\ud800"', b'"\\u0000"',
    b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\n", b"\r\n", b"\0", b"{", b"}", b"[", b"]", b'"', b",", b":", b'{"$":', b"@", b"#",
    b"/", b"..", b"%00", b"%2f", b"%", b"?", b"&", b"=", b"[" * 600, b'{"a":' * 600, b"9" * 5000, "٣".encode(), "²".encode(),
)  # fmt: skip
"""What readers trip over."""
SIZE_BYTES_MAX: Final = 200_000
"""Changes that enlarge an input stop there."""

_MEMBER: Final = re.compile(rb'"(?:[^"\\]|\\.)*":(?:"(?:[^"\\]|\\.)*"|[0-9.eE+-]+|true|false|null),?')
_NUMBER: Final = re.compile(rb"-?\d+(?:\.\d+)?")
_WORD: Final = re.compile(rb"\w+")


def changed(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """The input with one to three things in it that are not as they were."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = random.choice(_WAYS)(data, others, random)[:SIZE_BYTES_MAX]
    return data


def _flip(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    if not data:
        return b"\0"
    out = bytearray(data)
    out[random.randrange(len(out))] ^= 1 << random.randrange(8)
    return bytes(out)


def _cut(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    start = random.randint(0, len(data))
    end = random.choice((len(data), min(len(data), start + random.randint(1, 40))))
    return data[:start] + data[end:]


def _insert(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.choice(TOKENS) + data[place:]


def _repeat(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    start = random.randint(0, len(data))
    end = min(len(data), start + random.randint(1, 200))
    return data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]


def _splice(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(others) if others else data
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


def _swap_lines(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    lines = data.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _duplicate_member(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """A key of an object twice, with another value the second time."""
    found = [*_MEMBER.finditer(data)]
    if not found:
        return data
    member = random.choice(found)
    text = member[0].rstrip(b",")
    key = text.partition(b":")[0] if b":" in text else text
    second = key + b":" + random.choice((b"null", b"1", b'"x"', b"[]", text.partition(b":")[2] or b"0"))
    return data[: member.start()] + text + b"," + second + data[member.start() + len(text) :]


def _replace_number(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    return _replace(_NUMBER, data, random)


def _replace_word(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    found = [*_WORD.finditer(data)]
    words: list[bytes] = _WORD.findall(random.choice(others)) if others else []
    if not found or not words:
        return data
    place = random.choice(found)
    return data[: place.start()] + random.choice(words) + data[place.end() :]


def _replace(pattern: re.Pattern[bytes], data: bytes, random: Random) -> bytes:
    found = [*pattern.finditer(data)]
    if not found:
        return data
    place = random.choice(found)
    return data[: place.start()] + random.choice(TOKENS) + data[place.end() :]


def _change_json(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """One value of a line that is JSON, or of the whole, is another: the syntax stays right."""
    lines = [data] if random.random() < 0.3 else data.split(b"\n")
    places = [place for place, line in enumerate(lines) if line[:1] in (b"{", b"[")]
    if not places:
        return data
    place = random.choice(places)
    try:
        lines[place] = dumps(mutated(loads(lines[place]), random)[1])
    except (JSONDecodeError, TypeError, IndexError):
        return data
    return b"\n".join(lines)


Way = Callable[[bytes, Sequence[bytes], Random], bytes]
_WAYS: Final[tuple[Way, ...]] = (
    _flip, _cut, _insert, _repeat, _splice, _swap_lines, _duplicate_member, _replace_number, _replace_word,
    _change_json, _change_json, _change_json,
)  # fmt: skip
