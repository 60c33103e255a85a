"""The lines of a context about other runs: what was handed over, what was lost on the way, and promises."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.core.context.inline_text import Words
from holdfast.core.context.sentences import SECTIONS
from holdfast.core.context.story import Story
from holdfast.core.llm.reasoning import Read, value_in
from holdfast.core.people.promises import PROMISES
from holdfast.core.text.times import YEAR_10000, moment
from holdfast.model.event_fields import contents_of
from holdfast.model.handoff import Promise

_PHRASES: Final = {
    ("made", "open"): "promised",
    ("made", "kept"): "promise kept",
    ("made", "broken"): "promise broken",
    ("received", "open"): "was promised",
    ("received", "kept"): "was kept",
    ("received", "broken"): "was broken",
}


_WRAPPED: Final = re.compile(r'(\w+|"(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*")')
"""A line of a handoff that was in the handoff before it: its subject, and its text in quotes."""


def _first_hand(about: str, text: str) -> tuple[str, str]:
    """A line of a summary as its first run wrote it. Each handoff would quote the one before it again."""
    while about == SECTIONS["handed"][0] and (wrapped := _WRAPPED.fullmatch(text)):
        name, quote = wrapped.groups()
        try:
            about, text = loads(name) if name[0] == '"' else name, loads(quote)
        except JSONDecodeError:  # it was shortened in the middle of an escape
            break
    return about, text


class HandoverLines:
    """Makes these lines for one story; ``say`` makes an entry from a phrase, its events and its facts."""

    def __init__(self, story: Story, read: Read, words: Words, say: Callable[..., Any]) -> None:
        self._story = story
        self._read = read
        self._quote, self._name = words.quote, words.name
        self._say = say

    def handed(self) -> Iterator[Any]:
        """The summary of the run that handed its work over, and what was not carried over."""
        for mark in self._story.handed:
            document = value_in(mark.body, self._read)
            if isinstance(document, dict):
                facts = {"quote1": self._quote(str(document["run"])), "seq": f"#{document['event']}"}
                if document.get("to"):
                    facts["quote2"] = self._quote(str(document["to"]))
                yield self._say("giver", [mark.seq], **facts)
                for item in document["summary"]:
                    about, text = _first_hand(str(item["about"]), str(item["text"]))
                    if about != SECTIONS["goal"][0]:
                        quote = self._quote(text, 2)
                        yield self._say("handed", [mark.seq], name=self._name(about), quote=quote)
            for loss in contents_of(mark.body).get("losses", ()):
                yield self._say(
                    "lost",
                    [mark.seq],
                    name=self._name(loss["what"]),
                    quote1=self._quote(loss["name"]),
                    quote2=self._quote(loss["why"], 2),
                    quote3=self._quote(loss["advice"], 2),
                )

    def promised(self) -> Iterator[Any]:
        """The promises that this run made, and those that it received."""
        both = PROMISES.of(self._story.view).both()
        for promise in (*both.made, *both.received):
            seqs = list(dict.fromkeys(self._story.cite(seq) for seq in promise.seqs))
            yield self._say(_PHRASES[promise.side, promise.state], seqs, **self._facts(promise))

    def _facts(self, promise: Promise) -> dict[str, str]:
        facts = {"name": self._name(promise.id), "quote2": self._quote(promise.text, 2)}
        other = promise.to if promise.side == "made" else promise.by
        if other:
            facts["quote1"] = self._quote(other)
        if promise.note:
            facts["quote3"] = self._quote(promise.note, 2)
        if promise.due is not None and promise.state == "open" and 0 <= promise.due < YEAR_10000:
            facts["when"] = moment(promise.due)
        return facts
