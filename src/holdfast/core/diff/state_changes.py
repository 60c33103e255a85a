"""Describes the changes of a state for people: messages as messages, typed values whole, long texts by words.

It reads only what changed and what directly encloses it. The invariant: every change is described exactly
once, alone or together with the other changes of the same message or value.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, Literal

from holdfast.core.diff.state_diff import Found, Path
from holdfast.core.diff.state_lookup import ABSENT, Peek
from holdfast.core.diff.text_diff import Piece, is_rewritten, with_context, word_count, word_diff
from holdfast.core.llm.message_shapes import message_line, role_of
from holdfast.core.state.nodes import Nodes
from holdfast.core.text.value_text import CHARS_MAX, one_line, readable
from holdfast.model.named_tuple import NamedTuple

_LONG_TEXT_WORDS: Final = 6
"""A changed text of at least this many words is shown word by word."""
_LISTED_MAX: Final = 3
"""More removed messages in a row than this are described by their numbers."""
_OPEN_TAGS: Final = frozenset(
    {"dataclass", "namedtuple", "model", "custom", "tuple", "set", "frozenset", "deque"}
)
_PAIR_TAGS: Final = frozenset({"dict", "ordered-dict", "counter", "defaultdict"})
"""Types with these tags are described part by part; a value of any other type is shown whole."""

_UNORDERED_TAGS: Final = frozenset({"set", "frozenset"})

Kind = Literal["added", "removed", "changed"]


class Text(NamedTuple):
    """A text that changed: its word counts before and after, and the changed pieces with some context.

    ``rewritten``: hardly a word stayed, so the pieces are empty.
    """

    words_before: int
    words_after: int
    rewritten: bool
    pieces: tuple[Piece, ...]


class StateChange(NamedTuple):
    """One change for people. ``line`` is all of it on one line, without the path.

    ``messages`` are several that were removed together, counted by ``times``. ``text`` is set for a long
    text.
    """

    path: str
    kind: Kind
    what: Literal["value", "message", "messages"]
    line: str
    before: str = ""
    after: str = ""
    text: Text | None = None
    times: int = 1


class _Place(NamedTuple):
    """What a change belongs to: a message, a value that is shown whole, or itself.

    Its path in both states.
    """

    what: Literal["value", "message"]
    path: Path
    old_path: Path


def tell_changes(found: Iterable[Found], a_root: Any, b_root: Any, nodes: Nodes) -> tuple[StateChange, ...]:
    """The changes between two states for people, messages first. Raises Corrupt."""
    return tuple(_Teller(Peek(a_root, nodes), Peek(b_root, nodes)).tell(found))


class _Teller:
    def __init__(self, a: Peek, b: Peek) -> None:
        self._a = a
        self._b = b

    def tell(self, found: Iterable[Found]) -> Iterator[StateChange]:
        values: dict[_Place, list[Found]] = {}
        messages: dict[Path, dict[_Place, list[Found]]] = {}
        for one in found:
            place = self._place(one)
            if place.what == "value":
                values.setdefault(place, []).append(one)
            else:
                messages.setdefault(place.path[:-1], {}).setdefault(place, []).append(one)
        for path, places in messages.items():
            yield from self._messages(path, places)
        for place, parts in values.items():
            yield self._value(place, parts)

    def _place(self, one: Found) -> _Place:
        """The outermost message or value around the change that is described as one."""
        (path, kind, before, after), old_path = one
        for depth in range(len(path)):  # what encloses a change exists on both sides
            around, around_old = path[:depth], old_path[:depth]
            if (
                depth
                and type(path[depth - 1]) is int
                and _role(self._b, around)
                and _role(self._a, around_old)
            ):
                return _Place("message", around, around_old)
            sides = self._a.small(around_old), self._b.small(around)
            if any(_is_shown_whole(side, path[depth:]) for side in sides):
                return _Place("value", around, around_old)
        is_message = kind != "changed" and role_of(before if kind == "removed" else after) is not None
        is_element = bool(path) and type(path[-1]) is int
        return _Place("message" if is_message and is_element else "value", path, old_path)

    # -- values ----------------------------------------------------------------------------------------------

    def _value(self, place: _Place, parts: list[Found]) -> StateChange:
        change = parts[0].change
        shown = self._shown(place, change.kind)
        if (change.path, parts[0].old_path) == place[1:]:
            kind, before, after = change.kind, change.before, change.after
            if self._is_pair(place, kind):
                before, after = (side[1] if side is not None else None for side in (before, after))
        else:
            kind, before, after = "changed", self._a.at(place.old_path), self._b.at(place.path)
        return _value_change(shown, kind, before, after)

    def _is_pair(self, place: _Place, kind: Kind) -> bool:
        """Whether the change is a key with its value, in a mapping with keys that are not strings."""
        peek, path = (self._a, place.old_path) if kind == "removed" else (self._b, place.path)
        return len(path) > 1 and _tag(peek.small(path[:-2])) in _PAIR_TAGS

    def _shown(self, place: _Place, kind: Kind) -> str:
        """The path as people write it, without the parts of the type tags."""
        peek, path = (self._a, place.old_path) if kind == "removed" else (self._b, place.path)
        shown = ""
        depth = 0
        while depth < len(path):
            tag = _tag(peek.small(path[:depth]))
            if tag in _PAIR_TAGS and len(path) > depth + 1:
                key = peek.at((*path[: depth + 2], 0))
                shown += f"[{readable(key, 40)}]" if key is not ABSENT else f"[{path[depth + 1]}]"
                depth += 3
            elif tag is not None and path[depth] == "v":
                depth += 2 if tag in _UNORDERED_TAGS else 1
            else:
                shown += _step(path[depth])
                depth += 1
        return shown.removeprefix(".") or "state"

    # -- messages --------------------------------------------------------------------------------------------

    def _messages(self, path: Path, places: dict[_Place, list[Found]]) -> Iterator[StateChange]:
        """The changes of one list of messages: first the removed, then the changed, then the added ones."""
        gone: dict[int, Any] = {}
        come: dict[int, Any] = {}
        kept: dict[_Place, list[Found]] = {}
        for place, parts in places.items():
            change = parts[0].change
            if change.path != place.path:
                kept[place] = parts
            elif change.kind == "removed":
                gone[_index(place.old_path)] = change.before
            else:
                come[_index(place.path)] = change.after
        lists = self._shown(_Place("value", path, path), "added") if path else "state"
        changed = []
        for place, parts in kept.items():
            before, after = self._a.at(place.old_path), self._b.at(place.path)
            if role_of(before) != role_of(after) or (gone and _is_another(before, after)):
                gone[_index(place.old_path)] = before
                come[_index(place.path)] = after
            else:
                changed.append(_changed_message(lists, _index(place.path), parts, before, after))
        yield from _gone(lists, gone)
        yield from changed
        yield from (_one(lists, index, "added", come[index]) for index in sorted(come))


def _changed_message(lists: str, index: int, parts: list[Found], before: Any, after: Any) -> StateChange:
    changes = [_value_change("", part.change.kind, part.change.before, part.change.after) for part in parts]
    texts = [change.text for change in changes if change.text is not None]
    text = texts[0] if len(parts) == 1 and texts else None
    how = f"changed: {text_line(text)}" if text else f"changed: {message_line(after)}"
    line = f"message {index + 1:,} ({role_of(after)}) {how}"
    return StateChange(
        f"{lists}[{index}]", "changed", "message", line, message_line(before), message_line(after), text
    )


def _gone(lists: str, gone: dict[int, Any]) -> Iterator[StateChange]:
    """Removed messages: neighbours together. Those at the front were dropped to save room."""
    for _, group in groupby(enumerate(sorted(gone)), lambda entry: entry[1] - entry[0]):
        indexes = [index for _, index in group]
        first, last = indexes[0], indexes[-1]
        how = "dropped from the front" if first == 0 else "removed"
        if len(indexes) > _LISTED_MAX or (first == 0 and len(indexes) > 1):
            line = f"messages {first + 1:,}–{last + 1:,} were {how}"  # noqa: RUF001 - a range is written so
            yield StateChange(lists, "removed", "messages", line, times=len(indexes))
        else:
            yield from (_one(lists, index, "removed", gone[index], how) for index in indexes)


def _one(lists: str, index: int, kind: Kind, message: Any, how: str = "") -> StateChange:
    text = message_line(message)
    line = f"message {index + 1:,} ({role_of(message)}) {how or kind}: {text}"
    before, after = ("", text) if kind == "added" else (text, "")
    return StateChange(f"{lists}[{index}]", kind, "message", line, before, after)


def _is_another(before: Any, after: Any) -> bool:
    """Whether this is another message at the same index, and not the same message edited."""
    return is_rewritten(word_diff(message_line(before), message_line(after)))


def _role(peek: Peek, path: Path) -> str | None:
    value = peek.small(path)
    if _tag(value) is not None:
        value = {"$": value["$"], "v": peek.small((*path, "v"))}
    return role_of(value)


# -- one value -----------------------------------------------------------------------------------------------


def _value_change(path: str, kind: Kind, before: Any, after: Any) -> StateChange:
    old = "" if kind == "added" else readable(before)
    new = "" if kind == "removed" else readable(after)
    text = _text(before, after) if kind == "changed" else None
    if text is not None:
        line = text_line(text)
    else:
        line = (
            f"{readable(before, CHARS_MAX // 2)} → {readable(after, CHARS_MAX // 2)}"
            if kind == "changed"
            else old or new
        )
    return StateChange(path, kind, "value", line, old, new, text)


def _text(before: Any, after: Any) -> Text | None:
    """The difference of two texts by words; None if one is no text, or both are short."""
    if type(before) is not str or type(after) is not str:
        return None
    words_before, words_after = word_count(before), word_count(after)
    if max(words_before, words_after) < _LONG_TEXT_WORDS and max(len(before), len(after)) < CHARS_MAX // 2:
        return None
    pieces = word_diff(before, after)
    rewritten = is_rewritten(pieces)
    return Text(words_before, words_after, rewritten, () if rewritten else with_context(pieces))


def text_line(text: Text) -> str:
    """How a text changed, on one line: the removed and added words, or that it was rewritten."""
    if text.rewritten:
        return f"rewritten, {text.words_before:,} → {text.words_after:,} words"
    return one_line("".join(map(marked, text.pieces)))


def marked(piece: Piece) -> str:
    """A piece as git writes it: ``[-gone-]`` and ``{+come+}``."""
    if piece.kind == "equal":
        return piece.text
    return f"[-{piece.text}-]" if piece.kind == "removed" else f"{{+{piece.text}+}}"


def _tag(value: Any) -> str | None:
    return str(value["$"]) if type(value) is dict and "$" in value else None


def _is_shown_whole(value: Any, inside: Path) -> bool:
    """Whether a change inside this value is shown as a change of the whole value."""
    tag = _tag(value)
    if tag is None:
        return False
    if tag in _PAIR_TAGS:  # another key, or a change that leaves half of a pair
        return inside[0] != "v" or len(inside) < 2 or (len(inside) > 2 and inside[2] == 0)
    return tag not in _OPEN_TAGS or inside[0] != "v"


def _step(part: str | int) -> str:
    if type(part) is int:
        return f"[{part}]"
    name = str(part)
    return (
        f".{name}"
        if name.isidentifier() or name.replace("-", "_").isidentifier()
        else f"[{readable(name, 60)}]"
    )


def _index(path: Path) -> int:
    index = path[-1]
    assert type(index) is int
    return index
