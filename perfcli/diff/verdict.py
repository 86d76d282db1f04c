"""Better, worse or the same, and the one sentence that says why."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli import units
from perfcli.diff.metrics import DECIDING
from perfcli.model import Change, KernelFacts, KernelGroup, Outcome, Run

# Not bytes swept: they need a source that can be read as well, and say more than bytes moved only
# where a kernel goes over a buffer several times.
_MUST_BE_KNOWN = ("spilled_words", "bytes_moved")
_SHORT = {
    "spilled_words": "spills",
    "bytes_moved": "bytes",
    "bytes_swept": "bytes swept",
    "peak_memory_bytes": "peak memory",
}


def judge(
    base: Run, head: Run, totals: Sequence[Change], groups: Sequence[KernelGroup]
) -> tuple[Outcome, str]:
    """Worse if any deciding metric got worse, else unknown if spills or bytes can't be told, else
    better if any got better, else the same."""
    deciding = [c for name in DECIDING for c in totals if c.metric == name]
    worse = [c for c in deciding if c.outcome == "worse"]
    better = [c for c in deciding if c.outcome == "better"]
    unsure = [c for c in deciding if c.outcome == "unknown" and c.metric in _MUST_BE_KNOWN]
    identical = all(g.match.relation == "same" for g in groups)
    if worse:
        return "worse", _because(worse[0], base, head, groups, better)
    if unsure:
        return "unknown", _unsure(unsure[0].metric, "one side")
    if not identical and head.device == "cuda" and _absent("spilled_words", deciding):
        return "unknown", _unsure("spilled_words", "both sides")
    if better:
        return "better", _because(better[0], base, head, groups, worse)
    if identical:
        return "same", _identical(head)
    if all(c.outcome == "unknown" for c in deciding):
        return "unknown", "nothing that decides can be compared: no spills, bytes or memory"
    return "same", _unaffected(deciding, groups)


def describe(group: KernelGroup, base: Run, head: Run) -> str:
    """``3 kernels, 14 loads → 1 kernel, 17 loads``."""
    ours = [base.kernels[index] for index in group.match.base]
    theirs = [head.kernels[index] for index in group.match.head]
    return f"{_side(ours)} → {_side(theirs)}"


def _side(kernels: Sequence[KernelFacts]) -> str:
    if not kernels:
        return "nothing"
    facts = [k.source_facts for k in kernels if k.source_facts]
    loads = f", {units.plural(sum(f.loads for f in facts), 'load')}" if facts else ""
    return units.plural(len(kernels), "kernel") + loads


def _identical(head: Run) -> str:
    number = len(head.kernels)
    return "the only kernel is identical" if number == 1 else f"all {number} kernels are identical"


def _absent(metric: str, deciding: Sequence[Change]) -> bool:
    return all(c.metric != metric for c in deciding)


def _unsure(metric: str, where: str) -> str:
    return (
        f"{units.title(metric)} can't be compared: not known for some kernels of {where} "
        "(see their notes)"
    )


def _unaffected(deciding: Sequence[Change], groups: Sequence[KernelGroup]) -> str:
    """What stayed although kernels changed; what could not be compared is not said to have."""
    changed = units.plural(sum(g.match.relation != "same" for g in groups), "group")
    known = [_SHORT[c.metric] for c in deciding if c.metric in _SHORT and c.outcome != "unknown"]
    unknown = [_SHORT[c.metric] for c in deciding if c.metric in _SHORT and c.outcome == "unknown"]
    *others, last = known
    stayed = f"neither {', '.join(others)} nor {last}" if others else f"not {last}"
    doubt = f" ({', '.join(unknown)} can't be compared)" if unknown else ""
    return f"{changed} of kernels changed, but {stayed}{doubt}"


def _because(
    change: Change,
    base: Run,
    head: Run,
    groups: Sequence[KernelGroup],
    against: Sequence[Change],
) -> str:
    """The metric that decides, the group that adds most to it, and what speaks against it."""
    write = units.writer(change.metric)
    text = f"{units.title(change.metric)} {write(change.base)} → {write(change.head)}"
    share = units.relative(change.base, change.head)
    text += f" ({share})" if share and change.metric != "spilled_words" else ""
    worst = _most_to_blame(change, groups)
    if worst is not None:
        text += f": {_blame(worst, change.metric, base, head)}"
    if against:
        other = against[0]
        moved = units.signed(units.writer(other.metric), other.delta)
        text += f", though {units.title(other.metric)} {moved}"
    return text


def _most_to_blame(change: Change, groups: Sequence[KernelGroup]) -> KernelGroup | None:
    sign = 1 if (change.delta or 0) > 0 else -1
    moved = [(sign * _delta(group, change.metric), -n) for n, group in enumerate(groups)]
    most, place = max(moved, default=(0.0, 0))
    return groups[-place] if most > 0 else None


def _delta(group: KernelGroup, metric: str) -> float:
    return next((c.delta or 0.0 for c in group.changes if c.metric == metric), 0.0)


def _blame(group: KernelGroup, metric: str, base: Run, head: Run) -> str:
    named = [head.kernels[index] for index in group.match.head] or [
        base.kernels[index] for index in group.match.base
    ]
    name = max(named, key=lambda k: (k.spilled_words or 0, k.bytes_moved or 0)).name
    moved = units.signed(units.writer(metric), _delta(group, metric))
    verb = {
        "new": "is new",
        "gone": "is gone",
        "fused": f"fuses {len(group.match.base)} kernels",
        "split": f"comes from a split into {len(group.match.head)} kernels",
        "regrouped": "was regrouped",
    }.get(group.match.relation, "changed")
    return f"{name} {verb} ({describe(group, base, head)}, {moved})"
