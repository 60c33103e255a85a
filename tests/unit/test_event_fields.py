"""Event bodies: our own fields on the first line, the user's data on the second, and bodies of format 1 for ever."""

from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import dumps, loads

from holdfast.codec.values import decode_tree, encode, encode_tree
from holdfast.model import event_fields as bodies
from holdfast.model.event_fields import PARTS, PRUNED
from holdfast.model.event_schema import NAMED, SCHEMAS, Schema, problems_in, schema_of
from holdfast.model.events import Kind
from holdfast.testing.store_rules.builders import an_event

FIELD_NAMES = sorted({name for schema in (*SCHEMAS.values(), *NAMED.values()) for name in schema.fields})
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*FIELD_NAMES, *PARTS, "pruned", "$"]) | st.text(max_size=3), inner, max_size=3
        )
    ),
    max_leaves=9,
)
FIELDS = st.dictionaries(st.sampled_from(FIELD_NAMES), JSON, max_size=4)
DATA = st.dictionaries(st.sampled_from(sorted(PARTS)), JSON, max_size=3)


def test_a_value_goes_in_and_comes_out_bit_for_bit() -> None:
    """As it was encoded: nothing of it is parsed or written again."""
    value = encode({"a": (1, 2.50)}, what="value").replace(b"2.5", b"2.50")
    body = bodies.write({"key": "k", "n": 1}, value=value)
    assert body == b'{"key":"k","n":1}\n{"value":' + value + b"}"
    assert bodies.raw_part(body, "value") == value
    assert bodies.fields_of(body) == {"key": "k", "n": 1}
    assert decode_tree(bodies.part_of(body, "value"), what="value") == {"a": (1, 2.5)}


def test_there_may_be_no_data_and_a_null_is_data() -> None:
    """A body always has its newline, so that it is known for one of two lines."""
    assert bodies.write({"ms": None}) == b'{"ms":null}\n'
    assert bodies.write({}, value=b"null", value_name="about") == b'{}\n{"about":null}'
    assert bodies.raw_part(bodies.write({}), "value") is None
    assert bodies.raw_part(bodies.write({}, value=b"null"), "value") == b"null"


@given(fields=FIELDS, data=DATA)
def test_fields_and_data_never_mix(fields: dict[str, Any], data: dict[str, Any]) -> None:
    """Whatever names of ours a user's data hold, the fields are ours alone, in a body of either format."""
    for body in (bodies.write(fields, data), dumps({**fields, **data})):
        assert bodies.fields_of(body) == fields
        assert bodies.parts_of(body) == data
        assert bodies.contents_of(body) == {**fields, **data}
        for name in PARTS:
            raw = bodies.raw_part(body, name)
            assert (raw is not None) == (name in data)
            assert raw is None or loads(raw) == data[name]
        if "pruned" not in fields:
            assert not bodies.is_hollow(body)


@given(fields=FIELDS, data=DATA, pruned=st.sampled_from(PRUNED))
def test_what_is_pruned_is_gone_and_the_rest_stays(
    fields: dict[str, Any], data: dict[str, Any], pruned: str
) -> None:
    """Hollow by a field of ours at the end of the first line, whatever the parts that stay look like."""
    gone = {*list(data)[:1], *list(fields)[:1]}
    for body in (bodies.write(fields, data), dumps({**fields, **data})):
        hollow = bodies.without(body, gone, pruned=pruned)
        assert bodies.is_hollow(hollow)
        assert bodies.pruned_as(hollow) == pruned
        assert bodies.parts_of(hollow) == {name: part for name, part in data.items() if name not in gone}
        kept = {name: value for name, value in fields.items() if name not in gone}
        assert bodies.fields_of(hollow) == {**kept, "pruned": pruned}
        assert bodies.pruned_as(bodies.rewritten(hollow, hidden=True)) == pruned


def test_changing_a_field_leaves_the_data_bit_for_bit() -> None:
    """Planted: the data parsed and written again. A number that was written as 1E5 came back as 100000.0."""
    body = b'{"ms":1}\n{"value":1E5}'
    assert bodies.rewritten(body, how="done") == b'{"ms":1,"how":"done"}\n{"value":1E5}'
    assert bodies.rewritten(b'{"ms":1,"value":7}', how="done") == b'{"ms":1,"how":"done"}\n{"value":7}'


def test_a_name_is_a_fields_or_a_parts() -> None:
    """Asserted where a body is written."""
    for wrong in ({"value": 1}, {"error": 2}):
        with pytest.raises(AssertionError):
            bodies.write(wrong)
    with pytest.raises(AssertionError):
        bodies.write({}, {"how": "done"})
    with pytest.raises(AssertionError):
        bodies.write({}, {"value": 1}, value=b"2")
    with pytest.raises(AssertionError):
        bodies.rewritten(b"{}\n", value=1)


def test_trees_stand_beside_values() -> None:
    """Several parts in one body, each decoded by itself; the one that is asked for as bytes comes last."""
    tree = encode_tree({"x": ({1},), "big": 2**99}, what="args")
    body = bodies.write({}, {"value": 1, "args": tree, "request": ["#"]})
    assert body.startswith(b'{}\n{"request":["#"],')
    assert decode_tree(bodies.part_of(body, "args"), what="args") == {"x": ({1},), "big": 2**99}
    beside = bodies.write({}, {"request": ["#"]}, value=b'{"n":1}', value_name="args")
    assert bodies.raw_part(beside, "args") == b'{"n":1}'


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"3", b'{"torn":', b"[]\n{}", b"{}\n[]", b"{}\n{", b"\xff\n", b"\n{}"]
)
def test_what_is_no_body_is_refused(body: bytes) -> None:
    """As a ValueError, wherever it is looked at."""
    with pytest.raises(ValueError, match=r".*"):
        bodies.contents_of(body)
    assert bodies.blobs_in(body) == set()
    assert problems_in(an_event("r", 1, kind="weather.changed", body=body))


def test_only_fields_name_blobs() -> None:
    """Planted: bytes looked for in the whole body. A user's value that spoke of blobs named some."""
    address = "ab" * 32
    told = {"value_blob": address, "blobs": [address]}
    assert bodies.blobs_in(bodies.write({"ms": 1}, {"value": told})) == set()
    assert bodies.blobs_in(dumps({"ms": 1, "value": told})) == set()
    assert bodies.blobs_in(bodies.write(told)) == {address}
    assert bodies.values_in(bodies.write({"args_blob": address, "blobs": ["cd" * 32]})) == {address}


def test_marks_are_told_by_the_first_field() -> None:
    """Nothing of a user's can stand first."""
    for fields, mark in (
        ({"effect": "read", "in": ""}, ""),
        ({"effect": "model", "in": ""}, "model"),
        ({"noted": [], "effect": "once"}, "noted"),
        ({"handed": {"n": 1}, "effect": "once"}, "handed"),
    ):
        for data in (b'{"noted":[]}', b'"\\n{\\"effect\\":\\"model\\""'):
            assert bodies.mark_of(bodies.write(fields, value=data, value_name="args")) == mark
    assert bodies.begins(bodies.write({"usage": {}, "ms": 1}), bodies.USAGE)
    assert not bodies.begins(bodies.write({"ms": 1}, value=b'{"usage":{}}'), bodies.USAGE)


# -- the table -----------------------------------------------------------------------------------------------------


def test_the_table_knows_every_kind_and_no_name_twice() -> None:
    """A name is a part's in all kinds, or in none; otherwise a body of format 1 could not be taken apart."""
    kinds = {getattr(Kind, name) for name in get_type_hints(Kind)}
    assert kinds == SCHEMAS.keys()
    schemas = [*SCHEMAS.values(), *NAMED.values()]
    assert {name for schema in schemas for name in schema.parts} == PARTS
    assert not PARTS & {name for schema in schemas for name in schema.fields}


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        (Kind.STEP_STARTED, b'{"effect":1}\n{"args":{}}', "effect is 1"),
        (Kind.STEP_STARTED, b'{"in":""}\n{"args":{}}', "effect is missing"),
        (Kind.STEP_STARTED, b'{"effect":"read","tool":1}\n', "tool is 1"),
        (Kind.STEP_FINISHED, b'{"ms":"soon"}\n{"value":1}', "ms is 'soon'"),
        (Kind.STEP_FINISHED, b'{"ms":1,"value":1}\n', "value stands among the fields"),
        (Kind.STEP_FINISHED, b'{"ms":1}\n{"pruned":"refetchable"}', "pruned stands among the data"),
        (Kind.STEP_FINISHED, b'{"ms":1}\n{"value":1}\n', "its body has more than two lines"),
        (Kind.STEP_FINISHED, b'{"ms":1,"value_blob":7}\n', "value_blob is 7"),
        (Kind.STEP_FINISHED, b'{"ms":1,"value_bytes":-1}\n', "value_bytes is -1"),
        (Kind.STEP_FINISHED, b'{"ms":1,"pruned":"gone"}\n', "pruned is 'gone'"),
        (Kind.RUN_STARTED, b'{"agent":""}\n{"goal":["a","list"]}', "goal is ['a', 'list']"),
        (Kind.RUN_REWOUND, b'{"kept":"x"}\n', "to_seq is missing"),
        (Kind.COMPACTED, b'{"from_seq":"1","tallies":{}}\n', "from_seq is '1'"),
        (Kind.ARTIFACT_READY, b'{"blobs":[1]}\n', "blobs is [1]"),
        ("weather.changed", b"[1]", "its body cannot be read: an event's body is no object"),
    ],
)
def test_what_is_wrong_is_named(kind: str, body: bytes, problem: str) -> None:
    """For whoever brings in events from elsewhere."""
    assert problem in problems_in(an_event("r", 1, kind=kind, body=body))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.STEP_STARTED, b'{"effect":"read","in":"","after":"","args":{"effect":1}}'),
        (
            Kind.STEP_STARTED,
            b'{"effect":"read","in":"","after":"","args_blob":"' + b"ab" * 32 + b'","args_bytes":9}\n',
        ),
        (Kind.STEP_FINISHED, b'{"ms":1,"later":[1]}\n{"value":{"ms":"soon"}}'),
        (Kind.CHECKPOINT, b'{"label":null,"pruned":"checkpoints"}\n'),
        ("weather.changed", b'{"how":7}\n{"value":1}'),
    ],
)
def test_what_a_version_may_write_is_let_be(kind: str, body: bytes) -> None:
    """Format 1, values that lie in blobs, pruned content, and fields and kinds of a later version."""
    assert problems_in(an_event("r", 1, kind=kind, name="x", body=body)) == []


def test_some_marks_have_a_schema_of_their_own() -> None:
    """By their names; a step of the same name has not."""
    assert schema_of(an_event("r", 1, kind=Kind.MARK, name="pending")) == NAMED["pending"]
    assert schema_of(an_event("r", 1, kind=Kind.STEP_FAILED, name="pending")) == SCHEMAS[Kind.STEP_FAILED]
    assert isinstance(schema_of(an_event("r", 1, kind=Kind.MARK, name="thought")), Schema)
