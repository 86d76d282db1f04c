"""How often the printed 95 % intervals hold the true ratio, and how often verdicts are right.

Each turn takes true time × shared noise × its own noise (``coverage_noise``); the order inside a
round is a coin, as in a real measurement. The intervals and the rule to stop are the very code of
``perfcli.stats``. Usage: ``python bench/coverage.py [--repetitions N] [--noise NAME]
[--only rounds|pairs|verdicts] [--jobs N] [--out FILE]``; the bar is 93 to 97 % in every cell.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from coverage_noise import KINDS, Dice, Factors, Kind

from perfcli.stats import stopping, verdict
from perfcli.stats.paired import Estimate
from perfcli.stats.series import RoundSeconds, estimate, estimate_one_pair

ROUNDS = (10, 20, 40, 100, 400)
STOPPED = {"stop, +3 %": 0.03, "stop, +30 %": 0.3}
"""Below +5 % the rule sees the floor alone, and the change itself makes no difference to it."""
BUDGET = 1600
"""Rounds that fit into 20 s at about 3 ms a turn, with what a round costs besides."""
FLOOR = 0.015
PAIRS = (2, 3, 5, 8, 20)
PER_PAIR = 40


def logs(kind: Kind, dice: Dice, rounds: int, change: float) -> Factors:
    """Log ratios head/base of rounds whose order a coin decides."""
    turns = np.log(kind(dice, 2 * rounds)).reshape(rounds, 2)
    sign = np.where(dice.random(rounds) < 0.5, 1.0, -1.0)
    return np.asarray(sign * (turns[:, 1] - turns[:, 0]) + math.log1p(change))


def stop(values: Factors) -> Factors:
    """The rounds that were there when the rule stopped, or all that the budget allows."""
    for rounds in LOOKS:
        if stopping.is_precise(series(values[:rounds]), FLOOR):
            return values[:rounds]
    return values


LOOKS = [n for n in range(1, BUDGET) if stopping.is_look(n)]


def holds(found: Estimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def share(trials: int, seed: int, once: Callable[[Dice], bool]) -> float:
    dice = np.random.default_rng(seed)
    return sum(once(dice) for _ in range(trials)) / trials


def by_rounds(kind: Kind, trials: int) -> Iterator[tuple[str, float]]:
    """One pair of processes: fixed numbers of rounds, and with the rule to stop."""
    for n in ROUNDS:

        def fixed(dice: Dice, n: int = n) -> bool:
            return holds(estimate_one_pair(list(logs(kind, dice, n, 0.03))), 1.03)

        yield str(n), share(trials, n, fixed)
    for name, change in STOPPED.items():

        def stopped(dice: Dice, change: float = change) -> bool:
            values = stop(logs(kind, dice, BUDGET, change))
            return holds(estimate_one_pair(list(values)), 1 + change)

        yield name, share(trials, 1, stopped)


def two_layouts(dice: Dice, count: int) -> Factors:
    """A process is fast, or (three in ten) 2 % slower."""
    slow = dice.random((count, 2)) < 0.3
    return np.asarray(0.02 * (slow[:, 1].astype(float) - slow[:, 0]))


BETWEEN: dict[str, Callable[[Dice, int], Factors]] = {
    "Gaussian 1 %": lambda dice, count: 0.01 * dice.standard_normal(count),
    "Student t 3, 1 %": lambda dice, count: 0.01 * dice.standard_t(3, count),
    "two layouts": two_layouts,
    "none": lambda dice, count: np.zeros(count),
}


def by_pairs(between: Callable[[Dice, int], Factors], trials: int) -> Iterator[tuple[str, float]]:
    """Several pairs of processes that differ by chance; bursts and outliers within."""
    kind = KINDS["outliers"]
    for pairs in PAIRS:

        def once(dice: Dice, pairs: int = pairs) -> bool:
            values = logs(kind, dice, PER_PAIR * pairs, 0.03)
            values = values + np.repeat(between(dice, pairs), PER_PAIR)
            return holds(estimate(series(values, pairs)), 1.03)

        yield f"{pairs} pairs", share(trials, pairs, once)


def series(values: Factors, pairs: int = 1) -> RoundSeconds:
    head = tuple(float(v) for v in np.exp(values))
    processes = np.repeat(np.arange(pairs), len(values) // pairs)
    return RoundSeconds((1.0,) * len(head), head, tuple(int(p) for p in processes))


def verdicts(kind: Kind, trials: int) -> dict[str, Any]:
    """One pair with a bias of its layouts (0.25 %, one standard deviation), the rule to stop, and
    the verdict, without a change and with +3 %."""
    found: dict[str, Any] = {}
    for name, change in (("A/A", 0.0), ("+3 %", 0.03)):
        dice, counts, errors, rounds = np.random.default_rng(3), Counter[str](), [], []
        for _ in range(trials):
            bias = 0.0025 * dice.standard_normal()
            values = stop(logs(kind, dice, BUDGET, change) + bias)
            made = verdict.judge_change(series(values), FLOOR)
            counts[made.verdict] += 1
            errors.append(abs((made.ratio or 9) / (1 + change) - 1))
            rounds.append(len(values))
        found[name] = {
            word: counts[word] / trials for word in ("slower", "faster", "same", "unsure")
        }
        found[name] |= {
            "error, 95th percentile": float(np.percentile(errors, 95)),
            "rounds, median": float(np.median(rounds)),
        }
    return found


def table(rows: dict[str, dict[str, float]]) -> str:
    """Markdown; a star where a cell is outside the bar."""
    heads = list(next(iter(rows.values())))
    lines = [f"| noise | {' | '.join(heads)} |", "| --- " * (len(heads) + 1) + "|"]
    for name, cells in rows.items():
        texts = (f"{v * 100:.1f}{'' if 0.93 <= v <= 0.97 else ' *'}" for v in cells.values())
        lines.append(f"| {name} | {' | '.join(texts)} |")
    return "\n".join(lines)


# What a process of its own can be told: kinds of noise by their names.


def _rounds_of(noise: str, trials: int) -> dict[str, float]:
    return dict(by_rounds(KINDS[noise], trials))


def _pairs_of(between: str, trials: int) -> dict[str, float]:
    return dict(by_pairs(BETWEEN[between], trials))


def _verdicts_of(noise: str, trials: int) -> dict[str, Any]:
    return verdicts(KINDS[noise], trials)


def _each(
    pool: ProcessPoolExecutor, once: Callable[[str, int], Any], names: Iterable[str], trials: int
) -> dict[str, Any]:
    started = {name: pool.submit(once, name, trials) for name in names}
    return {name: future.result() for name, future in started.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--noise", choices=list(KINDS), action="append")
    parser.add_argument("--only", choices=["rounds", "pairs", "verdicts"])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    kinds = {name: KINDS[name] for name in asked.noise or KINDS}
    found: dict[str, Any] = {}
    with ProcessPoolExecutor(asked.jobs) as pool:
        every = partial(_each, pool)
        if asked.only in (None, "rounds"):
            found["rounds"] = every(_rounds_of, kinds, asked.repetitions)
            print(table(found["rounds"]), "\n")
        if asked.only in (None, "pairs"):
            found["pairs"] = every(_pairs_of, BETWEEN, asked.repetitions)
            print(table(found["pairs"]), "\n")
        if asked.only in (None, "verdicts"):
            found["verdicts"] = every(_verdicts_of, kinds, asked.repetitions // 4)
            print(json.dumps(found["verdicts"], indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
