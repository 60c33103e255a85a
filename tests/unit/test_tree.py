"""The state tree by its bytes: what a checkpoint writes is what changed, and damage is named."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import orjson
import pytest

from holdfast import limits
from holdfast.codec.blobs import address_of
from holdfast.codec.values import decode_tree, encode_tree
from holdfast.core.diff.state_diff import Change, as_json_patch, changes
from holdfast.core.state import tree as tree_module
from holdfast.core.state.assemble import gather, packs_of
from holdfast.core.state.chunking import pieces, runs
from holdfast.core.state.nodes import Nodes, pack_nodes, runs_in, unpack_nodes
from holdfast.core.state.tree import StoredNodes
from holdfast.errors import Corrupt, TooLarge


class Beds:
    """Packs in a dict, a garden on top, and a count of what was read and written."""

    def __init__(self) -> None:
        self.packs: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.requests = 0
        self.nodes = StoredNodes(address_of)

    def fetch(self, addresses: Sequence[str]) -> dict[str, list[bytes]]:
        self.fetched += addresses
        self.requests += 1
        return {address: unpack_nodes(self.packs[address]) for address in addresses}

    def plant(self, tree: Any) -> tuple[Any, int]:
        """The root, and how many bytes were new."""
        planted = self.nodes.plant(tree)
        self.packs |= dict(planted.packs)
        self.nodes.settle(planted)
        return planted.root, sum(len(data) for _, data in planted.packs)


def message(number: int) -> dict[str, str]:
    return {"role": "user", "content": sha256(b"%d" % number).hexdigest() * 6}


NEW = message(-1)
NEW_BYTES = len(orjson.dumps(NEW))
COUNT = 10_000


def appended(messages: list[Any]) -> list[Any]:
    return [*messages, NEW]


def trimmed(messages: list[Any]) -> list[Any]:
    return messages[2_000:]


def edited(messages: list[Any]) -> list[Any]:
    return [*messages[:5_000], NEW, *messages[5_001:]]


def inserted(messages: list[Any]) -> list[Any]:
    return [*messages[:5_000], NEW, *messages[5_000:]]


@pytest.mark.parametrize(
    ("edit", "content_bytes"),
    [(appended, NEW_BYTES), (trimmed, 0), (edited, NEW_BYTES), (inserted, NEW_BYTES)],
)
def test_an_edit_writes_what_changed(edit: Callable[[list[Any]], list[Any]], content_bytes: int) -> None:
    """Of 10,000 messages, the new one and the runs above it: uncompressed, at most 5 KB, most of them addresses.

    Planted: with boundaries that count elements instead of reading them, a trim wrote 725 KB.
    """
    beds = Beds()
    messages = [message(i) for i in range(COUNT)]
    beds.plant({"step": 1, "messages": messages})
    after = {"step": 2, "messages": edit(messages)}
    root, written = beds.plant(after)
    assert content_bytes <= written <= content_bytes + 5_000
    assert gather(root, beds.fetch) == after


@pytest.mark.slow
def test_a_typical_edit_adds_a_few_hundred_bytes() -> None:
    """Over fifty appends to 10,000 messages, compressed, the mean beside the content is below 700 bytes."""
    from holdfast.codec.blobs import pack

    beds = Beds()
    messages = [message(i) for i in range(COUNT)]
    beds.plant({"messages": messages})
    beside = 0
    for number in range(50):
        messages.append(message(COUNT + number))
        planted = beds.nodes.plant({"messages": messages})
        packs = planted.packs
        beds.nodes.settle(planted)
        assert len(packs) == 1
        beside += len(pack(packs[0].data)) - len(pack(orjson.dumps(messages[-1])))
    assert beside / 50 < 700


def test_reordered_keys_write_only_the_order() -> None:
    """Values stay where they are stored, few keys or many."""
    beds = Beds()
    few = {f"key {i}": [message(i)] * 3 for i in range(40)}
    beds.plant(few)
    root, written = beds.plant(dict(reversed(few.items())))
    assert written < 40 * 110
    assert list(gather(root, beds.fetch)) == list(reversed(few))
    many = {f"key {i}": message(i) for i in range(COUNT)}
    beds.plant(many)
    moved = {**{k: v for k, v in many.items() if k != "key 77"}, "key 77": many["key 77"]}
    root, written = beds.plant(moved)
    assert written < 8_000
    assert list(gather(root, beds.fetch)) == list(moved)


def test_a_long_text_is_stored_in_pieces() -> None:
    """Appending to it, or cutting off its beginning, writes pieces at that end only."""
    beds = Beds()
    text = "".join(sha256(b"%d" % i).hexdigest() for i in range(10_000))
    beds.plant({"draft": text})
    for edit in (text + "the end", text[10_000:], text[:300_000] + "é" + text[300_000:]):
        root, written = beds.plant({"draft": edit})
        assert gather(root, beds.fetch) == {"draft": edit}
        assert written < 4 * limits.STATE_PIECE_BYTES_MAX + 6_000


@pytest.mark.slow
def test_very_many_small_keys() -> None:
    """They are planted in runs; changing one writes its run and those above it."""
    beds = Beds()
    state = dict.fromkeys(map(str, range(100_000)), 0)
    a, _ = beds.plant(state)
    state["77"] = 1
    b, written = beds.plant(state)
    assert written < 8_000
    beds.fetched.clear()
    assert list(changes(a, b, beds.fetch)) == [Change(("77",), "changed", 0, 1)]
    assert len(beds.fetched) < 20


@pytest.mark.parametrize("depth", [limits.STATE_DEPTH_MAX, limits.VALUE_DEPTH_MAX - 1])
def test_deep_nesting(depth: int) -> None:
    """As deep as a value may be, with something long at the bottom."""
    value: Any = ["text" * 3_000]
    for number in range(depth):
        value = {"#": value} if number % 3 else ["#list", value] if number % 2 else [value, number]
    beds = Beds()
    root, _ = beds.plant(value)
    assert orjson.dumps(gather(root, beds.fetch)) == orjson.dumps(value)


@pytest.mark.slow
def test_equal_elements_are_cut_nevertheless() -> None:
    """Thousands of zeros make a tree with a top, and not a large one."""
    beds = Beds()
    for element in (0, NEW, "x" * 300):
        root, written = beds.plant([element] * 20_000)
        assert gather(root, beds.fetch) == [element] * 20_000
        assert written < 30_000


@pytest.mark.slow
def test_what_looks_like_a_reference_is_none() -> None:
    """A user's own ["#", …] comes back as it was, inline, in a node, and at the beginning of a run."""
    likes: list[Any] = [
        ["#", "p/0"],
        ["##"],
        ["#runs", 1],
        ["#list", ["#", "/0"]],
        {"#": "/0", "##": 1},
        '["#',
    ]
    beds = Beds()
    for value in (*likes, likes, ["#", *likes * 20], {"#": likes, "a": ["# title"] * 100, "b": [likes] * 30}):
        for state in (value, {"a": value}, [value] * 100, [[value, "x" * 5_000]]):
            root, _ = beds.plant(state)
            assert gather(root, beds.fetch) == state


def test_typed_values_survive() -> None:
    """A tree from the codec goes through as it is, tags and all."""
    value = {"point": (1, 2.5), "raw": b"\x00" * 1_000, "many": [{1, 2}, frozenset("ab")] * 50}
    beds = Beds()
    root, _ = beds.plant(encode_tree(value, what="state"))
    assert decode_tree(gather(root, beds.fetch), what="state") == value


def test_a_large_checkpoint_has_several_packs() -> None:
    """So that reading one place does not unpack everything."""
    beds = Beds()
    messages = [message(i) for i in range(COUNT)]
    a, _ = beds.plant(messages)
    assert max(map(len, beds.packs.values())) < 2 * limits.STATE_PACK_BYTES
    b, _ = beds.plant(edited(messages))
    beds.fetched.clear()
    assert [change.path for change in changes(a, b, beds.fetch)] == [(5_000, "content")]
    assert len(beds.fetched) < len(packs_of(a, beds.fetch)) / 4


def test_an_insertion_is_one_change() -> None:
    """The elements after it are the same elements."""
    beds = Beds()
    messages = [message(i) for i in range(COUNT)]
    a, _ = beds.plant({"messages": messages})
    b, _ = beds.plant({"messages": inserted(messages)})
    found = list(changes(a, b, beds.fetch))
    assert found == [Change(("messages", 5_000), "added", None, NEW)]
    assert as_json_patch(found) == [{"op": "add", "path": "/messages/5000", "value": NEW}]
    assert as_json_patch(changes(b, a, beds.fetch)) == [{"op": "remove", "path": "/messages/5000"}]


def test_one_and_true_differ() -> None:
    """Python holds 1, 1.0 and True to be equal; JSON does not."""
    beds = Beds()
    roots = [beds.plant({"n": n})[0] for n in (1, 1.0, True)]
    for a, b in ((0, 1), (1, 2), (0, 2)):
        assert [change.kind for change in changes(roots[a], roots[b], beds.fetch)] == ["changed"]


def test_numbers_beside_each_other_are_told_apart() -> None:
    """[1, 23, …] is not [12, 3, …]. Planted: hashing items without commas between them took one for the other."""
    beds = Beds()
    rest = list(range(100, 400))
    beds.plant([1, 23, *rest])
    root, _ = beds.plant([12, 3, *rest])
    assert gather(root, beds.fetch) == [12, 3, *rest]


def test_a_plant_that_was_not_stored_is_planted_again() -> None:
    """Only what is settled counts as stored."""
    beds = Beds()
    state = {"messages": [message(i) for i in range(200)]}
    first = beds.nodes.plant(state)
    assert beds.nodes.plant(state) == first
    root, written = beds.plant(state)
    assert written == sum(len(data) for _, data in first.packs)
    assert gather(root, beds.fetch) == state


def test_a_state_that_is_settled_while_another_one_is_encoded_mixes_nothing_up() -> None:
    """What is taken over is as it was in the last state of that time. Planted: counted as unchanged since the newest
    state, the runs of that one were taken for it."""
    beds = Beds()
    state = {"messages": [message(i) for i in range(300)]}
    other = {"messages": [message(i) for i in range(1_000, 1_300)]}
    for _ in range(3):
        beds.plant(state)
    rest = beds.nodes.rest_of(state)
    assert rest is not None
    assert rest.state == {"messages": []}
    beds.plant(other)
    planted = beds.nodes.plant_rest(rest, rest.state)
    assert planted is not None
    assert gather(planted.root, beds.fetch) == state
    assert planted.identity == StoredNodes(address_of).plant(state).identity


def test_edits_by_another_thread_mix_nothing_up() -> None:
    """Elements edited between two looks at them are stored as at the first. Planted: without reading the encoded
    window back, the next plant of the first content was taken for the second."""
    messages = [message(i) for i in range(100)]
    first = orjson.loads(orjson.dumps(messages))

    class Meddled(StoredNodes):
        def _window(self, *encoded: Any) -> Any:
            messages[0]["content"] = "later"
            return super()._window(*encoded)

    beds = Beds()
    beds.nodes = Meddled(address_of)
    beds.plant(messages)
    root, _ = beds.plant(first)
    assert gather(root, beds.fetch) == first


def test_packs_are_fetched_together_and_once() -> None:
    """A state in hundreds of packs takes about as many requests as it has levels: the store may be far away. Planted:
    fetched where it is met, each pack was a request."""
    beds = Beds()
    for upto in range(1, 300):
        root, _ = beds.plant({"messages": [message(i) for i in range(upto)], "draft": "word " * 9_000})
    needed = packs_of(root, beds.fetch)
    assert len(needed) > 250
    beds.fetched, beds.requests = [], 0
    gather(root, beds.fetch)
    assert sorted(beds.fetched) == sorted(needed)
    assert beds.requests < 12


def test_an_object_is_not_taken_for_the_list_of_its_pairs() -> None:
    """One after the other at the same place: they are encoded alike, and are stored as what they are. Planted: with
    what was encoded last remembered by its path alone, the one was written with the other's items."""
    keyed = {f"key-{i}": i for i in range(200)}
    listed = [[key, value] for key, value in keyed.items()]
    for first, second in ((listed, keyed), (keyed, listed)):
        beds = Beds()
        for value in (first, second, first):
            root, _ = beds.plant({"x": value})
            assert gather(root, beds.fetch) == {"x": value}


@pytest.mark.parametrize("size", [63, 64, 65, 128, 500])
def test_a_list_is_cut_alike_however_it_came_to_be(size: int) -> None:
    """Appended to, trimmed, edited in the middle, or planted whole. Planted: with the last run kept as it was, what
    was appended to it began a run of its own."""

    def shape(beds: Beds, value: Any) -> list[list[int]]:
        """How many items each run of each level holds, from the top."""
        nodes, refs, levels = Nodes(beds.fetch), [beds.plant(value)[0][1]], list[list[int]]()
        for _ in range(nodes.level_of(refs[0])):
            inner = [runs_in(nodes.load(ref), ref) for ref in refs]
            levels.append([count for run in inner for _, count in run])
            refs = [ref for run in inner for ref, _ in run]
        return levels

    grown = Beds()
    for upto in range(1, size):
        grown.plant([message(i) for i in range(upto)])
    for kept in (range(size), range(size + 1), range(size // 5, size + 1), range(1, size + 2)):
        state = [message(i) for i in kept]
        assert shape(grown, state) == shape(Beds(), state)
        state[size // 2] = message(-1)
        assert shape(grown, state) == shape(Beds(), state)


def test_a_garden_says_when_it_is_overgrown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a new one learns the latest state, which writes nothing."""
    monkeypatch.setattr(tree_module, "STATE_MEMORY_NODES_MAX", 100)
    beds = Beds()
    messages = [message(i) for i in range(200)]
    root, _ = beds.plant(messages)
    assert beds.nodes.is_overgrown
    beds.nodes = StoredNodes(address_of)
    beds.nodes.learn(root, beds.fetch)
    assert beds.plant(messages) == (root, 0)
    assert beds.plant(appended(messages))[1] < NEW_BYTES + 4_000


def test_a_state_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is stored."""
    monkeypatch.setattr(tree_module, "VALUE_SIZE_BYTES_MAX", 10_000)
    with pytest.raises(TooLarge, match="a state is"):
        StoredNodes(address_of).plant({"a": [message(i) for i in range(100)]})
    with pytest.raises(TooLarge, match="a state is"):
        StoredNodes(address_of).plant({"a": "x" * 10_001})


@pytest.mark.parametrize(
    ("pack", "root"),
    [
        ([b"[1]"], ["#", "p/1"]),
        ([b"[1]"], ["#", "p/x"]),
        ([b"[1]"], ["#", "/0"]),
        ([b"[1"], ["#", "p/0"]),
        ([b"[1]"], ["#text", "p/0"]),
        ([b'["a"]'], ["#dict", "p/0"]),
        ([b"[1,2]"], ["#dict", "p/0"]),
        ([b'{"a":1}'], ["#list", "p/0"]),
        ([b'["#","/0"]'], ["#list", "p/0"]),
        ([b'["#runs",1,"/0",1]'], ["#list", "p/0"]),
        ([b'["#runs","/0",1]'], ["#list", "p/0"]),
        ([b'["#runs",1,"/1"]', b"[]"], ["#list", "p/0"]),
        ([b'["#runs"]'], ["#list", "p/0"]),
        ([b'["#runs",2,"/1",1]', b'["#runs"]'], ["#list", "p/0"]),
        ([b'["#runs",2,"/1",1]', b'["#runs",2,"/0",1]'], ["#list", "p/0"]),
        ([b'["#","/0"]'], ["#", "p/0"]),
        ([b'[["#","/0"]]'], ["#", "p/0"]),
        ([b"1"], ["#what", "p/0"]),
        ([b"1"], ["#", 5]),
        ([b"1"], ["#"]),
    ],
    ids=str,
)
def test_damage_is_named_and_never_returned(pack: list[bytes], root: Any) -> None:
    """A missing node, one of another kind, a circle: Corrupt, not a wrong value nor an endless walk."""
    with pytest.raises(Corrupt, match="cannot be put together"):
        gather(root, lambda _: {"p": pack})


def test_packs_are_lines_of_json() -> None:
    """Readable with zstd and grep."""
    nodes = [b'"a\\nb"', b"[1]"]
    assert pack_nodes(nodes) == b'"a\\nb"\n[1]'
    assert unpack_nodes(pack_nodes(nodes)) == nodes


def test_cutting_keeps_everything_in_order() -> None:
    """Runs of two at least but for the last; pieces within their bounds, never inside a character.

    Planted: where one item could be a run, a level was as long as the one below it, and there was no top.
    """
    for times in (1, 100):
        items = [sha256(b"%d" % i).digest() * times for i in range(1_000)]
        cut = list(runs(items))
        assert [item for run in cut for item in run] == items
        assert min(map(len, cut[:-1])) >= 2
    for text in ("é漢" * 20_000, "0" * 50_000, ""):
        assert "".join(pieces(text)) == text
        assert all(len(piece.encode()) <= limits.STATE_PIECE_BYTES_MAX + 3 for piece in pieces(text))


# -- data that was parsed from JSON -----------------------------------------------------------------------------

TEXTS = ("#list", '"$":', "a $5 note", "[[[", "x" * 300)


@pytest.mark.parametrize("text", TEXTS)
def test_data_from_json_are_planted_as_the_codec_would_write_them(text: str) -> None:
    """The same root, packs and identity, also where a part of it was planted before."""
    given, tagged = StoredNodes(address_of), StoredNodes(address_of)
    messages: list[Any] = [message(number) for number in range(100)]
    for _ in range(3):
        messages.append({"role": "user", "content": text, "more": [text, [1.5, None], {"a": {}}]})
        asked = {
            "model": "m",
            "messages": messages,
            "tools": [{"n": text}],
            "wide": {f"k{n}": n for n in range(70)},
        }
        request = orjson.loads(orjson.dumps(asked))
        one, two = given.plant_json(request), tagged.plant(encode_tree(request, what="it"))
        assert one is not None
        assert one[:4] == two[:4]
        given.settle(one)
        tagged.settle(two)


def nested(depth: int) -> Any:
    return [] if depth == 1 else [nested(depth - 1)]


@pytest.mark.parametrize(
    "asked",
    [
        {"$": "tuple", "v": []},
        {"messages": [{"$": 1}]},
        {"messages": [[{"a": {"$": 1}}]]},
        {"tools": {"$": 1}},
        {"wide": {"$": 1, **{f"k{number}": number for number in range(70)}}},
        {"messages": [nested(limits.VALUE_DEPTH_MAX)]},
        {"deep": {"messages": nested(limits.VALUE_DEPTH_MAX)}},
    ],
)
def test_data_from_json_that_need_a_tag_go_to_the_codec(asked: Any) -> None:
    """An object with the key of a tag would be read as one; and what is too deep could not be read back."""
    assert StoredNodes(address_of).plant_json(asked) is None


def test_data_like_a_tag_need_the_codec_also_if_the_same_bytes_are_stored() -> None:
    """A tuple that the codec has tagged is stored under the same bytes as an object that looks like its tag."""
    nodes = StoredNodes(address_of)
    nodes.settle(nodes.plant(encode_tree({"messages": [("a", "b")]}, what="it")))
    assert nodes.plant_json({"messages": [{"$": "tuple", "v": ["a", "b"]}]}) is None
