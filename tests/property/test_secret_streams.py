"""A streamed answer with a secret, cut at every boundary: the journal never has the value, whole or in two chunks."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.known_secrets import known_secrets

import holdfast
from holdfast.codec import secrets
from holdfast.engine.llm.stream_flusher import Flusher
from holdfast.model.event_fields import contents_of

VALUE = "sQ7-sQ7-Zx9tLw"
"""It begins with itself: a text that ends with ``sQ7-sQ7-`` may be its middle or its beginning."""


def flush(run: holdfast.Run) -> None:
    for stream in tuple(run._held.session.part(Flusher)._streams):
        stream.flush()


def chunks_of(url: str, pieces: list[str]) -> list[str]:
    """The texts of the chunks that a cut-off answer leaves, flushed behind every piece."""

    def call(_: Any) -> Any:
        for piece in pieces:
            yield piece
            flush(run)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=url) as run:
        for _ in run.stream("answer", call, {}):
            pass
    events = holdfast.store(url).events("r")
    return [contents_of(event.body).get("text", "") for event in events if event.kind == "stream.chunk"]


def test_no_boundary_lets_a_secret_through(tmp_path: Any) -> None:
    """Cut into two pieces at every place. Seen to fail with ``_finished`` answering ``len(pending)``."""
    with known_secrets():
        secrets.secret(VALUE, name="S")
        text = f"the key {VALUE}, and {VALUE}"
        for at in range(1, len(text)):
            chunks = chunks_of(f"memory://cut-{tmp_path.name}-{at}", [text[:at], text[at:]])
            assert "".join(chunks) == "the key <secret S>, and <secret S>"


def test_no_boundary_of_a_nested_text_lets_a_secret_through(tmp_path: Any) -> None:
    """The arguments of a tool come as JSON, in pieces: a quote of the value is written in another way there.

    Seen to fail: the value was held back only as it is.
    """
    value = 'ak7-Zx9"Qm\\4tLw2Vb'
    with known_secrets():
        secrets.secret(value, name="S")
        text = json.dumps({"key": value})
        for at in range(1, len(text)):
            chunks = chunks_of(f"memory://nested-{tmp_path.name}-{at}", [text[:at], text[at:]])
            assert "".join(chunks) == '{"key": "<secret S>"}'


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), max_size=12), ends_at=st.integers(0, 60))
def test_many_pieces_and_a_cut_off_end(cuts: list[int], ends_at: int) -> None:
    """However the answer is cut, and wherever it breaks off, four characters of a secret in a row are too many."""
    with known_secrets():
        secrets.secret(VALUE, name="S")
        text = f"one {VALUE} two sQ7- three {VALUE}{VALUE} end"[: max(1, ends_at)]
        places = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
        pieces = [text[a:b] for a, b in pairwise(places)]
        found = "".join(
            chunks_of(f"memory://many-{id(cuts)}-{len(holdfast.__all__)}-{hash((*cuts, ends_at))}", pieces)
        )
        assert VALUE[:5] not in found.replace("sQ7- three", "")
        whole = f"one {VALUE} two sQ7- three {VALUE}{VALUE} end".replace(VALUE, "<secret S>")
        assert whole.startswith(found) or found.startswith(whole[: max(0, len(found) - len("<secret S>"))])
