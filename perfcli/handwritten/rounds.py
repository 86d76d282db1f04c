"""Rounds of a benchmark: every contender once per round, in an order drawn anew each time, so that
what the machine does meanwhile hits all of them alike. Knows neither torch nor a device."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Protocol

Launch = Callable[[], object]


class Clock(Protocol):
    """Two implementations: ``device_clock.DeviceClock``, and one for tests."""

    def seconds(self, name: str, launch: Launch) -> float:
        """What one launch takes on the device, with nothing of it in L2 before."""
        ...

    def now(self) -> float:
        """Seconds on the host, from wherever."""
        ...


LEAST_ROUNDS = 8
"""With fewer the interval of a median reaches from the smallest to the largest value at 99 %."""


def time_rounds(
    contenders: Mapping[str, Launch], clock: Clock, rounds: int, budget_seconds: float, seed: int
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Each contender's seconds, round by round, and why some were dropped: a contender that raises
    is out from then on, without its values. Ends after ``rounds``, or when the budget is spent and
    eight are there."""
    draw = random.Random(seed)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    errors: dict[str, str] = {}
    started = clock.now()
    for number in range(rounds):
        if number >= LEAST_ROUNDS and clock.now() - started > budget_seconds:
            break
        order = [name for name in contenders if name not in errors]
        draw.shuffle(order)
        for name in order:
            try:
                taken[name].append(clock.seconds(name, contenders[name]))
            except Exception as error:
                errors[name] = first_line(error)
    return {n: tuple(v) for n, v in taken.items() if n not in errors}, errors


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
