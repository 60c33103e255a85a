"""A state as a tree: what changed is marked, and any size is bounded."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.views.state_tree import LINES_MAX, StateNode, has_changed, state_tree

KEYS = st.text(max_size=3).filter(lambda key: key != "$")  # that one is a tag: a store has it escaped
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def changes(node: StateNode) -> dict[str, str]:
    found: dict[str, str] = {node.path: node.change} if node.change and node.entries is None else {}
    for inner in node.nodes:
        found |= changes(inner)
    return found


def size(node: StateNode) -> int:
    return 1 + sum(map(size, node.nodes))


def test_added_changed_and_removed() -> None:
    """Each where it is; what is the same is not marked."""
    before = {"a": 1, "b": {"c": 2, "d": 3}, "gone": [1]}
    after = {"a": 1, "b": {"c": 5, "d": 3}, "new": "x"}
    assert changes(state_tree(after, before)) == {"$.b.c": "changed", "$.new": "added", "$.gone": "removed"}


def test_what_is_new_as_a_whole_is_marked_once() -> None:
    """The entries inside it are not."""
    tree = state_tree({"facts": {"x": 1}}, {})
    assert tree.nodes[0].change == "added"
    assert tree.nodes[0].nodes[0].change == ""


def test_a_list_that_grew() -> None:
    """Says by how many."""
    tree = state_tree({"list": [1, 2, 3]}, {"list": [1]})
    assert (tree.nodes[0].change, tree.nodes[0].added) == ("inside", 2)


def test_a_large_state_has_a_bounded_tree() -> None:
    """Changes far behind the shown entries are shown all the same."""
    before = list(range(100_000))
    after = [*before[:90_000], -1, *before[90_001:]]
    tree = state_tree(after, before)
    assert size(tree) < LINES_MAX
    assert changes(tree) == {"$[90000]": "changed"}
    assert tree.left_out == 100_000 - len(tree.nodes)
    assert size(state_tree([[0] * 50] * 5_000, [])) <= LINES_MAX + 1


def test_a_deep_state_has_an_end() -> None:
    """Deeper than any page could show."""
    deep: Any = 1
    for _ in range(190):
        deep = [deep]
    assert size(state_tree(deep)) < 100


@given(value=VALUES, before=VALUES)
def test_a_state_is_unchanged_only_beside_itself(value: Any, before: Any) -> None:
    """And a state alone has no marks."""
    assert not has_changed(state_tree(value))
    assert has_changed(state_tree(value, before)) == (value != before)


def test_a_tag_that_is_no_text_is_shown_as_it_is() -> None:
    """An imported or damaged value may have one; the page still opens."""
    assert state_tree({"x": {"$": []}}, {"x": 1}).nodes[0].change
