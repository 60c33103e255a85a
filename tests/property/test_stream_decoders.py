"""Streams cut into pieces at any place give the same events."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.wire.stream_decoders import Lines, ServerSentEvents

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1), max_size=6
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The bytes, cut at these places."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def read(decoder: Lines, data: bytes, cuts: list[int]) -> list[str]:
    return [*(event for piece in pieces(data, cuts) for event in decoder.feed(piece)), *decoder.end()]


@given(
    TEXTS,
    st.lists(st.integers(0, 500), max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.sampled_from(["", "\ufeff"]),
)
def test_server_sent_events(said: list[str], cuts: list[int], end: str, has_end: bool, mark: str) -> None:
    """Whatever ends its lines; comments and names of events do not count, and nothing behind ``[DONE]`` does."""
    events = [f": hello{end}event: piece{end}data: x{text}{end}{end}" for text in said]
    over = f"data: [DONE]{end}{end}data: late{end}{end}"
    decoder = ServerSentEvents()
    data = "".join([mark, *events, over if has_end else ""])
    assert read(decoder, data.encode(), cuts) == [f"x{text}" for text in said]
    assert decoder.is_over == has_end


@given(TEXTS, st.lists(st.integers(0, 500), max_size=8), st.booleans())
def test_lines(said: list[str], cuts: list[int], is_ended: bool) -> None:
    """The last line needs no end."""
    data = "\n".join(f"x{text}" for text in said) + ("\n" if is_ended else "")
    assert read(Lines(), data.encode(), cuts) == [f"x{text}" for text in said]


@given(st.lists(st.integers(0, 500), max_size=3), st.sampled_from(["", "\n"]))
def test_a_stream_that_begins_with_a_mark_of_byte_order(cuts: list[int], before: str) -> None:
    """It belongs to no event: those that follow it are all there.

    Seen before: the first event was lost, and an answer without its first word was recorded.
    """
    data = f"\ufeff{before}data: Das\n\ndata: Meer\n\n"
    assert read(ServerSentEvents(), data.encode(), cuts) == ["Das", "Meer"]
