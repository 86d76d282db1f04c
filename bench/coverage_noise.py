"""Noise as timings have it: times of turns, one after the other, without the true time.

Every kind gives the factors of ``count`` turns in the order of the clock, so that drift and load
hit neighbours alike. The spread of one turn is 2 to 8 %, as on a shared machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Factors = NDArray[np.float64]
Dice = np.random.Generator
Kind = Callable[[Dice, int], Factors]


def gaussian(dice: Dice, count: int) -> Factors:
    """Standard deviation 4 %."""
    return np.asarray(np.maximum(1 + 0.04 * dice.standard_normal(count), 0.2))


def student(degrees: int) -> Kind:
    """Student's t, scale 3 %: of 3 degrees of freedom the variance is finite, of 2 it is not."""

    def kind(dice: Dice, count: int) -> Factors:
        return np.asarray(np.exp(0.03 * dice.standard_t(degrees, count)))

    return kind


def log_normal(dice: Dice, count: int) -> Factors:
    """A hard minimum, and above it a log-normal excess: skewed as times are."""
    return np.asarray(1 + 0.04 * np.exp(dice.standard_normal(count)))


def drift(dice: Dice, count: int) -> Factors:
    """A random walk that both sides share, 1 % per turn, and 2 % of each turn's own."""
    walk = np.cumsum(0.01 * dice.standard_normal(count))
    return np.asarray(np.exp(walk + 0.02 * dice.standard_normal(count)))


def autoregressive(dice: Dice, count: int) -> Factors:
    """AR(1), ρ = 0.9, 5 % across."""
    made = np.empty(count)
    state = dice.standard_normal()
    for i, push in enumerate(dice.standard_normal(count) * np.sqrt(1 - 0.9**2)):
        state = 0.9 * state + push
        made[i] = state
    return np.exp(0.05 * made)


def bursts(dice: Dice, count: int) -> Factors:
    """Another program that comes (5 % a turn) and goes (10 %), and makes turns 1.4 times as long,
    give or take 10 %; 2 % of each turn's own."""
    coins = dice.random(count)
    busy, states = bool(dice.random() < 1 / 3), np.empty(count)
    for i in range(count):
        busy = coins[i] >= 0.10 if busy else coins[i] < 0.05
        states[i] = busy
    load = states * (np.log(1.4) + 0.1 * dice.standard_normal(count))
    return np.asarray(np.exp(load + 0.02 * dice.standard_normal(count)))


def outliers(dice: Dice, count: int) -> Factors:
    """2 %, and 5 % of the turns take 1.5 to 5 times as long."""
    hit = dice.random(count) < 0.05
    longer = np.where(hit, dice.uniform(1.5, 5, count), 1.0)
    return np.asarray(longer * np.exp(0.02 * dice.standard_normal(count)))


def product(*kinds: Kind) -> Kind:
    def kind(dice: Dice, count: int) -> Factors:
        return np.asarray(np.prod([k(dice, count) for k in kinds], axis=0))

    return kind


def second_faster(kind: Kind) -> Kind:
    """Whatever comes second in a round finds caches warm and takes 2 % less."""

    def faster(dice: Dice, count: int) -> Factors:
        return np.asarray(kind(dice, count) * np.where(np.arange(count) % 2, 0.98, 1.0))

    return faster


KINDS: dict[str, Kind] = {
    "Gaussian": gaussian,
    "Student t, 3": student(3),
    "Student t, 2": student(2),
    "log-normal": log_normal,
    "drift": drift,
    "AR(1)": autoregressive,
    "bursts": bursts,
    "outliers": outliers,
    "drift, bursts, outliers": product(drift, bursts, outliers),
    "all of it, t 3, second faster": second_faster(product(student(3), drift, bursts, outliers)),
}
