"""Axes of drawings: where a value lies, and which values are worth a line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """``at``: in the drawing's own units."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Values between ``low`` and ``high`` to places between ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self._measure(self.low), self._measure(self.high)
        share = (self._measure(value) - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 2)

    def _measure(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self, write: Callable[[float], str], most: int = 6) -> tuple[Tick, ...]:
        values = _decades(self.low, self.high) if self.log else _round_steps(self, most)
        return tuple(Tick(self(value), write(value)) for value in values)


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with two axes: its size, the frame inside it, and the lines across."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def _decades(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def _round_steps(scale: Scale, most: int) -> list[float]:
    """Return the multiples of 1, 2 or 5 times a power of ten."""
    raw = (scale.high - scale.low) / most
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]
