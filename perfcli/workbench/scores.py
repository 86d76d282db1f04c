"""Times of contenders as shares of the copy's bandwidth. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcli.handwritten.contenders import COPY
from perfcli.model import LaunchPlan
from perfcli.model.kernel_work import Benched, Contender, TimedContender
from perfcli.stats import paired
from perfcli.stats.paired import Estimate, Median, median

OURS = "ours"


@dataclass(frozen=True, slots=True)
class ContenderScore:
    """Holds one contender of a problem."""

    timed: TimedContender
    plan: LaunchPlan | None
    median: Median | None
    """Seconds, with the 95 % interval; None where it was not timed."""
    of_copy: Estimate | None
    """Its bandwidth over the copy's, paired round by round, with the 95 % interval."""
    bytes_per_second: float | None
    """Of the fewest bytes: what is read twice counts once."""

    @property
    def name(self) -> str:
        return self.timed.name

    @property
    def is_ours(self) -> bool:
        return self.plan is not None


@dataclass(frozen=True, slots=True)
class Score:
    """Holds one problem."""

    family: str
    benched: Benched
    entries: tuple[ContenderScore, ...]

    def entry(self, name: str) -> ContenderScore | None:
        return next((entry for entry in self.entries if entry.name == name), None)

    @property
    def ours(self) -> ContenderScore | None:
        return self.entry(OURS)

    @property
    def best_other(self) -> ContenderScore | None:
        """Return the fastest that is neither ours nor the copy, and within tolerance."""
        others = [
            entry
            for entry in self.entries
            if entry.median and not entry.is_ours and entry.name != COPY and not entry.timed.wrong
        ]
        return min(others, key=lambda e: e.median.value if e.median else 0.0, default=None)

    @property
    def against_best(self) -> Estimate | None:
        """Return our speed over the best other's: above 1 ours is faster."""
        ours, best = self.ours, self.best_other
        if ours is None or best is None:
            return None
        return _compare_times(ours.timed, best.timed)


def _score(family: str, benched: Benched, contenders: Sequence[Contender]) -> Score:
    """Return the statistics of one problem's raw times."""
    plans: Mapping[str, LaunchPlan | None] = {c.name: c.plan for c in contenders}
    copy = next((timed for timed in benched.timed if timed.name == COPY), None)
    entries = [
        _score_contender(timed, plans.get(timed.name), copy, benched) for timed in benched.timed
    ]
    return Score(family, benched, tuple(entries))


def _score_contender(
    timed: TimedContender, plan: LaunchPlan | None, copy: TimedContender | None, benched: Benched
) -> ContenderScore:
    middle = median(timed.seconds)
    of_copy = _compare_times(timed, copy) if copy is not None and timed.name != COPY else None
    rate = benched.moved_bytes / middle.value if middle and middle.value > 0 else None
    return ContenderScore(timed, plan, middle, of_copy, rate)


def _compare_times(timed: TimedContender, reference: TimedContender) -> Estimate | None:
    """Return the reference's seconds over these, round by round: this one's speed in units of
    its."""
    if not timed.seconds or len(timed.seconds) != len(reference.seconds):
        return None
    return paired.compare(timed.seconds, reference.seconds)
