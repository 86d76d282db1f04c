"""Measures as often as it takes to be sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from perfcli.errors import PerfcliError
from perfcli.search.question import Answer, Evidence, K, Outcome
from perfcli.search.weighing import Weighing

ODDS = 999.0
MOST_MEASUREMENTS = 30
OVERCONFIDENT = 3.0
"""How many times too small a stated error may be before a single measurement is believed wrongly:
log odds go with its inverse square."""

O = TypeVar("O")  # noqa: E741 - an observation


class Sequential(Generic[K, O]):
    """Judges classes by repeated measurements, a sequential probability ratio test for each.

    ``odds``: good or bad is said once it is so many times likelier than the other, after ``least``
    measurements (more than one where their stated errors may be too small), or fewer where it
    would be so with ``OVERCONFIDENT`` times these errors. ``most``: a
    class that is between after so many measurements is unresolved; each time it is asked for
    ``fresh`` it may have as many more. ``earlier``: the observations of an earlier search, by
    class; they count as if they had just been made.
    """

    def __init__(
        self,
        measure: Callable[[K], O],
        weighing: Weighing[O],
        *,
        odds: float = ODDS,
        least: int = 1,
        most: int = MOST_MEASUREMENTS,
        earlier: Mapping[str, Sequence[O]] | None = None,
    ) -> None:
        if odds <= 1 or not 1 <= least <= most:
            raise PerfcliError("odds are above 1, and 1 <= least <= most")
        self.measure = measure
        self.weighing = weighing
        self.enough = math.log(odds)
        self.least = least
        self.most = most
        self.observations = {code: list(made) for code, made in (earlier or {}).items()}
        self.measurements = 0
        """Made by this object."""

    def judge(self, key: K, code: str, fresh: bool) -> Answer:
        """Judge a class. ``fresh``: measured until new measurements alone are sure, then weighed
        with the earlier ones; where the two contradict each other, until all together are sure."""
        seen = self.observations.setdefault(code, [])
        start = len(seen) if fresh else 0
        most = start + self.most
        self._until_sure(key, seen, start, most)
        if fresh:
            self._until_sure(key, seen, 0, most)
        return self._answer(self.weighing.weigh(seen))

    def _until_sure(self, key: K, seen: list[O], start: int, most: int) -> None:
        while len(seen) < most and not self._sure(self.weighing.weigh(seen[start:])):
            # Kept at once: an interruption loses none that was finished.
            seen.append(self.measure(key))
            self.measurements += 1

    def _sure(self, evidence: Evidence) -> bool:
        enough = self.enough
        if evidence.measurements < self.least:
            enough *= OVERCONFIDENT**2
        return evidence.measurements > 0 and abs(evidence.log_odds) >= enough

    def _answer(self, evidence: Evidence) -> Answer:
        value = None if evidence.mean is None else math.exp(evidence.mean)
        if not self._sure(evidence):
            reason = f"neither good nor bad after {evidence.measurements} measurements"
            return Answer("unresolved", value, evidence=evidence, reason=reason)
        outcome: Outcome = "bad" if evidence.log_odds > 0 else "good"
        return Answer(outcome, value, evidence=evidence)
