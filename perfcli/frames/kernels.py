"""Declares the tables of a run's kernels and findings, and of the lines of one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perfcli.frames.table import Column, Table, joined
from perfcli.model import Finding, KernelFacts, LineCounts, Run


class Numbered(Protocol):
    """A kernel, its number, and what the rules say about it."""

    @property
    def number(self) -> int: ...
    @property
    def facts(self) -> KernelFacts: ...
    @property
    def findings(self) -> tuple[Finding, ...]: ...


@dataclass(frozen=True, slots=True)
class KernelRow:
    """Holds a kernel as a row."""

    number: int
    facts: KernelFacts
    findings: tuple[Finding, ...] = ()


def list_kernels(run: Run, findings: Sequence[Finding] = ()) -> list[KernelRow]:
    """Return a run's kernels as rows, each with those of the findings that name it."""
    return [
        KernelRow(number, facts, tuple(f for f in findings if number in f.kernels))
        for number, facts in enumerate(run.kernels)
    ]


def _source(field: str) -> Callable[[Numbered], Any]:
    return lambda row: row.facts.source_facts and getattr(row.facts.source_facts, field)


def _best(field: str) -> Callable[[Numbered], Any]:
    return lambda row: row.facts.best and getattr(row.facts.best, field)


def _estimated(row: Numbered) -> float | None:
    estimate = row.facts.estimate
    return estimate.seconds if estimate and not estimate.is_rough else None


def _operators(row: Numbered) -> str:
    return joined(dict.fromkeys(origin.op for origin in row.facts.origins if origin.op))


def _location(row: Numbered) -> str:
    return next((origin.location for origin in row.facts.origins if origin.location), "")


KERNELS: Table[Numbered] = Table(
    "kernels",
    "a generated kernel; its number is the one that `inspect-kernel` takes. Bytes and seconds are "
    "those of one launch",
    "`run`, `import`, `inspect-kernel` without KERNEL, `Kernels.to_frame()`",
    (
        Column("name", "text", "its name", lambda row: row.facts.name),
        Column("kind", "text", "pointwise, persistent reduction, …", lambda row: row.facts.kind),
        Column("language", "text", "triton or cpp", lambda row: row.facts.language),
        Column("graph", "text", "the graph that launches it", lambda row: row.facts.graph),
        Column("launches", "count", "launches of a step", lambda row: row.facts.launches),
        Column("loads", "count", "load instructions in its source", _source("loads")),
        Column("loads_in_loops", "count", "of these, inside loops", _source("loads_in_loops")),
        Column("stores", "count", "store instructions in its source", _source("stores")),
        Column("atomics", "count", "atomic instructions in its source", _source("atomics")),
        Column(
            *("spilled_words", "count", "32-bit words spilled per thread"),
            lambda row: row.facts.spilled_words,
        ),
        Column("registers", "count", "registers of a thread", _best("registers")),
        Column("stack_bytes", "count", "stack of a thread", _best("stack_bytes"), "B"),
        Column("shared_bytes", "count", "shared memory of a block", _best("shared_bytes"), "B"),
        Column(
            *("bytes_read", "count", "bytes read, each buffer once"),
            *(lambda row: row.facts.bytes_read, "B"),
        ),
        Column(
            *("bytes_written", "count", "bytes written, each buffer once"),
            *(lambda row: row.facts.bytes_written, "B"),
        ),
        Column(
            *("bytes_moved", "count", "read and written"), *(lambda row: row.facts.bytes_moved, "B")
        ),
        Column(
            *("bytes_swept", "count", "bytes if every sweep over a buffer goes to memory"),
            *(lambda row: row.facts.bytes_swept, "B"),
        ),
        Column(
            "occupancy", "number", "theoretical occupancy, 0 to 1", _best("occupancy"), "fraction"
        ),
        Column(
            *("lower_bound_seconds", "number", "bytes moved over the target's bandwidth"),
            *(lambda row: row.facts.lower_bound_seconds, "s"),
        ),
        Column("estimated_seconds", "number", "estimated time on the target", _estimated, "s"),
        Column("num_warps", "count", "warps of a block", _best("num_warps")),
        Column("operators", "text", "ATen operators that it computes", _operators),
        Column("location", "text", "first line of the model that it comes from", _location),
        Column(
            *("findings", "text", "codes of the findings about it"),
            lambda row: joined(finding.code for finding in row.findings),
        ),
    ),
)

FINDINGS: Table[Finding] = Table(
    "findings",
    "a finding of a rule",
    "`explain`",
    (
        Column("code", "text", "the rule's code", lambda row: row.code),
        Column("severity", "text", "info, warning or error", lambda row: row.severity),
        Column("headline", "text", "what was found", lambda row: row.headline),
        Column("kernels", "text", "numbers of the kernels", lambda row: joined(row.kernels)),
        Column("metric", "text", "what amount counts", lambda row: row.metric or None),
        Column("amount", "number", "how bad it is, in the metric's unit", lambda row: row.amount),
        Column(
            *("cost_seconds", "number", "what it costs a step, estimated"),
            *(lambda row: row.cost and row.cost.seconds, "s"),
        ),
        Column(
            *("cost_low", "number", "lower end of the cost's 80 % interval"),
            *(lambda row: row.cost and row.cost.low, "s"),
        ),
        Column(
            *("cost_high", "number", "upper end of the cost's 80 % interval"),
            *(lambda row: row.cost and row.cost.high, "s"),
        ),
        Column("advice", "text", "what to do", lambda row: row.advice),
        Column(
            *("proven", "flag", "whether a cure was compiled and helps"), lambda row: row.proven
        ),
        Column(
            *("location", "text", "line of the model"),
            lambda row: row.origin.location if row.origin else None,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class LineRow:
    """Holds a line of a kernel's source; ``counts`` is None where nothing tells what it became."""

    number: int
    text: str
    counts: LineCounts | None


def list_lines(kernel: KernelFacts, source: str, candidate: int | None = None) -> list[LineRow]:
    """Return the lines of a kernel's source with what they became in machine code, of the launch
    configuration that is meant (the expected winner where None is)."""
    chosen = kernel.shown if candidate is None else kernel.candidates[candidate]
    known = chosen.lines if chosen else {}
    none = LineCounts() if known else None
    return [
        LineRow(number, text, known.get(str(number), none))
        for number, text in enumerate(source.splitlines(), 1)
    ]


def _counted(field: str) -> Callable[[LineRow], Any]:
    return lambda row: None if row.counts is None else getattr(row.counts, field)


LINES: Table[LineRow] = Table(
    "lines",
    "a line of the kernel's source; instructions are counted in the machine code",
    "`inspect-kernel KERNEL`",
    (
        Column("line", "count", "its number, from 1", lambda row: row.number),
        Column("source", "text", "its text", lambda row: row.text),
        Column("global_loads", "count", "global loads (LDG)", _counted("global_loads")),
        Column("global_stores", "count", "global stores (STG)", _counted("global_stores")),
        Column("local_loads", "count", "loads of spilled registers", _counted("local_loads")),
        Column("local_stores", "count", "stores of spilled registers", _counted("local_stores")),
    ),
)
