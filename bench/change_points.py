"""How often perfcli calls a change that is none, and finds one that is there, in made-up series.

Each series has 60 points with 1 % noise: Gaussian; Gaussian with 5 % of points 5 to 10 standard
deviations off; or a first-order autoregression. False alarms: series without a change in which one
is found. Steps: +3 %, of which so many points are there; found counts within three points of the
truth. Drift: ten steps of +0.4 %, held against its best as ``history check`` does.

    python bench/change_points.py [--series 1000] [--seed 1]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from perfcli.stats.change_points import find_shifts
from perfcli.stats.drift import measure_drift

POINTS, NOISE, STEP = 60, 0.01, math.log(1.03)
AFTER = (3, 8, 30)
NEAR = 3
DRIFT, LIMIT = math.log(1.004), 0.02

Draw = Callable[[Any], Any]


def gaussian(random: Any) -> Any:
    return NOISE * random.standard_normal(POINTS)


def spiky(random: Any) -> Any:
    hit = random.random(POINTS) < 0.05
    size = random.choice([-1, 1], POINTS) * random.uniform(5, 10, POINTS)
    return gaussian(random) + NOISE * hit * size


def spiky_up(random: Any) -> Any:
    hit = random.random(POINTS) < 0.05
    return gaussian(random) + NOISE * hit * random.uniform(5, 10, POINTS)


def autoregressive(rho: float) -> Draw:
    def draw(random: Any) -> Any:
        innovations = NOISE * math.sqrt(1 - rho**2) * random.standard_normal(POINTS + 50)
        series = np.zeros(POINTS + 50)
        for t in range(1, len(series)):
            series[t] = rho * series[t - 1] + innovations[t]
        return series[50:]

    return draw


KINDS: Mapping[str, Draw] = {
    "gaussian": gaussian,
    "spiky": spiky,
    "spiky, slow only": spiky_up,
    "AR(1) 0.3": autoregressive(0.3),
    "AR(1) 0.5": autoregressive(0.5),
    "AR(1) 0.7": autoregressive(0.7),
}


def finds(series: Any, place: int) -> bool:
    return any(abs(shift.index - place) <= NEAR and shift.size > 0 for shift in find_shifts(series))


def drifts(series: Any) -> bool:
    """Whether check would fail: worse than its best by more than the limit, at 99 %."""
    found = measure_drift(list(series))
    return bool(found.size and found.size > math.log1p(LIMIT) and (found.surely_low or 0) > 0)


def measure(draw: Draw, count: int, random: Any) -> list[str]:
    def share(hits: int, of: int) -> str:
        return f"{100 * hits / of:.1f} %"

    cells = [share(sum(bool(find_shifts(draw(random))) for _ in range(count)), count)]
    some = max(count // 4, 50)
    for after in AFTER:
        place = POINTS - after
        step = np.where(np.arange(POINTS) >= place, STEP, 0.0)
        cells.append(share(sum(finds(draw(random) + step, place) for _ in range(some)), some))
    ramp = DRIFT * np.clip((np.arange(POINTS) - 25) / 1, 0, 10)
    cells.append(share(sum(drifts(draw(random) + ramp) for _ in range(some)), some))
    cells.append(share(sum(drifts(draw(random)) for _ in range(some)), some))
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    steps = [f"+3 % found, {after} points of it" for after in AFTER]
    titles = ["noise", "false alarms", *steps, "drift 10 × 0.4 % fails check", "check fails, same"]
    print(f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
    for name, draw in KINDS.items():
        began = time.monotonic()
        print(f"| {name} | {' | '.join(measure(draw, asked.series, random))} |", flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
