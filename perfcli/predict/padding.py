"""Predicts what Inductor's timing of a padded matrix product would find on a device.

A worker decides by it where there is no device: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.model import OperatorWork, Target
from perfcli.predict.operators import estimate_call, table_for

_ADVANTAGE = 1.1
"""Inductor's own: a padded product is taken where it is this much faster
(``pad_mm.is_padded_faster``)."""
_LAUNCH = 2e-6
"""Seconds between two kernels of one timed function."""
_FIRST = 25e-6
"""Seconds that the device waits for its first work where an operand is copied: the host allocates
and fills the copy first (median of eleven products of 90 µs to 2 ms, H200, torch 2.11)."""
_COPIES = {"aligned": 0.75, "odd": 0.43, "transposed": 0.18}
"""Share of the memory's bandwidth that a copy into a padded matrix reaches: from rows that begin
at 16 bytes, from others, and from columns."""
_HOST_CALLS = {"product": 1.4, "operand": 3.1, "free": 1.5, "bias": 4.9}
"""How long the host takes for the product, to pad an operand that is copied and one that is not,
and to pad what is added, in calls of an operator (76 decisions, H200, torch 2.11: 20, 43, about 20
and 68 microseconds). Short products wait for it: their times say how fast the host is."""


@dataclass(frozen=True, slots=True)
class PaddedMatrix:
    """Describes one operand of a product, and what Inductor would make of it."""

    rows: int
    columns: int
    padded_rows: int
    padded_columns: int
    transposed: bool
    """Whether its rows are not contiguous in memory."""
    free: bool
    """Whether Inductor takes it that what makes the operand can write it padded at once
    (``pad_mm.should_exclude_padding_time``)."""

    @property
    def is_padded(self) -> bool:
        return (self.rows, self.columns) != (self.padded_rows, self.padded_columns)


@dataclass(frozen=True, slots=True)
class PaddingForecast:
    """Says what Inductor's timing of a product, as it is and padded, is expected to find."""

    pays: bool
    is_short: bool
    """Whether the device is done with the product before the host has called it: what is measured
    is the host, and where that is busy the answer is a coin toss."""


def predict_padding(
    left: PaddedMatrix, right: PaddedMatrix, batch: int, precision: str, bias: bool, target: Target
) -> PaddingForecast | None:
    """Return what Inductor would measure; None where a product's time is not known. What it
    measures is never less than what the host needs for the same calls."""
    before = _estimate(left, right, batch, precision, bias, target, padded=False)
    after = _estimate(left, right, batch, precision, bias, target, padded=True)
    table = table_for(target)
    if before is None or after is None or table is None:
        return None
    call = table.host_micros["operator"] * 1e-6
    host = _HOST_CALLS["product"] * call
    is_short = before < host
    before = max(before, host)
    for matrix in (left, right):
        if matrix.is_padded:
            after += _pad(matrix, batch, precision, target)
            host += _HOST_CALLS["free" if matrix.free else "operand"] * call
    if bias and right.columns != right.padded_columns:
        after += 2 * _LAUNCH
        host += _HOST_CALLS["bias"] * call
    return PaddingForecast(before > _ADVANTAGE * max(after, host), is_short)


def _pad(matrix: PaddedMatrix, batch: int, precision: str, target: Target) -> float:
    """Return the seconds that the device needs to pad an operand."""
    if matrix.free:
        return _LAUNCH  # the padding itself is filled
    size = 2 if precision in ("bf16", "fp16") else 4
    cells = batch * matrix.padded_rows * matrix.padded_columns * size
    is_odd = matrix.columns % (16 // size)
    kind = "transposed" if matrix.transposed else "odd" if is_odd else "aligned"
    # Filled, then copied into: written twice and read once.
    return _FIRST + 2 * _LAUNCH + 3 * cells / (target.bandwidth * _COPIES[kind])


def _estimate(
    left: PaddedMatrix,
    right: PaddedMatrix,
    batch: int,
    precision: str,
    bias: bool,
    target: Target,
    padded: bool,
) -> float | None:
    if padded:
        m, k, n = left.padded_rows, left.padded_columns, right.padded_columns
    else:
        m, k, n = left.rows, left.columns, right.columns
    # A padded copy is contiguous, whatever it was copied from.
    turned = [each.transposed and not (padded and each.is_padded) for each in (left, right)]
    strides = (m if turned[0] else k, k if turned[1] else n, n)
    align = 8
    while any(stride % align for stride in strides):
        align //= 2
    sizes = {
        "m": m, "n": n, "k": k, "batch": batch, "left": turned[0], "right": turned[1],
        "align": align, "batched": batch > 1, "bias": bias, "added": False,
    }  # fmt: skip
    work = OperatorWork(
        "product", precision, 2.0 * batch * m * n * k, 0.0, 0.0,
        {name: float(value) for name, value in sizes.items()},
    )  # fmt: skip
    found = estimate_call(work, target)
    return None if found is None else found.seconds
