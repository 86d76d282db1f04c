"""Declares the tables of ``perfcli kernels``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from perfcli.frames.table import Column, Table, joined
from perfcli.model import KernelFamily
from perfcli.model.handwritten import KernelLaunch
from perfcli.model.kernel import Candidate
from perfcli.model.kernel_work import CheckedCase, PlannedCase
from perfcli.names import public
from perfcli.workbench.check import CaseResults, _write_label
from perfcli.workbench.facts import Planned
from perfcli.workbench.problems import write_problem
from perfcli.workbench.scores import ContenderScore, Score

FAMILIES: Table[KernelFamily] = Table(
    "families",
    "a family of hand-written kernels",
    "`kernels`",
    (
        Column("family", "text", "its name", lambda row: public(row.name)),
        Column("summary", "text", "what it computes", lambda row: row.summary),
        Column("operations", "text", "its operations", lambda row: joined(row.operations)),
        Column(
            *("variants", "text", "its variants"),
            lambda row: joined(variant.name for variant in row.variants),
        ),
        Column("cases", "count", "cases that `check` has", lambda row: len(row.cases)),
    ),
)


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """Holds one launch of a planned problem; None of both where the problem is refused."""

    family: str
    planned: Planned
    launch: KernelLaunch | None = None
    made: Candidate | None = None


def list_launches(family: KernelFamily, planned: Iterable[Planned]) -> list[LaunchRow]:
    """Return all launches of planned problems as rows."""
    rows: list[LaunchRow] = []
    for each in planned:
        launches = each.plan.launches if each.plan else ()
        name = public(family.name)
        made = zip(launches, each.compiled, strict=False)
        found = [LaunchRow(name, each, launch, candidate) for launch, candidate in made]
        rows += found or [LaunchRow(name, each)]
    return rows


def _made(field: str) -> Callable[[LaunchRow], Any]:
    return lambda row: row.made and getattr(row.made, field)


LAUNCHES: Table[LaunchRow] = Table(
    "launches",
    "a launch of a hand-written kernel, compiled",
    "`kernels NAME`, `kernels --target NAME`",
    (
        Column("family", "text", "its family", lambda row: row.family),
        Column("problem", "text", "what is computed", lambda r: write_problem(r.planned.problem)),
        Column("target", "text", "the GPU", lambda row: row.planned.target.name),
        Column(
            *("variant", "text", "the variant"),
            lambda row: row.planned.plan and row.planned.plan.variant,
        ),
        Column("kernel", "text", "the kernel", lambda row: row.launch and row.launch.function),
        Column("num_warps", "count", "warps of a block", _made("num_warps")),
        Column("registers", "count", "registers of a thread", _made("registers")),
        Column("spilled_words", "count", "32-bit words spilled per thread", _made("spilled_words")),
        Column("shared_bytes", "count", "shared memory of a block", _made("shared_bytes"), "B"),
        Column("occupancy", "number", "theoretical occupancy", _made("occupancy"), "fraction"),
        Column("refusal", "text", "why there is none", lambda row: row.planned.refusal or None),
        Column(
            *("error", "text", "why it was not compiled"),
            lambda row: (row.made and row.made.error) or None,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """Holds one contender of a timed problem."""

    score: Score
    entry: ContenderScore


def list_scores(scores: Sequence[Score]) -> list[ScoreRow]:
    """Return the contenders of all problems as rows."""
    return [ScoreRow(score, entry) for score in scores for entry in score.entries]


SCORES: Table[ScoreRow] = Table(
    "scores",
    "a contender that was timed with a problem",
    "`kernels bench`",
    (
        Column("family", "text", "its family", lambda row: row.score.family),
        Column(
            *("problem", "text", "what is computed"),
            lambda row: write_problem(row.score.benched.problem),
        ),
        Column("contender", "text", "copy, ours, eager, …", lambda row: row.entry.name),
        Column(
            *("seconds", "number", "median of a launch"),
            *(lambda row: row.entry.median and row.entry.median.value, "s"),
        ),
        Column(
            *("low", "number", "lower end of its 95 % interval"),
            *(lambda row: row.entry.median and row.entry.median.low, "s"),
        ),
        Column(
            *("high", "number", "upper end of its 95 % interval"),
            *(lambda row: row.entry.median and row.entry.median.high, "s"),
        ),
        Column(
            *("bandwidth", "number", "the fewest bytes over the median"),
            *(lambda row: row.entry.bytes_per_second, "B/s"),
        ),
        Column(
            *("of_copy", "number", "its bandwidth over that of a copy"),
            *(lambda row: row.entry.of_copy and row.entry.of_copy.ratio, "ratio"),
        ),
        Column("error", "text", "why it was not timed", lambda row: row.entry.timed.error or None),
        Column("wrong", "text", "what is wrong", lambda row: row.entry.timed.wrong or None),
    ),
)


@dataclass(frozen=True, slots=True)
class CaseRow:
    """Holds one case that was checked."""

    family: str
    planned: PlannedCase
    checked: CheckedCase


def list_cases(done: Sequence[CaseResults]) -> list[CaseRow]:
    """Return the cases of all families that were checked as rows."""
    return [
        CaseRow(public(results.checking.family.name), results.checking.cases[number], checked)
        for results in done
        for number, checked in sorted(results.found.items())
    ]


CASES: Table[CaseRow] = Table(
    "cases",
    "a case that was checked",
    "`kernels check`",
    (
        Column("family", "text", "its family", lambda row: row.family),
        Column("case", "text", "what is computed of what", lambda r: _write_label(r.planned.case)),
        Column("outcome", "text", "right, wrong, failed or refused", lambda r: r.checked.outcome),
        Column("variant", "text", "the variant that ran", lambda row: row.checked.variant or None),
        Column("reason", "text", "why it failed", lambda row: row.checked.reason or None),
        Column(
            *("error", "number", "largest absolute error of its outputs"),
            lambda row: max((o.error for o in row.checked.outputs if o.error), default=None),
        ),
        Column("seconds", "number", "how long it took", lambda row: row.checked.seconds, "s"),
    ),
)

PROBED: Table[Any] = Table(
    "probed",
    "a launch of the fused mix-order kernel",
    "`kernels probe`",
    (
        Column("reads", "count", "values that it reads of an element", lambda row: row.reads),
        Column("dtype", "text", "their type", lambda row: row.dtype),
        Column("num_warps", "count", "warps of a block", lambda row: row.num_warps),
        Column("block", "count", "rows at a time", lambda row: row.block),
        Column("num_stages", "count", "stages", lambda row: row.num_stages),
        Column("registers", "count", "registers of a thread", lambda row: row.registers),
        Column(
            *("spilled_words", "count", "32-bit words spilled per thread"),
            lambda row: row.spilled_words,
        ),
        Column("shared_bytes", "count", "shared memory of a block", lambda r: r.shared_bytes, "B"),
        Column("warps_per_sm", "count", "resident warps", lambda row: row.warps_per_sm),
        Column("seconds", "number", "median of a launch", lambda row: row.seconds, "s"),
        Column("error", "text", "why it was not compiled", lambda row: row.error or None),
    ),
)
