"""The pure part; with real allocations on the CPU in test_measured_step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfcli.measure.memory import _reduce, _timeline


def test_held_bytes_after_each_change() -> None:
    assert _timeline([(0.1, 100), (0.2, 50), (0.3, -100)], held=1000) == [
        (0.0, 1000),
        (0.1, 1100),
        (0.2, 1150),
        (0.3, 1050),
    ]


def test_a_short_timeline_stays_as_it_is() -> None:
    points = [(0.0, 1), (0.5, 3), (1.0, 2)]
    assert _reduce(points, 3) == tuple(points)


@given(
    st.lists(
        st.tuples(st.floats(0, 10, allow_nan=False), st.integers(0, 1 << 40)),
        min_size=1,
        max_size=400,
    ),
    st.integers(3, 50),
)
def test_a_reduced_timeline_keeps_its_peak_its_end_and_its_order(
    points: list[tuple[float, int]], limit: int
) -> None:
    points = sorted(points)
    shorter = _reduce(points, limit)
    assert len(shorter) <= limit
    assert shorter[-1] == points[-1]
    assert max(held for _, held in shorter) == max(held for _, held in points)
    assert [at for at, _ in shorter] == sorted(at for at, _ in shorter)
    assert set(shorter) <= set(points)
