"""Holds what a gate asks of each check, and what it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TypeAlias

from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.gate.checks import Check
from perfcli.gate.config import Config
from perfcli.model import Allowance, Comparison, Judged, Provenance
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import Obtained


def today() -> date:
    return datetime.now(UTC).date()


def iso() -> str:
    return today().isoformat()


class NoBase(PerfcliError):
    """The base does not know the check: it is new."""

    exit_code = 0


@dataclass(frozen=True, slots=True)
class GateRequest:
    """Says what is asked of all checks."""

    config: Config
    context: Context
    allow: tuple[str, ...]
    """Aspects and tools that may differ."""
    allow_env: tuple[str, ...] = ()
    no_time: bool = False
    today: str = field(default_factory=iso)


@dataclass(frozen=True, slots=True)
class Against:
    """A comparison with its findings, and where its base comes from."""

    comparison: Comparison
    head: Obtained
    provenance: Provenance
    base: Obtained | None = None
    again: Callable[[], Comparison] | None = None
    """Measures it once more, in fresh processes; None where nothing is measured."""


CompareCheck: TypeAlias = Callable[[Check, GateRequest], Against]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's judgement, what it exits with alone, and the run that was looked at."""

    judged: Judged
    exit_code: int
    head: Obtained | None = None
    used: frozenset[Allowance] = frozenset()


class NotesOf(Notes):
    """Remarks about one check: they begin with its name."""

    def __init__(self, check: str, notes: Notes) -> None:
        super().__init__(notes.quiet)
        self._check = check

    def say(self, text: str) -> None:
        super().say(f"{self._check}: {text}")

    def warn(self, text: str) -> None:
        super().warn(f"{self._check}: {text}")
