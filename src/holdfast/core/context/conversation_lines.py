"""The lines of a context about the conversation and the thoughts of a run."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from holdfast.core.context.inline_text import Words
from holdfast.core.context.story import Story
from holdfast.core.llm.conversation_fold import CONVERSATION
from holdfast.core.llm.reasoning import Read, Thought, speech_of, thoughts_in, value_in
from holdfast.core.text.value_text import literal
from holdfast.model.event_fields import fields_of

Facts = dict[str, str]


class ConversationLines:
    """Makes these lines for one story; ``later`` makes an entry from a section, its events and its facts."""

    def __init__(self, story: Story, read: Read, words: Words, chars: int, later: Callable[..., Any]) -> None:
        self._story = story
        self._read = read
        self._words = words
        self._chars = chars
        self._later = later

    def said(self) -> Iterator[Any]:
        """The messages that the conversation has: not those that were dropped, or replaced by a repair."""
        # A record that cannot be read has an unknown number of messages. Then a later drop or repair cannot
        # count from the beginning, so it removes everything before it.
        standing: list[tuple[int, Any]] = []
        is_whole = True
        for said in CONVERSATION.of(self._story.view).messages:
            body = said.body or b"{}"
            value = value_in(body, self._read)
            if said.is_drop:
                del standing[: value["first"] if is_whole and isinstance(value, dict) else None]
                continue
            if said.mends_upto is not None:
                del standing[fields_of(body).get("keep", 0) if is_whole else 0 :]
            if isinstance(value, list):
                standing += [(self._story.cite(said.seq), message) for message in value]
            else:
                is_whole = False
        for seq, message in standing:
            yield self._later("said", (seq,), partial(self._message, message))

    def _message(self, message: Any) -> tuple[str, Facts]:
        fields = message if isinstance(message, dict) else {}
        fields = fields["v"] if isinstance(fields.get("v"), dict) else fields
        role = fields.get("role")
        facts = {"name": self._words.name(role)} if isinstance(role, str) and role else {}
        speech = speech_of(message)
        if speech.calls:
            facts["calls"] = self._words.calls(speech.calls)
        if speech.texts:
            return "message", {**facts, "quote": self._words.quote(speech.texts[0])}
        if speech.calls:
            return "message calls", facts
        return "message parts", {**facts, "value": literal(fields.get("content", message), self._chars)}

    def thought(self) -> Iterator[Any]:
        """What the agent and its models thought."""
        for thought in thoughts_in(self._story.events.values(), self._read):
            refs = tuple(self._story.cite(seq) for seq in thought.seqs)
            yield self._later("thought", refs, partial(self._reasoned, thought))

    def _reasoned(self, thought: Thought) -> tuple[str, Facts]:
        text = self._words.quote(thought.text)
        if not thought.call:
            return "thought", {"quote": text}
        phrase = "reasoning so far" if thought.is_partial else "reasoning"
        return phrase, {"name": self._words.name(thought.call), "quote": text}
