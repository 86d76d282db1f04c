"""Kernels that belong together as rows: what became of them, then each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Candidate, Comparison, KernelFacts, KernelGroup, Outcome

from .kernels import COLUMNS, KernelRow, Part, write_cells, write_kernel

# What a group of kernels is weighed by, in order: what costs when it grows, or when it shrinks.
_COSTS = {
    "spilled_words": 1, "bytes_moved": 1, "bytes_swept": 1, "vector_loads": -1, "loads": 1,
}  # fmt: skip

# Below this confidence a match is said to be a guess.
_DOUBT = 0.4


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


def list_changed(comparison: Comparison) -> list[KernelGroup]:
    """Groups that differ in code or numbers, the costliest first: added time where it was
    measured or estimated, then spilled words, bytes, sweeps, then loads. Where the run got better,
    what it gained most from comes first."""
    sign = 1 if comparison.outcome == "better" else -1
    times = _list_deltas(comparison)

    def cost(group: KernelGroup) -> tuple[float, ...]:
        code = (sign * costs * group.delta(m) for m, costs in _COSTS.items())
        return (sign * times.get(id(group), 0.0), *code)

    return sorted((g for g in comparison.groups if _has_changed(g)), key=cost)


def _list_deltas(comparison: Comparison) -> dict[int, float]:
    """Return the seconds that groups take more, measured or else estimated, by their id."""
    groups, estimate = comparison.groups, comparison.estimate
    if comparison.timing is not None:
        timed = comparison.timing.groups
        return {id(groups[g.group]): g.delta or 0.0 for g in timed if g.group is not None}
    return {id(groups[g.group]): g.head - g.base for g in estimate.groups} if estimate else {}


def _has_changed(group: KernelGroup) -> bool:
    return group.match.relation != "same" or any(c.delta for c in group.changes)


def count_unchanged(comparison: Comparison) -> str:
    """Return one line for all that stayed: ``17 kernels did not change``."""
    number = sum(len(g.match.head) for g in comparison.groups if not _has_changed(g))
    if any(g.match.method == "look" for g in comparison.groups):
        return f"{units.plural(number, 'kernel')} look the same on both sides" if number else ""
    return f"{units.plural(number, 'kernel')} did not change" if number else ""


def count_unprovenanced(comparison: Comparison) -> str:
    """Return one line about kernels that are left to their names."""
    named = sum(g.match.method == "name" for g in comparison.groups)
    number = sum(not k.origins for run in (comparison.base, comparison.head) for k in run.kernels)
    if not number:
        return ""
    looked = any(g.match.method == "look" for g in comparison.groups)
    how = "matched by their code alone"
    if named or looked:
        how = "matched by name, grid and registers" if looked else "matched by name"
    has = "has" if number == 1 else "have"
    return f"{units.plural(number, 'kernel')} {has} no provenance: {how}"


def write_group(group: KernelGroup, comparison: Comparison) -> GroupRows:
    base = [(index, comparison.base.kernels[index]) for index in group.match.base]
    head = [(index, comparison.head.kernels[index]) for index in group.match.head]
    return GroupRows(
        headline=_write_headline(group, [kernel for _, kernel in (*base, *head)]),
        note=_name_unseen(group, [k for _, k in base], [k for _, k in head]),
        deltas=_write_deltas(group),
        outcome=_find_worst(group),
        rows=(*_write_side("base", base), *_write_side("head", head)),
    )


def _write_side(part: Part, kernels: Sequence[tuple[int, KernelFacts]]) -> tuple[KernelRow, ...]:
    rows = [write_kernel(index, kernel, part) for index, kernel in kernels]
    if len(kernels) > 1:
        launched = [kernel for _, kernel in kernels if kernel.launches]  # as the totals count
        rows.append(KernelRow("sum", None, "together", write_cells(launched)))
    return tuple(rows)


def _write_headline(group: KernelGroup, kernels: Sequence[KernelFacts]) -> str:
    match = group.match
    words = {
        "changed": "changed",
        "same": "looks the same" if match.method == "look" else "same code",
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


def _name_unseen(
    group: KernelGroup, base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> str:
    """Return what changed in one kernel where no number of the table says it."""
    if len(base) != 1 or len(head) != 1 or _write_deltas(group):
        return ""
    ours, theirs = base[0], head[0]
    if ours.launches != theirs.launches:
        return f"{ours.launches} → {units.plural(theirs.launches, 'launch', 'launches')}"
    if group.match.relation == "same":
        return ""
    if ours.source_hash and ours.source_hash == theirs.source_hash:
        return "same source, other machine code"
    if ours.kind != theirs.kind:
        return f"{ours.kind} → {theirs.kind}"
    found = []
    if ours.best and theirs.best:
        found = [name for name, of in _COUNTED if of(ours.best) != of(theirs.best)]
    if len(ours.candidates) != len(theirs.candidates):
        found.append("launch configurations")
    return f"same numbers, other {found[0]}" if found else _OTHER_CODE


_OTHER_CODE = "same numbers, other code"


def is_other_code(group: KernelGroup, comparison: Comparison) -> bool:
    """Return whether one kernel became another whose numbers are all the same, and which did not
    decide the verdict."""
    because = comparison.because
    if because and because.group is not None and comparison.groups[because.group] is group:
        return False
    base, head = group.match.select(comparison.base, comparison.head)
    sure = group.match.confidence >= _DOUBT and group.match.relation == "changed"
    return sure and _name_unseen(group, base, head) == _OTHER_CODE


def _write_deltas(group: KernelGroup) -> dict[str, tuple[str, Outcome]]:
    if not group.match.base or not group.match.head:
        return {}
    changes = {c.metric: c for c in group.changes if c.delta}
    return {
        column.title: (units.signed(units.writer(column.metric), change.delta), change.outcome)
        for column in COLUMNS
        if (change := changes.get(column.metric)) is not None
    }


def _find_worst(group: KernelGroup) -> Outcome:
    """Return the outcome by what costs most and changed: spills, bytes, sweeps, then loads."""
    for metric in _COSTS:
        for change in group.changes:
            if change.metric == metric and change.outcome != "same":
                return change.outcome
    return "same"
