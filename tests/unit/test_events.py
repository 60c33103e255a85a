"""Events: their checksum and their chain."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.events import Event, chained, checksum, is_intact, link

TEXT = st.text(st.characters(exclude_categories=()), max_size=9)


@given(
    TEXT,
    st.integers(1, 2**32),
    st.floats(allow_nan=False),
    TEXT,
    TEXT,
    st.integers(0, 2**40),
    st.binary(),
    st.integers(1, 2**32 - 1),
)
def test_a_new_event_has_the_checksum_and_the_link_that_readers_compute(
    run: str, seq: int, at: float, name: str, key: str, fence: int, body: bytes, before: int
) -> None:
    """The short way to make one is written out: it may not differ from the two functions by which it is read."""
    (made,) = chained(run, seq - 1, before, fence, at, [("mark", name, key, body, (), None)])
    crc = checksum(run, seq, at, "mark", name, key, fence, body)
    assert made == Event(seq, at, "mark", name, key, fence, body, crc, link(before, crc))
    assert type(made) is Event
    assert is_intact(run, made)
