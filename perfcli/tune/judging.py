"""Compares variants with the default: by estimated times, or by measured ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from perfcli import units
from perfcli.bisect.exact import SKIMMED
from perfcli.bisect.forge import Forge
from perfcli.bisect.metrics import METRICS
from perfcli.bisect.space import Settings
from perfcli.bisect.timed import LEAST, NORMAL_95, Clock
from perfcli.diff.compare import compare
from perfcli.errors import CompileFailed, PerfcliError
from perfcli.model import EstimatedChange, Run, StepEstimate
from perfcli.predict.unread import list_unread
from perfcli.tune.answer import SAME, Ratio

MUCH_MORE, NO_FEWER = 1.05, 0.999
"""Ratios of bytes from which on a variant's binaries are not compiled: of any, of a single value
that helped no model before."""

_SHARE, _FLOOR = 0.58, 0.032
"""Fitted for nine of ten of 145 pairs of default and options of eleven models on an H200 (torch
2.11.0, 2026-11-24, ``bench/tune.py``), whose generated kernels were timed; docs/tune.md has what
they cover of models that they were not fitted to."""
_SAME_CALLS = 1e-3
"""The share of a step by which the times of library operators differ that are the same."""

LAUNCH_SEARCHES = ("max_autotune_pointwise", "coordinate_descent_tuning")
"""Options that let the device choose among more launch configurations of the same code, which
nothing but it can judge. What an estimate says of the first one does not hold of a model that it
was not fitted to (docs/tune.md)."""

LIKELY_TIME = replace(
    METRICS["estimated-time"],
    name="likely-time",
    says="all kernels of a step, at most so long in 7 of 10 cases",
    bound="likely at most",
)


class Judge(Protocol):
    """Says how long variants take against the default, and against each other. Raises PerfcliError
    where it is not known, CompileFailed where one does not compile."""

    def compile(self, wanted: Iterable[Settings]) -> None:
        """Compile variants that will be asked for at once."""
        ...

    def against_default(self, settings: Settings) -> Ratio: ...

    def between(self, before: Settings, after: Settings) -> Ratio: ...

    def is_sure(self, ratio: Ratio) -> bool:
        """Return whether such a variant is surely faster than the default."""
        ...


def class_of(forge: Forge, settings: Settings) -> str:
    """Return the class of a variant. Raises CompileFailed."""
    (code,) = forge.codes([settings])
    if code.name is None:
        raise CompileFailed(code.failure, forge.detail_of(settings))
    return code.name


@dataclass(slots=True)
class Estimating:
    """Estimates variants. The forge's metric becomes the *likely time*: the default's estimate
    times the ratio that the variant stays below in 7 of 10 cases. A search by it takes what helps
    on top of the others more often than not, and prefers what is known well."""

    forge: Forge
    default: Run | None = None
    seconds: float = 0.0
    _class: str = ""
    _dull: list[Settings] = field(default_factory=list)
    """Single changes that helped no model before."""

    def begin(self) -> None:
        """Compile the default, which all else is held against. Raises PerfcliError where its time
        is not known at all."""
        forge = self.forge
        settings = forge.space.settings(frozenset())
        self._class = class_of(forge, settings)
        forge.read = self._read
        self.default = forge.compile(settings, self._class)
        forge.skim = self._skim
        space = forge.space
        dull = [change.key for change in space.changes if change.key not in space.helped]
        self._dull = [space.settings(frozenset({key})) for key in dull]

    def compile(self, wanted: Iterable[Settings]) -> None:
        self.forge.codes(list(wanted))

    def against_default(self, settings: Settings) -> Ratio:
        forge = self.forge
        code = class_of(forge, settings)
        forge.value(settings, code)
        values = forge.known.values[code]
        if (moved := values.get(f"{forge.metric.name} moved")) is not None:
            more = f"{units.percent(moved - 1)} more" if moved >= 1.005 else "as many"
            raise PerfcliError(f"{SKIMMED} (it moves {more} bytes)")
        return Ratio(*(values[f"{forge.metric.name} {name}"] for name in _PARTS))

    def between(self, before: Settings, after: Settings) -> Ratio:
        classes = [class_of(self.forge, each) for each in (before, after)]
        if classes[0] == classes[1]:
            return SAME
        runs = (self.forge.compile(s, c) for s, c in zip((before, after), classes, strict=True))
        return _estimate(*runs)

    def is_sure(self, ratio: Ratio) -> bool:
        """Return whether it is faster in 19 of 20 cases."""
        return ratio.high < 1

    def _read(self, run: Run) -> dict[str, float]:
        forge = self.forge
        if self.default is None:
            step = compare(run, run).estimate
            if step is None:
                where = run.place
                raise PerfcliError(
                    f"the time of a step is not known on {where}: no GPU like it was calibrated"
                )
            self.seconds = step.base.seconds
            # What is known from other searches is no answer: by other constants, or against another
            # default.
            by = f"{step.base.constants} {_SHARE} {_FLOOR}"
            name = f"{LIKELY_TIME.name} {by} {self._class}"
            forge.metric = replace(LIKELY_TIME, name=name)
        found = _estimate(self.default or run, run)
        if self.default is not None:
            _check_reads(run)
        name = forge.metric.name
        parts = zip(_PARTS, (found.ratio, found.low, found.high), strict=True)
        return {
            name: self.seconds * found.likely,
            **{f"{name} {part}": value for part, value in parts},
        }

    def _skim(self, settings: Settings, run: Run) -> dict[str, float]:
        """Take for slower, without an estimate, what calls as many library operators as the default
        and moves more bytes; of values that helped no model before, and are tried alone, what
        launches no fewer kernels and moves no fewer bytes."""
        assert self.default is not None
        ours, theirs = _Work.of(run), _Work.of(self.default)
        if not ours.moved or not theirs.moved or ours.calls < theirs.calls:
            return {}
        ratio = ours.moved / theirs.moved
        more = ratio >= MUCH_MORE
        if not more and (dict(settings) not in self._dull or not ours.is_no_less_than(theirs)):
            return {}
        name = self.forge.metric.name
        return {name: self.seconds * max(ratio, MUCH_MORE), f"{name} moved": ratio}


@dataclass(frozen=True, slots=True)
class _Work:
    """Counts what a step does, as its code tells."""

    moved: int
    """Bytes, of generated kernels; 0 where not known of all."""
    launches: int
    calls: int
    """Launches of library operators."""

    @classmethod
    def of(cls, run: Run) -> _Work:
        moved = [kernel.step_bytes for kernel in run.kernels]
        calls = sum(launch.extern and not launch.finishing for launch in run.launches)
        known = 0 if None in moved else sum(each for each in moved if each is not None)
        return cls(known, len(run.launches), calls)

    def is_no_less_than(self, other: _Work) -> bool:
        return self.moved >= NO_FEWER * other.moved and self.launches >= other.launches


_PARTS = ("ratio", "low", "high")


def _check_reads(run: Run) -> None:
    """Raise PerfcliError where a kernel can't be right, however fast it is: torch 2.11 and 2.13
    write mix-order kernels with block pointers that stay at the first row."""
    for kernel, share in list_unread(run):
        raise PerfcliError(
            f"{kernel.name} reads {share:.1%} of its input: its results are wrong, a bug of torch"
        )


def _estimate(base: Run, head: Run) -> Ratio:
    change = compare(base, head).estimate
    if change is None:
        raise PerfcliError("the estimated time is not known")
    if change.ratio is None or change.low is None or change.high is None:
        raise PerfcliError(f"the estimated time is not known: {next(iter(change.missing), '')}")
    if change.base.waits_for_host or change.head.waits_for_host:
        return Ratio(change.ratio, change.low, change.high)
    share = _share_in_doubt(base, head, change)
    half = _fit_half_width(math.log(change.high / change.low) / 2, share)
    return Ratio(change.ratio, change.ratio * math.exp(-half), change.ratio * math.exp(half))


def _share_in_doubt(base: Run, head: Run, change: EstimatedChange) -> float:
    """Return the share of a step that two variants may differ in: that of the generated kernels,
    where they call the same library operators."""
    ours, theirs = (_time_calls(*side) for side in ((base, change.base), (head, change.head)))
    whole = change.base.seconds
    return 1 - ours / whole if abs(theirs - ours) <= _SAME_CALLS * whole else 1.0


def _time_calls(run: Run, step: StepEstimate) -> float:
    """Return the estimated seconds of the library operators, as far as they count."""
    calls = zip(run.externs, step.externs, strict=True)
    return sum(each.seconds * extern.count for extern, each in calls if each)


def _fit_half_width(half: float, share: float = 1.0) -> float:
    """Return half the width of an interval of a log ratio, for options of one model, from the half
    that ``compare`` gives it, which fits any two runs: errors that both variants have cancel each
    other, and launch configurations are chosen anew in each, of the ``share`` of the step that they
    may differ in. 0 where both are the same."""
    return math.hypot(_SHARE * half, _FLOOR * share) if half else 0.0


@dataclass(frozen=True, slots=True)
class Measuring:
    """Measures variants against the default, in turns."""

    clock: Clock

    def compile(self, wanted: Iterable[Settings]) -> None:
        self.clock.forge.codes(list(wanted))

    def against_default(self, settings: Settings) -> Ratio:
        clock = self.clock
        code = class_of(clock.forge, settings)
        if code == clock.good:
            return SAME
        found = clock.until_sure(settings, code, LEAST + 1)
        assert found.mean is not None
        assert found.standard_error is not None
        half = NORMAL_95 * found.standard_error
        return Ratio(*(math.exp(found.mean + side * half) for side in (0, -1, 1)))

    def between(self, before: Settings, after: Settings) -> Ratio:
        return self.against_default(after).over(self.against_default(before))

    def is_sure(self, ratio: Ratio) -> bool:
        """Return whether it is faster by more than the noise floor, and surely faster at all."""
        return ratio.high < 1 and ratio.ratio < 1 / (1 + self.clock.floor)
