"""Puts a decision into words: the whole reason, and its parts for reports that lay them out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfcli import units
from perfcli.diff.added_work import adds_work
from perfcli.diff.metrics import DECIDING, UNRECORDED, is_weighed, launched_kernels
from perfcli.diff.verdict.decide import (
    OperatorEstimate,
    _Counted,
    _is_sure,
    _lacks_code,
    _list_deciding,
    _Ruling,
    _Statement,
    _Weighed,
)
from perfcli.model import (
    WAITS,
    Because,
    Change,
    Comparison,
    EstimatedChange,
    Finding,
    GroupEstimate,
    GroupTiming,
    KernelFacts,
    KernelGroup,
    Run,
    StepEstimate,
    TimeChange,
    Timing,
    Verdict,
    WrongResults,
)
from perfcli.predict.step import LEAST_CHANGE


def _write_verdict(ruling: _Ruling, comparison: Comparison) -> Verdict:
    """Return the verdict of a decision, with its reason in one sentence and in parts."""
    evidence, finding = ruling.evidence, ruling.finding
    if isinstance(evidence, WrongResults):
        return _write_wrong(ruling, evidence)
    if isinstance(evidence, _Weighed):
        because = _write_weighed(evidence, comparison)
        if finding is not None:
            because = _write_objection(because, finding)
        return Verdict(ruling.outcome, _join_times(because), because)
    verdict = _write_counted(evidence, comparison)
    if finding is None:
        return verdict
    if ruling.outcome == "worse":
        return _condemn(verdict, comparison, finding)
    return _doubt(verdict, comparison, finding)


def _write_wrong(ruling: _Ruling, wrong: WrongResults) -> Verdict:
    code = ruling.finding.code if ruling.finding else ""
    because = Because(f"{code}: {wrong.what}" if code else wrong.what, code=code)
    return Verdict(ruling.outcome, f"{code} {wrong.what}" if code else wrong.what, because)


# --- findings --------------------------------------------------------------------------------

_MEASURE = "measure it with --device cuda on such a GPU"


def _write_objection(because: Because, error: Finding) -> Because:
    return Because(
        f"{because.change}, but {error.code}: {error.headline}",
        also=because.also,
        though=because.though,
        code=error.code,
        why="the estimate may not know what this finding costs",
        help=_MEASURE,
    )


def _condemn(verdict: Verdict, comparison: Comparison, error: Finding) -> Verdict:
    gained = verdict.because if verdict.outcome == "better" else None
    against = gained.change if gained else ""
    though = f", though {against}" if against else ""
    because = replace(_end_in(error, error.code, verdict, comparison), though=against)
    return Verdict("worse", f"{error.code} {error.headline}{though}", because)


def _doubt(verdict: Verdict, comparison: Comparison, warning: Finding) -> Verdict:
    said = verdict.because.change if verdict.because else verdict.reason
    change = f"{said}{'; but' if ', but ' in said else ', but'} {warning.code}"
    because = _end_in(warning, change, verdict, comparison)
    return Verdict("unknown", f"{change}: {warning.headline}", because)


def _end_in(finding: Finding, change: str, verdict: Verdict, comparison: Comparison) -> Because:
    """Return a reason that ends in a finding: its code ends ``change``, its headline follows."""
    kernels = set(finding.kernels)
    matches = (group.match for group in comparison.groups)
    group = next((n for n, m in enumerate(matches) if not kernels.isdisjoint(m.head)), None)
    before = verdict.because
    sums = before.sums if before and before.group == group else ""
    names = [comparison.head.kernels[number].name for number in finding.kernels[:1]]
    for name in names:
        if finding.headline.startswith(f"{name} "):
            how = finding.headline.removeprefix(name).lstrip()
            return Because(change, group, name, how, sums, code=finding.code)
    return Because(f"{change}: {finding.headline}", group, sums=sums, code=finding.code)


# --- a group ---------------------------------------------------------------------------------


def pick_kernel(group: KernelGroup, base: Run, head: Run) -> str:
    """Return the kernel of a group that spills most, then moves most: the head's, where it has
    any."""
    ours, theirs = group.match.select(base, head)
    named = launched_kernels(theirs or ours) or theirs or ours
    return max(named, key=lambda k: (k.spilled_words or 0, k.bytes_moved or 0)).name


def describe_change(group: KernelGroup, base: Run, head: Run) -> str:
    """Write ``fuses 3 kernels``: what became of a group, said of its kernel."""
    if _became_looped(group, base, head):
        return "now loops over what it held at once"
    if group.match.relation == "split" and adds_work(base, head, group.match):
        return f"is one of {len(group.match.head)} kernels that compute more than the one before"
    if group.match.method == "look":  # traces do not tell whether it is the same code
        return "has the same grid and registers"
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


def _describe_kernels(group: KernelGroup, base: Run, head: Run) -> str:
    """Write ``3 kernels, 14 loads → 1 kernel, 17 loads``; nothing of a kernel that stayed one and
    of which only a trace tells."""
    ours, theirs = group.match.select(base, head)
    if len(ours) == len(theirs) == 1 and not (ours[0].source_hash or theirs[0].source_hash):
        return ""
    return f"{_describe_side(ours)} → {_describe_side(theirs)}"


def _describe_side(kernels: Sequence[KernelFacts]) -> str:
    if not kernels:
        return "nothing"
    facts = [k.source_facts for k in launched_kernels(kernels) if k.source_facts]
    loads = f", {units.plural(sum(f.loads for f in facts), 'load')}" if facts else ""
    return units.plural(len(kernels), "kernel") + loads


def _one_of(group: KernelGroup, groups: Sequence[KernelGroup]) -> str:
    """Write ``; one of 15 new kernels``: what one kernel adds is not all that the new ones do.
    Empty where it is alone."""
    relation = group.match.relation
    alike = [each for each in groups if each.match.relation == relation]
    if relation not in ("new", "gone") or len(alike) == 1:
        return ""
    kernels = sum(len(each.match.base) + len(each.match.head) for each in alike)
    return f"; one of {kernels} {'new kernels' if relation == 'new' else 'that are gone'}"


# --- counts ----------------------------------------------------------------------------------

_SHORT = {
    "spilled_words": "spills",
    "bytes_moved": "bytes",
    "bytes_swept": "bytes swept",
    "vector_loads": "vector loads",
    "peak_memory_bytes": "peak memory",
}
_WHERE_NOT_KNOWN: Mapping[str, str] = {
    "not known on one side": "one side",
    "not known on both sides": "both sides",
}
_TRIFLE = "too little was gained to tell which weighs more"


def _write_counted(counted: _Counted, comparison: Comparison) -> Verdict:
    if counted.change is None or counted.ground in _WHERE_NOT_KNOWN:
        return Verdict(counted.outcome, _write_ground(counted, comparison))
    because = _write_cause(counted, counted.change, comparison)
    return Verdict(counted.outcome, _join_counts(because), because)


def _write_ground(counted: _Counted, comparison: Comparison) -> str:
    """Return why counts are the same or can't be told, where no metric decides."""
    besides = " and ".join(comparison.besides)
    if counted.ground == "no kernels":
        return _say_empty(comparison.base, comparison.head)
    if counted.ground == "identical":
        return _say_identical(comparison.head) + (f", but {besides}" if besides else "")
    if counted.ground == "nothing known":
        return "nothing that decides can be compared: no spills, bytes or memory"
    if counted.ground == "code not known":
        return _say_unknown(comparison) + (f"; {besides}" if besides else "")
    if counted.ground == "vectors and scalars":
        return _say_weighed(comparison.totals) + (f"; {besides}" if besides else "")
    if counted.change is None:
        said = _say_unaffected(_list_deciding(comparison.totals), comparison.groups)
        return said + (f"; but {besides}" if besides else "")
    return (
        f"{units.title(counted.change.metric)} can't be compared: not known for some kernels of "
        f"{_WHERE_NOT_KNOWN[counted.ground]} (see their notes)"
    )


def _say_empty(base: Run, head: Run) -> str:
    side, other = ("head", base) if base.kernels else ("base", head)
    number = units.plural(len(other.kernels), "kernel")
    return f"the {side} has no generated kernel, the other side {number}"


def _say_identical(head: Run) -> str:
    number = len(head.kernels)
    if not number:
        return "nothing that was recorded differs"
    few = {1: "the only kernel is identical", 2: "both kernels are identical"}
    return few.get(number, f"all {number} kernels are identical")


def _say_unknown(comparison: Comparison) -> str:
    """Return of how many kernels nothing but their looks is known: names, grids and registers."""
    kernels = comparison.head.kernels
    hidden = sum(map(_lacks_code, kernels))
    if hidden != len(kernels):
        return f"nothing is known of the code of {hidden or 'some'} of {len(kernels)} kernels"
    if comparison.changed_groups:
        return "nothing is known of the kernels' code"
    return "the kernels look the same; nothing is known of their code"


def _say_weighed(totals: Sequence[Change]) -> str:
    """Return how loads and stores changed, of which it can't be told what it costs."""
    told = ("loads", "vector_loads", "stores", "vector_stores")
    moved = [c for c in totals if c.metric in told and c.base != c.head]
    return f"{', '.join(map(_write_sides, moved))}: what that costs, counts can't tell"


def _say_unaffected(deciding: Sequence[Change], groups: Sequence[KernelGroup]) -> str:
    """Return what stayed although kernels changed; what could not be compared is not said to
    have."""
    changed = units.plural(sum(g.match.relation != "same" for g in groups), "group")
    told = [c for c in deciding if c.metric in _SHORT and not is_weighed(c)]
    known = [_SHORT[c.metric] for c in told if c.outcome != "unknown"]
    unknown = [_SHORT[c.metric] for c in told if c.outcome == "unknown"]
    if len(known) > 1:
        stayed = f"neither {', '.join(known[:-1])} nor {known[-1]}"
    else:
        stayed = f"not {known[0]}" if known else "nothing that decides"
    doubt = f" ({', '.join(unknown)} can't be compared)" if unknown else ""
    return f"{changed} of kernels changed, but {stayed}{doubt}"


def _write_cause(counted: _Counted, change: Change, comparison: Comparison) -> Because:
    """Return the metric that decides, the group that adds most to it, and what speaks beside it."""
    trifle = counted.ground == "a trifle"
    against = map(_write_change if trifle else _write_delta, counted.though)
    because = Because(
        _write_sides(change),
        also=", ".join(map(_write_change, counted.also)),
        though=", ".join(against),
        why=_TRIFLE if trifle else "",
    )
    if counted.group is None:
        return because
    base, head, groups = comparison.base, comparison.head, comparison.groups
    group = groups[counted.group]
    delta = units.signed(units.writer(change.metric), group.delta(change.metric))
    moved = f"{delta} {units.title(change.metric)}{_one_of(group, groups)}"
    return replace(
        because,
        group=counted.group,
        kernel=pick_kernel(group, base, head),
        how=describe_change(group, base, head),
        sums=f"{_describe_kernels(group, base, head)}, {moved}",
    )


def _write_sides(change: Change) -> str:
    """Write ``bytes moved 409 MB → 193 MB (−52.8 %)``."""
    write = units.writer(change.metric)
    sides = f"{write(change.base)} → {write(change.head)}"
    return f"{units.title(change.metric)} {sides}{_write_part(change)}"


def _write_change(change: Change) -> str:
    """Write ``peak memory +268 MB (+22 %)``."""
    return f"{_write_delta(change)}{_write_part(change)}"


def _write_delta(change: Change) -> str:
    """Write ``peak memory +268 MB``."""
    return f"{units.title(change.metric)} {units.signed(units.writer(change.metric), change.delta)}"


def _write_part(change: Change) -> str:
    """Write `` (+22 %)``, the change in percent of the base; empty where that says nothing."""
    share = units.relative(change.base, change.head)
    return f" ({share})" if share and change.metric != "spilled_words" else ""


def _join_counts(because: Because) -> str:
    text = because.change
    if because.kernel:
        text += f": {because.kernel} {because.how} ({because.sums})"
    text += f", though {because.though}" if because.though else ""
    return f"{text}; {because.why}" if because.why else text


# --- times -----------------------------------------------------------------------------------


def _write_weighed(weighed: _Weighed, comparison: Comparison) -> Because:
    """Return what decided, what says the same and what speaks against it, and the main cause
    or why it can't be told."""
    decided, others = weighed.decided, weighed.others
    against = [statement for statement in others if _contradicts(statement, decided)]
    because = Because(
        _write_statement(decided),
        also=", ".join(_write_statement(s) for s in others if s not in against),
        though=", ".join(map(_write_statement, against)),
    )
    evidence = decided.evidence
    if isinstance(evidence, Timing):
        because = _add_other_clock(_add_period(because, evidence), evidence)
        return _explain(because, comparison, evidence, weighed.cause)
    if isinstance(evidence, EstimatedChange):
        return _explain_estimate(because, comparison, evidence, weighed.cause_by_estimate)
    code = _BESIDE_KERNELS.get(evidence.metric, "")
    return replace(because, change=f"{because.change}, {code}", code=code) if code else because


_BESIDE_KERNELS = {UNRECORDED: "PC602", "recompilations": "PC603", "compile_cpu_seconds": "PC604"}
"""Metrics that no kernel is to blame for, and the finding that says more."""


def _contradicts(one: _Statement, other: _Statement) -> bool:
    """Return whether two statements can't both be taken at their word: what can't tell contradicts
    nothing."""
    return one.outcome != other.outcome and "unknown" not in (one.outcome, other.outcome)


def _write_statement(statement: _Statement) -> str:
    evidence = statement.evidence
    if isinstance(evidence, Timing):
        return _write_time(evidence)
    if isinstance(evidence, EstimatedChange):
        return write_estimate(evidence)
    return _write_sides(evidence)


def _explain(
    because: Because, comparison: Comparison, timing: Timing, cause: GroupTiming | None
) -> Because:
    """Return the reason with the main cause, or why it can't be told."""
    deciding = timing.deciding
    if deciding.verdict == "unsure":
        also = ", ".join(part for part in (because.also, _write_together(timing)) if part)
        return replace(because, why=deciding.why, help=_advise(timing), also=also)
    if deciding.verdict == "same":
        also = ", ".join(part for part in (because.also, _name_slower(timing)) if part)
        return replace(because, also=also)
    if cause is None:
        timed = any(group.delta is not None for group in timing.groups)
        return replace(because, share="no kernel's time explains it" if timed else "")
    if cause.group is None:
        because = replace(because, kernel=cause.name, how="runs extern code")
    else:
        because = _name_group(because, comparison, cause.group)
    if cause.control:
        because = replace(because, how="is the same code on both sides", sums="")
    times, part = cause.change, (cause.delta or 0.0) / (deciding.delta or 1.0)
    return replace(because, share=_write_share(times.base, times.head, part, _is_sure(cause)))


def _name_group(because: Because, comparison: Comparison, number: int) -> Because:
    """Return the reason with a group's kernel, and what became of its code."""
    group, base, head = comparison.groups[number], comparison.base, comparison.head
    return replace(
        because,
        group=number,
        kernel=pick_kernel(group, base, head),
        how=describe_change(group, base, head),
        sums=f"{_describe_kernels(group, base, head)}{_write_gain(group)}".removeprefix(", "),
    )


_NAMES = {"": "step", "step": "traced step", "busy": "traced kernels"}
"""What a measured time is called."""


def _write_time(timing: Timing) -> str:
    """Write ``step 12.31 → 12.70 ms, +3.1 % [+2.6, +3.7], floor 1.5 %``, or the same of the
    device."""
    change, floor = timing.deciding, timing.deciding_floor
    name, bound = _NAMES[timing.traced], "allowance" if timing.traced else "floor"
    name = timing.clock if timing.clock == "device" else name
    text = _write_seconds(name, change.base, change.head, change, _choose_decimals(timing))
    return f"{text}, {bound} {units.percent(floor.relative)}"


def _add_other_clock(because: Because, timing: Timing) -> Because:
    """Return the reason with what the clock that does not decide says, and how long the device
    waits for the host: ``step SAME, it waits for the host 62 % of the time``."""
    if timing.device is None or timing.clocks != "both":
        return replace(because, clock=_write_waiting(timing))
    name, other = "device", timing.device
    if timing.clock == "device":
        name, other = "step", timing.step
    change = ""
    if other.verdict != "same" and other.ratio is not None:
        change = f", {units.interval(other.ratio, other.low, other.high)}"
    waiting = _write_waiting(timing)
    text = f"{name} {other.verdict.upper()}{change}{f', {waiting}' if waiting else ''}"
    return replace(because, clock=text)


def _write_waiting(timing: Timing) -> str:
    """Write ``it waits for the host 62 % of the time``; empty where it hardly does."""
    waiting = timing.waiting
    if waiting is None or waiting < WAITS:
        return ""
    subject = "it" if timing.clock == "device" or timing.clocks == "step" else "the step"
    return f"{subject} waits for the host {units.percent(round(waiting, 2))} of the time"


def _write_seconds(
    name: str,
    base: float | None,
    head: float | None,
    change: TimeChange | EstimatedChange,
    least: int = 0,
) -> str:
    """Write ``step 12.31 → 12.70 ms, +3.1 % [+2.6, +3.7]``, with ``least`` decimals or more."""
    text = f"{name} {units.from_to(base, head)}"
    if change.ratio is None:
        return text
    return f"{text}, {units.interval(change.ratio, change.low, change.high, least=least)}"


def _name_slower(timing: Timing) -> str:
    """Write which kernels of a traced step got slower though the step did not:
    ``triton_poi_fused_add_17 25.2 → 50.5 µs and 1 more are slower``."""
    slower = [g for g in timing.groups if timing.traced and g.change.verdict == "slower"]
    if not slower:
        return ""
    worst = max(slower, key=lambda group: group.delta or 0.0)
    more = f" and {len(slower) - 1} more" if slower[1:] else ""
    times = units.from_to(worst.change.base, worst.change.head)
    return f"{worst.name} {times}{more} {'are' if slower[1:] else 'is'} slower"


def _add_period(because: Because, timing: Timing) -> Because:
    """Return the reason with the traced time from step to step, where it does not say the same as
    that of the kernels."""
    period = timing.wall
    if not timing.traced or period is None or period.verdict == timing.step.verdict:
        return because
    text = _write_seconds("the step itself", period.base, period.head, period)
    said = ", ".join(part for part in (because.though, f"{text}, {period.verdict}") if part)
    return replace(because, though=said)


def _write_together(timing: Timing) -> str:
    """Write what kernels changed by together, where two traces tell that and not the step's time,
    whose gaps are the host's: ``kernels together 11.6 → 12.2 ms, +5.2 % [+3.3, +8.3]``."""
    total = timing.kernels_total
    if timing.traced != "step" or total is None or total.verdict not in ("slower", "faster"):
        return ""
    return _write_seconds("kernels together", total.base, total.head, total)


def _choose_decimals(timing: Timing) -> int:
    """Return one more than usual where a change of 1.53 % and a floor of 1.5 % would read alike."""
    ratio = timing.deciding.ratio or 1.0
    beyond = max(ratio, 1 / ratio) - 1 - timing.deciding_floor.relative
    return 2 if abs(beyond) < 0.001 else 0


def _write_share(base: float | None, head: float | None, part: float, sure: bool = True) -> str:
    """Write ``3.10 → 3.46 ms, 92 % of the change``: a kernel's time, and its part of the whole."""
    doubt = "" if sure else " (unsure)"
    return f"{units.from_to(base, head)}{doubt}, {units.percent(round(part, 2))} of the change"


def _write_gain(group: KernelGroup) -> str:
    """Return what weighs most of what the group's code gained or lost: ``, +92 spilled words``."""
    changes = {c.metric: c for c in group.changes if c.delta}
    for metric in DECIDING:
        if metric in changes:
            write = units.writer(metric)
            return f", {units.signed(write, changes[metric].delta)} {units.title(metric)}"
    return ""


def _join_times(because: Because) -> str:
    text = because.change
    inside = "; ".join(part for part in (because.share, because.sums) if part)
    if because.kernel:
        text += f": {because.kernel} {because.how} ({inside})"
    elif because.share:
        text += f": {because.share}"
    for part in (because.why, because.help):
        text += f"; {part}" if part else ""
    if because.why and because.also:  # it can't be told: this may be why
        text += f"; {because.also}"
    text += f"; {because.clock}" if because.clock else ""
    return f"{text}, though {because.though}" if because.though else text


# --- estimates -------------------------------------------------------------------------------


def _explain_estimate(
    because: Because,
    comparison: Comparison,
    estimate: EstimatedChange,
    cause: GroupEstimate | OperatorEstimate | None,
) -> Because:
    """Return the reason with the kernel or library operator that makes most of the change, or why
    it can't be told."""
    if estimate.verdict == "unsure":
        return replace(because, why=_say_why_unsure(estimate), help=advise(estimate))
    if cause is None:
        return because
    part = (cause.head - cause.base) / (estimate.head.seconds - estimate.base.seconds)
    share = _write_share(cause.base or None, cause.head or None, part)
    if isinstance(cause, OperatorEstimate):
        return replace(because, kernel=cause.name, how="runs extern code", share=share)
    return replace(_name_group(because, comparison, cause.group), share=share)


def write_estimate(estimate: EstimatedChange) -> str:
    """Write ``estimated step 120 → 150 µs, +25 % [+12, +40]``."""
    if estimate.ratio is None:
        return "the step's time can't be estimated"
    base, head = estimate.base, estimate.head
    name = f"estimated {_name_whole(base, head)}"
    return _write_seconds(name, base.seconds, head.seconds, estimate)


def _name_whole(*steps: StepEstimate) -> str:
    """Return what the seconds are of: the step, or only those generated kernels that have an
    estimate where others, or library operators, have none."""
    partly = any(None in step.externs or step.missing for step in steps)
    return "kernels" if partly else "step"


def _say_why_unsure(estimate: EstimatedChange) -> str:
    for kernels in (estimate.missing, estimate.rough):
        if kernels:
            return kernels[0] + (f" (and {len(kernels) - 1} more)" if len(kernels) > 1 else "")
    likelier = _say_what_is_likelier(estimate)
    hosts = [side.host for side in (estimate.base, estimate.head) if side.host is not None]
    if (estimate.base.waits_for_host or estimate.head.waits_for_host) and len(hosts) == 2:
        launches = " → ".join(units.count(host.launches) for host in hosts)
        return (
            f"{likelier}launches decide so short a step ({launches}), unless CUDA graphs are "
            "recorded: the device's time alone does not"
        )
    least = units.percent(LEAST_CHANGE)
    if likelier:
        return f"{likelier}the interval includes no change (less than {least}) as well"
    return f"the interval includes both no change (less than {least}) and more"


_LIKELY = 7
"""Of ten: rarer than that is not worth a word."""


def _say_what_is_likelier(estimate: EstimatedChange) -> str:
    """Return ``slower in 8 of 10 such cases, but ``, or nothing where it may as well be faster."""
    chance = estimate.chance_slower
    if chance is None:
        return ""
    number = min(int(10 * max(chance, 1 - chance)), 9)
    if number < _LIKELY:
        return ""
    return f"{'slower' if chance > 0.5 else 'faster'} in {number} of 10 such cases, but "


def advise(estimate: EstimatedChange) -> str:
    """Return what would make it sure: a measurement, or a change beyond the estimate's error."""
    if estimate.ratio is None or estimate.high is None:
        return _MEASURE
    error = estimate.high / estimate.ratio * (1 + LEAST_CHANGE) - 1
    beyond = units.percent(math.ceil(error * 100) / 100)
    return f"{_MEASURE}; only changes beyond about {beyond} can be told by estimate"


# --- what would tell -------------------------------------------------------------------------

_BUDGETS = (30, 60, 120, 300, 600, 1200)
"""Seconds that are proposed; what needs more is no question of time."""
_ADVICE_OF_TRACES = (
    "record both in one session, with more steps; perfcli compare SCENARIO measures both in turns"
)
_ROUNDS = 8
"""The fewest rounds: of fewer, no rank test can be 99 % sure."""
BUSY = 0.1
"""Share of the device or the cores that others keep busy, from which on it is said."""


def _advise(timing: Timing) -> str:
    """Return what may turn UNSURE into an answer: a longer or a quieter measurement, or a lower
    floor."""
    if timing.traced:
        return _ADVICE_OF_TRACES
    if timing.stopped == "interrupted":
        return "let it run to the end"
    if between := _advise_between(timing):
        return between
    busiest = max((s.others_utilisation or 0.0 for s in timing.states.values()), default=0.0)
    quiet = f" (others kept {units.percent(busiest)} of it busy)" if busiest >= BUSY else ""
    needed, floor = _estimate_seconds(timing), timing.deciding_floor
    budget = next((b for b in _BUDGETS if needed is not None and b >= needed), None)
    if needed is not None and needed <= timing.seconds:
        what = "floor" if floor.inside == floor.relative else "margin"
        return f"the change is about as large as the {what}: a quieter machine may tell"
    if budget is None:
        return f"a quieter machine{quiet}"
    return f"--budget {budget} may tell" + (f", or a quieter machine{quiet}" if quiet else "")


def _advise_between(timing: Timing) -> str:
    """Say where the change is surely larger than the margin and not beyond the floor, so that no
    more time helps; else empty."""
    step, floor = timing.deciding, timing.deciding_floor
    if step.ratio is None or step.low is None or step.high is None:
        return ""
    beyond_margin = step.low > 1 + floor.inside or step.high < 1 / (1 + floor.inside)
    if not beyond_margin or max(step.ratio, 1 / step.ratio) > 1 + floor.relative:
        return ""
    margin, noise = units.percent(floor.inside), units.percent(floor.relative)
    return (
        f"the change is larger than the margin of {margin} and below the floor of {noise}: "
        "a quieter machine lowers the floor"
    )


def _estimate_seconds(timing: Timing) -> float | None:
    """Return the seconds that would make it sure. The interval's width shrinks with the square root
    of the time spent; it has to be as narrow as what stops a measurement early: a quarter of the
    floor (of the margin, where that is lower), or a tenth of the change."""
    step = timing.deciding
    if step.ratio is None or not timing.seconds:
        return None
    if step.low is None or step.high is None:
        # As long as enough rounds for a 99 % interval take.
        return timing.seconds * _ROUNDS / step.rounds if 0 < step.rounds < _ROUNDS else None
    half = (step.high - step.low) / 2
    wanted = max(timing.deciding_floor.inside / 4, abs(step.ratio - 1) / 10)
    return timing.seconds * (half / wanted) ** 2 if wanted else None
