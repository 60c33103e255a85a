"""The collector rests while much is made, and never stays off."""

import gc
from collections.abc import Iterator

import pytest

from holdfast.engine.journal.pause_gc import without_collecting


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector as it is for everybody else, whatever a test did to it."""
    yield
    gc.enable()


def test_the_collector_is_off_inside_and_on_after() -> None:
    """Also after an exception."""
    with pytest.raises(KeyError), without_collecting():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_who_keeps_it_off_finds_it_off() -> None:
    """A program that runs without it is not surprised by it. Planted: turned on at the end in any case."""
    gc.disable()
    with without_collecting():
        pass
    assert not gc.isenabled()


def test_overlapping_threads_leave_it_on() -> None:
    """The second found it off; the first turns it on again, in whichever order they end."""
    for first_ends_first in (True, False):
        first, second = without_collecting(), without_collecting()
        first.__enter__()
        second.__enter__()
        for each in (first, second) if first_ends_first else (second, first):
            each.__exit__(None, None, None)
        assert gc.isenabled()
