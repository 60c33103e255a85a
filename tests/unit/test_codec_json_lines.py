"""Events as lines of JSON: readable, and back byte for byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec.json_lines import event_line, letter_line, read_event, read_letter
from holdfast.testing.store_rules.builders import an_event

NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
BODIES = st.binary(max_size=60) | st.sampled_from(
    [
        b"",
        b"{}",
        b' {"a": 1.0, "a": 1e400} ',
        b'{"a":1E5,"b":"\\u00e9"}',
        b"[1,\n2]",
        b"\xff",
        b'"',
        b"1 2",
        b"{}\n",
        b'{"ms":1.5}\n{"value":1E5}',
        b'{"ms": 1}\n',
        b'{}\n{"a":1}\n',
        b"[]\n{}",
        b"\n",
        b"{}\n{",
        b"1\n2",
        b'{}\n{},"data":{}',
        b'{"fields":{}}\n{"data":{}}',
        b'{}\n{"body":{}}\r',
        b'{"a":"\xc3\xa9"}\n[1]',
    ]
)


@given(
    seq=st.integers(1, 2**40),
    at=st.floats(allow_nan=False, allow_infinity=False),
    name=NAMES,
    fence=st.integers(0, 2**31),
    body=BODIES,
)
def test_an_event_comes_back_as_it_was(seq: int, at: float, name: str, fence: int, body: bytes) -> None:
    """Whatever its fields and bytes: one line, which is JSON, and the very same event again."""
    event = an_event("r", seq, at=at, name=name, fence=fence, body=body)
    line = event_line(event)
    assert b"\n" not in line
    assert json.loads(line)["name"] == name
    assert read_event(line) == event


def test_a_body_of_json_can_be_read_in_place() -> None:
    """Not as a text inside a text: ``grep`` and ``jq`` see its fields."""
    line = event_line(an_event("r", 7, body=b'{"value":{"a":[1,2]}}'))
    assert json.loads(line)["body"] == {"value": {"a": [1, 2]}}
    assert line.endswith(b',"body":{"value":{"a":[1,2]}}}'), "a body of format 1, as it always was"


def test_our_fields_and_the_users_data_are_two_members() -> None:
    """Each exactly as it is recorded, so that ``jq .fields.ms`` and ``jq .data.value`` find them."""
    line = event_line(an_event("r", 7, body=b'{"ms":1.50}\n{"value":{"a":[1,2.50]}}'))
    assert "body_base64" in json.loads(line), "no number of ours is written like this"
    line = event_line(an_event("r", 7, body=b'{"ms":1.5}\n{"value":{"a":[1,2.50]}}'))
    assert line.endswith(b',"fields":{"ms":1.5},"data":{"value":{"a":[1,2.50]}}}')
    assert event_line(an_event("r", 7, body=b'{"ms":1.5}\n')).endswith(b',"fields":{"ms":1.5}}')


@pytest.mark.parametrize(
    "change",
    [
        lambda line: b"",
        lambda line: line[:-1],
        lambda line: line + b" ",
        lambda line: b" " + line,
        lambda line: b"[" + line + b"]",
        lambda line: line.replace(b'"seq":7', b'"seq":7.0'),
        lambda line: line.replace(b'"seq":7', b'"seq": 7'),
        lambda line: line.replace(b'"seq":7,', b""),
        lambda line: line.replace(b'"seq":7', b'"seq":7,"more":1'),
        lambda line: line.replace(b'"kind"', b'"sort"'),
        lambda line: line.replace(b',"body":{}', b""),
        lambda line: line.replace(b'"body":{}', b'"body_base64":"e30="'),
        lambda line: line.replace(b'"body":{}', b'"body_base64":"e30"'),
        lambda line: line.replace(b'"body":{}', b'"body":{},"body":{}'),
    ],
)
def test_a_line_that_was_not_written_like_this_is_none(change: object) -> None:
    """There is one way to write an event; another that reads the same is refused."""
    line = change(event_line(an_event("r", 7)))  # type: ignore[operator]
    with pytest.raises(ValueError, match=r".*"):
        read_event(line)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:-1],
        lambda line: line + b" ",
        lambda line: line.replace(b'"seq":7', b'"seq":7,"more":1'),
        lambda line: line.replace(b'"fields":{"ms":1}', b'"fields":{"ms": 1}'),
        lambda line: line.replace(b'"fields":{"ms":1}', b'"fields":[]'),
        lambda line: line.replace(b'"fields":{"ms":1},', b""),
        lambda line: line.replace(b'"fields"', b'"data":{},"fields"'),
        lambda line: line.replace(b',"data"', b',"body":{},"data"'),
        lambda line: line.replace(b'"data":{}', b'"data":{},"data":{}'),
        lambda line: line.replace(b'"data":{}', b'"data":'),
        lambda line: line.replace(b'"data":{}', b'"data":{},"seq":8'),
        lambda line: line.replace(b'"fields":{"ms":1},"data":{}', b'"data":{},"fields":{"ms":1}'),
    ],
)
def test_a_line_of_two_members_is_written_in_one_way_too(change: object) -> None:
    """Planted: the data taken as whatever stands behind its name. A member more was read as part of it."""
    line = event_line(an_event("r", 7, body=b'{"ms":1}\n{}'))
    assert read_event(line).body == b'{"ms":1}\n{}'
    with pytest.raises(ValueError, match=r".*"):
        read_event(change(line))  # type: ignore[operator]


def test_a_letter_comes_back_as_it_was() -> None:
    """Its id and its bytes."""
    for body in (b'{"kind":"resolve"}', b"", b"\xff\n"):
        assert read_letter(letter_line("resolve-ü", body)) == ("resolve-ü", body)
    for line in (b'{"body":{}}', b'{"id":"x","body":{}}', b'{"key":3,"body":{}}'):
        with pytest.raises(ValueError, match=r".*"):
            read_letter(line)
