"""Bytes and memory where Inductor has an estimate, and where it has none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from perfcli.compile.traffic import UNKNOWN, bytes_moved, peak_memory


def test_a_kernel_without_an_estimate() -> None:
    assert bytes_moved(SimpleNamespace()) == UNKNOWN
    assert (UNKNOWN.read, UNKNOWN.written) == (None, None)


def test_an_estimate_that_fails_is_unknown_not_zero() -> None:
    def estimate() -> int:
        raise AssertionError("no hint for u0")

    assert bytes_moved(SimpleNamespace(estimate_kernel_num_bytes=estimate)) == UNKNOWN


@pytest.mark.torch
def test_a_schedule_that_cannot_be_planned_has_no_peak() -> None:
    assert peak_memory(SimpleNamespace()) is None
