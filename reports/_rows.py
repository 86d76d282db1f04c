"""What every report shows, as text in rows: built once, styled by each format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perfcli import units
from perfcli.model import (
    Candidate,
    Change,
    Comparison,
    KernelFacts,
    KernelGroup,
    Outcome,
    Run,
    Variant,
)

VERDICTS: Mapping[Outcome, str] = {
    "worse": "WORSE",
    "better": "BETTER",
    "same": "SAME",
    "unknown": "UNSURE",
}

Part = Literal["base", "head", "sum"]


@dataclass(frozen=True, slots=True)
class TotalRow:
    metric: str
    title: str
    base: str
    head: str
    delta: str
    relative: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel, or the sum of several. ``number`` is how a user names it to inspect-kernel."""

    part: Part
    number: int | None
    name: str
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Kernels that belong together: how they changed, then each. ``deltas`` has what the whole
    group gained, by column, with its sign; nothing for a group that is on one side only."""

    headline: str
    deltas: Mapping[str, tuple[str, Outcome]]
    outcome: Outcome
    rows: tuple[KernelRow, ...]
    note: str = ""
    """What changed, where no number says it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A number of one kernel, and the metric of a group that it goes with."""

    title: str
    metric: str
    of: Callable[[KernelFacts], float | None]
    total: Callable[[Sequence[float]], float] = sum


def _source(field: str) -> Callable[[KernelFacts], float | None]:
    return lambda k: None if k.source_facts is None else getattr(k.source_facts, field)


def _best(field: str) -> Callable[[KernelFacts], float | None]:
    return lambda k: None if k.best is None else getattr(k.best, field)


def _step_bytes(kernel: KernelFacts) -> float | None:
    return None if kernel.bytes_moved is None else kernel.bytes_moved * kernel.launches


# In order of importance: a narrow screen shows the first ones.
COLUMNS = (
    Column("loads", "loads", _source("loads")),
    Column("stores", "stores", _source("stores")),
    Column("spilled", "spilled_words", lambda k: k.spilled_words),
    Column("regs", "registers", _best("registers"), max),
    Column("bytes", "bytes_moved", _step_bytes),
    Column("shared", "shared_bytes", _best("shared_bytes"), max),
    Column("occup.", "occupancy", _best("occupancy"), min),
)


def cells(kernels: Sequence[KernelFacts]) -> dict[str, str]:
    """Column title to text; of several kernels the sum, or the worst."""
    found = {}
    for column in COLUMNS:
        known = [value for kernel in kernels if (value := column.of(kernel)) is not None]
        value = column.total(known) if known else None
        found[column.title] = units.writer(column.metric)(value)
    return found


def shorten(name: str, room: int) -> str:
    """The number at a name's end tells kernels apart, so its middle gives way."""
    if len(name) <= room:
        return name
    keep = (room - 1) // 2
    return f"{name[:keep]}…{name[-(room - 1 - keep) :]}"


def shortened(text: str, names: Sequence[str], room: int, least: int) -> str:
    """A text whose kernel names give way, no further than ``least``, until it fits into ``room``
    columns."""
    known = sorted({name for name in names if name in text}, key=lambda name: -len(name))
    if not known or len(text) <= room:
        return text
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)")
    found = pattern.findall(text)
    left = room - (len(text) - sum(map(len, found)))
    share = least
    for number, name in enumerate(sorted(found, key=len)):  # short ones leave room for long ones
        share = max(left // (len(found) - number), least)
        if len(name) > share:
            break
        left -= len(name)
    return pattern.sub(lambda match: shorten(match[0], share), text)


# --- a comparison ----------------------------------------------------------------------------


# Said only where they changed.
_SECONDARY = ("loads_in_loops", "graphs", "graph_breaks")


# What a group of kernels is weighed by, in order.
_COSTS = ("spilled_words", "bytes_moved", "bytes_swept", "loads")


def total_rows(comparison: Comparison) -> list[TotalRow]:
    return [_total(c) for c in comparison.totals if c.delta != 0 or c.metric not in _SECONDARY]


def _total(change: Change) -> TotalRow:
    write = units.writer(change.metric)
    return TotalRow(
        metric=change.metric,
        title=units.title(change.metric),
        base=write(change.base),
        head=write(change.head),
        delta="" if not change.delta else units.signed(write, change.delta),
        relative=units.relative(change.base, change.head),
        outcome=change.outcome,
    )


def changed_groups(comparison: Comparison) -> list[KernelGroup]:
    """Groups that differ in code or numbers, the costliest first: added spilled words, then
    bytes, sweeps, then loads. Where the run got better, what it gained most from comes first."""
    sign = 1 if comparison.outcome == "better" else -1

    def cost(group: KernelGroup) -> tuple[float, ...]:
        return tuple(sign * _delta(group, m) for m in _COSTS)

    return sorted((g for g in comparison.groups if _changed(g)), key=cost)


def _changed(group: KernelGroup) -> bool:
    return group.match.relation != "same" or any(c.delta for c in group.changes)


def _delta(group: KernelGroup, metric: str) -> float:
    return next((c.delta or 0.0 for c in group.changes if c.metric == metric), 0.0)


def unchanged(comparison: Comparison) -> str:
    """One line for all that stayed: ``17 kernels did not change``."""
    number = sum(len(g.match.head) for g in comparison.groups if not _changed(g))
    return f"{units.plural(number, 'kernel')} did not change" if number else ""


def without_provenance(comparison: Comparison) -> str:
    """One line about kernels that are left to their names."""
    named = sum(g.match.method == "name" for g in comparison.groups)
    number = sum(not k.origins for run in (comparison.base, comparison.head) for k in run.kernels)
    if not number:
        return ""
    how = "matched by name" if named else "matched by their code alone"
    has = "has" if number == 1 else "have"
    return f"{units.plural(number, 'kernel')} {has} no provenance: {how}"


# Below this confidence a match is said to be a guess.
_DOUBT = 0.4


def group_rows(group: KernelGroup, comparison: Comparison) -> GroupRows:
    base = [(index, comparison.base.kernels[index]) for index in group.match.base]
    head = [(index, comparison.head.kernels[index]) for index in group.match.head]
    return GroupRows(
        headline=_headline(group, [kernel for _, kernel in (*base, *head)]),
        note=_unseen(group, [k for _, k in base], [k for _, k in head]),
        deltas=_deltas(group),
        outcome=_worst(group),
        rows=(*_side_rows("base", base), *_side_rows("head", head)),
    )


def _side_rows(part: Part, kernels: Sequence[tuple[int, KernelFacts]]) -> tuple[KernelRow, ...]:
    rows = [kernel_row(index, kernel, part) for index, kernel in kernels]
    if len(kernels) > 1:
        rows.append(KernelRow("sum", None, "together", cells([kernel for _, kernel in kernels])))
    return tuple(rows)


def kernel_row(number: int, kernel: KernelFacts, part: Part = "head") -> KernelRow:
    launches = f" ×{kernel.launches}" if kernel.launches != 1 else ""
    return KernelRow(part, number, units.printable(kernel.name) + launches, cells([kernel]))


def _headline(group: KernelGroup, kernels: Sequence[KernelFacts]) -> str:
    match = group.match
    words = {
        "changed": "changed",
        "same": "same code",
        "new": "new",
        "gone": "gone",
        "split": f"split 1 → {len(match.head)}",
        "fused": f"fused {len(match.base)} → 1",
        "regrouped": f"regrouped {len(match.base)} → {len(match.head)}",
    }
    word = words[match.relation]
    if match.confidence < _DOUBT:
        return f"{word} (a guess, by {match.method})"
    graphs = {units.printable(kernel.graph) for kernel in kernels}
    return f"{word}, {graphs.pop()}" if len(graphs) == 1 else word


_COUNTED: tuple[tuple[str, Callable[[Candidate], object]], ...] = (
    ("instructions", lambda c: (c.global_loads, c.global_stores, c.tma_loads, c.tma_stores)),
    ("spill instructions", lambda c: (c.local_loads, c.local_stores)),
    ("warps", lambda c: c.num_warps),
    ("stages", lambda c: c.num_stages),
    ("block sizes", lambda c: dict(c.config)),
)


def _unseen(group: KernelGroup, base: Sequence[KernelFacts], head: Sequence[KernelFacts]) -> str:
    """What changed in one kernel where no number of the table says it."""
    if len(base) != 1 or len(head) != 1 or _deltas(group):
        return ""
    ours, theirs = base[0], head[0]
    if ours.launches != theirs.launches:
        return f"{ours.launches} → {units.plural(theirs.launches, 'launch', 'launches')}"
    if group.match.relation == "same":
        return ""
    if ours.source_hash == theirs.source_hash:
        return "same source, other machine code"
    if ours.kind != theirs.kind:
        return f"{ours.kind} → {theirs.kind}"
    found = []
    if ours.best and theirs.best:
        found = [name for name, of in _COUNTED if of(ours.best) != of(theirs.best)]
    if len(ours.candidates) != len(theirs.candidates):
        found.append("launch configurations")
    return f"same numbers, other {found[0] if found else 'code'}"


def _deltas(group: KernelGroup) -> dict[str, tuple[str, Outcome]]:
    if not group.match.base or not group.match.head:
        return {}
    changes = {c.metric: c for c in group.changes if c.delta}
    return {
        column.title: (units.signed(units.writer(column.metric), change.delta), change.outcome)
        for column in COLUMNS
        if (change := changes.get(column.metric)) is not None
    }


def _worst(group: KernelGroup) -> Outcome:
    """The outcome by what costs most and changed: spills, bytes, sweeps, then
    loads."""
    for metric in _COSTS:
        for change in group.changes:
            if change.metric == metric and change.outcome != "same":
                return change.outcome
    return "same"


# --- a run -----------------------------------------------------------------------------------


def question(run: Run) -> str:
    """What was compiled, in one line."""
    parts = [run.scenario, run.mode, run.target.name if run.target else run.device]
    parts += ["dynamic shapes"] if run.dynamic else []
    # The mode is said already, unless the parameter of that name is another thing.
    given = [(n, v) for n, v in run.params.items() if (n, v) != ("mode", run.mode)]
    parts += [" ".join(f"{name}={value}" for name, value in given)]
    return units.printable(" · ".join(part for part in parts if part))


def graph_breaks(run: Run) -> list[str]:
    """Why Dynamo gave up, the most frequent reason first: ``12 × Unsupported method call``."""
    ordered = sorted(run.graph_breaks.items(), key=lambda item: -item[1])
    return [units.printable(f"{units.count(number)} × {reason}") for reason, number in ordered]


def changed_breaks(comparison: Comparison) -> list[str]:
    """The reasons that Dynamo gave up more or less often for: ``0 → 12 × Unsupported method``."""
    base, head = comparison.base.graph_breaks, comparison.head.graph_breaks
    return [
        units.printable(f"{base.get(reason, 0)} → {head.get(reason, 0)} × {reason}")
        for reason in {**base, **head}
        if base.get(reason) != head.get(reason)
    ]


def without_kernels(run: Run) -> str:
    """One line about a run that has no kernels, with the reason where the run knows one."""
    if run.kernels:
        return ""
    why = [] if run.graphs else ["no graph was compiled"]
    externs = sum(extern.count for extern in run.externs)
    if externs:
        why.append(f"{units.plural(externs, 'extern call')} and nothing else")
    breaks = graph_breaks(run)
    if breaks:
        more = f" (and {units.plural(len(breaks) - 1, 'other reason')})" if breaks[1:] else ""
        why.append(f"graph breaks: {breaks[0]}{more}")
    elif run.notes:
        why.append("the notes may say why")
    return ": ".join(["torch.compile made no kernels", *(["; ".join(why)] if why else [])])


def variant(run: Run) -> str:
    """What one side is: its options and its torch."""
    return units.printable(
        f"{run.variant.name or options(run.variant)} · torch {run.environment.torch}"
    )


def options(given: Variant) -> str:
    return " ".join(f"{name}={value}" for name, value in given.options.items()) or "default"


def occupancy(candidate: Candidate) -> str:
    """``12.5 % (registers)``."""
    limit = f" ({candidate.occupancy_limit})" if candidate.occupancy_limit else ""
    return units.percent(candidate.occupancy) + (limit if candidate.occupancy is not None else "")
