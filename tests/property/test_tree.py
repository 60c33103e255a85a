"""Laws of the state tree: what is planted is gathered, whatever it is and whatever was planted before it.

``same`` is the yardstick: the same JSON text. To Python, 1, 1.0 and True are equal, and objects in any order.
"""

import copy
from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from holdfast.codec.blobs import address_of
from holdfast.core.diff.state_diff import as_json_patch, changes
from holdfast.core.state.assemble import gather, packs_of
from holdfast.core.state.nodes import unpack_nodes
from holdfast.core.state.tree import StoredNodes

relaxed = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

keys = st.sampled_from(
    ["#", "##", "#list", "#dict", "#text", "#runs", "a", "b", "$", "/", "~1", "", "ключ"]
) | st.text(st.characters(codec="utf-8"), max_size=4)
texts = (
    st.text(st.characters(codec="utf-8"), max_size=20)
    | st.sampled_from(['["#","/0"]', "#", "##", "#list", "#runs", "/0", '"/0"', "\n", "# title"])
    | st.builds(
        lambda part, times: part * times,
        st.text('ab \n"#{é漢', min_size=1, max_size=9),
        st.integers(30, 1500),
    )
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)


def long(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """A list long enough to be cut, without hypothesis drawing each of its elements."""

    def stretched(few: list[Any], times: int, numbered: bool) -> list[Any]:
        return [[i, e] if numbered else copy.deepcopy(e) for i in range(times) for e in few]

    return st.builds(
        stretched, st.lists(elements, min_size=1, max_size=3), st.integers(1, 120), st.booleans()
    )


def wide(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda few, names: {f"{name}{i}": copy.deepcopy(e) for name in names for i, e in enumerate(few * 20)},
        st.lists(elements, min_size=1, max_size=4),
        st.lists(keys, min_size=1, max_size=4, unique=True),
    )


# what could be taken for a reference, or for one that is escaped
lookalikes = st.builds(
    lambda first, rest: [first, *rest],
    st.sampled_from(["#", "##", "#list", "#dict", "#text", "#runs", "# title"]),
    st.lists(scalars, max_size=2),
)
small = scalars | lookalikes | st.dictionaries(keys, scalars, max_size=3) | st.lists(scalars, max_size=3)
trees = st.recursive(
    scalars | lookalikes | long(small) | wide(small),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=5,
)


class Beds:
    """Packs in a dict, and a garden on top."""

    def __init__(self) -> None:
        self.packs: dict[str, bytes] = {}
        self.nodes = StoredNodes(address_of)

    def fetch(self, addresses: Sequence[str]) -> dict[str, list[bytes]]:
        return {address: unpack_nodes(self.packs[address]) for address in addresses}

    def plant(self, tree: Any) -> Any:
        planted = self.nodes.plant(tree)
        self.packs |= dict(planted.packs)
        self.nodes.settle(planted)
        return planted.root


def same(a: Any, b: Any) -> bool:
    return orjson.dumps(a) == orjson.dumps(b)


def alike(a: Any, b: Any) -> bool:
    """The same up to the order of keys."""
    return orjson.dumps(a, option=orjson.OPT_SORT_KEYS) == orjson.dumps(b, option=orjson.OPT_SORT_KEYS)


@relaxed
@given(trees)
def test_what_is_planted_is_gathered(tree: Any) -> None:
    """Whatever the tree, with the order of its keys. Planted: without ``escape`` a user's ["#", …] was followed."""
    beds = Beds()
    before = orjson.dumps(tree)
    root = beds.plant(tree)
    assert same(gather(root, beds.fetch), tree)
    assert orjson.dumps(tree) == before
    assert packs_of(root, beds.fetch) == set(beds.packs)


@relaxed
@given(trees)
def test_planted_again_nothing_is_new(tree: Any) -> None:
    """In the same garden, and in one that learned the state. Planted: ``learn`` without absolute references missed."""
    beds = Beds()
    root = beds.plant(tree)
    assert beds.nodes.plant(copy.deepcopy(tree))[:2] == (root, ())
    later = StoredNodes(address_of)
    later.learn(root, beds.fetch)
    assert later.plant(tree)[:2] == (root, ())


@st.composite
def edited(draw: st.DrawFn, tree: Any) -> Any:
    """The tree with some place in it changed, the way agents change their state."""
    if isinstance(tree, list) and tree:
        at = draw(st.integers(0, len(tree) - 1))
        how = draw(st.sampled_from(["append", "trim", "insert", "inside", "reverse", "drop"]))
        if how == "inside":
            return [*tree[:at], draw(edited(tree[at])), *tree[at + 1 :]]
        return {
            "append": lambda: [*tree, draw(scalars)],
            "trim": lambda: tree[at:],
            "insert": lambda: [*tree[:at], draw(scalars), *tree[at:]],
            "reverse": lambda: tree[::-1],
            "drop": lambda: [*tree[:at], *tree[at + 1 :]],
        }[how]()
    if isinstance(tree, dict) and tree:
        key = draw(st.sampled_from(list(tree)))
        how = draw(st.sampled_from(["inside", "reorder", "drop", "put"]))
        rest = {k: v for k, v in tree.items() if k != key}
        return {
            "inside": lambda: {**tree, key: draw(edited(tree[key]))},
            "reorder": lambda: {**rest, key: tree[key]},
            "drop": lambda: rest,
            "put": lambda: {**tree, draw(keys): draw(trees)},
        }[how]()
    if isinstance(tree, str):
        return tree + draw(texts)
    return draw(trees)


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    history = [draw(trees)]
    for _ in range(draw(st.integers(1, 4))):
        history.append(draw(edited(history[-1])))
    return history


@relaxed
@given(histories(), st.sets(st.integers(0, 4)))
def test_one_garden_is_as_good_as_fresh_ones(history: list[Any], failed: set[int]) -> None:
    """Every state reads back, though appends fail in between and what they would have stored is not there.

    Planted: with windows kept before they are settled, the next state referred to packs that were never stored.
    """
    beds = Beds()
    roots = []
    for number, tree in enumerate(history):
        if number in failed:
            beds.nodes.plant(tree)
        roots.append(beds.plant(tree))
    for tree, root in zip(history, roots, strict=True):
        fresh = Beds()
        assert same(gather(root, beds.fetch), tree)
        assert same(gather(fresh.plant(tree), fresh.fetch), tree)


@relaxed
@given(histories())
@example([{"n": [1, 12]}, {"n": [1, 123]}, {"n": [1]}])
def test_what_a_garden_remembers_changes_nothing_that_it_writes(history: list[Any]) -> None:
    """A garden that compares nothing with the last state gives the same roots, packs, identities and sizes.

    Planted: without the look behind the last equal element, 123 was taken for 12.
    """
    remembers, forgets = StoredNodes(address_of), StoredNodes(address_of)
    for tree in history:
        forgets._long = {}
        planted, expected = remembers.plant(tree), forgets.plant(tree)
        assert planted[:4] == expected[:4]
        remembers.settle(planted)
        forgets.settle(expected)


def applied(patch: list[dict[str, Any]], document: Any) -> Any:
    """RFC 6902, as far as it is used here."""
    # A document shares nothing within itself; deepcopy would keep a list that stands in two places one list.
    top = [orjson.loads(orjson.dumps(document))]
    for operation in patch:
        holder: Any = top
        key: Any = 0
        for part in operation["path"].split("/")[1:]:
            holder, key = holder[key], part.replace("~1", "/").replace("~0", "~")
            if isinstance(holder, list):
                key = int(key)
        if operation["op"] == "remove":
            del holder[key]
        elif operation["op"] == "add" and isinstance(holder, list):
            assert key <= len(holder)
            holder.insert(key, operation["value"])
        else:
            assert operation["op"] == "add" or isinstance(holder, list) or key in holder
            holder[key] = operation["value"]
    return top[0]


@relaxed
@given(histories())
def test_changes_turn_one_state_into_the_other(history: list[Any]) -> None:
    """Both ways, and through a JSON Patch. Planted: indices of the old list, and a removal early in it missed."""
    beds = Beds()
    roots = [beds.plant(tree) for tree in history]
    for a, b in ((0, -1), (-1, 0), (0, 1)):
        patch = as_json_patch(changes(roots[a], roots[b], beds.fetch))
        assert alike(applied(patch, history[a]), history[b])


_SHARED: list[Any] = ["#"]


@relaxed
@given(trees, trees)
@example([[0, _SHARED], [1, _SHARED]], [[0, ["#", None]], [1, ["#", None]]])
def test_changes_between_strangers(a: Any, b: Any) -> None:
    """States of two gardens have no reference in common, and still differ only where their content does."""
    here, there = Beds(), Beds()
    a_root, b_root = here.plant(a), there.plant(b)
    here.packs |= there.packs
    assert alike(applied(as_json_patch(changes(a_root, b_root, here.fetch)), a), b)
    assert list(changes(a_root, Beds().plant(a), here.fetch)) == []


@relaxed
@given(trees)
def test_a_state_does_not_differ_from_itself(tree: Any) -> None:
    """Nor is anything loaded to find that out."""
    beds = Beds()
    root = beds.plant(tree)
    empty = Beds()
    assert list(changes(root, root, empty.fetch)) == []
