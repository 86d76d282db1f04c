"""Defines what carrying a claim out brought to light."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcli.model import TimeVerdict
from perfcli.reproduce.claim import Way
from perfcli.reproduce.condition import Facts


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """Holds the seconds of both sides; the ratio is bad over good, with its interval."""

    good: float | None
    bad: float | None
    ratio: float
    low: float
    high: float
    verdict: TimeVerdict


@dataclass(frozen=True, slots=True)
class CureResult:
    """Holds what became of the bad side with a cure."""

    options: tuple[str, ...]
    symptom: bool | None
    """Whether it still has the symptom; None where that is not known, or the claim has none."""
    estimated: TimeRatio | None = None
    """With the cure over without, as ``bad`` over ``good``."""
    measured: TimeRatio | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """Holds all that verdicts follow from."""

    torch: str = ""
    """The version that compiled both sides; empty where nothing was compiled."""
    place: str = ""
    """The GPU: its name, or that of the target."""
    way: Way | None = None
    sides: Mapping[str, Facts] = field(default_factory=dict)
    """The facts of ``good``, ``bad`` and ``pair``."""
    outcome: str = ""
    """What ``compare`` says of the two sides, the good one as the base."""
    estimated: TimeRatio | None = None
    measured: TimeRatio | None = None
    peaks: tuple[int, int] | None = None
    """Measured peak memory of the good and the bad side, in bytes."""
    findings: tuple[str, ...] = ()
    """Codes of the bad side's findings."""
    came: tuple[str, ...] = ()
    """Those of them that the good side lacks, or has to a lesser degree."""
    blamed: tuple[str, ...] = ()
    blame: str = ""
    """The search's answer in a sentence."""
    cures: tuple[CureResult, ...] = ()
    runs: tuple[str, str] | None = None
    """How a user names both runs."""
    smoke: bool = False
    failure: str = ""
    """Why it could not be carried out."""
    broken: bool = False
    """Whether the failure is an error, and not a limit of this torch."""
