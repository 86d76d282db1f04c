"""Whether two sides are meant, or the catalogue."""

from __future__ import annotations

import pytest

from perfcli.bisect.sides import Sides


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        (Sides(), True),
        (Sides(good=("a=1",)), True),
        (Sides(good_python="p"), True),
        (Sides(good=("a=1",), good_python="p"), True),
        (Sides(bad=("a=1",)), False),
        (Sides(bad_python="q"), False),
        (Sides(good=("a=1",), good_python="p", bad_python="q"), False),
    ],
)
def test_nothing_said_of_a_bad_side_is_the_catalogue(sides: Sides, expected: bool) -> None:
    assert sides.is_catalogue is expected
