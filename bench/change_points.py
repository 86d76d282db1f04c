"""How often perfcli calls a change that is none, and finds one that is there, in made-up series,
and how often the best method could that knows the noise.

Each series has 60 points with 1 % noise: Gaussian; Gaussian with 5 % of points 5 to 10 standard
deviations off; or a first-order autoregression, whose innovations or whose points have 1 %. False
alarms: series without a change in which one is found. Steps: 3 % up or down, of which so many
points are there, or any number from 5 to 55; found counts within three points of the truth. The
best: the likelihood ratio of a change, of noise whose kind, size and correlation are known, with
2 % false alarms. Drift: ten steps of +0.4 %, held against its best as ``history check`` does.
``--lengths``: false alarms in series of other lengths, and the seconds that 10,000 points take.

    python bench/change_points.py [--series 1000] [--seed 1] [--lengths]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfcli.stats.change_points import find_shifts
from perfcli.stats.drift import measure_drift

POINTS, NOISE, STEP = 60, 0.01, math.log(1.03)
AFTER = (3, 5, 8, 30, 0)
"""Points of the step; 0: any number from 5 to 55."""
NEAR = 3
DRIFT, LIMIT = math.log(1.004), 0.02
LENGTHS = {10: 1, 20: 1, 60: 1, 200: 4, 1000: 10}
"""Lengths of series, and of how many fewer of them false alarms are counted."""
SPIKES, NEAREST, FARTHEST = 0.05, 5.0, 10.0
ORACLE_ALARM, ORACLE_SERIES = 0.02, 2000


@dataclass(frozen=True)
class Noise:
    """Describes a kind of noise: how it is made, and what the best method knows of it."""

    rho: float = 0.0
    innovations: bool = False
    """Whether the innovations have 1 %, not the points."""
    spikes: int = 0
    """Ways that outliers go: 1 up only, 2 both."""

    @property
    def sigma(self) -> float:
        return NOISE / math.sqrt(1 - self.rho**2) if self.innovations else NOISE

    def draw(self, random: Any, points: int = POINTS) -> Any:
        white = random.standard_normal(points)
        series = self.sigma * white
        for t in range(1, points if self.rho else 0):
            series[t] = self.rho * series[t - 1] + series[t] * math.sqrt(1 - self.rho**2)
        hit = random.random(points) < (SPIKES if self.spikes else 0.0)
        ways = random.choice([-1, 1], points) if self.spikes == 2 else 1
        return series + self.sigma * hit * ways * random.uniform(NEAREST, FARTHEST, points)


KINDS: Mapping[str, Noise] = {
    "Gaussian": Noise(),
    "5 % outliers": Noise(spikes=2),
    "5 % outliers, slow only": Noise(spikes=1),
    "AR(1) 0.3": Noise(0.3),
    "AR(1) 0.5": Noise(0.5),
    "AR(1) 0.7": Noise(0.7),
    "AR(1) 0.3, innovations of 1 %": Noise(0.3, innovations=True),
    "AR(1) 0.5, innovations of 1 %": Noise(0.5, innovations=True),
    "AR(1) 0.7, innovations of 1 %": Noise(0.7, innovations=True),
}


def plant(noise: Noise, after: int, random: Any) -> tuple[Any, int, int]:
    """Return a series with a step, its place, and whether it goes up (1) or down (-1)."""
    place = POINTS - after if after else int(random.integers(5, 56))
    way = int(random.choice([-1, 1]))
    return noise.draw(random) + way * STEP * (np.arange(POINTS) >= place), place, way


# --- the best that knows the noise ----------------------------------------------------------------


def scan_known(noise: Noise, series: Any) -> tuple[Any, Any]:
    """Return of each row the likeliest place of a change, and its likelihood ratio as a number of
    standard errors, up or down."""
    x = series / noise.sigma
    clear = _scan_outliers(x, noise) if noise.spikes else _scan_memory(x, noise.rho)
    clear = clear[:, 1:-1]  # two points on each side
    best = np.abs(clear).argmax(axis=1)
    return best + 2, clear[np.arange(len(x)), best]


def _scan_memory(x: Any, rho: float) -> Any:
    n = x.shape[1]
    scale = 1 / math.sqrt(1 - rho**2)

    def whiten(rows: Any) -> Any:
        return np.concatenate([rows[:, :1], (rows[:, 1:] - rho * rows[:, :-1]) * scale], axis=1)

    one = whiten(np.ones((1, n)))[0]
    steps = whiten(np.arange(n)[None, :] >= np.arange(1, n)[:, None])
    steps = steps - (steps @ one)[:, None] / (one @ one) * one
    return whiten(x) @ steps.T / np.sqrt((steps**2).sum(axis=1))


def _scan_outliers(x: Any, noise: Noise) -> Any:
    from scipy.special import ndtr

    levels = np.arange(-8, 8.01, 0.2)
    costs = []
    for level in levels:
        away = x - level
        far = np.abs(away) if noise.spikes == 2 else away
        spike = (ndtr(far - NEAREST) - ndtr(far - FARTHEST)) / (FARTHEST - NEAREST) / noise.spikes
        calm = np.exp(-(away**2) / 2) / math.sqrt(2 * math.pi)
        costs.append(np.log((1 - SPIKES) * calm + SPIKES * spike + 1e-300).cumsum(axis=1))
    before = np.stack(costs)
    after = before[..., -1:] - before
    gain = before.max(axis=0) + after.max(axis=0) - before[..., -1].max(axis=0)[:, None]
    way = np.sign(levels[after.argmax(axis=0)] - levels[before.argmax(axis=0)])
    return (way * np.sqrt(2 * np.maximum(gain, 0)))[:, :-1]


def measure_best(noise: Noise, random: Any) -> list[float]:
    """Return the shares of steps that the best method finds."""
    calm = np.array([noise.draw(random) for _ in range(ORACLE_SERIES)])
    bound = np.quantile(np.abs(scan_known(noise, calm)[1]), 1 - ORACLE_ALARM)
    shares = []
    for after in AFTER:
        planted = [plant(noise, after, random) for _ in range(ORACLE_SERIES)]
        place, clear = scan_known(noise, np.array([series for series, _, _ in planted]))
        truth, ways = (np.array([each[k] for each in planted]) for k in (1, 2))
        shares.append(float(np.mean((np.abs(place - truth) <= NEAR) & (clear * ways > bound))))
    return shares


# --- perfcli --------------------------------------------------------------------------------------


def drifts(series: Any) -> bool:
    """Whether check would fail: worse than its best by more than the limit, at 99 %."""
    found = measure_drift(list(series))
    return bool(found.size and found.size > math.log1p(LIMIT) and (found.surely_low or 0) > 0)


def share(hits: int, of: int) -> str:
    return f"{100 * hits / of:.1f} %"


def measure(noise: Noise, count: int, random: Any) -> tuple[list[str], list[str]]:
    """Return the cells of a row, and of one that says how far from the truth changes are."""
    alarms = sum(bool(find_shifts(noise.draw(random))) for _ in range(count))
    cells = [share(alarms, count)]
    some = max(count // 4, 50)
    far: Counter[int] = Counter()
    for after, best in zip(AFTER, measure_best(noise, random), strict=True):
        hits, planted = 0, some if after else count
        for _ in range(planted):
            series, place, way = plant(noise, after, random)
            away = [abs(each.index - place) for each in find_shifts(series) if each.size * way > 0]
            hits += bool(away) and min(away) <= NEAR
            if away and not after:
                far[min(min(away), NEAR + 1)] += 1
        cells.append(f"{share(hits, planted)} ({100 * best:.0f})")
    ramp = DRIFT * np.clip(np.arange(POINTS) - 25, 0, 10)
    cells.append(share(sum(drifts(noise.draw(random) + ramp) for _ in range(some)), some))
    cells.append(share(sum(drifts(noise.draw(random)) for _ in range(some)), some))
    return cells, [share(far[k], far.total() or 1) for k in range(NEAR + 2)]


def print_row(cells: list[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def print_head(titles: list[str]) -> None:
    print_row(titles)
    print(f"|{' --- |' * len(titles)}")


def measure_lengths(count: int, random: Any) -> None:
    print_head(["noise", *(f"false alarms, {points} points" for points in LENGTHS)])
    for name, noise in KINDS.items():
        if noise.innovations:  # its size alone differs
            continue
        cells = []
        for points, fewer in LENGTHS.items():
            some = count // fewer
            calm = (noise.draw(random, points) for _ in range(some))
            cells.append(share(sum(bool(find_shifts(series)) for series in calm), some))
        print_row([name, *cells])
    series = Noise().draw(random, 10_000)
    began = time.monotonic()
    find_shifts(series)
    print(f"10,000 points: {time.monotonic() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lengths", action="store_true")
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    if asked.lengths:
        measure_lengths(asked.series, random)
        return
    steps = [f"{after} points of it (best)" if after else "5 to 55 (best)" for after in AFTER]
    fails = ["drift 10 × 0.4 % fails check", "check fails, same"]
    print_head(["noise", "false alarms", *steps, *fails])
    distances = []
    for name, noise in KINDS.items():
        began = time.monotonic()
        cells, far = measure(noise, asked.series, random)
        print_row([name, *cells])
        distances.append([name, *far])
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print()
    print_head(["noise, 5 to 55 points", *(f"{k} points off" for k in range(NEAR + 1)), "more"])
    for row in distances:
        print_row(row)


if __name__ == "__main__":
    main()
