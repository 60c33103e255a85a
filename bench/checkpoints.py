"""What a checkpoint writes and costs as the state grows, and what finding one difference costs."""

import base64
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.measuring import Figure, interleaved_us
from holdfast.codec.blobs import address_of, pack, unpack
from holdfast.core.gathering import gather
from holdfast.core.nodes import unpack_nodes
from holdfast.core.statediff import changes
from holdfast.core.tree import Garden

STEPS = 1_000
TRIM_EVERY = 100
DIFF_MESSAGES = 4_000

Text = Callable[[int], str]


class Shelf:
    """Packs as a store keeps them: compressed, and checked when they are read."""

    def __init__(self) -> None:
        self.garden = Garden(address_of)
        self.packs: dict[str, bytes] = {}

    def fetch(self, address: str) -> Sequence[bytes]:
        return unpack_nodes(unpack(self.packs[address], address=address))

    def checkpoint(self, state: Any) -> Any:
        planted = self.garden.plant(state)
        self.packs.update((address, pack(data)) for address, data in planted.packs)
        self.garden.settle(planted)
        return planted.root

    @property
    def size(self) -> int:
        return sum(map(len, self.packs.values()))


def figures(place: Path) -> Iterator[Figure]:  # noqa: ARG001 - nothing here touches a disk
    """Bytes first, as they do not depend on the machine; then times, each against another of the same run."""
    yield _growth("ordinary text", prose(), 0.95, trims=False)
    yield _growth("incompressible text", _noise(), 1.2, trims=False)
    yield _growth("ordinary text, trimmed", prose(), 1.05, trims=True)
    yield _pace()
    yield _difference()


def _growth(what: str, text: Text, bar: float, *, trims: bool) -> Figure:
    shelf, messages, unique, alone = Shelf(), list[dict[str, str]](), 0, 0
    for step in range(1, STEPS + 1):
        new = [_message("user", text(1_000)), _message("assistant", text(4_000))]
        unique += sum(len(orjson.dumps(message)) for message in new)
        alone += len(pack(b"".join(map(orjson.dumps, new))))
        messages += new
        if trims and step % TRIM_EVERY == 0:
            del messages[: len(messages) // 5]
        shelf.checkpoint({"step": step, "messages": messages})
    facts = f"{shelf.size:,} bytes of {unique:,}; the new messages alone pack to {alone:,}"
    return Figure(f"{STEPS:,} checkpoints, {what}: packed / unique", shelf.size / unique, bar, "×", facts)


def _pace() -> Figure:
    """The whole state handed over each time: it must be looked at, so the time grows with it, but slowly."""
    text, shelf, times = prose(), Shelf(), list[float]()
    messages: list[dict[str, str]] = []
    for step in range(STEPS + 10):
        messages += [_message("user", text(1_000)), _message("assistant", text(4_000))]
        began = time.perf_counter()
        shelf.checkpoint({"step": step, "messages": messages})
        times.append((time.perf_counter() - began) * 1e3)
    early, late = statistics.median(times[5:20]), statistics.median(times[-20:])
    facts = f"p50 {early:.2f} ms at 10, {late:.2f} ms at {STEPS:,} ({len(orjson.dumps(messages)):,} bytes)"
    return Figure(f"planting and packing 5 MB whole, at {STEPS:,}", late, 8.0, "ms", facts)


def _difference() -> Figure:
    text, shelf = prose(), Shelf()
    messages = [_message("user", text(2_500)) for _ in range(DIFF_MESSAGES)]
    a = shelf.checkpoint({"messages": messages})
    messages[DIFF_MESSAGES // 2] = _message("user", "something else")
    b = shelf.checkpoint({"messages": messages})

    def walked() -> None:
        assert len(list(changes(a, b, shelf.fetch))) == 1

    def loaded() -> None:
        assert gather(a, shelf.fetch) != gather(b, shelf.fetch)

    walked_us, loaded_us = interleaved_us([walked, loaded], rounds=7, block=1)
    facts = f"{walked_us / 1e3:.2f} ms; loading and comparing both {loaded_us / 1e3:.1f} ms"
    return Figure(
        "diff of two 10 MB states: loading both / walking",
        loaded_us / walked_us,
        20,
        "×",
        facts,
        at_least=True,
    )


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def prose() -> Text:
    """Plausible English: words as frequent as in a language, sentences, the same in every run."""
    chance = random.Random(7)
    words = [
        *_COMMON.split(),
        *("".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(4_000)),
    ]
    weights = [1 / (rank + 2.7) for rank in range(len(words))]

    def text(size: int) -> str:
        chosen = chance.choices(words, weights, k=size // 3)
        for at in range(0, len(chosen), 11):
            chosen[at] = chosen[at].capitalize()
            chosen[at - 1] += "."
        return " ".join(chosen)[:size]

    return text


def _noise() -> Text:
    chance = random.Random(7)
    return lambda size: base64.b85encode(chance.randbytes(size)).decode()[:size]


_COMMON = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which
one you were all her she there would their we him been has when who will no more if out so up said what its about than into
them can only other time new some could these two may first then do any like my now over such our man me even most made
after also did many off before must well back through years where much your way down should because long each just state"""
_SYLLABLES = (
    "con",
    "ter",
    "al",
    "ing",
    "ment",
    "re",
    "de",
    "ion",
    "pro",
    "ver",
    "sta",
    "lo",
    "an",
    "der",
    "est",
    "mi",
)
