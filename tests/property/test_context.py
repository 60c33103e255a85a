"""Laws of contexts over random histories: everything in them is true, they fit, and the same journal gives the same bytes."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.context_check import verify
from tests.support.examples import examples
from tests.unit.journals import Journal, completion

from holdfast.core.context.context import context_of
from holdfast.errors import Misuse
from holdfast.model.context import Context, Style
from holdfast.model.events import Kind

relaxed = settings(max_examples=examples(300), deadline=None)

tricky = st.sampled_from(
    [
        "#12",
        "x (#3)",
        "a\n## Next\n- pay (#1)",
        '"quoted" \\',
        "ends with …",
        "…",
        "<think>a</think>b",
        '{"a": [1, "x"]}',
        "\u202eback\u200b",
        "word " * 200,
        "5 min 2 s",
        " = 1, once",
    ]
)
texts = st.text(max_size=40) | tricky
names = st.sampled_from(["survey", "compare", "pay"]) | (
    texts.filter(lambda t: t.isprintable()).map(str.strip).filter(bool)
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    leaves | st.just("long " * 5_000),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts.filter(lambda key: key != "$"), inner, max_size=4)
        | inner.map(lambda v: {"$": "tuple", "v": [v]})
        | inner.map(lambda v: {"$": "dict", "v": [[{"$": "tuple", "v": [1, "k"]}, v]]})
    ),
    max_leaves=8,
)
arguments = st.dictionaries(names, leaves, max_size=3)
calls = st.lists(st.tuples(names, arguments), max_size=4)
ENDS = ["interrupted", "failed", "parked", "in_doubt", "diverged", "closed"]
OPERATIONS = [
    *(
        "step",
        "step",
        "step",
        "fail",
        "once",
        "begin",
        "doubt",
        "inner",
        "override",
        "settle",
        "answer",
        "model",
    ),
    *(
        "plan",
        "decide",
        "find",
        "say",
        "think",
        "messages",
        "drop",
        "ask",
        "reply",
        "wait",
        "premise",
        "circle",
    ),
    *("crash", "end", "rewind", "hollow", "context", "chunk"),
]


class Writer:
    """Writes a random history; every operation leaves a journal that the engine could have written."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.journal = Journal().start(draw(st.none() | texts), draw(values))
        self.open: list[tuple[str, str]] = []
        self.streams: dict[str, int] = {}
        self.messages = 0
        self.questions = 0

    def do(self, what: str) -> None:
        getattr(self, f"_{what}")()

    def _step(self) -> None:
        self.journal.step(self.draw(names), self.draw(values), self.draw(arguments))

    def _inner(self) -> None:
        scope = self.open[-1][1] if self.open else ""
        self.journal.step(self.draw(names), self.draw(leaves), scope=scope)

    def _fail(self) -> None:
        name, given = self.draw(names), self.draw(arguments)
        key = self.journal.fail(name, "OSError", self.draw(texts), given)
        if self.draw(st.booleans()):
            self.journal.fail(name, "ValueError", self.draw(texts), given, key)

    def _once(self) -> None:
        self.journal.step(self.draw(names), self.draw(values), self.draw(arguments), effect="once")

    def _begin(self) -> None:
        name, effect = self.draw(names), self.draw(st.sampled_from(["read", "once", "idempotent"]))
        self.open.append((name, self.journal.begin(name, self.draw(arguments), effect=effect)))

    def _doubt(self) -> None:
        if self.open:
            self.journal.add(Kind.STEP_DOUBTED, *self.open[-1], reason=self.draw(texts))

    def _settle(self) -> None:
        if self.open:
            name, key = self.open.pop()
            how = self.draw(st.sampled_from(["done", "retry", "failed"]))
            body: dict[str, Any] = {"how": how, "via": "person", "by": self.draw(texts)}
            body |= {"value": self.draw(values)} if how == "done" else {}
            body |= {"error": {"type": "m:Odd.Error", "message": self.draw(texts)}} if how == "failed" else {}
            self.journal.add(Kind.STEP_SETTLED, name, key, **body)

    def _override(self) -> None:
        name = self.draw(names)
        key = self.journal.step(name, 1)
        self.journal.add(Kind.STEP_OVERRIDDEN, name, key, value=self.draw(values))

    def _answer(self) -> None:
        said = self.draw(st.none() | texts)
        self.journal.answer(
            completion(said, calls=self.draw(calls), reasoning=self.draw(texts)),
            self.draw(names),
            self.draw(texts),
        )

    def _model(self) -> None:
        key = self.journal.ask_model(self.draw(names), self.draw(texts))
        self.streams[key] = 1

    def _chunk(self) -> None:
        for key in list(self.streams)[-1:]:
            more: dict[str, Any] = {}
            if self.draw(st.booleans()):
                self.streams[key] += 1
                more = {"continues": "prefill"} if self.draw(st.booleans()) else {}
            said = {"text": self.draw(texts), "reasoning": self.draw(texts)}
            self.journal.chunk(key, 0, self.streams[key], self.draw(names), **said, **more)

    def _plan(self) -> None:
        self.journal.mark("plan", {"steps": self.draw(st.lists(names, max_size=4))})

    def _decide(self) -> None:
        self.journal.mark("decision", {"text": self.draw(texts), "because": self.draw(texts)})

    def _find(self) -> None:
        self.journal.mark("discovery", {"text": self.draw(texts)})

    def _say(self) -> None:
        self.journal.mark("said", {"text": self.draw(texts), "to": self.draw(texts)})

    def _think(self) -> None:
        self.journal.mark("thought", {"text": self.draw(texts)})

    def _messages(self) -> None:
        content = self.draw(texts | st.lists(texts.map(lambda t: {"type": "text", "text": t}), max_size=2))
        self.journal.mark("messages", [{"role": self.draw(names), "content": content}] * 2)
        self.messages += 2

    def _drop(self) -> None:
        count = self.draw(st.integers(0, self.messages))
        self.journal.mark("messages dropped", {"first": count})
        self.messages -= count

    def _ask(self) -> None:
        self.questions += 1
        asked = {"wants": {"kind": "text"}, "about_sha256": "ab", "in": "", "after": ""}
        body = {**asked, "question": self.draw(texts), "about": self.draw(values)}
        self.journal.add(Kind.QUESTION_ASKED, f"q{self.questions}", f"q{self.questions}.1", **body)

    def _reply(self) -> None:
        if self.questions:
            body = {
                "how": "answered",
                "value": self.draw(values),
                "by": self.draw(texts),
                "reason": self.draw(texts),
            }
            self.journal.add(Kind.QUESTION_ANSWERED, f"q{self.questions}", f"q{self.questions}.1", **body)

    def _wait(self) -> None:
        body = {"for": "time", "what": self.draw(texts), "why": self.draw(texts), "since": 1e9, "until": 2e9}
        self.journal.add(Kind.WAIT_STARTED, self.draw(names), f"w.{len(self.journal.events)}", **body)

    def _premise(self) -> None:
        verdict = self.draw(st.sampled_from(["changed", "missing", "unknown"]))
        body = {"kind": "file", "name": "x", "act": "warn", "noted_seq": 1, "noted": None, "found": None}
        event = {**body, "verdict": verdict, "text": self.draw(texts)}
        self.journal.add(Kind.PREMISE_BROKEN, self.draw(names), "", **event)

    def _circle(self) -> None:
        self.journal.add(Kind.LOOP_NOTICED, level="nudge", what=self.draw(texts), text="x")

    def _crash(self) -> None:
        self.journal.crash(after_s=self.draw(st.floats(0.001, 1e6))).attempt()

    def _end(self) -> None:
        self.journal.end(self.draw(st.sampled_from(ENDS)), "OSError", self.draw(texts)).attempt()

    def _rewind(self) -> None:
        marks = [e.seq for e in self.journal.events if e.kind == Kind.ATTEMPT_STARTED]
        to_seq = self.draw(st.sampled_from(marks))
        self.journal.add(
            Kind.RUN_REWOUND, to_seq=to_seq, kept=self.draw(names), attempts=self.journal.attempts
        )
        self.journal.attempt()
        self.open, self.streams, self.messages, self.questions = [], {}, 0, 0

    def _hollow(self) -> None:
        key = self.journal.begin("hollow")
        self.journal.add(Kind.STEP_FINISHED, "hollow", key, ms=1.0, pruned="refetchable")

    def _context(self) -> None:
        self.journal.mark("context", "what was told")


@st.composite
def journals(draw: st.DrawFn) -> Journal:
    """Random histories of up to 25 operations."""
    writer = Writer(draw)
    for what in draw(st.lists(st.sampled_from(OPERATIONS), max_size=25)):
        writer.do(what)
    if draw(st.booleans()):
        writer.journal.add(Kind.RUN_FINISHED, value=draw(values))
        writer.journal.end("finished")
    return writer.journal


styles = st.sampled_from(["summary", "full", "facts"])


def told(journal: Journal, style: Style, budget: int, *, is_held: bool) -> Context | None:
    try:
        return context_of(journal.events, journal.look, budget_tokens=budget, style=style, is_held=is_held)
    except Misuse:
        return None


@relaxed
@given(journals(), styles, st.integers(150, 4_000), st.booleans())
def test_nothing_is_invented(journal: Journal, style: Style, budget: int, is_held: bool) -> None:
    """Whatever was recorded, every line is borne out by the events that it cites; and the budget holds.

    Planted: a decision without its reason cited from the event after it; a status of the plan off by one; the number of
    failures one too high; a span from the crash's record instead of the last event.
    """
    context = told(journal, style, budget, is_held=is_held)
    if context is not None:
        assert verify(context, journal.events, journal.whole) == []
        assert context.tokens <= budget


@relaxed
@given(journals(), styles, st.integers(150, 4_000))
def test_recorded_text_stays_in_its_quotes(journal: Journal, style: Style, budget: int) -> None:
    """Each line is one line, and only lines of ours are headings; nothing hidden gets through."""
    context = told(journal, style, budget, is_held=True)
    if context is not None:
        lines = context.text.splitlines()
        headings = len({line.section for line in context.lines}) + bool(context.left)
        expected = 1 + len(context.lines) + bool(context.left) + (0 if style == "facts" else 2 * headings)
        assert len(lines) == expected
        assert sum(line.startswith("## ") for line in lines) == (0 if style == "facts" else headings)
        assert all(line.isprintable() for line in lines)


@relaxed
@given(journals(), styles, st.integers(150, 1_000), st.integers(0, 1_000))
def test_more_room_shows_more(journal: Journal, style: Style, budget: int, more: int) -> None:
    """What a budget has room for, a larger one has too."""
    small = told(journal, style, budget, is_held=True)
    large = told(journal, style, budget + more, is_held=True)
    if small is not None:
        assert large is not None
        assert {line[1:3] for line in small.lines} <= {line[1:3] for line in large.lines}


@relaxed
@given(journals(), styles)
def test_the_same_journal_gives_the_same_bytes(journal: Journal, style: Style) -> None:
    """Also when what a program was told of it is recorded in between."""
    before = told(journal, style, 2_000, is_held=True)
    if any(event.kind == Kind.RUN_FINISHED for event in journal.events):
        return
    journal.mark("context", "" if before is None else before.text)
    after = told(journal, style, 2_000, is_held=True)
    assert (before and before.text) == (after and after.text)
