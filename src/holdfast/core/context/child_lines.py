"""The lines of a context about the run's children: how far each got, and what is in doubt in them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from holdfast.core.context.inline_text import Words
from holdfast.core.context.story import Story
from holdfast.core.lineage.children import begun_seqs, child_key
from holdfast.core.llm.reasoning import Read, value_in
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.steps.identity import keyed
from holdfast.core.text.times import YEAR_10000, moment
from holdfast.core.text.value_text import count, literal
from holdfast.model.event_fields import contents_of, part_of
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.waits import Waiting

_ENDS: Final = {"failed": "child failed", "parked": "child paused"}
"""The phrase for each recorded end of a child's last attempt; others are unfinished."""

Facts = dict[str, str]


class ChildStory(NamedTuple):
    """A descendant of the run, as the context needs it."""

    name: str
    """Its id without the parent's id and the ``/``."""
    is_over: bool
    """Whether it is finished or cancelled. Its journal is then read only if its line is shown."""
    is_held: bool
    read: Callable[[], Iterable[Event] | None]
    """Its events; None if they cannot be read."""


class Children(NamedTuple):
    """The descendants of the run, and the names that the run and its origins have had."""

    stories: Sequence[ChildStory] = ()
    parents: Sequence[str] = ()


class ChildLines:
    """Makes these lines: facts for the phrases in ``sentences``, and the events of the parent to cite."""

    def __init__(self, story: Story, read: Read, words: Words, chars: int, children: Children) -> None:
        self._story = story
        self._read = read
        self._words = words
        self._chars = chars
        # Those that are not over come last: of one section, the last lines are the most valuable.
        self._children = sorted(children.stories, key=lambda child: not child.is_over)
        self._known: dict[str, Story | None] = {}
        names = [child.name for child in children.stories]
        self._begun = (
            begun_seqs(story.view, children.parents, names, lambda outcome: outcome.body or b"{}")
            if names
            else {}
        )
        over = [child.name for child in children.stories if child.is_over]
        self.steps = {keyed(child_key(f"{run}/{name}")) for name in over for run in children.parents}
        """The steps of the parent that wait for these children: the line of a child has the result."""

    def states(self) -> Iterator[tuple[tuple[int, ...], Callable[[], tuple[str, Facts]]]]:
        """How far each child got."""
        for child in self._children:
            yield self._refs(child), partial(self._state, child)

    def doubts(self) -> Iterator[tuple[tuple[int, ...], Facts]]:
        """The effects of children that are in doubt. Those of children that are over never are."""
        for child in self._children:
            story = None if child.is_over else self._of(child)
            if story is None:
                continue
            for call in story.open_calls(is_held=child.is_held)[0]:
                facts = self._named(child) | {
                    "call": self._words.call(call),
                    "when": moment(call.started_at),
                }
                if (doubt := story.doubts.get(call.key)) is not None:
                    facts["quote"] = self._words.quote(str(part_of(doubt.body, "reason")))
                yield self._refs(child), facts

    def _of(self, child: ChildStory) -> Story | None:
        if child.name not in self._known:
            events = child.read()
            self._known[child.name] = None if events is None else Story(events)
        return self._known[child.name]

    def _refs(self, child: ChildStory) -> tuple[int, ...]:
        """The event that names the child. If none does, the run's first one."""
        return (self._story.cite(self._begun.get(child.name, min(self._story.events))),)

    def _named(self, child: ChildStory) -> Facts:
        return {"child": self._words.name(child.name)}

    def _state(self, child: ChildStory) -> tuple[str, Facts]:
        """The phrase for the state of a child, and its facts."""
        story, facts = self._of(child), self._named(child)
        if story is None:
            return "child unread", facts
        view = story.view
        facts["steps"] = count(sum(bool(call.outcomes) for call in story.steps()), "step")
        if story.finished is not None:
            value = value_in(story.finished.body, self._read)
            return "child finished", facts | self._optional(value=value)
        if story.cancelled is not None:
            reason = contents_of(story.cancelled.body).get("reason")
            return "child cancelled", facts | self._optional(quote=reason)
        if not view.attempts:
            return "child queued", facts
        for question in QUESTIONS.of(view).open.values():
            return "child asks", facts | self._optional(quote=question.text)
        for waiting in WAITS.of(view).open.values():
            return "child waits", facts | self._wait(waiting)
        if child.is_held and view.attempts[-1].how is None:
            return "child running", facts
        return self._end(story, facts)

    def _wait(self, waiting: Waiting) -> Facts:
        facts = self._optional(quote1=waiting.what, quote2=waiting.why)
        if waiting.until is not None and 0 <= waiting.until < YEAR_10000:
            facts["when"] = moment(waiting.until)
        return facts

    def _end(self, story: Story, facts: Facts) -> tuple[str, Facts]:
        end = story.ends.get(story.view.attempts[-1].event.seq)
        body = {} if end is None else contents_of(end.body)
        phrase = _ENDS.get(str(body.get("how")), "child unfinished")
        if phrase == "child unfinished":
            return phrase, facts
        error = body.get("error") or {}
        facts |= self._optional(quote=error.get("message"))
        if phrase == "child failed" and error.get("type"):
            facts["name"] = self._words.name(str(error["type"]).rpartition(":")[2].rpartition(".")[2])
        return phrase, facts

    def _optional(self, **facts: Any) -> Facts:
        """The facts that are there: quotes, and one value."""
        found = {fact: text for fact, text in facts.items() if text is not None and text != ""}
        return {
            fact: literal(text, self._chars) if fact == "value" else self._words.quote(str(text))
            for fact, text in found.items()
        }
