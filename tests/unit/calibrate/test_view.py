"""What calibrate shows, of numbers that are known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from perfcli.calibrate import view
from perfcli.calibrate.accuracy import _CheckedKernel
from perfcli.calibrate.view import CHECKED
from perfcli.model import TimeEstimate
from perfcli.predict.calibration import Residuals, shipped

MICRO = 1e-6


def checked(measured: float, estimated: float = 10.0) -> _CheckedKernel:
    """Return a kernel whose interval reaches from 8 to 12.5 µs where 10 are estimated."""
    estimate = TimeEstimate(estimated * MICRO, estimated / 1.25 * MICRO, estimated * 1.25 * MICRO)
    return _CheckedKernel("triton_a_0", "0", 1, estimate, measured * MICRO)


def test_residuals_are_told_as_relative_errors() -> None:
    """A log error of ln 1.5 is one of 50 %, not of 40.5 %."""
    everything = Residuals(12, math.log(1.125), math.log(1.3), math.log(1.5))
    made = replace(shipped()["h200"], residuals={"all": everything})
    text = view._describe_calibration(made, Path("mine.json"))
    assert "12 launches, held out: median error 12.5 %, 90th percentile 50 %\n" in text


def test_the_check_is_summed_up_in_percent() -> None:
    kernels = [checked(8.0), checked(10.0), checked(10.0), checked(40.0)]
    lines = list(view._describe_check(kernels, "NVIDIA H200"))
    assert lines == [
        "4 kernels of 3 µs and more: median error 12.5 %, 90th percentile 75 %; 75 % inside their "
        "90 % interval",
        "far outside: triton_a_0: the model does not know why (PC904)",
        "constants: NVIDIA H200",
    ]


def test_short_launches_are_not_summed_up() -> None:
    lines = list(view._describe_check([checked(2.9)], "NVIDIA H200"))
    assert lines[0] == "no launch takes 3 µs or more: shorter ones say little"


def test_a_row_has_the_error_with_its_sign() -> None:
    *_, error, mark = view._row(checked(20.0))
    assert (error, mark) == ("−50 %", "far outside")
    *_, error, mark = view._row(checked(8.0))
    assert (error, mark) == ("+25 %", "")


def test_the_table_says_how_many_kernels_it_leaves_out() -> None:
    lines = view._list_checked([checked(8.0)] * 33).splitlines()
    assert lines[-1] == "… and 3 more"
    assert len(lines) == 1 + 30 + 1
    assert "more" not in view._list_checked([checked(8.0)] * 30)
    # Without the table, the first line is the result.
    first, *_ = view._describe_check([checked(8.0)] * 33, "NVIDIA H200")
    assert first.startswith("33 kernels of 3 µs and more: median error 25 %")


def test_the_table_of_kernels_as_a_frame() -> None:
    frame = CHECKED.to_frame([checked(10.0), checked(1.0)])
    assert list(frame["measured_seconds"]) == [10 * MICRO, MICRO]
    assert list(frame["error"]) == pytest.approx([0.0, 9.0])
    assert list(frame["inside"]) == [True, False]
    assert frame.attrs["units"]["low"] == "s"
