"""Changes as people tell them: messages, calls, typed values and texts, in trees as they are stored."""

# ruff: noqa: RUF001 - a range is written with such a dash

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest

from holdfast.codec.blobs import address_of
from holdfast.codec.values import encode_state
from holdfast.core.diff.state_changes import StateChange, tell_changes
from holdfast.core.diff.state_diff import find_changes
from holdfast.core.llm.message_shapes import call_text, message_line, role_of
from holdfast.core.state.nodes import Nodes, unpack_nodes
from holdfast.core.state.tree import StoredNodes


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Note:
    who: str
    text: str


@dataclass
class Message:
    role: str
    content: str


class Soil:
    """States planted and compared; counts the nodes that were read."""

    def __init__(self) -> None:
        self.nodes = StoredNodes(address_of)
        self.packs: dict[str, bytes] = {}
        self.fetched: list[str] = []

    def fetch(self, addresses: Sequence[str]) -> dict[str, list[bytes]]:
        self.fetched += addresses
        return {address: unpack_nodes(self.packs[address]) for address in addresses}

    def plant(self, state: Any) -> Any:
        planted = self.nodes.plant(encode_state(state, what="state")[0])
        self.packs |= dict(planted.packs)
        self.nodes.settle(planted)
        return planted.root

    def told(self, a: Any, b: Any) -> tuple[StateChange, ...]:
        roots = self.plant(a), self.plant(b)
        nodes = Nodes(self.fetch)
        return tell_changes(find_changes(*roots, nodes), *roots, nodes)


def lines(a: Any, b: Any) -> list[str]:
    """Sign, path and line of each change."""
    signs = {"added": "+", "removed": "-", "changed": "~"}
    return [f"{signs[c.kind]} {c.path}: {c.line}" for c in Soil().told(a, b)]


def say(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


TALK = [say("user" if i % 2 == 0 else "assistant", f"this is number {i} of what was said") for i in range(40)]
CALL = {
    "id": "1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "debt", "k": 3}'},
}


def test_messages_that_come_and_go() -> None:
    """Appended ones by number, role and text; those trimmed at the front together; calls as calls.

    Planted: numbers of removed messages taken from the patch, where all of them are the first.
    """
    new = [
        *copy.deepcopy(TALK[20:]),
        say("assistant", None, tool_calls=[CALL]),
        say("tool", "3 results", tool_call_id="1"),
    ]
    assert lines({"messages": TALK}, {"messages": new}) == [
        "- messages: messages 1–20 were dropped from the front",
        '+ messages[20]: message 21 (assistant) added: call search(query="debt", k=3)',
        "+ messages[21]: message 22 (tool) added: 3 results",
    ]


def test_messages_in_the_middle() -> None:
    """A few that went are told one by one with what they said; an edited one by its words, in the place it has now."""
    new = copy.deepcopy(TALK[:5] + TALK[7:])
    new[10]["content"] = new[10]["content"].replace("was said", "was really said")
    assert lines({"log": {"history": TALK}}, {"log": {"history": new}}) == [
        "- log.history[5]: message 6 (assistant) removed: this is number 5 of what was said",
        "- log.history[6]: message 7 (user) removed: this is number 6 of what was said",
        "~ log.history[10]: message 11 (user) changed: … number 12 of what was {+really +}said",
    ]


def test_a_summary_in_place_of_the_oldest() -> None:
    """Compaction: what it stands for was dropped, and it was added; it is not the first message, edited."""
    new = [say("system", "Summary: much was said about debt"), *copy.deepcopy(TALK[12:])]
    assert lines(TALK, new) == [
        "- state: messages 1–12 were dropped from the front",
        "+ state[0]: message 1 (system) added: Summary: much was said about debt",
    ]
    same_role = [say("user", "Nothing but a summary, and in other words"), *copy.deepcopy(TALK[12:])]
    assert lines(TALK, same_role)[0] == "- state: messages 1–12 were dropped from the front"


def test_messages_with_a_type() -> None:
    """A dataclass with a role and a content is a message like any other, in a tuple too, also when it is long."""
    long = "a long text that is stored by itself because it has so many words " * 20
    a = {"messages": (Message("user", long), Message("assistant", "yes"))}
    b = {"messages": (Message("user", long + "really"), Message("assistant", "yes"), Message("user", "and?"))}
    assert lines(a, b) == [
        "~ messages[0]: message 1 (user) changed: … it has so many words {+really+}",
        "+ messages[2]: message 3 (user) added: and?",
    ]


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (say("user", "hello\n world"), "hello world"),
        (say("user", ""), "(empty)"),
        (
            say("user", [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}]),
            "look; (image_url)",
        ),
        (say("assistant", "let me", tool_calls=[CALL]), 'let me; call search(query="debt", k=3)'),
        (say("assistant", None, function_call={"name": "f", "arguments": "not json"}), 'call f("not json")'),
        (say("assistant", [{"type": "tool_use", "name": "f", "input": {"x": 1}}]), "call f(x=1)"),
        (say("user", [{"type": "tool_result", "content": [{"type": "text", "text": "42"}]}]), "result 42"),
        ({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}, "call f()"),
        (
            {"role": "model", "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": "{}"}]},
            "call f()",
        ),
        ({"role": "assistant", "tool_calls": [{"name": "f", "args": {"a": [1]}}]}, "call f(a=[1])"),
        (say("assistant", {"odd": 1}, tool_calls="odd"), '{"odd": 1}'),
        (say("assistant", [["odd"], None], tool_calls=[None]), '["odd"]; null'),
    ],
)
def test_what_a_message_says(message: dict[str, Any], line: str) -> None:
    """However its client writes parts and calls; what cannot be understood is shown as it is."""
    assert role_of(message) == message["role"]
    assert message_line(message) == line


@pytest.mark.parametrize(
    "value", [{"role": "admin", "name": "Ann"}, {"content": "x"}, {"role": 3, "content": ""}, "x", [], None]
)
def test_what_is_no_message(value: Any) -> None:
    """A user with a role is none; nor is a content without one."""
    assert role_of(value) is None


def test_a_single_argument_needs_no_name() -> None:
    """Unless the model that gave it named it."""
    assert call_text("compare", {"country": "Greece"}, named=False) == 'compare("Greece")'
    assert call_text("compare", {"a": 1, "b": 2}, named=False) == "compare(a=1, b=2)"


def test_typed_values_are_told_whole() -> None:
    """As Python shows them, under the path that a program would write."""
    a = {
        "when": date(2026, 1, 1),
        "price": Decimal("1.50"),
        "colour": Colour.RED,
        "notes": [Note("ann", "one")],
    }
    b = {
        "when": date(2026, 2, 1),
        "price": Decimal("1.6"),
        "colour": Colour.BLUE,
        "notes": [Note("bob", "one")],
    }
    assert lines(a, b) == [
        "~ when: 2026-01-01 → 2026-02-01",
        "~ price: 1.50 → 1.6",
        "~ colour: Colour.RED → Colour.BLUE",
        '~ notes[0].who: "ann" → "bob"',
    ]


def test_keys_that_are_no_texts() -> None:
    """Told by the key, with nothing but the value; and odd keys are quoted."""
    a = {1: "a", (2, 3): "b", "x": 1}
    b = {1: "a", (2, 3): "c", "x": 1, 4: "d"}
    assert lines(a, b) == ['+ [4]: "d"', '~ [(2, 3)]: "b" → "c"']
    assert lines({"a b": {"é": 1}}, {"a b": {"é": 2}}) == ['~ ["a b"].é: 1 → 2']
    assert lines({"tags": {"x"}}, {"tags": {"x", "y"}}) == ['+ tags: "y"']


def test_long_texts_by_their_words() -> None:
    """Short ones are shown whole, before and after."""
    old = "Debt cycles are long, and hard to explain in a few words."
    assert lines({"d": old}, {"d": old.replace("hard", "very hard")}) == [
        "~ d: Debt cycles are long, and {+very +}hard to explain in a …"
    ]
    assert lines({"d": "so"}, {"d": "no"}) == ['~ d: "so" → "no"']
    (change,) = Soil().told(
        {"d": old}, {"d": "Something else stands here now, without any of what was there"}
    )
    assert change.line == "rewritten, 12 → 11 words"
    assert change.text is not None
    assert change.text.pieces == ()


@pytest.mark.slow
def test_only_the_neighbourhood_is_read() -> None:
    """To recognise one message among 20,000, the packs of the others are not needed.

    Planted: the list gathered to look at its first element, which read every pack there is.
    """
    soil = Soil()
    many = [say("user", f"{i} " * 200) for i in range(20_000)]
    soil.plant({"messages": many})
    changed = copy.deepcopy(many)
    changed[10_000]["content"] += "more"
    assert [c.line[:15] for c in soil.told({"messages": many}, {"messages": changed})] == ["message 10,001 "]
    assert len(set(soil.fetched)) < 10 < len(soil.packs) / 10
