"""How often the search of bisect-commits names the planted commit, and in how many timings.

    python bench/commit_search.py --repetitions 1000

A history of ``--commits`` commits in which each has code of its own, so that nothing but a clock
tells them apart; one of them, drawn at random, makes the step ``--step`` slower. Each step that is
timed scatters by ``--noise`` (standard deviation, relative, independent).

A *timing* is what bisect-commits does when it measures a version once: ``rounds`` rounds, in each
of which the good end and the version are timed one after the other, and of these the mean log ratio
with its standard error, which is estimated from the rounds. Every timing counts: those of the two
ends against each other as well, with which a search begins. perfcli's own measurement of 20 s has
dozens to thousands of rounds; 8 are few.

``git bisect`` below is given the good end's time and the step for nothing, times each commit once,
alone, and calls it bad above the middle. ``the same timings`` is git bisect with ``rounds`` rounds
for each commit: what the noise alone costs when nothing is asked twice.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable

from perfcli.search.first_bad import SURE, VersionHistory, find_first_bad
from perfcli.search.question import Answer
from perfcli.search.weighing import Doubted, LogRatio, Reading

ENDS = 2
"""Timings of the ends at first; more, up to 4, until they are three standard errors apart."""
MOST_ENDS, APART = 4, 3.0


class Machine:
    """Times commits. ``outliers``: the share of timings that are off by twice the step."""

    def __init__(self, rng: random.Random, asked: argparse.Namespace, rounds: int) -> None:
        self._rng = rng
        self._noise = asked.noise
        self._step = math.log1p(asked.step)
        self._outliers = asked.outliers
        self._rounds = rounds
        self.first = rng.randrange(asked.commits)
        self.timings = 0

    def time_pair(self, place: int) -> Reading:
        """A commit against the good end, in turns."""
        self.timings += 1
        true = self._step if place >= self.first else 0.0
        logs = [true + self._scatter() - self._scatter() for _ in range(self._rounds)]
        off = self._rng.random() < self._outliers
        mean = statistics.fmean(logs) + off * self._rng.choice((-2, 2)) * self._step
        return Reading(mean, statistics.stdev(logs) / math.sqrt(self._rounds))

    def time_ratio(self, place: int) -> float:
        return self.time_pair(place).log_ratio

    def time_alone(self, place: int) -> float:
        return (self._step if place >= self.first else 0.0) + self._scatter()

    def _scatter(self) -> float:
        return self._rng.gauss(0.0, self._noise)


def search(machine: Machine, commits: int) -> int | None:
    """The commit that the search names, None where it names none."""
    last = commits - 1
    ends = [machine.time_pair(last) for _ in range(ENDS)]
    together = LogRatio(1.0).weigh(ends)
    while len(ends) < MOST_ENDS and not _is_apart(together.mean, together.standard_error):
        ends.append(machine.time_pair(last))
        together = LogRatio(1.0).weigh(ends)
    assert together.mean is not None
    assert together.standard_error is not None
    weighing = Doubted(LogRatio(together.mean, together.standard_error))
    readings: dict[str, list[Reading]] = {}
    asking = find_first_bad(VersionHistory.chain([str(n) for n in range(commits)]))
    try:
        query = next(asking)
        while True:
            made = readings.setdefault(query.wanted, [])
            made.append(machine.time_pair(int(query.wanted)))
            told = weighing.weigh(made)
            outcome = "bad" if told.log_odds > 0 else "good"
            query = asking.send(Answer(outcome, 1.0, query.wanted, told))  # type: ignore[arg-type]
    except StopIteration as end:
        found = end.value
        return int(found.suspects[0].name) if found.status == "found" else None


def _is_apart(mean: float | None, error: float | None) -> bool:
    return mean is not None and error is not None and mean > APART * error


def git_bisect(asked: argparse.Namespace, time: Callable[[int], float]) -> int:
    """The commit that is named; ``time`` tells by how much one is slower than the good end."""
    low, high, half = -1, int(asked.commits) - 1, math.log1p(asked.step) / 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if time(middle) > half else (middle, high)
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=128)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--step", type=float, default=0.03)
    parser.add_argument("--outliers", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, nargs="*", default=[4, 8, 16, 32])
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(
        f"{asked.commits} commits, noise {asked.noise:.1%} of a step, +{asked.step:.1%}, "
        f"{asked.outliers:.0%} of timings wrong, {asked.repetitions} searches, sure at {SURE:.0%}"
    )
    rng = random.Random(asked.seed)
    right = 0
    for _ in range(asked.repetitions):
        machine = Machine(rng, asked, 1)
        found = git_bisect(asked, machine.time_alone)
        right += found == machine.first
    print(f"git bisect, one timing each: {right / asked.repetitions:.1%} right")
    print("| rounds of a timing | right | named none | timings, mean | 95 % of searches | most "
          "| in ≤ 10 and right | git bisect with the same timings |")  # fmt: skip
    print("| --- " * 8 + "|")
    for rounds in asked.rounds:
        print(_row(rounds, asked, rng))


def _row(rounds: int, asked: argparse.Namespace, rng: random.Random) -> str:
    right = none = within = alike = 0
    timings = []
    for _ in range(asked.repetitions):
        machine = Machine(rng, asked, rounds)
        found = search(machine, asked.commits)
        timings.append(machine.timings)
        right += found == machine.first
        none += found is None
        within += found == machine.first and machine.timings <= 10
        other = Machine(rng, asked, rounds)
        named = git_bisect(asked, other.time_ratio)
        alike += named == other.first
    of = asked.repetitions
    p95 = statistics.quantiles(timings, n=20)[-1]
    return (
        f"| {rounds} | {right / of:.1%} | {none / of:.1%} | {statistics.fmean(timings):.1f} | "
        f"{p95:.0f} | {max(timings)} | {within / of:.1%} | {alike / of:.1%} |"
    )


if __name__ == "__main__":
    main()
