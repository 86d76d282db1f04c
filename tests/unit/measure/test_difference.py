"""Differences of two tensors against numbers counted by hand."""

from __future__ import annotations

import math

import pytest

from perfcli.measure import difference

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("chunk", [2, 3, 1 << 24])
def test_numbers_counted_by_hand(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(difference, "CHUNK", chunk)
    nan, inf = math.nan, math.inf
    reference = torch.tensor([[3.0, -4.0, 0.0, 1.0], [nan, inf, inf, 5.0]])
    value = torch.tensor([[3.5, -4.0, 0.0, nan], [nan, inf, -inf, 5.0]])
    found = difference.measure_difference(value, reference)
    assert (found.largest_error, found.largest, found.relative) == (0.5, 5.0, 0.1)
    assert (found.unequal, found.odd, found.nan, found.count) == (3, 2, 1, 8)
    assert found.error_norm == 0.5
    assert found.norm == pytest.approx(math.sqrt(9 + 16 + 25))


def test_half_precision_is_compared_in_float64() -> None:
    import torch

    value = torch.full((1000,), 256.0, dtype=torch.bfloat16)
    found = difference.measure_difference(value, torch.full((1000,), 255.0, dtype=torch.float64))
    assert found.relative == pytest.approx(1 / 255)
    assert found.relative_norm(0.0) == pytest.approx(1 / 255)
    assert found.relative_norm(510.0) == pytest.approx(1 / 510)


def test_a_reference_of_zeros() -> None:
    import torch

    zeros = torch.zeros(4)
    assert difference.measure_difference(zeros, zeros).relative == 0.0
    assert difference.measure_difference(zeros + 1, zeros).relative == math.inf


def test_nothing_to_compare() -> None:
    import torch

    found = difference.measure_difference(torch.empty(0), torch.empty(0))
    assert (found.relative, found.share, found.rms) == (0.0, 0.0, 0.0)
