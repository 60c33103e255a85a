"""Turns a story into entries of a context, section by section, each with the events that it comes from.

The text of an entry is written only when the context has room for it, so a blob is read only for what is
shown.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from holdfast.core.context.child_lines import ChildLines, Children
from holdfast.core.context.conversation_lines import ConversationLines
from holdfast.core.context.handover_lines import HandoverLines
from holdfast.core.context.inline_text import Words
from holdfast.core.context.sentences import PHRASES, sentence
from holdfast.core.context.story import Failure, Mark, Story, is_done
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.journal.view_parts import Attempt
from holdfast.core.llm.reasoning import (
    Read,
    model_of,
    speech_of,
    standing,
    value_in,
)
from holdfast.core.llm.streams import fold_partial
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.reports.progress import planned, work_on_plan
from holdfast.core.text.times import YEAR_10000, moment, span
from holdfast.core.text.value_text import literal
from holdfast.model.calls import Call
from holdfast.model.context import Style
from holdfast.model.event_fields import contents_of, fields_of, is_hollow, part_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.waits import Waiting

_CHARS: Final[dict[Style, int]] = {"summary": 160, "full": 400, "facts": 80}
"""How many characters of a recorded text or value are shown."""
_ENDS: Final = {
    "failed": "failed",
    "interrupted": "interrupted",
    "parked": "parked",
    "in_doubt": "stopped",
    "diverged": "diverged",
    "closed": "closed",
    "finished": "ended",
}
"""The phrase for each recorded end of an attempt."""

Facts = dict[str, str]


class Entry(NamedTuple):
    """One line of a context: its section, its events, and a function that writes its text."""

    section: str
    refs: tuple[int, ...]
    write: Callable[[], str]


class Narrator:
    """Makes the entries of one story, in one style."""

    def __init__(
        self,
        story: Story,
        read: Read,
        style: Style,
        *,
        is_held: bool,
        children: Children,
    ) -> None:
        self._story = story
        self._read = read
        self._style: Style = style
        self._is_held = is_held
        self._chars = _CHARS[style]
        words = Words(self._chars)
        self._quote, self._name, self._call, self._calls = words.quote, words.name, words.call, words.calls
        self._handover_lines = HandoverLines(story, read, words, self._say)
        self._conversation_lines = ConversationLines(story, read, words, self._chars, self._later)
        self._child_lines = ChildLines(story, read, words, self._chars, children)
        self._doubted, self._open = story.open_calls(is_held=is_held)

    def entries(self) -> list[Entry]:
        """All entries: section by section in the order of the text, in each the oldest first."""
        sections = [
            self._goal,
            self._handover_lines.handed,
            self._recalled,
            self._past,
            self._noted,
            self._answered,
            self._failed,
            self._done,
        ]
        if self._style == "full":
            sections += [self._conversation_lines.said, self._conversation_lines.thought]
        sections += [self._plan, self._handover_lines.promised, self._now, self._children, self._doubt]
        return [entry for section in (*sections, self._next) for entry in section()]

    # -- what happened before --------------------------------------------------------------------------------

    def _past(self) -> Iterator[Entry]:
        story, view = self._story, self._story.view
        for event in story.overall:
            yield from self._overall(event)
        if not view.attempts:
            if view.started is not None:
                yield self._say("queued", [view.started.seq])
            return
        for number, attempt in enumerate(view.attempts):
            is_last = number == len(view.attempts) - 1
            if attempt.how is not None:
                yield from self._end(attempt)
            elif is_last:
                yield from self._present(attempt)

    def _overall(self, event: Event) -> Iterator[Entry]:
        body = contents_of(event.body)
        if event.kind == Kind.RUN_FORKED:
            yield self._say(
                "forked", [event.seq], quote=self._quote(str(body["from"])), seq=f"#{body['at_seq']}"
            )
        elif event.kind == Kind.RUN_REWOUND:
            kept = body.get("kept")
            facts = {"quote": self._quote(str(kept))} if kept else {}
            yield self._say("rewound", [event.seq], seq=f"#{body['to_seq']}", **facts)
        elif event.kind == Kind.RUN_REOPENED:
            yield self._say("reopened", [event.seq])
        elif event.kind == Kind.COMPACTED and "events" in body:
            yield self._say("compacted", [event.seq], n=f"{body['events']:,}")

    def _end(self, attempt: Attempt) -> Iterator[Entry]:
        """The recorded end of an attempt."""
        story, number = self._story, f"{attempt.number:,}"
        end = story.ends.get(attempt.event.seq)
        if end is None:
            if attempt.how == "left behind":  # by a fork or a rewind; else its end was compacted
                yield self._say("left behind", [story.cite(attempt.event.seq)], n=number)
            return
        body = contents_of(end.body)
        if end.kind == Kind.ATTEMPT_CRASHED:
            yield self._say("crashed", [end.seq], n=number, quote=self._quote(str(body["last"])))
            return
        error = body.get("error") or {}
        how = str(body["how"])
        name, facts = _type_of(error), {"n": number}
        phrase = _ENDS.get(how, "ended so")
        if name == "Terminated":
            phrase = "terminated"
        elif name and phrase in {"failed", "interrupted"}:
            facts["name"] = self._name(name)
        if phrase == "ended so":
            facts["quote"] = self._quote(how)
        elif error.get("message") and phrase in {"failed", "parked", "diverged"}:
            facts["quote"] = self._quote(str(error["message"]))
        refs = [story.cite(attempt.event.seq), end.seq]
        yield self._say(phrase, refs, **facts)

    def _present(self, attempt: Attempt) -> Iterator[Entry]:
        """The attempt without a recorded end: it is running, or it crashed."""
        story, start, number = self._story, attempt.event, f"{attempt.number:,}"
        before = story.before(attempt)
        branched = [e for e in story.overall if e.kind in {Kind.RUN_FORKED, Kind.RUN_REWOUND}]
        if not self._is_held:
            yield self._say("unended", [story.cite(start.seq)], n=number)
        elif before is not None:
            earlier, last = before
            refs = dict.fromkeys([story.cite(earlier.event.seq), last.seq, story.cite(start.seq)])
            yield self._say(
                "resumed",
                list(refs),
                n1=number,
                span=span(start.at - last.at),
                n2=f"{earlier.number:,}",
            )
        elif branched:
            yield self._say("branched", [branched[-1].seq, story.cite(start.seq)], n=number)
        else:
            yield self._say("first", [story.cite(start.seq)])

    # -- what the agent noted --------------------------------------------------------------------------------

    def _goal(self) -> Iterator[Entry]:
        started = self._story.view.started
        if started is None:
            return
        body, seq = contents_of(started.body), self._story.cite(started.seq)
        if body.get("goal"):
            yield self._say("goal", [seq], quote=self._quote(str(body["goal"]), 4))
        if body.get("inputs") not in (None, {}, []):
            yield self._say("inputs", [seq], value=literal(body["inputs"], 2 * self._chars))

    def _recalled(self) -> Iterator[Entry]:
        """The facts of other runs that this one recalled from memory, each as it was recalled last."""
        last: dict[str, Entry] = {}
        for mark in self._story.recalled:
            value = value_in(mark.body, self._read)
            event = self._story.events.get(mark.seq)
            if event is None or not isinstance(value, dict):
                continue
            for fact in [item["fact"] for item in value.get("found", ()) if not item.get("own")]:
                facts = {"quote1": self._quote(str(fact["text"]), 2)}
                facts["span"] = span(max(0.0, event.at - fact.get("created_at", event.at)))
                if fact.get("run"):
                    facts["quote2"] = self._quote(str(fact["run"]))
                last.pop(fact["text"], None)
                last[fact["text"]] = self._say("recalled", [mark.seq], **facts)
        yield from last.values()

    def _noted(self) -> Iterator[Entry]:
        marks = self._story.marks
        for name, section in (("said", "told"), ("decision", "decided"), ("discovery", "found")):
            for mark in marks:
                if mark.name == name:
                    yield Entry(section, (mark.seq,), partial(self._mark, mark))

    def _mark(self, mark: Mark) -> str:
        value = value_in(mark.body, self._read)
        fields = value if isinstance(value, dict) else {}
        text = self._quote(str(fields.get("text") or ""), 2)
        if mark.name == "decision":
            because = fields.get("because")
            why = {"quote2": self._quote(str(because), 2)} if because else {}
            return self._sentence("decided", {"quote1": text, **why})
        if mark.name == "said" and fields.get("to"):
            return self._sentence("told", {"quote1": self._quote(str(fields["to"])), "quote2": text})
        return self._sentence("said" if mark.name == "said" else "found", {"quote": text})

    def _answered(self) -> Iterator[Entry]:
        for event, asked in self._story.answered:
            body = contents_of(event.body)
            text = self._quote(_text_of(asked or event))
            refs = [event.seq] if asked is None else [asked.seq, event.seq]
            if body.get("how") == "expired":
                yield self._say("expired", refs, quote=text)
            elif body.get("how", "answered") == "answered":
                yield Entry("answered", tuple(refs), partial(self._reply, event, text))

    def _reply(self, event: Event, question: str) -> str:
        body = contents_of(event.body)
        facts = {"quote1": question, "value": literal(value_in(event.body, self._read), self._chars)}
        for fact, field in (("quote2", "by"), ("quote3", "reason")):
            if body.get(field):
                facts[fact] = self._quote(str(body[field]))
        return self._sentence("answered", facts)

    # -- steps -----------------------------------------------------------------------------------------------

    def _failed(self) -> Iterator[Entry]:
        for failure in self._story.failures():
            yield Entry("failed", failure.seqs, partial(self._failure, failure))

    def _failure(self, failure: Failure) -> str:
        facts = {"call": self._call(failure.call), "name": self._name(_type_of(failure.error) or "Exception")}
        if failure.error.get("message"):
            facts["quote"] = self._quote(str(failure.error["message"]))
        if len(failure.seqs) > 1:
            facts["times"] = f"{len(failure.seqs):,}"
        return self._sentence("error", facts)

    def _done(self) -> Iterator[Entry]:
        for call in sorted(self._story.done(), key=lambda call: call.outcomes[-1].seq):
            if call.key in self._child_lines.steps:
                continue
            refs = (self._story.cite(call.outcomes[-1].seq),)
            yield Entry("done", refs, partial(self._result, call))

    def _result(self, call: Call) -> str:
        outcome, shown = call.outcomes[-1].body or b"{}", {"call": self._call(call)}
        body = contents_of(outcome)
        if is_hollow(outcome) or "lost" in body:
            return self._sentence("pruned", shown)
        value = value_in(outcome, self._read)
        if value is None and "value_blob" in body:
            return self._sentence("unshown", {**shown, "n": f"{body.get('value_bytes', 0):,}"})
        model = None if call.body is None else model_of(call.body)
        if model is not None and (said := self._answer(call.name, model, value)):
            return said
        once = call.body is not None and is_once(call)
        if value is None:
            return self._sentence("once empty" if once else "done empty", shown)
        shown["value"] = literal(value, self._chars)
        event = self._story.events.get(call.outcomes[-1].seq)
        if event is not None and event.kind == Kind.STEP_OVERRIDDEN:
            return self._sentence("overridden", shown)
        return self._sentence("once" if once else "done", shown)

    def _answer(self, name: str, model: str, value: Any) -> str:
        """A model's answer; empty if its shape is not known."""
        speech = speech_of(value)
        facts = {"name": self._name(name)} | ({"quote1": self._quote(model)} if model else {})
        if speech.calls:
            facts["calls"] = self._calls(speech.calls)
        if speech.texts:
            return self._sentence("answer", {**facts, "quote2": self._quote(speech.texts[0])})
        return self._sentence("answer calls", facts) if speech.calls else ""

    # -- the plan, and the present ---------------------------------------------------------------------------

    def _plan(self) -> Iterator[Entry]:
        plan = PLAN.of(self._story.view).event
        if plan is None:
            return
        items, at = planned(plan), self._story.cite(plan.seq)
        own: dict[str, list[Call]] = {item: [] for item in items}
        for item, call in work_on_plan(self._story.view):
            own[item].append(call)
        begun = [number for number, item in enumerate(items) if own[item]]
        later = own[items[begun[-1]]][-1] if begun else None
        for number, item in enumerate(items):
            phrase, refs = self._progress(own[item], later if begun and number < begun[-1] else None)
            yield self._say(phrase, list(dict.fromkeys([at, *refs])), quote=self._quote(item))

    def _progress(self, own: Sequence[Call], later: Call | None) -> tuple[str, list[int]]:
        """The progress of a plan item, by the calls of its name; ``later`` is a call of a later item."""
        story = self._story
        if not own and story.finished is not None:
            return "item unnamed", [story.finished.seq]
        if not own:
            return ("item passed", [self._last_of(later)]) if later is not None else ("item not begun", [])
        doubted = [call for call in own if call in self._doubted]
        if doubted:
            return "item in doubt", [story.cite(doubted[-1].seq)]
        last = own[-1]
        if any(call.is_open for call in own):
            return "item under way", [story.cite(next(c for c in own if c.is_open).seq)]
        failed = story.failed_at(last.key)
        if not is_done(last) and failed is not None:
            return "item failed", [failed]
        if not is_done(last):
            return "item under way", [story.cite(last.seq)]
        is_past = later is not None or story.finished is not None
        return "item done" if is_past else "item worked on", [self._last_of(last)]

    def _last_of(self, call: Call) -> int:
        """The event of a call's result, or of its beginning if it has none."""
        return self._story.cite(call.outcomes[-1].seq if is_done(call) else call.seq)

    def _now(self) -> Iterator[Entry]:
        story = self._story
        for event in story.broken.values():
            body = contents_of(event.body)
            facts = {"quote1": self._quote(event.name), "name": self._name(str(body["verdict"]))}
            if body.get("text"):
                facts["quote2"] = self._quote(str(body["text"]))
            yield self._say("broken", [event.seq], **facts)
        yield from self._warnings()
        for question in QUESTIONS.of(story.view).open.values():
            asked = story.events.get(question.seq)
            about = None if asked is None else part_of(asked.body, "about")
            facts = {} if about is None else {"value": literal(about, self._chars)}
            yield self._say("asked", [story.cite(question.seq)], quote=self._quote(question.text), **facts)
        for waiting in WAITS.of(story.view).open.values():
            yield self._say("waits", [story.cite(waiting.seq)], **self._wait(waiting))

    def _warnings(self) -> Iterator[Entry]:
        story = self._story
        if story.circle is not None:
            what = str(contents_of(story.circle.body).get("what", ""))
            yield self._say("circle", [story.circle.seq], quote=self._quote(what))
        for event in story.budgets.values():
            words = str(fields_of(event.body).get("words") or event.name)
            yield self._say("budget", [event.seq], quote=self._quote(words))
        if story.cancelled is not None:
            body = contents_of(story.cancelled.body)
            texts = (("quote1", body.get("by")), ("quote2", body.get("reason")))
            facts = {fact: self._quote(str(text)) for fact, text in texts if text}
            yield self._say("cancelled", [story.cancelled.seq], **facts)

    def _wait(self, waiting: Waiting) -> Facts:
        facts = {"name": self._name(waiting.name)}
        for fact, text in (("quote1", waiting.what), ("quote2", waiting.why)):
            if text:
                facts[fact] = self._quote(text)
        for fact, at in (("when1", waiting.since), ("when2", waiting.until)):
            if at is not None and 0 <= at < YEAR_10000:
                facts[fact] = moment(at)
        return facts

    def _children(self) -> Iterator[Entry]:
        for refs, write in self._child_lines.states():
            yield self._later("children", refs, write)

    def _doubt(self) -> Iterator[Entry]:
        for cited, facts in self._child_lines.doubts():
            yield self._say("child doubted", cited, **facts)
        for call in self._doubted:
            doubt = self._story.doubts.get(call.key)
            facts = {"call": self._call(call), "when": moment(call.started_at)}
            refs = [self._story.cite(call.seq)]
            if doubt is not None:
                refs.append(doubt.seq)
                facts["quote"] = self._quote(str(part_of(doubt.body, "reason")))
            yield self._say("doubted", refs, **facts)

    def _next(self) -> Iterator[Entry]:
        story = self._story
        if story.finished is not None:
            value = value_in(story.finished.body, self._read)
            facts = {} if value is None else {"value": literal(value, 2 * self._chars)}
            yield self._say("finished", [story.finished.seq], **facts)
            return
        yield from self._position()
        for call in self._open:
            yield self._begun(call)

    def _begun(self, call: Call) -> Entry:
        is_live = self._story.is_live(call, is_held=self._is_held)
        chunks = standing(self._story.chunks.get(call.key, []))
        text = fold_partial(body for _, body in chunks).text
        if text:
            phrase = "answer so far" if is_live else "unfinished answer"
            refs = [event.seq for event, _ in chunks]
            return self._say(phrase, refs, name=self._name(call.name), quote=self._quote(text, 2))
        phrase = "running" if is_live else "cut off"
        return self._say(phrase, [self._story.cite(call.seq)], call=self._call(call))

    def _position(self) -> Iterator[Entry]:
        """The position of the work: in the plan, or after the last step."""
        view = self._story.view
        plan = PLAN.of(view).event
        items, work = planned(plan), list(work_on_plan(view))
        if plan is not None and items and not work:
            yield self._say("item first", [self._story.cite(plan.seq)], quote=self._quote(items[0]))
        elif plan is not None and items:
            item, call = work[-1]
            place = items.index(item)
            after = {"quote2": self._quote(items[place + 1])} if place + 1 < len(items) else {}
            refs = list(dict.fromkeys([self._story.cite(plan.seq), self._last_of(call)]))
            yield self._say("item next", refs, quote1=self._quote(item), **after)
        else:
            done = [call for call in self._story.steps() if call.outcomes]
            if done:
                last = max(done, key=lambda call: call.outcomes[-1].seq)
                yield self._say("after", [self._story.cite(last.outcomes[-1].seq)], call=self._call(last))

    # -- facts -----------------------------------------------------------------------------------------------

    def _say(self, phrase: str, refs: Sequence[int], **facts: str) -> Entry:
        return Entry(PHRASES[phrase].section, tuple(refs), partial(self._sentence, phrase, facts))

    def _later(self, section: str, refs: tuple[int, ...], facts_of: Callable[[], tuple[str, Facts]]) -> Entry:
        """An entry whose phrase and facts are only read if it is shown."""
        return Entry(section, refs, lambda: self._sentence(*facts_of()))

    def _sentence(self, phrase: str, facts: Facts) -> str:
        return sentence(phrase, self._style, facts)


def _type_of(error: dict[str, Any]) -> str:
    """The class name of a recorded exception, without its module."""
    return str(error.get("type", "")).rpartition(":")[2].rpartition(".")[2]


def _text_of(event: Event) -> str:
    """The question, or what an answer refers to."""
    body = contents_of(event.body)
    return str(body.get("question") or body.get("text") or event.name)
