"""Holds what tune found: what the report shows and JSON holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

from perfcli.bisect.answer import SearchCost
from perfcli.bisect.space import Settings
from perfcli.model import Change, EstimatedChange
from perfcli.options.performance import Alters
from perfcli.search.question import OptionChange, Subset

_LIKELY = NormalDist().inv_cdf(0.7) / NormalDist().inv_cdf(0.95)
"""The part of the way to the upper end of an estimate's interval, below which 19 of 20 cases
are."""

Source = Literal["estimated", "measured"]
TuneVerdict = Literal["faster", "unsure", "default"]
"""``faster``: the chosen options surely are. ``unsure``: something may be, and nothing surely is.
``default``: nothing seems faster than the default."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Holds the device time of one variant over another's, with its interval: of an estimate what
    holds in 9 of 10 cases, of a measurement 95 %."""

    ratio: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        """Return the share of the time that is saved; below 0 it takes longer."""
        return 1 - self.ratio

    @property
    def likely(self) -> float:
        """Return what an estimated ratio is at most in 7 of 10 cases, its errors being normal."""
        return self.ratio * math.pow(self.high / self.ratio, _LIKELY)

    def over(self, other: Ratio) -> Ratio:
        """Return the quotient of two that were measured independently, against the same."""
        ratio = self.ratio / other.ratio
        spread = math.hypot(*(math.log(each.high / each.low) / 2 for each in (self, other)))
        return Ratio(ratio, ratio * math.exp(-spread), ratio * math.exp(spread))


SAME = Ratio(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Share:
    """Says what one of the chosen options does."""

    change: OptionChange
    alone: Ratio | None
    """Against the default; None: not known."""
    on_top: Ratio | None
    """All chosen options against all but this one."""
    alters: Alters = ""
    """What else than speed it may change."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Holds one of the sets that came near to being chosen."""

    options: Settings
    keys: Subset
    """The changes that it makes."""
    estimated: Ratio | None = None
    measured: Ratio | None = None
    failure: str = ""
    """Why it was neither measured nor estimated, or what is wrong with its results."""

    @property
    def known(self) -> Ratio:
        """Return what is known best of it; of what nothing is, that it is like the default."""
        return self.measured or self.estimated or SAME


@dataclass(frozen=True, slots=True)
class Tuned:
    """Holds one search, ended."""

    id: str
    title: str
    scenario: str
    torch: str
    target: str
    verdict: TuneVerdict
    source: Source
    """What the verdict rests on."""
    options: Settings
    """All that is to be set: what was asked for, and the chosen options."""
    patched: tuple[str, ...] = ()
    """Those of them that perfcli patches into torch."""
    against_default: Ratio = SAME
    """The chosen options against what was asked for."""
    seconds: float | None = None
    """Device time of a step of the default: by estimate, where it is estimated."""
    shares: tuple[Share, ...] = ()
    tried: tuple[Tried, ...] = ()
    """The best few, as far as they were looked at; the best first."""
    alone: tuple[Tried, ...] = ()
    """Single changes that have code of their own."""
    left_out: Mapping[Alters, tuple[str, ...]] = field(default_factory=dict)
    """Options that were not tried, by what else they may change."""
    searched: tuple[int, int] = (0, 0)
    """How many options, and values of them, were candidates."""
    costs: tuple[Change, ...] = ()
    """Peak memory and the processor time of compiling, default and chosen."""
    compared: EstimatedChange | None = None
    """What ``compare`` estimates of the default and the chosen options."""
    cost: SearchCost | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""
    command: str = ""
    """The command line that compares the default with the chosen options."""

    @property
    def exit_code(self) -> int:
        """Return 0 if it is answered, 3 if nobody can tell or it was stopped, 130 if it was
        interrupted."""
        if self.stopped == "interrupted":
            return 130
        return 3 if self.stopped or self.verdict == "unsure" else 0
