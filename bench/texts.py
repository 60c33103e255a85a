"""What agents keep: messages of plausible English, and of text that cannot be compressed; the same in every run."""

import base64
import random
from collections.abc import Callable, Iterator

USER_BYTES = 1_000
ASSISTANT_BYTES = 4_000

Text = Callable[[int], str]
Message = dict[str, str]


def message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def turns(text: Text) -> Iterator[list[Message]]:
    """What each turn adds to a conversation: a message of 1 KB and one of 4 KB."""
    while True:
        yield [message("user", text(USER_BYTES)), message("assistant", text(ASSISTANT_BYTES))]


def prose() -> Text:
    """Plausible English: words as frequent as in a language, sentences."""
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


def noise() -> Text:
    """As random as text in JSON can be: 85 signs, all equally likely."""
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
