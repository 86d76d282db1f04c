"""Inductor's kernels and hand-written ones, as rows of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Beside, Comparison, Totals


@dataclass(frozen=True, slots=True)
class BesideRow:
    title: str
    inductor: str
    ours: str


def beside_rows(beside: Beside) -> list[BesideRow]:
    """Times first, then what the code says; what neither side knows is left out."""
    rows = [*_times(beside), *_numbers(beside.inductor, beside.ours)]
    return [row for row in rows if {row.inductor, row.ours} != {units.count(None)}]


def _times(beside: Beside) -> Iterator[BesideRow]:
    for race in beside.raced:
        title = "time" if len(beside.raced) == 1 else f"time, {race.problem.split()[0]}"
        yield BesideRow(title, *units.alike(race.inductor, race.ours))
    if beside.raced:
        copy = sum(race.copy for race in beside.raced)
        sides = (sum(r.inductor for r in beside.raced), sum(r.ours for r in beside.raced))
        yield BesideRow("of a copy's speed", *(units.percent(copy / side) for side in sides))


def _numbers(inductor: Totals, ours: Totals) -> Iterator[BesideRow]:
    def row(title: str, left: str, right: str) -> BesideRow:
        return BesideRow(title, left, right)

    yield row("launches", units.count(inductor.launches), units.count(ours.launches))
    yield row("bytes moved", units.size(inductor.bytes_moved), units.size(ours.bytes_moved))
    yield row("with what is read again", *map(units.size, (inductor.bytes_swept, ours.bytes_swept)))
    yield row("passes over the input", _passes(inductor.passes), _passes(ours.passes))
    yield row(
        "loaded 16 bytes at a time", *map(units.percent, (inductor.wide_share, ours.wide_share))
    )
    yield row("registers", units.count(inductor.registers), units.count(ours.registers))
    yield row("spilled words", units.count(inductor.spilled_words), units.count(ours.spilled_words))
    shared = (inductor.shared_bytes, ours.shared_bytes)
    yield row("shared memory", *map(units.exact_bytes, shared))
    yield row("occupancy", units.percent(inductor.occupancy), units.percent(ours.occupancy))


def _passes(value: float | None) -> str:
    return units.count(None) if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def kernels(beside: Beside) -> list[str]:
    """``softmax/online: rows of more than …``."""
    named = zip(beside.kernels, beside.why, strict=True)
    return list(dict.fromkeys(f"{name}: {why}" if why else name for name, why in named))


def explanations(comparison: Comparison, beside: Beside) -> list[str]:
    """Findings that Inductor's side alone has, one line for each code."""
    found = [comparison.findings[number] for number in beside.explained]
    lines = []
    for code in dict.fromkeys(finding.code for finding in found):
        first, *others = (finding for finding in found if finding.code == code)
        more = f", and {units.plural(len(others), 'more kernel')}" if others else ""
        lines.append(f"{code}  {first.headline}{more}")
    return lines
