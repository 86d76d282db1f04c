"""Holds what bisect-commits found: what the report shows, JSON holds and frames list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from perfcli.bisect.answer import Ends, SearchCost
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.versions.plan import Version, VersionPlan
from perfcli.frames.table import Column, Table
from perfcli.model import Comparison
from perfcli.search.first_bad import FirstBad
from perfcli.search.question import Answer

Status = Literal["found", "one of several", "unsure", "not worse", "ends unsure", "same code"]


@dataclass(frozen=True, slots=True)
class VersionBlame:
    """Holds one search, ended. ``status`` is that of the search where there was one; ``ends
    unsure``: nobody can tell whether bad is worse."""

    id: str
    title: str
    plan: VersionPlan
    metric: SearchMetric
    status: Status
    cost: SearchCost
    ends: Ends | None = None
    first: FirstBad | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    """Versions without an answer, by name: why."""
    disputed: str = ""
    """Why the version that was found may not be the one: what measuring it against the one before
    it says. Empty where that agrees."""
    besides: tuple[str, ...] = ()
    """Metrics that were looked at before, and why they do not answer."""

    @property
    def culprit(self) -> Version | None:
        """Return the first bad version, where it is found."""
        if self.first is None or self.status != "found":
            return None
        return self.plan.find(self.first.suspects[0].name)

    @property
    def suspects(self) -> list[Version]:
        return [self.plan.find(s.name) for s in self.first.suspects] if self.first else []

    @property
    def stopped(self) -> str:
        return self.first.stopped if self.first else ""

    @property
    def exit_code(self) -> int:
        """Return 0 if one version is found and its own measurement agrees, 3 if not, 130 if the
        search was interrupted."""
        if self.stopped == "interrupted":
            return 130
        return 0 if self.status == "found" and not self.disputed else 3


@dataclass(frozen=True, slots=True)
class Proof:
    """Holds the comparison of the first bad version with the one before it."""

    parent: Version
    culprit: Version
    comparison: Comparison
    places: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Row:
    """Holds a version with what is known of it."""

    version: Version
    probability: float | None
    answer: Answer | None


def list_versions(found: VersionBlame) -> list[Row]:
    """Return every version between the ends as rows."""
    first = found.first
    likely = {s.name: s.probability for s in first.suspects} if first else {}
    tested = first.tested if first else {}
    return [
        Row(v, likely.get(v.name, 0.0) if first else None, tested.get(v.name))
        for v in found.plan.versions
    ]


VERSIONS: Table[Row] = Table(
    "versions",
    "a commit or an interpreter after the good one, the oldest first",
    "`bisect-commits`",
    (
        Column("version", "text", "its name", lambda row: row.version.name),
        Column(
            *("subject", "text", "a commit's first line"),
            lambda row: row.version.commit and row.version.commit.subject,
        ),
        Column(
            *("author", "text", "who wrote a commit"),
            lambda row: row.version.commit and row.version.commit.author,
        ),
        Column(
            *("date", "time", "when a commit was written"),
            lambda row: row.version.commit and row.version.commit.date,
        ),
        Column("torch", "text", "an interpreter's torch", lambda row: row.version.torch or None),
        Column(
            *("probability", "number", "that it is the first bad one; 0 where it is unlikely"),
            *(lambda row: row.probability, "fraction"),
        ),
        Column(
            *("outcome", "text", "good, bad or unresolved, where it was tested"),
            lambda row: row.answer and row.answer.outcome,
        ),
        Column(
            *("value", "number", "the metric in its unit, or where measured the ratio to good"),
            lambda row: row.answer and row.answer.value,
        ),
        Column(
            *("code", "text", "hash of its generated code, as far as the metric depends on it"),
            lambda row: row.answer and row.answer.code,
        ),
        Column(
            *("measurements", "count", "how often its code was measured"),
            lambda row: row.answer and row.answer.evidence and row.answer.evidence.measurements,
        ),
    ),
)
