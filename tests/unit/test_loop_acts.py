"""What tells one call from another in the search for circles, from the bodies that the journal has of it."""

from collections.abc import Hashable

import pytest
from orjson import loads

from holdfast.core.loops.loop_acts import act_of, arguments_of, declared_as, manner_of
from holdfast.engine.journal.drafts import draft
from holdfast.limits import VALUE_INLINE_BYTES_MAX
from holdfast.model.event_fields import write
from holdfast.model.loops import Manner, Thresholds


def intent(arguments: bytes, **fields: object) -> bytes:
    return draft("step.started", "s", "k.1", {"effect": "read", "in": "", **fields}, arguments, "args").body


def outcome(value: bytes | None, **fields: object) -> bytes:
    return draft("step.finished", "s", "k.1", dict(fields), value).body


def result_of(body: bytes) -> Hashable:
    return act_of(("s", b"{}"), body).result


def test_the_place_of_a_call_plays_no_part() -> None:
    """In another scope, after another call, with another idempotency key, it is the same call."""
    first = intent(b'{"q":"x"}', after="a.1")
    second = intent(b'{"q":"x"}', after="b.7", idempotency_key="ab" * 16, loops="polling")
    assert arguments_of("k.1", first) == arguments_of("k.9", second)
    assert arguments_of("k.1", first) != arguments_of("k.1", intent(b'{"q":"y"}'))
    assert arguments_of("k.1", first) == b'{"q":"x"}', "what a live call has in its hands"


def test_an_explicit_key_is_the_call() -> None:
    """Two keys are two calls, whatever their arguments."""
    same = intent(b"{}")
    assert arguments_of("abc.k", same) != arguments_of("def.k", same)


def test_how_long_it_took_plays_no_part() -> None:
    """Planted: the whole body compared. Every call took another time, and nothing ever repeated."""
    assert result_of(outcome(b'"x"', ms=0.5)) == result_of(outcome(b'"x"', ms=17.25))
    assert result_of(outcome(b'"x"', ms=0.5)) != result_of(outcome(b'"y"', ms=0.5))


def test_a_settled_outcome_is_as_good_as_a_reported_one() -> None:
    """Settled by a verifier, by a late letter or from the origin: the value is what counts."""
    value = b'{"paid":["Ada",1.5,"\xc3\xa9"]}'
    plain = result_of(outcome(value, ms=3.0))
    assert plain == result_of(outcome(value, how="done", via="verify"))
    assert plain == result_of(outcome(value, how="done", via="origin", ms=3.0, seq=7))
    late = write({"ms": 3.0, "how": "done", "via": "late", "by": ""}, {"value": loads(value)})
    assert plain == result_of(late)
    old = b'{"ms":3.0,"value":{"paid":["Ada",1.5,"\xc3\xa9"]},"how":"done","via":"late","by":""}'
    assert plain == result_of(old), "of format 1"


def test_a_large_value_is_told_by_its_address() -> None:
    """It is not in the body, and its address tells it from others."""
    large = b'"' + b"x" * VALUE_INLINE_BYTES_MAX + b'"'
    assert result_of(outcome(large, ms=1.0)) == result_of(outcome(large, how="done", via="verify"))
    assert result_of(outcome(large, ms=1.0)) != result_of(outcome(large.replace(b"x", b"y"), ms=1.0))
    assert arguments_of("k.1", intent(large)) == arguments_of("k.2", intent(large, after="b.1"))


def test_a_failure_is_told_by_its_class_and_message() -> None:
    """The same failure from another line of the program is the same. Planted: the traceback compared too."""

    def failed(message: str, line: str) -> bytes:
        error = {"type": "builtins:ValueError", "message": message, "traceback": line}
        return write({"ms": 1.0}, {"error": error})

    assert result_of(failed("no", "line 1")) == result_of(failed("no", "line 2"))
    assert result_of(failed("no", "line 1")) != result_of(failed("nope", "line 1"))


@pytest.mark.parametrize("manner", [None, "polling", "off", Thresholds(0, 7, 9)])
def test_the_manner_of_a_call_is_read_back(manner: Manner) -> None:
    """From the intent, where it stands only if something was declared."""
    fields = {} if manner is None else {"loops": declared_as(manner)}
    assert manner_of(intent(b'{"loops":"polling"}', **fields)) == manner
