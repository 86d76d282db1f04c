from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import H100

from perfcli.facts.traffic import lower_bound_seconds


def test_bytes_over_bandwidth() -> None:
    assert lower_bound_seconds(3_350_000_000, H100) == pytest.approx(1e-3)
    assert lower_bound_seconds(0, H100) == 0


def test_unknown_stays_unknown() -> None:
    assert lower_bound_seconds(None, H100) is None
    assert lower_bound_seconds(1, replace(H100, bandwidth=0.0)) is None
