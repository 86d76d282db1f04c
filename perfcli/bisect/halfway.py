"""When a set of changes is bad: its metric is nearer to the bad end than to the good one."""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.search.answer import Answer

REMAINDER = 0.1
"""What is left of the difference, after culprits were found, that is worth another search. Half
of the difference decides each search: of two culprits the smaller one alone has less."""


@dataclass(frozen=True, slots=True)
class Halfway:
    """Between two exact values, ``bad`` above ``good``."""

    good: float
    bad: float

    def judge(self, value: float) -> Answer:
        return Answer("bad" if self.share(value) >= 0.5 else "good", value)

    def share(self, value: float) -> float:
        """0 at the good end, 1 at the bad one."""
        return (value - self.good) / (self.bad - self.good)
