"""Which blobs a history needs: found whole, and nothing besides."""

import pytest

import holdfast
from holdfast.engine.journal.journal import read_all
from holdfast.engine.state.blob_references import references
from holdfast.errors import Corrupt
from holdfast.model.events import Kind
from holdfast.testing.store_rules.builders import an_event


def texts(count: int) -> list[str]:
    return [f"message {number} " * 40 for number in range(count)]


def test_everything_that_a_run_stored_is_referred_to(url: str) -> None:
    """Large values, large arguments and the packs of every state; in one run that is all there is in the store."""
    store = holdfast.store(url)
    with holdfast.run("r", store=store) as run:
        run.step("big", lambda text: text * 2, "x" * 20_000)
        for count in (10, 200, 400):
            run.checkpoint({"messages": texts(count)})
        run.finish("y" * 20_000)
    port = store._port
    kept = {info.address for info in port.scan_blobs(limit=1000)}
    assert len(kept) > 5
    events = read_all(port, "r")
    assert set(map(port.blob_name, references(port, *events))) == kept
    one_by_one = [set(map(port.blob_name, references(port, event))) for event in events]
    assert set().union(*one_by_one) == kept
    states = [found for event, found in zip(events, one_by_one, strict=True) if event.kind == Kind.CHECKPOINT]
    assert len(states) == 3
    assert states[0] <= states[1] < states[2], "a later state needs what it has in common with an earlier one"


def test_a_missing_pack_is_damage(url: str) -> None:
    """Not a shorter answer: whoever copies would copy a hole, whoever removes would remove too much."""
    store = holdfast.store(url)
    with holdfast.run("r", store=store) as run:
        run.checkpoint({"messages": texts(300)})
        run.checkpoint({"messages": texts(301)})
    port = store._port
    events = [event for event in read_all(port, "r") if event.kind == Kind.CHECKPOINT]
    (first, *_) = references(port, events[0])
    port.delete_blobs([first], untouched_since=1e12)
    with pytest.raises(Corrupt):
        references(port, events[1])


@pytest.mark.parametrize("body", [b"", b"[]", b"3", b'{"state":["#","nowhere/0"]}', b'{"size_blob":3}'])
def test_what_looks_like_a_reference_and_is_none(url: str, body: bytes) -> None:
    """Only a checkpoint has a state, only a text is an address, and not every body is an object."""
    assert references(holdfast.store(url)._port, an_event("r", 1, body=body)) == set()
