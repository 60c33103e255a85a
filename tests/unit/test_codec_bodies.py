"""Event bodies: small fields, and a value spliced in bit for bit."""

import orjson
import pytest

from holdfast.codec.bodies import decode_tree, encode_tree, pack_body, unpack_body
from holdfast.codec.values import encode


def test_value_is_spliced_in_unchanged() -> None:
    """The encoded bytes stand in the body as they are, last, and come out as a tree."""
    value = encode({"a": (1, 2.50)}, what="value")
    body = pack_body({"key": "k", "n": 1}, value=value)
    assert body == b'{"key":"k","n":1,"value":' + value + b"}"
    fields = unpack_body(body)
    assert (fields["key"], fields["n"]) == ("k", 1)
    assert decode_tree(fields["value"], what="value") == {"a": (1, 2.5)}


def test_value_may_have_another_name_or_be_absent() -> None:
    """A body without a value is just its fields; None as a value is a value."""
    assert pack_body({"a": None}) == b'{"a":null}'
    assert pack_body({}, value=b"null", value_name="result") == b'{"result":null}'


def test_value_never_hides_a_field() -> None:
    """Two things of one name would lose one of them."""
    with pytest.raises(AssertionError):
        pack_body({"value": 1}, value=b"2")


def test_trees_stand_beside_values() -> None:
    """Several values in one body, each decoded by itself and as often as one likes."""
    fields = unpack_body(pack_body({"args": encode_tree({"x": ({1},), "big": 2**99}, what="args")}))
    for _ in range(2):
        assert decode_tree(fields["args"], what="args") == {"x": ({1},), "big": 2**99}


def test_body_is_an_object() -> None:
    """Asserted where bytes come back from disk."""
    with pytest.raises(AssertionError):
        unpack_body(b"[]")
    with pytest.raises(orjson.JSONDecodeError):
        unpack_body(b'{"torn":')
