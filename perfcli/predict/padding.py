"""Predicts what Inductor's timing of a padded matrix product would find on a device.

A worker decides by it where there is no device: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.model import OperatorWork, Target
from perfcli.predict.operators import estimate_call

_ADVANTAGE = 1.1
"""Inductor's own: a padded product is taken where it is this much faster
(``pad_mm.is_padded_faster``)."""
_LAUNCH = 2e-6
"""Seconds between two kernels of one timed function."""
_COPIES = {"aligned": 0.75, "odd": 0.43, "transposed": 0.18}
"""Share of the memory's bandwidth that a copy into a padded matrix reaches: from rows that begin
at 16 bytes, from others, and from columns."""


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


def predict_padding(
    left: PaddedMatrix, right: PaddedMatrix, batch: int, precision: str, bias: bool, target: Target
) -> bool | None:
    """Return whether Inductor would measure that padding pays; None where a product's time is not
    known."""
    size = 2 if precision in ("bf16", "fp16") else 4
    lane = 16 // size
    before = _estimate(left, right, batch, precision, bias, target, padded=False)
    after = _estimate(left, right, batch, precision, bias, target, padded=True)
    if before is None or after is None:
        return None
    for matrix in (left, right):
        if not matrix.is_padded:
            continue
        if matrix.free:
            after += _LAUNCH  # the padding itself is filled
            continue
        cells = batch * matrix.padded_rows * matrix.padded_columns * size
        kind = "transposed" if matrix.transposed else "odd" if matrix.columns % lane else "aligned"
        # Filled, then copied into: written twice and read once.
        after += 2 * _LAUNCH + 3 * cells / (target.bandwidth * _COPIES[kind])
    if bias and right.columns != right.padded_columns:
        after += 2 * _LAUNCH
    return before > _ADVANTAGE * after


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
