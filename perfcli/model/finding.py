"""Defines what a rule has to say, and what became of its advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.kernel import Origin
from perfcli.model.values import OptionValue, Outcome, Severity

ABOUT_NAMES = ("PC801", "PC802", "PC803")
"""Findings that there are other kernels than before: what is seen, never why."""

Appearance = Literal["", "new", "worse", "same", "better", "gone"]
TrialOutcome = Literal["helps", "helps at a cost", "does not help", "failed"]


@dataclass(frozen=True, slots=True)
class Change:
    """Holds one number of both sides."""

    metric: str
    base: float | None
    head: float | None
    outcome: Outcome

    @property
    def delta(self) -> float | None:
        return None if self.base is None or self.head is None else self.head - self.base


@dataclass(frozen=True, slots=True)
class Cure:
    """Holds options that a finding proposes to compile with, and what they do."""

    options: Mapping[str, OptionValue]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Holds what a finding costs by estimate, in seconds of each step: what its cure would save, or
    in a comparison what came with the head. Never a guess from bytes alone."""

    seconds: float
    """Less than nothing where the estimate speaks against the finding."""
    low: float
    high: float
    """The cost is between these in eight of ten cases."""
    share: float | None = None
    """Its part of the step's estimated time, 0 to 1, of all that has an estimate."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Holds a cure that was compiled: the finding's own amount before and after, and what else
    changed."""

    cure: Cure
    outcome: TrialOutcome
    before: float | None = None
    after: float | None = None
    """None also where the finding is gone and what is left of its amount can't be told."""
    changes: tuple[Change, ...] = ()
    """Totals of the run that decide a verdict and changed."""
    reason: str = ""
    """Why it failed, where it did."""
    run: str = ""
    """The stored run's id."""
    brought: tuple[str, ...] = ()
    """Which of the cure's options this torch lacks: they are perfcli's patches."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Says what to change, and what a step is expected to save by it."""

    seconds: float
    share: float | None
    """Its part of the step's estimated time, 0 to 1."""
    options: Mapping[str, OptionValue]
    """What to compile with; empty where the model is to change, as ``text`` says."""
    text: str
    findings: tuple[Finding, ...]
    """Those that it is to cure."""
    proven: bool
    """Whether it was compiled: the seconds are those of what was generated."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Holds one diagnosis: evidence in numbers, advice, cures to try where there are any."""

    code: str
    severity: Severity
    headline: str
    kernels: tuple[int, ...] = ()
    """Indices into the run's kernels; empty for what concerns the whole run."""
    evidence: tuple[str, ...] = ()
    advice: str = ""
    cures: tuple[Cure, ...] = ()
    origin: Origin | None = None
    """Where in the user's model it comes from."""
    metric: str = ""
    """The name of the metric that ``amount`` counts, ``spilled_words``."""
    amount: float | None = None
    """How bad it is, in units of ``metric``; less is better."""
    cost: Cost | None = None
    """What it costs a step; None where no estimate tells."""
    subject: str = ""
    """Tells findings of one code apart where they name no kernels."""
    on_base: bool = False
    """Whether the kernels are the base's, because the finding is gone (in a comparison)."""
    appearance: Appearance = ""
    """What became of it from base to head (in a comparison)."""
    explained_by: str = ""
    """The code of another finding about the same kernel that this one is a consequence of."""
    trials: tuple[Trial, ...] = ()
    shown: bool | None = None
    """Whether the evidence itself proves the advice (another launch configuration, compiled)."""
    source_lines: Mapping[str, str] = field(default_factory=dict)
    """Lines of the kernel's source that the evidence names: number to text."""
    doubt: bool = False
    """Whether it doubts the report's numbers: no matter how grave, it is no regression."""

    @property
    def came_with_head(self) -> bool:
        """Return whether, in a comparison, it is new, worse, or something that only the comparison
        shows; not what is gone or stayed."""
        return self.appearance in ("", "new", "worse") and not self.on_base

    @property
    def proven(self) -> bool | None:
        """Return True where a cure was compiled and helps, False where some were and none does, and
        None where none was."""
        if self.shown or any(t.outcome.startswith("helps") for t in self.trials):
            return True
        return False if any(t.outcome != "failed" for t in self.trials) else self.shown
