"""Whether two sides are meant, or the catalogue."""

from __future__ import annotations

import pytest

from perfcli.bisect.sides import BisectOptions


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (BisectOptions("spills"), True),
        (BisectOptions("spills", good=("a=1",)), True),
        (BisectOptions("spills", good_python="p"), True),
        (BisectOptions("spills", good=("a=1",), good_python="p"), True),
        (BisectOptions("spills", bad=("a=1",)), False),
        (BisectOptions("spills", bad_python="q"), False),
        (BisectOptions("spills", good=("a=1",), good_python="p", bad_python="q"), False),
    ],
)
def test_without_a_bad_side_the_catalogue_is_meant(options: BisectOptions, expected: bool) -> None:
    assert options.is_catalogue is expected
