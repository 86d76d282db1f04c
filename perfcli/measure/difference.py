"""Measures how two tensors differ that should be equal, without copies of their size in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CHUNK = 1 << 24
"""Elements that are compared at once: 128 MiB of float64."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Holds the difference of a value from its reference. Elements that are not finite count in
    ``odd`` only."""

    largest_error: float
    largest: float
    """Largest absolute value of the reference."""
    error_norm: float
    norm: float
    unequal: int
    odd: int
    """Elements that are NaN or infinite on one side only, or infinite with another sign."""
    nan: int
    """Elements that are NaN where the reference's are not."""
    count: int

    @property
    def relative(self) -> float:
        """Return the largest error over the reference's largest value."""
        return _ratio(self.largest_error, self.largest)

    @property
    def share(self) -> float:
        """Return the part of the elements that are not equal."""
        return self.unequal / self.count if self.count else 0.0

    @property
    def rms(self) -> float:
        """Return the root mean square of the reference."""
        return self.norm / math.sqrt(self.count) if self.count else 0.0

    def relative_norm(self, least: float) -> float:
        """Return the L2 norm of the error over the reference's; ``least``: root mean square of the
        reference below which it does not count as smaller."""
        return _ratio(self.error_norm, max(self.norm, least * math.sqrt(self.count)))


def kind(tensor: Any) -> str:
    """Return what sort of number: all floating-point dtypes are one."""
    import torch

    if tensor.is_complex():
        return "complex"
    if tensor.is_floating_point():
        return "floating point"
    return "bool" if tensor.dtype == torch.bool else "integer"


def is_comparable(tensor: Any) -> bool:
    """Return whether its elements can be read one after the other."""
    import torch

    return tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized


def measure_difference(value: Any, reference: Any) -> Difference:
    """Measure the difference of two tensors of one shape, each in any dtype."""
    import torch

    worst = largest = squares = reference_squares = 0.0
    unequal = odd = nan = 0
    for ours, theirs in zip(_chunks(value), _chunks(reference), strict=True):
        finite = torch.isfinite(ours) & torch.isfinite(theirs)
        both_nan = torch.isnan(ours) & torch.isnan(theirs)
        same = (ours == theirs) | both_nan
        unequal += int((~same).sum())
        odd += int((~finite & ~same).sum())
        nan += int((torch.isnan(ours) & ~torch.isnan(theirs)).sum())
        error = torch.where(finite, ours - theirs, 0.0).abs()
        size = torch.where(finite, theirs, 0.0).abs()
        worst, largest = max(worst, float(error.max())), max(largest, float(size.max()))
        squares += float(error.square().sum())
        reference_squares += float(size.square().sum())
    return Difference(
        worst,
        largest,
        math.sqrt(squares),
        math.sqrt(reference_squares),
        unequal,
        odd,
        nan,
        value.numel(),
    )


def _chunks(tensor: Any) -> Iterator[Any]:
    import torch

    flat = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    flat = flat.reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        yield flat[start : start + CHUNK].double()


def _ratio(error: float, size: float) -> float:
    if error == 0.0:
        return 0.0
    return error / size if size else math.inf
