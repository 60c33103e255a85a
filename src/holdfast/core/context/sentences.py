"""All sentences that a context may contain, as data: their text, and the kinds of events that they may cite.

A phrase has two texts: one for people and large models, and a terse one. Facts are in braces, named by their
sort. A part in brackets is left out if one of its facts is missing. ``core.context.narrator`` fills the
phrases in; ``tests/support/context_check`` takes them apart again. No other words are in a context, so a
check can prove that a context says only what the journal says.

The sorts of facts: ``quote`` a recorded text as a JSON string; ``value`` a recorded value as JSON; ``name`` a
recorded name, without quotes if it is a plain word; ``call`` a recorded call with its arguments, and
``calls`` several; ``child`` the name of a child, whose journal has the other facts; ``steps`` how many of its
steps have ended; ``n`` a recorded number; ``times`` how many events are cited; ``span`` a time between two
events; ``when`` a recorded moment; ``seq`` an event. A digit at the end distinguishes facts of one sort.
"""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.model.context import Style
from holdfast.model.events import Kind
from holdfast.model.named_tuple import NamedTuple

SECTIONS: Final = {
    "goal": ("Goal", "goal"),
    "handed": ("Handed over", "handed over"),
    "recalled": ("Recalled from memory", "recalled"),
    "lost": ("Not carried over", "lost"),
    "past": ("What happened", "past"),
    "told": ("Told to others", "told"),
    "decided": ("Decisions", "decided"),
    "found": ("Discoveries", "found"),
    "answered": ("Answers from people", "answered"),
    "failed": ("Tried, and failed", "failed"),
    "done": ("Done", "done"),
    "said": ("Conversation", "said"),
    "thought": ("Thoughts", "thought"),
    "plan": ("Plan", "plan"),
    "promised": ("Promises", "promised"),
    "changed": ("Changed meanwhile", "changed"),
    "warned": ("Warnings", "warned"),
    "asked": ("Open questions", "asked"),
    "waits": ("Waiting", "waits"),
    "children": ("Children", "child"),
    "doubt": ("In doubt", "in doubt"),
    "next": ("Next", "next"),
    "left": ("Left out", "left out"),
}
"""Heading and key of each section, in the order of the text: what changes least is first."""

ANY: Final = frozenset(kind for name, kind in vars(Kind).items() if name.isupper())
GOOD: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_SETTLED, Kind.STEP_OVERRIDDEN, Kind.COMPACTED})
BAD: Final = frozenset({Kind.STEP_FAILED, Kind.STEP_SETTLED, Kind.COMPACTED})
BEGUN: Final = frozenset({Kind.STEP_STARTED, Kind.COMPACTED})
PLANNED: Final = frozenset({Kind.MARK, Kind.COMPACTED})
MARKED: Final = frozenset({Kind.MARK, Kind.COMPACTED})
ASKED: Final = frozenset({Kind.QUESTION_ASKED, Kind.COMPACTED})
ATTEMPT: Final = frozenset({Kind.ATTEMPT_STARTED, Kind.COMPACTED})
PROMISED: Final = frozenset({Kind.PROMISE_MADE, Kind.PROMISE_SETTLED, Kind.PROMISE_TOLD, Kind.COMPACTED})


class Phrase(NamedTuple):
    """A sentence. ``kinds``: the kinds of events that it may cite.

    ``needs``: of each of these sets, it cites at least one. ``tells``: each of these fields has this value in
    the body of an event that it cites.
    """

    section: str
    summary: str
    facts: str
    kinds: frozenset[str]
    needs: tuple[frozenset[str], ...] = ()
    tells: tuple[tuple[str, object], ...] = ()


def _of(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


def _end(summary: str, facts: str, how: str) -> Phrase:
    """How an attempt ended."""
    kinds = _of(Kind.ATTEMPT_ENDED, Kind.ATTEMPT_STARTED, Kind.COMPACTED)
    return Phrase(
        "past",
        f"Attempt {{n}} {summary}.",
        f"attempt {{n}} {facts}",
        kinds,
        (_of(Kind.ATTEMPT_ENDED),),
        (("how", how),),
    )


def _item(summary: str, facts: str, *needs: frozenset[str]) -> Phrase:
    """The progress of a plan item."""
    kinds = PLANNED.union(*needs)
    return Phrase("plan", f"{{quote}}: {summary}", f"{{quote}} {facts}", kinds, (PLANNED, *needs))


def _promise(summary: str, facts: str) -> Phrase:
    """A promise, by its id."""
    return Phrase("promised", f"{{name}}: {summary}", f"{{name}} {facts}", PROMISED)


def _child(summary: str, facts: str) -> Phrase:
    """The state of a child. It cites the event of this run that names the child, or the first one."""
    return Phrase("children", f"{{child}} {summary}", f"{{child}} {facts}", ANY)


PHRASES: Final[dict[str, Phrase]] = {
    # -- what happened before --------------------------------------------------------------------------------
    "queued": Phrase("past", "This run has not begun yet.", "not begun", _of(Kind.RUN_STARTED)),
    "first": Phrase(
        "past", "This is the first attempt at this run: nothing was done before.", "first attempt", ATTEMPT
    ),
    "resumed": Phrase(
        "past",
        "You are resuming this run: attempt {n1} began {span} after the last event of attempt {n2}.",
        "resuming, attempt {n1}, {span} after attempt {n2}",
        ANY,
        (ATTEMPT,),
    ),
    "branched": Phrase(
        "past",
        "You go on from there, as attempt {n}.",
        "going on, attempt {n}",
        ATTEMPT | {Kind.RUN_FORKED, Kind.RUN_REWOUND},
        (ATTEMPT, _of(Kind.RUN_FORKED, Kind.RUN_REWOUND)),
    ),
    "unended": Phrase(
        "past", "Attempt {n} began, and no end of it is recorded.", "attempt {n} has no recorded end", ATTEMPT
    ),
    "crashed": Phrase(
        "past",
        "Attempt {n} crashed {quote}.",
        "attempt {n} crashed {quote}",
        _of(Kind.ATTEMPT_CRASHED),
    ),
    "terminated": _end(
        "was stopped by SIGTERM, as a deploy or a shutdown sends it", "stopped by SIGTERM", "interrupted"
    ),
    "interrupted": _end("was interrupted[ by {name}]", "interrupted[ by {name}]", "interrupted"),
    "failed": _end("failed[ with {name}][: {quote}]", "failed[ with {name}][: {quote}]", "failed"),
    "parked": _end("was paused[: {quote}]", "paused[: {quote}]", "parked"),
    "stopped": _end("stopped at an effect in doubt", "stopped in doubt", "in_doubt"),
    "diverged": _end(
        "stopped because the program asked for something else than what is recorded[: {quote}]",
        "diverged[: {quote}]",
        "diverged",
    ),
    "closed": _end("was closed by its program before the run was finished", "closed unfinished", "closed"),
    "ended": _end("ended with the run finished", "finished", "finished"),
    "ended so": Phrase(
        "past",
        "Attempt {n} ended as {quote}.",
        "attempt {n} ended as {quote}",
        _of(Kind.ATTEMPT_ENDED, Kind.ATTEMPT_STARTED, Kind.COMPACTED),
        (_of(Kind.ATTEMPT_ENDED),),
    ),
    "left behind": Phrase(
        "past",
        "Attempt {n} belongs to the history that this one branched off from.",
        "attempt {n} left behind",
        ATTEMPT,
    ),
    "forked": Phrase(
        "past",
        "This run is a fork: it shares the history of run {quote} up to {seq}.",
        "fork of {quote} at {seq}",
        _of(Kind.RUN_FORKED),
    ),
    "rewound": Phrase(
        "past",
        "This run was moved back: what was done after {seq} does not count here any more"
        "[; run {quote} keeps it].",
        "rewound to {seq}[, {quote} keeps the rest]",
        _of(Kind.RUN_REWOUND),
    ),
    "reopened": Phrase(
        "past", "The run was finished, and was opened again.", "reopened", _of(Kind.RUN_REOPENED)
    ),
    "compacted": Phrase(
        "past",
        "Of the {n} events before only what they came to is kept.",
        "{n} events compacted",
        _of(Kind.COMPACTED),
    ),
    # -- the goal --------------------------------------------------------------------------------------------
    "goal": Phrase("goal", "{quote}", "{quote}", _of(Kind.RUN_STARTED, Kind.COMPACTED)),
    "inputs": Phrase("goal", "Inputs: {value}", "inputs {value}", _of(Kind.RUN_STARTED, Kind.COMPACTED)),
    # -- what another run has handed over --------------------------------------------------------------------
    "giver": Phrase(
        "handed",
        "The work was begun by run {quote1}, which handed it over at its event {seq}[ to {quote2}].",
        "by {quote1} at {seq}[ to {quote2}]",
        MARKED,
    ),
    "handed": Phrase("handed", "{name}: {quote}", "{name}: {quote}", MARKED),
    "recalled": Phrase(
        "recalled",
        "{quote1}, known for {span}[, from run {quote2}]",
        "{quote1} known for {span}[ from {quote2}]",
        MARKED,
    ),
    "lost": Phrase(
        "lost",
        "{name} {quote1}: {quote2}; what to do: {quote3}",
        "{name} {quote1}: {quote2}; do {quote3}",
        MARKED,
    ),
    # -- promises --------------------------------------------------------------------------------------------
    "promised": _promise(
        "You have promised[ {quote1}]: {quote2}[, until {when}]; it is open",
        "to[ {quote1}] {quote2}[ until {when}], open",
    ),
    "promise kept": _promise(
        "You have promised[ {quote1}]: {quote2}; it was kept[: {quote3}]",
        "to[ {quote1}] {quote2}, kept[: {quote3}]",
    ),
    "promise broken": _promise(
        "You have promised[ {quote1}]: {quote2}; it was broken[: {quote3}]",
        "to[ {quote1}] {quote2}, broken[: {quote3}]",
    ),
    "was promised": _promise(
        "Run[ {quote1}] has promised you: {quote2}[, until {when}]; it is open",
        "by[ {quote1}] {quote2}[ until {when}], open",
    ),
    "was kept": _promise(
        "Run[ {quote1}] has promised you: {quote2}; it was kept[: {quote3}]",
        "by[ {quote1}] {quote2}, kept[: {quote3}]",
    ),
    "was broken": _promise(
        "Run[ {quote1}] has promised you: {quote2}; it was broken[: {quote3}]",
        "by[ {quote1}] {quote2}, broken[: {quote3}]",
    ),
    "told": Phrase("told", "To {quote1}: {quote2}", "to {quote1}: {quote2}", MARKED),
    "said": Phrase("told", "Said: {quote}", "{quote}", MARKED),
    "decided": Phrase("decided", "{quote1}[, because {quote2}]", "{quote1}[ because {quote2}]", MARKED),
    "found": Phrase("found", "{quote}", "{quote}", MARKED),
    # -- steps -----------------------------------------------------------------------------------------------
    "error": Phrase(
        "failed",
        "{call} failed[ {times} times, at last] with {name}[: {quote}]",
        "{call}[ {times} times] {name}[: {quote}]",
        BAD,
    ),
    "done": Phrase("done", "{call} returned {value}", "{call} = {value}", GOOD),
    "once": Phrase(
        "done",
        "{call} returned {value}; this is done and must not be repeated",
        "{call} = {value}, once",
        GOOD,
    ),
    "done empty": Phrase("done", "{call} is done", "{call} done", GOOD),
    "once empty": Phrase("done", "{call} is done, and must not be repeated", "{call} done, once", GOOD),
    "overridden": Phrase(
        "done",
        "{call} was given the result {value} by a person",
        "{call} = {value}, overridden",
        _of(Kind.STEP_OVERRIDDEN),
    ),
    "answer": Phrase(
        "done",
        "{name}[ with model {quote1}] answered {quote2}[ and called {calls}]",
        "{name} answered {quote2}[ and called {calls}]",
        GOOD,
    ),
    "answer calls": Phrase(
        "done", "{name}[ with model {quote1}] called {calls}", "{name} called {calls}", GOOD
    ),
    "unshown": Phrase(
        "done",
        "{call} is done; its result of {n} bytes is too long to be shown",
        "{call} = {n} bytes",
        GOOD,
    ),
    "pruned": Phrase("done", "{call} is done; its result is not kept any more", "{call} done, pruned", GOOD),
    # -- conversation and thoughts ---------------------------------------------------------------------------
    "message": Phrase(
        "said", "[{name}: ]{quote}[ and called {calls}]", "[{name}: ]{quote}[ called {calls}]", MARKED
    ),
    "message parts": Phrase("said", "[{name}: ]{value}", "[{name}: ]{value}", MARKED),
    "message calls": Phrase("said", "[{name} ]called {calls}", "[{name} ]called {calls}", MARKED),
    "thought": Phrase("thought", "{quote}", "{quote}", MARKED),
    "reasoning": Phrase("thought", "{name} reasoned {quote}", "{name} {quote}", GOOD),
    "reasoning so far": Phrase(
        "thought",
        "{name} reasoned {quote} and was not at its end",
        "{name} {quote} unfinished",
        _of(Kind.STREAM_CHUNK),
    ),
    # -- the plan --------------------------------------------------------------------------------------------
    "item done": _item("done", "done", GOOD),
    "item under way": _item("under way", "under way", BEGUN),
    "item worked on": _item("worked on last; what was begun of it is done", "worked on last", GOOD),
    "item failed": _item("failed", "failed", BAD),
    "item in doubt": _item("in doubt", "in doubt", BEGUN | {Kind.STEP_DOUBTED}),
    "item not begun": _item("not begun", "not begun"),
    "item passed": _item(
        "nothing is recorded under this name, and later items were begun", "unknown", BEGUN | GOOD
    ),
    "item unnamed": _item("nothing is recorded under this name", "unknown", _of(Kind.RUN_FINISHED)),
    # -- the present -----------------------------------------------------------------------------------------
    "broken": Phrase(
        "changed",
        "{quote1}, which this run relies on, is {name}[: {quote2}]",
        "{quote1} {name}[: {quote2}]",
        _of(Kind.PREMISE_BROKEN),
    ),
    "circle": Phrase(
        "warned",
        "You are in a loop: {quote}",
        "circle {quote}",
        _of(Kind.LOOP_NOTICED),
    ),
    "budget": Phrase("warned", "A budget runs out: {quote}", "budget {quote}", _of(Kind.BUDGET_WARNED)),
    "cancelled": Phrase(
        "warned",
        "This run was cancelled[ by {quote1}][: {quote2}]",
        "cancelled[ by {quote1}][: {quote2}]",
        _of(Kind.RUN_CANCELLED),
    ),
    "asked": Phrase("asked", "{quote}[, about {value}]", "{quote}[ about {value}]", ASKED),
    "answered": Phrase(
        "answered",
        "{quote1} was answered {value}[ by {quote2}][, because {quote3}]",
        "{quote1} = {value}[ by {quote2}][ because {quote3}]",
        _of(Kind.QUESTION_ASKED, Kind.QUESTION_ANSWERED),
        (_of(Kind.QUESTION_ANSWERED),),
    ),
    "expired": Phrase(
        "answered",
        "{quote} was not answered in time",
        "{quote} expired",
        _of(Kind.QUESTION_ASKED, Kind.QUESTION_ANSWERED),
        (_of(Kind.QUESTION_ANSWERED),),
        (("how", "expired"),),
    ),
    "waits": Phrase(
        "waits",
        "{name} waits[ for {quote1}][ since {when1}][ until {when2}][, because {quote2}]",
        "{name}[ for {quote1}][ since {when1}][ until {when2}][ because {quote2}]",
        _of(Kind.WAIT_STARTED, Kind.COMPACTED),
    ),
    "child doubted": Phrase(
        "doubt",
        "In child {child}: {call} was begun at {when}, and it is not known whether it happened[ ({quote})]. "
        "Do not repeat it.",
        "child {child}: {call} begun {when}, unknown whether it happened[ ({quote})], do not repeat",
        ANY,
    ),
    "doubted": Phrase(
        "doubt",
        "{call} was begun at {when}, and it is not known whether it happened[ ({quote})]. Do not repeat it.",
        "{call} begun {when}, unknown whether it happened[ ({quote})], do not repeat",
        BEGUN | {Kind.STEP_DOUBTED},
        (BEGUN,),
    ),
    # -- children --------------------------------------------------------------------------------------------
    "child finished": _child(
        "is finished after {steps}[; its result is {value}]", "finished, {steps}[ = {value}]"
    ),
    "child cancelled": _child("was cancelled after {steps}[: {quote}]", "cancelled, {steps}[: {quote}]"),
    "child queued": _child("has not begun", "not begun"),
    "child asks": _child("waits for an answer to {quote}, after {steps}", "asks {quote}, {steps}"),
    "child waits": _child(
        "waits[ for {quote1}][ until {when}][, because {quote2}], after {steps}",
        "waits[ for {quote1}][ until {when}][ because {quote2}], {steps}",
    ),
    "child running": _child("is under way, after {steps}", "under way, {steps}"),
    "child failed": _child(
        "failed after {steps}[ with {name}][: {quote}]", "failed, {steps}[, {name}][: {quote}]"
    ),
    "child paused": _child("was paused after {steps}[: {quote}]", "paused, {steps}[: {quote}]"),
    "child unfinished": _child("is not finished, after {steps}", "unfinished, {steps}"),
    "child unread": _child("exists, and its journal cannot be read", "unreadable"),
    "finished": Phrase(
        "next", "The run is finished[; its result is {value}].", "finished[ {value}]", _of(Kind.RUN_FINISHED)
    ),
    "cut off": Phrase(
        "next",
        "{call} was begun and cut off; it will run again.",
        "{call} was cut off and runs again",
        BEGUN,
    ),
    "running": Phrase("next", "{call} is under way.", "{call} under way", BEGUN),
    "answer so far": Phrase(
        "next",
        "The answer of {name} is under way; so far it says {quote}",
        "{name} says so far {quote}",
        _of(Kind.STREAM_CHUNK),
    ),
    "unfinished answer": Phrase(
        "next",
        "The answer of {name} was cut off; so far it says {quote}",
        "{name} was cut off at {quote}",
        _of(Kind.STREAM_CHUNK),
    ),
    "item first": Phrase(
        "next", "Of the plan nothing was begun; {quote} comes first.", "first of the plan {quote}", PLANNED
    ),
    "item next": Phrase(
        "next",
        "Of the plan {quote1} was worked on last[; {quote2} comes after it].",
        "after {quote1}[ comes {quote2}]",
        PLANNED | BEGUN | GOOD | BAD,
        (PLANNED,),
    ),
    "after": Phrase("next", "The last step that ended was {call}.", "after {call}", GOOD | BAD),
}


_SLOT: Final = re.compile(r"\{([a-z]+)(\d?)\}")
_OPTIONAL: Final = re.compile(r"\[([^\[\]]*)\]")


def sentence(name: str, style: Style, facts: dict[str, str]) -> str:
    """The phrase with its facts filled in, and without the brackets whose facts are missing."""
    text = text_of(PHRASES[name], style)

    def optional(found: re.Match[str]) -> str:
        needed = [slot[1] + slot[2] for slot in _SLOT.finditer(found[1])]
        return found[1] if all(slot in facts for slot in needed) else ""

    return _SLOT.sub(lambda slot: facts[slot[1] + slot[2]], _OPTIONAL.sub(optional, text))


def text_of(phrase: Phrase, style: Style) -> str:
    """The phrase's text in a style."""
    return phrase.facts if style == "facts" else phrase.summary


def pieces_of(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a phrase's text, and whether each may be left out."""
    at = 0
    for found in _OPTIONAL.finditer(text):
        yield text[at : found.start()], False
        yield found[1], True
        at = found.end()
    yield text[at:], False
