"""Judges the counts of both sides: the metrics that decide, in order of weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcli import units
from perfcli.diff.metrics import DECIDING, describe, is_trifling, launched_kernels, one_of
from perfcli.model import Because, Change, Comparison, KernelGroup, Outcome, Run, Verdict


def pick_kernel(group: KernelGroup, base: Run, head: Run) -> str:
    """Return the kernel of a group that spills most, then moves most: the head's, where it has
    any."""
    named = [head.kernels[index] for index in group.match.head] or [
        base.kernels[index] for index in group.match.base
    ]
    named = launched_kernels(named) or named
    return max(named, key=lambda k: (k.spilled_words or 0, k.bytes_moved or 0)).name


def describe_change(group: KernelGroup, base: Run, head: Run) -> str:
    """Write ``fuses 3 kernels``: what became of a group, said of its kernel."""
    if _became_looped(group, base, head):
        return "now loops over what it held at once"
    return {
        "new": "is new",
        "gone": "is gone",
        "fused": f"fuses {len(group.match.base)} kernels",
        "split": f"comes from a split into {len(group.match.head)} kernels",
        "regrouped": f"was regrouped with others ({_ratio(group)})",
        "same": f"is the same code, {_describe_other_use(group, base, head)}",
    }.get(group.match.relation, "changed")


def _describe_other_use(group: KernelGroup, base: Run, head: Run) -> str:
    """Write how the same code can cost something else."""
    before = sum(base.kernels[index].launches for index in group.match.base)
    after = sum(head.kernels[index].launches for index in group.match.head)
    return "over other data" if before == after else "launched another number of times"


def _became_looped(group: KernelGroup, base: Run, head: Run) -> bool:
    """Return whether one kernel held what it reduces at once, and goes over it piece by piece
    now."""
    if group.match.relation != "changed" or len(group.match.base) != 1:
        return False
    kinds = base.kernels[group.match.base[0]].kind, head.kernels[group.match.head[0]].kind
    return kinds == ("persistent-reduction", "reduction")


def _ratio(group: KernelGroup) -> str:
    return f"{len(group.match.base)} → {len(group.match.head)}"


# Not bytes swept: they need a source that can be read as well, and say more than bytes moved only
# where a kernel goes over a buffer several times.
_MUST_BE_KNOWN = ("spilled_words", "bytes_moved")
_SHORT = {
    "spilled_words": "spills",
    "bytes_moved": "bytes",
    "bytes_swept": "bytes swept",
    "vector_loads": "vector loads",
    "peak_memory_bytes": "peak memory",
}


def judge_counts(comparison: Comparison) -> Verdict:
    """Return what totals and groups of kernels say, with the reason in its parts where a metric
    decided.

    Unknown where one side has no kernels at all: its work is done elsewhere, uncounted. Worse if
    any deciding metric got worse, else unknown if spills or bytes can't be told; else better if
    any got better, unless that is a trifle and other counts got worse; else the same.
    """
    base, head = comparison.base, comparison.head
    totals, groups = comparison.totals, comparison.groups
    for side, run, other in (("base", base, head), ("head", head, base)):
        if not run.kernels:
            number = units.plural(len(other.kernels), "kernel")
            return Verdict(
                "unknown", f"the {side} has no generated kernel, the other side {number}"
            )
    deciding = [c for name in DECIDING for c in totals if c.metric == name]
    worse = [c for c in deciding if c.outcome == "worse"]
    better = [c for c in deciding if c.outcome == "better"]
    if worse:
        because = _name_cause(worse[0], comparison, better)
        return _decide("worse", replace(because, also=_list_others(worse)))
    if doubt := _find_doubt(deciding, groups, head):
        return Verdict("unknown", doubt)
    if better and (lost := _find_lost(better, totals)):
        return _weigh_trifle(better, lost, comparison)
    if better:
        return _decide("better", _name_cause(better[0], comparison, ()))
    but = "".join(f", but {text}" for text in [" and ".join(comparison.besides)] if text)
    if all(g.match.relation == "same" for g in groups):
        return Verdict("same", _say_identical(head) + but)
    if all(c.outcome == "unknown" for c in deciding):
        nothing = "nothing that decides can be compared: no spills, bytes or memory"
        return Verdict("unknown", nothing)
    return Verdict("same", _say_unaffected(deciding, groups) + but.replace(", but", "; but"))


def _decide(outcome: Outcome, because: Because) -> Verdict:
    return Verdict(outcome, _write_reason(because), because)


def _find_doubt(deciding: Sequence[Change], groups: Sequence[KernelGroup], head: Run) -> str:
    """Return why better or the same can't be said."""
    unsure = [c for c in deciding if c.outcome == "unknown" and c.metric in _MUST_BE_KNOWN]
    if unsure:
        return _say_unsure(unsure[0].metric, "one side")
    identical = all(g.match.relation == "same" for g in groups)
    if not identical and head.device == "cuda" and _is_absent("spilled_words", deciding):
        return _say_unsure("spilled_words", "both sides")
    return ""


def _say_identical(head: Run) -> str:
    number = len(head.kernels)
    return "the only kernel is identical" if number == 1 else f"all {number} kernels are identical"


def _is_absent(metric: str, deciding: Sequence[Change]) -> bool:
    return all(c.metric != metric for c in deciding)


def _say_unsure(metric: str, where: str) -> str:
    return (
        f"{units.title(metric)} can't be compared: not known for some kernels of {where} "
        "(see their notes)"
    )


def _say_unaffected(deciding: Sequence[Change], groups: Sequence[KernelGroup]) -> str:
    """Return what stayed although kernels changed; what could not be compared is not said to
    have."""
    changed = units.plural(sum(g.match.relation != "same" for g in groups), "group")
    known = [_SHORT[c.metric] for c in deciding if c.metric in _SHORT and c.outcome != "unknown"]
    unknown = [_SHORT[c.metric] for c in deciding if c.metric in _SHORT and c.outcome == "unknown"]
    *others, last = known
    stayed = f"neither {', '.join(others)} nor {last}" if others else f"not {last}"
    doubt = f" ({', '.join(unknown)} can't be compared)" if unknown else ""
    return f"{changed} of kernels changed, but {stayed}{doubt}"


# Each of these says in another unit what bytes moved say, where these decide.
_SAID_BY_BYTES = ("bytes_swept", "lower_bound_seconds")


def _list_others(worse: Sequence[Change]) -> str:
    """Return what got worse besides the first, where it says more: ``peak memory +268 MB (+22
    %)``."""
    return ", ".join(map(_write_change, _without_repetition(worse)[1:]))


def _without_repetition(changes: Sequence[Change]) -> list[Change]:
    moved = any(change.metric == "bytes_moved" for change in changes)
    return [c for c in changes if not (moved and c.metric in _SAID_BY_BYTES)]


def _write_change(change: Change) -> str:
    text = units.signed(units.writer(change.metric), change.delta)
    share = units.relative(change.base, change.head)
    share = f" ({share})" if share and change.metric != "spilled_words" else ""
    return f"{units.title(change.metric)} {text}{share}"


def _name_cause(change: Change, comparison: Comparison, against: Sequence[Change]) -> Because:
    """Return the metric that decides, the group that adds most to it, and what speaks against
    it."""
    base, head, groups = comparison.base, comparison.head, comparison.groups
    write = units.writer(change.metric)
    text = f"{units.title(change.metric)} {write(change.base)} → {write(change.head)}"
    share = units.relative(change.base, change.head)
    text += f" ({share})" if share and change.metric != "spilled_words" else ""
    found = Because(text)
    worst = _find_most_to_blame(change, groups)
    if worst is not None:
        moved = units.signed(write, _read_delta(groups[worst], change.metric))
        moved += f" {units.title(change.metric)}{one_of(groups[worst], groups)}"
        found = replace(
            found,
            group=worst,
            kernel=pick_kernel(groups[worst], base, head),
            how=describe_change(groups[worst], base, head),
            sums=f"{describe(groups[worst], base, head)}, {moved}",
        )
    for other in against[:1]:
        moved = units.signed(units.writer(other.metric), other.delta)
        found = replace(found, though=f"{units.title(other.metric)} {moved}")
    return found


def _write_reason(because: Because) -> str:
    text = because.change
    if because.kernel:
        text += f": {because.kernel} {because.how} ({because.sums})"
    text += f", though {because.though}" if because.though else ""
    return f"{text}; {because.why}" if because.why else text


def _find_most_to_blame(change: Change, groups: Sequence[KernelGroup]) -> int | None:
    sign = 1 if (change.delta or 0) > 0 else -1
    moved = [(sign * _read_delta(group, change.metric), -n) for n, group in enumerate(groups)]
    most, place = max(moved, default=(0.0, 0))
    return -place if most > 0 else None


def _read_delta(group: KernelGroup, metric: str) -> float:
    return next((c.delta or 0.0 for c in group.changes if c.metric == metric), 0.0)


# --- a trifle gained, something lost ---------------------------------------------------------

# What a step does not get for nothing, though it does not decide by itself; what is told first
# stands first. A reduction whose row no longer stays in registers has its loads in a loop.
_COSTS = ("loads_in_loops", "launches", "kernels", "loads")
_TRIFLE = "too little was gained to tell which weighs more"


def _find_lost(better: Sequence[Change], totals: Sequence[Change]) -> list[Change]:
    """Return what got worse of the counts that do not decide, where all that got better is a
    trifle."""
    if not all(map(is_trifling, better)):
        return []
    return [c for name in _COSTS for c in totals if c.metric == name and c.outcome == "worse"]


def _weigh_trifle(
    better: Sequence[Change], lost: Sequence[Change], comparison: Comparison
) -> Verdict:
    """Return unknown, with both sides of it: what was lost, and the trifle that was gained for
    it."""
    because = _name_cause(lost[0], comparison, ())
    also, though = (
        ", ".join(map(_write_change, changes))
        for changes in (lost[1:], _without_repetition(better))
    )
    return _decide("unknown", replace(because, also=also, though=though, why=_TRIFLE))
