"""Holds what bisect-config found: what the report shows and JSON holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfcli import units
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.space import NOT_SET, Settings
from perfcli.frames.table import Column, Table
from perfcli.model import OptionValue, TimeVerdict
from perfcli.search.numeric import Flip
from perfcli.search.question import OptionChange
from perfcli.search.result import Culprits, Dependency, Direction, Effect, Improvement


@dataclass(frozen=True, slots=True)
class Ends:
    """The metric at both ends, in its unit; timed ones in seconds, measured against each other."""

    good: float
    bad: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Of timed ones bad over good, and its 95 % interval; of estimated ones the 80 % interval."""
    floor: float = 0.0
    """Relative: a smaller difference is not told from noise."""
    estimated: TimeVerdict | None = None
    """What two estimates say together; None where nothing is estimated."""

    @property
    def is_worse(self) -> bool:
        """Return whether bad is surely above good."""
        if self.estimated is not None:
            return self.estimated == "slower"
        if self.ratio is None:
            return self.bad > self.good
        return self.low is not None and self.low > 1 and self.ratio > 1 + self.floor


@dataclass(frozen=True, slots=True)
class Across:
    """Holds the ends of two torch installations; the good one's options were tried on the bad one's
    torch."""

    good_torch: str
    bad_torch: str
    good_value: float
    """Of the good torch itself."""
    unsettable: tuple[str, ...] = ()
    """Defaults differ, but can't be carried over."""
    only_good: tuple[str, ...] = ()
    only_bad: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchCost:
    compiled: int
    classes: int
    measured: int
    seconds: float
    failed: int = 0
    inferred: int = 0
    """Variants that need no compiling: nobody reads what they set."""


@dataclass(frozen=True, slots=True)
class NumericFlip:
    option: str
    flip: Flip
    compiled: int


@dataclass(frozen=True, slots=True)
class Bisection:
    """Holds one search, ended."""

    id: str
    scenario: str
    params: Mapping[str, OptionValue]
    metric: SearchMetric
    changes: tuple[OptionChange, ...]
    cost: SearchCost
    ends: Ends | None = None
    culprits: Culprits | None = None
    flips: tuple[NumericFlip, ...] = ()
    title: str = ""
    """What was typed of the scenario: name, parameters, preset."""
    direction: Direction | None = None
    """Of a catalogue; None: between two sides."""
    improvement: Improvement | None = None
    across: Across | None = None
    cure: Settings | None = None
    """What to set on the bad side, or of a catalogue on the defaults."""
    command: str = ""
    """The command line that applies the cure and compares."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Variants without an answer, by their settings: why."""
    stopped: str = ""

    @property
    def unexplained(self) -> float | None:
        """Return what no option explains between two installations, in the metric's unit."""
        if self.across is None or self.ends is None:
            return None
        return self.ends.good - self.across.good_value

    @property
    def exit_code(self) -> int:
        """Return 0 if it is answered, 3 if not or not all of it, 130 if it was interrupted."""
        if self.stopped == "interrupted":
            return 130
        if self.improvement is not None:
            return 3 if self.stopped else 0
        explained = self.culprits is not None and self.culprits.status == "explained"
        return 0 if explained else 3


def _change(option: OptionChange) -> str:
    """Return ``online_softmax=false (true)``."""
    return f"{_typed(option.name, option.bad)} ({units.setting(option.good)})"


def _typed(name: str, value: object) -> str:
    """Return ``online_softmax=false``, or ``TORCHINDUCTOR_ONLINE_SOFTMAX not set``."""
    return f"{name} {NOT_SET}" if value == NOT_SET else f"{name}={units.setting(value)}"


def _dependency(found: Dependency) -> str:
    needs = " or ".join(option.name for option in found.needs)
    return f"{_change(found.option)} does nothing without {needs}"


def _listed(options: Sequence[OptionChange], most: int = 6) -> str:
    more = f" and {len(options) - most} more" if len(options) > most else ""
    return ", ".join(map(_change, options[:most])) + more


def _stopped(reason: str) -> str:
    """Return ``stopped after 5 s (--budget)``, or ``interrupted``."""
    return reason if reason == "interrupted" else f"stopped {reason}"


# --- table -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """Holds one change that was searched."""

    change: OptionChange
    group: int | None
    """The number of the set to blame that it is in, from 1; of a catalogue 1 is the best set."""
    effect: Effect | None


def list_changes(found: Bisection) -> list[ChangeRow]:
    """Return all changes that were searched as rows."""
    groups: dict[str, int] = {}
    effects: dict[str, Effect] = {}
    for number, culprit in enumerate(found.culprits.sets if found.culprits else (), 1):
        groups |= {change.key: number for change in culprit.options}
    if found.improvement is not None:
        groups |= {change.key: 1 for change in found.improvement.best}
        effects = {effect.change.key: effect for effect in found.improvement.effects}
    return [ChangeRow(c, groups.get(c.key), effects.get(c.key)) for c in found.changes]


CHANGES: Table[ChangeRow] = Table(
    "changes",
    "an option that differs between good and bad, or a value of the catalogue",
    "`bisect-config`",
    (
        Column("option", "text", "its name", lambda row: row.change.name),
        Column(
            "good", "text", "its value on the good side", lambda r: units.setting(r.change.good)
        ),
        Column("bad", "text", "its value on the bad side", lambda r: units.setting(r.change.bad)),
        Column("group", "count", "the set to blame, or the best set", lambda row: row.group),
        Column(
            *("value", "number", "of a catalogue: the metric with this change alone"),
            lambda row: row.effect and row.effect.answer.value,
        ),
        Column(
            *("gain", "number", "of a catalogue: what it gains alone, in the metric's unit"),
            lambda row: row.effect and row.effect.gain,
        ),
    ),
)
