"""Better, worse or the same, and the one sentence that says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from perfcli import units
from perfcli.diff.metrics import DECIDING, describe, launched, one_of
from perfcli.model import (
    Because,
    Change,
    Comparison,
    Finding,
    KernelGroup,
    Outcome,
    Run,
    WrongResults,
)

_LISTED = 3


def besides(base: Run, head: Run) -> tuple[str, ...]:
    """``extern calls 43 → 42 (aten.mm −1)``, ``graph breaks 0 → 3``."""
    found = []
    ours, theirs = (_extern_calls(run) for run in (base, head))
    moved = {op: theirs[op] - ours[op] for op in {**ours, **theirs} if theirs[op] != ours[op]}
    if moved:
        listed = [f"{op} {units.signed(units.count, n)}" for op, n in moved.items()]
        more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
        numbers = f"{units.count(ours.total())} → {units.count(theirs.total())}"
        found.append(f"extern calls {numbers} ({', '.join(listed[:_LISTED])}{more})")
    breaks = [sum(run.graph_breaks.values()) for run in (base, head)]
    if base.graph_breaks != head.graph_breaks:
        found.append(f"graph breaks {breaks[0]} → {breaks[1]}")
    return tuple(found)


def _extern_calls(run: Run) -> Counter[str]:
    calls: Counter[str] = Counter()
    for extern in run.externs:
        calls[extern.op] += extern.count
    return calls


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


def judge(
    base: Run, head: Run, totals: Sequence[Change], groups: Sequence[KernelGroup]
) -> tuple[Outcome, str, Because | None]:
    """Unknown where one side has no kernels at all: its work is done elsewhere, uncounted. Worse
    if any deciding metric got worse, else unknown if spills or bytes can't be told, else
    better if any got better, else the same. With the reason in a sentence, and in its parts where
    a metric decided."""
    for side, run, other in (("base", base, head), ("head", head, base)):
        if not run.kernels:
            number = units.plural(len(other.kernels), "kernel")
            return "unknown", f"the {side} has no generated kernel, the other side {number}", None
    deciding = [c for name in DECIDING for c in totals if c.metric == name]
    worse = [c for c in deciding if c.outcome == "worse"]
    better = [c for c in deciding if c.outcome == "better"]
    doubt = _doubt(deciding, groups, head)
    if worse or (better and not doubt):
        first, against = (worse, better) if worse else (better, worse)
        because = _because(first[0], base, head, groups, against)
        because = replace(because, also=_also(worse))
        return ("worse" if worse else "better"), _sentence(because), because
    if doubt:
        return "unknown", doubt, None
    but = "".join(f", but {text}" for text in [" and ".join(besides(base, head))] if text)
    if all(g.match.relation == "same" for g in groups):
        return "same", _identical(head) + but, None
    if all(c.outcome == "unknown" for c in deciding):
        return (
            "unknown",
            "nothing that decides can be compared: no spills, bytes or memory",
            None,
        )
    return "same", _unaffected(deciding, groups) + but.replace(", but", "; but"), None


def _doubt(deciding: Sequence[Change], groups: Sequence[KernelGroup], head: Run) -> str:
    """Why better or the same can't be said."""
    unsure = [c for c in deciding if c.outcome == "unknown" and c.metric in _MUST_BE_KNOWN]
    if unsure:
        return _unsure(unsure[0].metric, "one side")
    identical = all(g.match.relation == "same" for g in groups)
    if not identical and head.device == "cuda" and _absent("spilled_words", deciding):
        return _unsure("spilled_words", "both sides")
    return ""


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


# Each of these says in another unit what bytes moved say, where these decide.
_SAID_BY_BYTES = ("bytes_swept", "lower_bound_seconds")


def _also(worse: Sequence[Change]) -> str:
    """What got worse besides the first, where it says more: ``peak memory +268 MB (+22 %)``."""
    moved = any(change.metric == "bytes_moved" for change in worse)
    more = [c for c in worse[1:] if not (moved and c.metric in _SAID_BY_BYTES)]
    return ", ".join(_moved(change) for change in more)


def _moved(change: Change) -> str:
    text = units.signed(units.writer(change.metric), change.delta)
    share = units.relative(change.base, change.head)
    share = f" ({share})" if share and change.metric != "spilled_words" else ""
    return f"{units.title(change.metric)} {text}{share}"


def _because(
    change: Change,
    base: Run,
    head: Run,
    groups: Sequence[KernelGroup],
    against: Sequence[Change],
) -> Because:
    """The metric that decides, the group that adds most to it, and what speaks against it."""
    write = units.writer(change.metric)
    text = f"{units.title(change.metric)} {write(change.base)} → {write(change.head)}"
    share = units.relative(change.base, change.head)
    text += f" ({share})" if share and change.metric != "spilled_words" else ""
    found = Because(text)
    worst = _most_to_blame(change, groups)
    if worst is not None:
        moved = units.signed(write, _delta(groups[worst], change.metric))
        moved += f" {units.title(change.metric)}{one_of(groups[worst], groups)}"
        found = replace(
            found,
            group=worst,
            kernel=to_look_at(groups[worst], base, head),
            how=how_changed(groups[worst]),
            sums=f"{describe(groups[worst], base, head)}, {moved}",
        )
    for other in against[:1]:
        moved = units.signed(units.writer(other.metric), other.delta)
        found = replace(found, though=f"{units.title(other.metric)} {moved}")
    return found


def _sentence(because: Because) -> str:
    text = because.change
    if because.kernel:
        text += f": {because.kernel} {because.how} ({because.sums})"
    return f"{text}, though {because.though}" if because.though else text


def _most_to_blame(change: Change, groups: Sequence[KernelGroup]) -> int | None:
    sign = 1 if (change.delta or 0) > 0 else -1
    moved = [(sign * _delta(group, change.metric), -n) for n, group in enumerate(groups)]
    most, place = max(moved, default=(0.0, 0))
    return -place if most > 0 else None


def _delta(group: KernelGroup, metric: str) -> float:
    return next((c.delta or 0.0 for c in group.changes if c.metric == metric), 0.0)


def to_look_at(group: KernelGroup, base: Run, head: Run) -> str:
    """The kernel of a group that spills most, then moves most: the head's, where it has any."""
    named = [head.kernels[index] for index in group.match.head] or [
        base.kernels[index] for index in group.match.base
    ]
    named = launched(named) or named
    return max(named, key=lambda k: (k.spilled_words or 0, k.bytes_moved or 0)).name


def how_changed(group: KernelGroup) -> str:
    """``fuses 3 kernels``: what became of a group, said of its kernel."""
    return {
        "new": "is new",
        "gone": "is gone",
        "fused": f"fuses {len(group.match.base)} kernels",
        "split": f"comes from a split into {len(group.match.head)} kernels",
        "regrouped": f"was regrouped with others ({_ratio(group)})",
        "same": "is the same code, launched another number of times",
    }.get(group.match.relation, "changed")


def _ratio(group: KernelGroup) -> str:
    return f"{len(group.match.base)} → {len(group.match.head)}"


def judged(comparison: Comparison, findings: Sequence[Finding]) -> Comparison:
    """Worse, whatever the totals say, where the head has a new error: a reduction that leaves most
    of the device idle moves fewer bytes than the split one that takes a tenth of its time. Where
    it has a new warning, better or the same can't be said. ``findings``: the gravest first."""
    if comparison.outcome == "worse":
        return comparison
    came = [finding for finding in findings if finding.came_with_head and not finding.doubt]
    error = next((finding for finding in came if finding.severity == "error"), None)
    if error is not None:
        return _worse(comparison, error)
    warning = next((finding for finding in came if finding.severity == "warning"), None)
    if warning is not None and comparison.outcome != "unknown":
        return _unsure_objection(comparison, warning)
    return comparison


def _worse(comparison: Comparison, error: Finding) -> Comparison:
    against = comparison.because.change if comparison.because else ""
    though = f", though {against}" if against else ""
    return replace(
        comparison,
        outcome="worse",
        reason=f"{error.code} {error.headline}{though}",
        because=replace(_because_objection(comparison, error, error.code), though=against),
    )


def _unsure_objection(comparison: Comparison, warning: Finding) -> Comparison:
    said = comparison.because.change if comparison.because else comparison.reason
    change = f"{said}{'; but' if ', but ' in said else ', but'} {warning.code}"
    return replace(
        comparison,
        outcome="unknown",
        reason=f"{change}: {warning.headline}",
        because=_because_objection(comparison, warning, change),
    )


def _because_objection(comparison: Comparison, finding: Finding, change: str) -> Because:
    """A reason that ends in a finding: its code ends ``change``, its headline comes behind it."""
    matches = [group.match for group in comparison.groups]
    kernels = set(finding.kernels)
    groups = (number for number, m in enumerate(matches) if not kernels.isdisjoint(m.head))
    group = next(groups, None)
    before = comparison.because
    sums = before.sums if before and before.group == group else ""
    names = [comparison.head.kernels[number].name for number in finding.kernels[:1]]
    for name in names:
        if finding.headline.startswith(f"{name} "):
            how = finding.headline.removeprefix(name).lstrip()
            return Because(change, group, name, how, sums, code=finding.code)
    return Because(f"{change}: {finding.headline}", group, sums=sums, code=finding.code)


def judged_wrong(comparison: Comparison, wrong: WrongResults) -> Comparison:
    """Worse where the head's results are wrong, however fast or lean it is. Where the base's are,
    there is nothing to hold the head against: unknown. The code's own verdict speaks no longer:
    what is computed is not the same."""
    told = [f for f in comparison.findings if f.severity == "error" and f.headline == wrong.what]
    code = told[0].code if told else ""
    reason = f"{code} {wrong.what}" if code else wrong.what
    return replace(
        comparison,
        outcome="worse" if wrong.side == "head" else "unknown",
        reason=reason,
        because=Because(wrong.what if not code else f"{code}: {wrong.what}", code=code),
    )
