"""Checks a context: every line is a known sentence, and its cited events contain every fact in it.

It parses sentences by ``core.context.sentences`` and looks facts up in the journal; it shares nothing else
with their writer. A text counts as quoted if it is a recorded one, on one line, or the start of one followed
by an ellipsis. A number must be recorded; a count must be that of the cited events; a time must lie between
two of them, or after a recorded time.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import combinations
from typing import Any, Final, NamedTuple

from orjson import JSONDecodeError, dumps, loads

from holdfast.core.context.context import PREAMBLE, left_line, rendered
from holdfast.core.context.sentences import PHRASES, SECTIONS, Phrase, pieces_of, text_of
from holdfast.core.llm.reasoning import split_thinking
from holdfast.core.llm.streams import fold_partial
from holdfast.core.text.times import YEAR_10000, moment, span
from holdfast.core.text.value_text import ELLIPSIS
from holdfast.model.context import Context, Line, Style
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind

Whole = Callable[[str], bytes]
"""The content at an address."""

# Each of these matches a text in one way only: otherwise a wrong sentence would take exponential time.
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_NAME: Final = rf"(?:[A-Za-z_][A-Za-z0-9_.-]*|{_STRING})"
_NUMBER: Final = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_VALUE: Final = rf"(?:{_STRING}|(?>{_NUMBER})|true|false|null|[…\[\]{{}}:, ])+"
_CALL: Final = rf'{_NAME}\((?:{_STRING}|[^"()])*\)'
_SORTS: Final = {
    "quote": _STRING,
    "value": _VALUE,
    "name": _NAME,
    "call": _CALL,
    "child": _NAME,
    "steps": r"\d[\d,]* steps?",
    "calls": rf"(?:{_CALL}|…|, )+",
    "n": r"\d[\d,]*",
    "times": r"\d[\d,]*",
    "span": r"[\d.]+ (?:µs|ms|s|min|h|d)(?: \d+ (?:s|min|h))?",
    "when": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC",
    "seq": r"#\d+",
}
_SLOT: Final = re.compile(r"\{([a-z]+)(\d?)\}")
_TOKENS: Final = re.compile(rf"{_STRING}|{_NUMBER}|[A-Za-z_][A-Za-z0-9_.-]*")
_BARE: Final = frozenset({"true", "false", "null"})
_STEP_ENDS: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_FAILED, Kind.STEP_SETTLED, Kind.STEP_OVERRIDDEN})


class Problem(NamedTuple):
    """A line of a context, and what is wrong with it."""

    line: str
    problem: str


def verify(
    context: Context,
    events: Sequence[Event],
    read: Whole,
    children: Mapping[str, Sequence[Event]] | None = None,
) -> list[Problem]:
    """What these events, and those of its children by name, do not confirm in a context; empty if all is well."""
    kin = {name: _Child(own, read) for name, own in (children or {}).items()}
    known = {event.seq: event for event in events}
    intents: dict[str, Event] = {}
    contents: dict[int, _Content] = {}
    for event in events:
        if event.kind == Kind.STEP_STARTED:
            intents[event.key] = event
        contents[event.seq] = _Content(event, intents.get(event.key), read)
    problems = [
        Problem(line.text, problem)
        for line in context.lines
        for problem in _judge(context.style, line, known, contents, kin)
    ]
    return problems + [Problem("(the text)", problem) for problem in _judge_text(context, known)]


def _judge_text(context: Context, known: dict[int, Event]) -> Iterator[str]:
    """The text has the lines, in order, and what was left out, and nothing else."""
    style = context.style
    said = [line for line in context.text.split("\n") if line and not line.startswith("## ")]
    wanted = [PREAMBLE["facts" if style == "facts" else "summary"]]
    wanted += [rendered(style, line.section, line.text, line.refs) for line in context.lines]
    if context.left:
        wanted.append(left_line(style, context.left))
    if said != wanted:
        yield "it does not say the lines, and nothing else"
    headings = [line.removeprefix("## ") for line in context.text.split("\n") if line.startswith("## ")]
    titles = [SECTIONS[section][0] for section in dict.fromkeys(line.section for line in context.lines)]
    titles += [SECTIONS["left"][0]] if context.left else []
    if headings != ([] if style == "facts" else titles):
        yield "its headings are not those of its lines"
    for left in context.left:
        if missing := [seq for seq in left.refs if seq not in known]:
            yield f"events #{missing} were left out, and are not there"


def _judge(
    style: Style,
    line: Line,
    known: dict[int, Event],
    contents: dict[int, "_Content"],
    kin: Mapping[str, "_Child"],
) -> Iterator[str]:
    if not line.refs:
        yield "cites nothing"
    missing = [seq for seq in line.refs if seq not in known]
    if missing:
        yield f"cites {missing}, which are not there"
        return
    cited = [known[seq] for seq in line.refs]
    own = [contents[seq] for seq in line.refs]
    found: list[str] = []
    for phrase in [phrase for phrase in PHRASES.values() if phrase.section == line.section]:
        for facts in _readings(phrase, style, line.text):
            wrong = [*_misplaced(phrase, cited, own), *_untold(facts, cited, own, kin)]
            if not wrong:
                return
            found = found or wrong
    yield from found or ["is no sentence of its section"]


def _misplaced(phrase: Phrase, cited: Sequence[Event], own: Sequence["_Content"]) -> Iterator[str]:
    """Whether the events have the kinds that the sentence may come from, and the fields that it needs."""
    for event in cited:
        if event.kind not in phrase.kinds:
            yield f"cites #{event.seq}, which is {event.kind}"
    for kinds in phrase.needs:
        if not any(event.kind in kinds for event in cited):
            yield f"cites nothing of {', '.join(sorted(kinds))}"
    for field, value in phrase.tells:
        if not any(content.body.get(field) == value for content in own):
            yield f"cites nothing that says {field} = {value!r}"


# -- parse a sentence ----------------------------------------------------------------------------------------


@cache
def _pattern(text: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """A phrase's text as a pattern, and the sorts of its facts."""
    sorts: list[str] = []
    pattern = ""
    for piece, is_optional in pieces_of(text):
        inside, at = "", 0
        for slot in _SLOT.finditer(piece):
            inside += re.escape(piece[at : slot.start()]) + f"({_SORTS[slot[1]]})"
            sorts.append(slot[1])
            at = slot.end()
        inside += re.escape(piece[at:])
        pattern += f"(?:{inside})?" if is_optional else inside
    return re.compile(pattern), tuple(sorts)


def _readings(phrase: Phrase, style: Style, text: str) -> Iterator[list[tuple[str, str]]]:
    """The facts in a sentence, if it is made of this phrase."""
    pattern, sorts = _pattern(text_of(phrase, style))
    found = pattern.fullmatch(text)
    if found is not None:
        yield [(sort, fact) for sort, fact in zip(sorts, found.groups(), strict=True) if fact is not None]


# -- look facts up -------------------------------------------------------------------------------------------


def _untold(
    facts: list[tuple[str, str]],
    cited: Sequence[Event],
    own: Sequence["_Content"],
    kin: Mapping[str, "_Child"],
) -> Iterator[str]:
    """What is untrue in the cited events, or in the journal of the child that the sentence is about."""
    names = [fact for sort, fact in facts if sort == "child"]
    if not names:
        yield from _untrue(facts, cited, own)
        return
    child = kin.get(loads(names[0]) if names[0].startswith('"') else names[0])
    if child is None:
        yield f"{names[0]} is no child"
        return
    yield from (
        f"{fact} is not how many steps have ended"
        for sort, fact in facts
        if sort == "steps" and fact.split()[0] != f"{child.steps:,}"
    )
    rest = [(sort, fact) for sort, fact in facts if sort not in {"child", "steps"}]
    yield from _untrue(rest, child.events, child.contents)


def _untrue(
    facts: Iterable[tuple[str, str]], cited: Sequence[Event], own: Sequence["_Content"]
) -> Iterator[str]:
    for sort, fact in facts:
        if not _JUDGES[sort](fact, cited, own):
            yield f"{fact} does not stand in the events that it cites"


def _is_recorded(fact: str, cited: Sequence[Event], own: Sequence["_Content"]) -> bool:
    """Every text, name and number in the fact is recorded."""
    texts = frozenset().union(*(content.texts for content in own)) | _spoken(own)
    numbers = frozenset().union(*(content.numbers for content in own))
    return _are_recorded(fact, texts, numbers)


def _are_recorded(fact: str, texts: frozenset[str], numbers: frozenset[str]) -> bool:
    for token in _TOKENS.findall(fact):
        if token.startswith('"'):
            if not _is_text(loads(token), texts, numbers):
                return False
        elif token not in _BARE and token not in numbers and token not in texts:
            return False
    return True


def _spoken(own: Sequence["_Content"]) -> set[str]:
    """What the cited chunks of a stream say together, and their reasoning."""
    partial = fold_partial(content.body for content in own if content.is_piece)
    return {_one_line(partial.text), _one_line(partial.reasoning)} - {""}


def _is_text(text: str, texts: frozenset[str], numbers: frozenset[str]) -> bool:
    """A recorded text, or the start of one; or a key that was not a text, as JSON writes it."""
    if text in texts or text in numbers:
        return True
    if text.endswith(ELLIPSIS):
        begun = text.removesuffix(ELLIPSIS)
        return any(known.startswith(begun) for known in texts)
    return text[:1] in {"[", "{"} and _are_recorded(text, texts, numbers)


def _is_number(fact: str, cited: Sequence[Event], own: Sequence["_Content"]) -> bool:
    return any(fact.replace(",", "") in content.numbers for content in own)


def _is_count(fact: str, cited: Sequence[Event], own: Sequence["_Content"]) -> bool:
    return fact == f"{len(cited):,}"


def _is_between(fact: str, cited: Sequence[Event], own: Sequence["_Content"]) -> bool:
    """A time between two events, or since a time that one of them records."""
    if any(fact == span(b.at - a.at) for a, b in combinations(cited, 2)):
        return True
    moments = frozenset().union(*(content.moments for content in own))
    return any(
        fact == span(event.at - at) for event in cited for at in {*moments, event.at} if at <= event.at
    )


def _is_moment(fact: str, cited: Sequence[Event], own: Sequence["_Content"]) -> bool:
    moments = {moment(event.at) for event in cited} | {
        moment(at) for content in own for at in content.moments
    }
    return fact in moments


def _is_event(fact: str, cited: Sequence[Event], own: Sequence["_Content"]) -> bool:
    return any(fact[1:] in content.numbers for content in own)


_JUDGES: Final[dict[str, Callable[[str, Sequence[Event], Sequence["_Content"]], bool]]] = {
    "quote": _is_recorded,
    "value": _is_recorded,
    "name": _is_recorded,
    "call": _is_recorded,
    "calls": _is_recorded,
    "n": _is_number,
    "times": _is_count,
    "span": _is_between,
    "when": _is_moment,
    "seq": _is_event,
}


class _Child:
    """The journal of a child."""

    def __init__(self, events: Sequence[Event], read: Whole) -> None:
        intents = {event.key: event for event in events if event.kind == Kind.STEP_STARTED}
        self.events = events
        self.contents = [_Content(event, intents.get(event.key), read) for event in events]
        self.steps = len({event.key for event in events if event.kind in _STEP_ENDS})


class _Content:
    """The content of an event: every text and number in it, and in the intent of its call."""

    def __init__(self, event: Event, intent: Event | None, read: Whole) -> None:
        self._events = [event] if intent is None or intent is event else [event, intent]
        self._read = read
        self.body: dict[str, Any] = contents_of(event.body)
        self.is_piece = event.kind == Kind.STREAM_CHUNK
        self._found: tuple[frozenset[str], frozenset[str], frozenset[float]] | None = None

    @property
    def texts(self) -> frozenset[str]:
        """Every recorded text, on one line; also the names of fields, steps and classes."""
        return self._look()[0]

    @property
    def numbers(self) -> frozenset[str]:
        """Every recorded number, as JSON writes it."""
        return self._look()[1]

    @property
    def moments(self) -> frozenset[float]:
        """Every recorded number that may be a time."""
        return self._look()[2]

    def _look(self) -> tuple[frozenset[str], frozenset[str], frozenset[float]]:
        if self._found is None:
            texts: set[str] = set()
            numbers: set[str] = set()
            moments: set[float] = set()
            for event in self._events:
                texts.add(event.name)
                body = contents_of(event.body)
                for leaf in _leaves(self._whole(body)):
                    if isinstance(leaf, str):
                        texts.update(_forms(leaf))
                    else:
                        numbers.add(dumps(leaf).decode())
                        moments |= {float(leaf)} if 0 <= leaf < YEAR_10000 else set()
            self._found = frozenset(texts), frozenset(numbers), frozenset(moments)
        return self._found

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body with the content of its blobs."""
        blobs = {name for name in body if name.endswith("_blob") and isinstance(body[name], str)}
        whole = {**body, **{name.removesuffix("_blob"): loads(self._read(body[name])) for name in blobs}}
        inside = []  # the contents that a compacted view refers to; copies of files are no JSON
        for address in body.get("blobs", ()) if "view" in whole else ():
            with suppress(JSONDecodeError):
                inside.append(loads(self._read(address)))
        return {**whole, "": inside}


def _leaves(tree: Any) -> Iterator[Any]:
    """Every text and number in a tree; also in JSON texts inside it, such as arguments of tools."""
    if isinstance(tree, dict):
        for name, part in tree.items():
            yield name
            yield from _leaves(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _leaves(part)
    elif isinstance(tree, str):
        yield tree
        if tree[:1] in {"{", "["}:
            for line in tree.split("\n"):  # a body inside a compacted view: each line is its own JSON
                with suppress(JSONDecodeError):
                    yield from _leaves(loads(line))
    elif isinstance(tree, (int, float)) and not isinstance(tree, bool):
        yield tree


def _forms(text: str) -> Iterator[str]:
    """The ways in which a recorded text may be told: as a line, without its reasoning, as the last part of a path."""
    yield _one_line(text)
    answer, reasoning = split_thinking(text)
    if reasoning:
        yield _one_line(answer)
        yield _one_line(reasoning)
    yield text.rpartition(":")[2].rpartition(".")[2]


def _one_line(text: str) -> str:
    return " ".join(text.split())
