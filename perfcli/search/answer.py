"""What a test says of a set of changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["bad", "good", "unresolved"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a noisy answer rests on."""

    log_odds: float
    """Natural logarithm of the odds that it is bad, where both were equally likely before."""
    measurements: int
    mean: float | None = None
    """Log ratio to the good end, all measurements weighed together."""
    standard_error: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    outcome: Outcome
    value: float | None = None
    """The metric, in its own unit; of a timed test the ratio to the good end."""
    code: str | None = None
    """The class: the hash of the generated code. ``None`` where it did not compile."""
    evidence: Evidence | None = None
    """Of a noisy test; ``None``: the answer is exact."""
    reason: str = ""
    """Why it is unresolved."""

    @property
    def is_bad(self) -> bool:
        return self.outcome == "bad"
