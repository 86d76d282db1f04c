"""The table of kernels: a row for each group of kernels that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import (
    OUTCOME_OF,
    Comparison,
    EstimatedChange,
    GroupTiming,
    KernelFacts,
    KernelGroup,
    Outcome,
)

from .._rows.groups import list_changed
from .._rows.kernels import ESTIMATED, TIME, Column, choose_columns
from .data import _kernel_id, _page_id

LAUNCHES = Column("launches", "launches", lambda k: k.launches)


@dataclass(frozen=True, slots=True)
class _Cell:
    """``value`` and ``delta`` are what the table is sorted by; None: not known."""

    text: str
    before: str = ""
    """The base's, where it differs."""
    outcome: Outcome = "same"
    value: float | None = None
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class _Name:
    """Holds one kernel of the row, and the id of its page."""

    side: str
    number: int
    name: str
    link: str


@dataclass(frozen=True, slots=True)
class _Row:
    page: str
    relation: str
    changed: bool
    names: tuple[_Name, ...]
    """The head's; the base's where they are other ones."""
    graph: str
    cells: tuple[_Cell, ...]
    search: str
    """What the filter looks through, in lower case."""


@dataclass(frozen=True, slots=True)
class PageTable:
    titles: tuple[str, ...]
    rows: tuple[_Row, ...]
    relations: tuple[str, ...]


def _kernel_table(comparison: Comparison, check: int) -> PageTable:
    """Return the changed groups first, then the others, the costliest of each at the top."""
    kernels = (*comparison.base.kernels, *comparison.head.kernels)
    columns = (LAUNCHES, *choose_columns(kernels))
    timed = {g.group: g for g in comparison.timing.groups} if comparison.timing else {}
    changed = list_changed(comparison)
    order = {id(group): place for place, group in enumerate(changed)}
    numbered = sorted(
        enumerate(comparison.groups),
        key=lambda item: (order.get(id(item[1]), len(order)), -_estimate(comparison, item[1])),
    )
    rows = tuple(
        _row(comparison, check, number, columns, id(group) in order, timed)
        for number, group in numbered
    )
    titles = [column.title for column in columns]
    titles += ["time"] if timed else []
    titles += ["estimated time"] if comparison.estimate else []
    return PageTable(tuple(titles), rows, tuple(dict.fromkeys(row.relation for row in rows)))


def _row(
    comparison: Comparison,
    check: int,
    number: int,
    columns: Sequence[Column],
    changed: bool,
    timed: dict[int | None, GroupTiming],
) -> _Row:
    group = comparison.groups[number]
    base, head = group.match.select(comparison.base, comparison.head)
    names = _names(comparison, group, check)
    cells = [_cell(column, group, base, head) for column in columns]
    cells += [_time_cell(timed.get(number))] if timed else []
    cells += (
        [_estimate_cell(comparison.estimate, number, group, base, head)]
        if comparison.estimate
        else []
    )
    operators = {origin.op for kernel in (*base, *head) for origin in kernel.origins}
    said = [kernel.name for kernel in (*base, *head)] + sorted(operators)
    graphs = dict.fromkeys(kernel.graph for kernel in (*head, *base))
    return _Row(
        page=_page_id(check, number),
        relation=group.match.relation,
        changed=changed,
        names=names,
        graph=", ".join(graphs),
        cells=tuple(cells),
        search=units.printable(" ".join((*said, *graphs))).lower(),
    )


def _estimate(comparison: Comparison, group: KernelGroup) -> float:
    """Return the seconds of a step that the head's kernels are estimated to take; 0 where that is
    not known."""
    return sum(
        k.step_seconds or 0.0 for k in group.match.select(comparison.base, comparison.head)[1]
    )


def _names(comparison: Comparison, group: KernelGroup, check: int) -> tuple[_Name, ...]:
    base = [("base", n, comparison.base.kernels[n].name) for n in group.match.base]
    head = [("head", n, comparison.head.kernels[n].name) for n in group.match.head]
    one_to_one = len(base) == 1 and len(head) == 1
    shown = head if one_to_one else [*base, *head]
    return tuple(_Name(side, n, name, _kernel_id(check, side, n)) for side, n, name in shown)


def _cell(
    column: Column, group: KernelGroup, base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> _Cell:
    before, after = _total(column, base), _total(column, head)
    write = units.writer(column.metric)
    change = next((c for c in group.changes if c.metric == column.metric), None)
    both = bool(base) and bool(head)
    value = after if head else before
    if not both or before == after:
        return _Cell(write(value), value=value, delta=0.0 if both else None)
    delta = None if before is None or after is None else after - before
    outcome = change.outcome if change else "same"
    return _Cell(write(after), write(before), outcome, value, delta)


def _total(column: Column, kernels: Sequence[KernelFacts]) -> float | None:
    """Return the sum over what is launched, as the totals count, or over all where nothing is."""
    counted = [k for k in kernels if k.launches] or list(kernels)
    known = [value for kernel in counted if (value := column.of(kernel)) is not None]
    return column.total(known) if known else None


def _time_cell(timing: GroupTiming | None) -> _Cell:
    if timing is None:
        return _Cell(units.NOT_KNOWN)
    change = timing.change
    base, head = units.alike(change.base, change.head)
    value = change.base if change.head is None else change.head
    if timing.control or base == head:
        return _Cell(head, value=value, delta=timing.delta)
    return _Cell(head, base, OUTCOME_OF[change.verdict], value, timing.delta)


def _estimate_cell(
    estimate: EstimatedChange,
    number: int,
    group: KernelGroup,
    base: Sequence[KernelFacts],
    head: Sequence[KernelFacts],
) -> _Cell:
    """Return the estimated time of a step's launches, and the base's where it differs: the numbers
    of the comparison, in which what is the same on both sides takes as long."""
    (column,) = (column for column in ESTIMATED if column.title == TIME)
    before, after = _total(column, base), _total(column, head)
    changed = next((each for each in estimate.groups if each.group == number), None)
    if changed is not None:
        before, after = changed.base, changed.head
    elif group.match.relation == "same":
        before = after = after if before is None else before
    ours, theirs = units.alike(before, after)
    value = after if head else before
    if not base or not head or ours == theirs:
        return _Cell(theirs if head else ours, value=value, delta=0.0 if base and head else None)
    if before is None or after is None:
        return _Cell(theirs, ours, "unknown", value)
    outcome: Outcome = "worse" if after > before else "better"
    return _Cell(theirs, ours, outcome, value, after - before)
