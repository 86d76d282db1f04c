"""Compares a family's outputs with their reference, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from perfcli.model import Tolerance
from perfcli.model.kernel_work import OutputError

CHUNK = 1 << 24
"""Elements that are compared at once: 128 MiB of float64 a tensor."""


def compare_outputs(
    found: Mapping[str, Any], expected: Mapping[str, Any], allowed: Mapping[str, Tolerance]
) -> tuple[OutputError, ...]:
    """Return one for each output of the reference; an output that has no tolerance may not
    differ."""
    exact = Tolerance(0.0, 0.0, "no tolerance is declared")
    return tuple(
        _missing(name, "is not among the outputs", int(reference.numel()))
        if name not in found
        else _compare(name, found[name], reference, allowed.get(name, exact))
        for name, reference in expected.items()
    )


def _compare(name: str, ours: Any, reference: Any, tolerance: Tolerance) -> OutputError:
    """Compare one output. NaN has to be where the reference has NaN, an infinity where it has the
    same one; a value that the output's dtype cannot hold may be infinite there."""
    count = int(reference.numel())
    if ours.shape != reference.shape:
        shapes = f"{tuple(ours.shape)}, not {tuple(reference.shape)}"
        return _missing(name, f"has the shape {shapes}", count)
    if not count:
        return OutputError(name, 0.0, tolerance.absolute, "", "", (), 0, 0)
    worst: tuple[float, int] = (-1.0, 0)
    wrong = 0
    for start, excess in _excesses(ours, reference, tolerance):
        wrong += int((excess > 1).sum())
        place = int(excess.argmax())
        worst = max(worst, (float(excess[place]), start + place), key=lambda pair: pair[0])
    index = worst[1]
    value, expected = (float(t.reshape(-1)[index].double()) for t in (ours, reference))
    return OutputError(
        name,
        0.0 if value == expected else _finite(abs(value - expected)),
        _finite(tolerance.absolute + tolerance.relative * abs(expected)),
        f"{value:.6g}",
        f"{expected:.6g}",
        _unravel(index, tuple(reference.shape)),
        wrong,
        count,
    )


def _excesses(ours: Any, reference: Any, tolerance: Tolerance) -> Iterator[tuple[int, Any]]:
    """Yield, for each chunk, where it starts and each element's error over what is allowed."""
    import torch

    largest = torch.finfo(ours.dtype).max if ours.is_floating_point() else math.inf
    flat, references = ours.reshape(-1), reference.reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        value = flat[start : start + CHUNK].double()
        expected = references[start : start + CHUNK].double()
        overflows = (expected.abs() > 0.99 * largest) & (value == expected.sign() * math.inf)
        same = (value == expected) | (value.isnan() & expected.isnan()) | overflows
        both = value.isfinite() & expected.isfinite()
        error = torch.where(both, (value - expected).abs(), math.inf)
        allowed = tolerance.absolute + tolerance.relative * expected.abs()
        ratio = torch.where(allowed > 0, error / allowed, math.inf)
        ratio = torch.where(both, ratio, math.inf)
        yield start, torch.where(same, 0.0, ratio)


def _missing(name: str, problem: str, count: int) -> OutputError:
    return OutputError(name, None, None, "", "", (), count, count, problem)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    place: list[int] = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        place.insert(0, rest)
    return tuple(place)
