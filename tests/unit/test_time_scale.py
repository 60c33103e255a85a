"""The time axis of a run: in order, from 0 to 1, with short pauses."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.views.time_scale import TimeScale

SPANS = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=8)


def test_a_pause_of_days_is_narrow() -> None:
    """Two hours of work with three days between them take nearly all of the axis."""
    scale = TimeScale([(0.0, 3600.0), (3 * 86_400.0, 3 * 86_400.0 + 3600.0)])
    assert scale.place(3600.0) == pytest.approx(0.5, abs=0.03)
    assert scale.place(3 * 86_400.0) - scale.place(3600.0) < 0.05
    assert scale.place(0.0) == 0.0
    assert scale.place(3 * 86_400.0 + 3600.0) == pytest.approx(1.0)


def test_without_any_time_everything_is_at_the_beginning() -> None:
    """A run that has not begun, and one that took no time."""
    assert TimeScale([]).place(5.0) == 0.0
    assert TimeScale([(5.0, 5.0)]).place(5.0) == 0.0


@given(spans=SPANS, moments=st.lists(st.floats(-10, 2e6), max_size=20))
@example(spans=[(0.0, 2.5e-100), (248613.0, 0.0), (248618.0, 0.0)], moments=[248614.0, 1.0])
def test_later_moments_are_never_further_left(spans: list[tuple[float, float]], moments: list[float]) -> None:
    """Whatever the spans are: overlapping, reversed, of no length.

    The example is work so short that a place, added to a time, was lost in it.
    """
    scale = TimeScale(spans)
    places = [scale.place(at) for at in sorted(moments)]
    assert places == sorted(places)
    assert all(0.0 <= place <= 1.0 + 1e-9 for place in places)
