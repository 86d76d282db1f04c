"""More memory is needed, and no time is gained for it.

What it sees: between two runs of one torch, peak memory (Inductor's estimate) grows by at least 10
% and by at least 1 % of the device's memory, and the time gained is less than 1 %. The time is
what the generated kernels take if each moves its bytes at full bandwidth, and 5 µs for each
launch, more than a launch takes. Nothing is said where kernels spill less, sweep fewer bytes, or
where other operators are called: what that gains is not known; nor where kernels and launches are
equal. 10 % is ten times the change from which the estimate counts at all; less than 1 % of the
device (800 MB of 80 GB) decides neither about the batch nor about whether a model fits.

Why it costs: the memory is missing for a larger batch or a longer sequence. In pytorch#138685 a
fusion took the peak from 4.591 to 8.886 GB, and the step from 7.75 to 7.72 ms.

What to try: go back to the base. If only some of the options that differ are wanted, try them one
by one. PC301 names the kernel where one reads too many large terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Change, Comparison, Finding, Rule, Run

GROWTH = 0.10
OF_DEVICE = 0.01
GAIN = 0.01
LAUNCH_SECONDS = 5e-6


def _check(comparison: Comparison) -> Iterator[Finding]:
    totals = {change.metric: change for change in comparison.totals}
    memory, time = totals.get("peak_memory_bytes"), totals.get("lower_bound_seconds")
    if memory is None or time is None or not _grew(memory, comparison.head):
        return
    if _same_code(comparison) or _gain_is_unknown(comparison, totals):
        return
    gained = _gained_seconds(time, totals.get("launches"))
    if gained is not None and time.base and gained < GAIN * time.base:
        yield _finding(comparison, memory, time, gained)


def _same_code(comparison: Comparison) -> bool:
    """Return whether equal kernels come in equal order: they need equal memory, while Inductor's
    estimate counts values that a fused kernel keeps to itself, too (torch 2.13, ``accumulate`` with
    ``realize_acc_reads_size_threshold``)."""
    if comparison.changed_groups:
        return False
    return comparison.base.launches == comparison.head.launches


def _grew(memory: Change, head: Run) -> bool:
    if memory.outcome != "worse" or not memory.base or head.target is None:
        return False
    grown = memory.delta or 0.0
    return grown >= GROWTH * memory.base and grown >= OF_DEVICE * head.target.memory_bytes


def _gain_is_unknown(comparison: Comparison, totals: dict[str, Change]) -> bool:
    """Return whether time may be gained that the lower bound does not show."""
    # Not the bytes moved: they are what the lower bound is made of.
    hidden = [totals[name] for name in ("spilled_words", "bytes_swept") if name in totals]
    spared = any(c.outcome == "unknown" or _spares(c) for c in hidden)
    return spared or comparison.base.count_externs() != comparison.head.count_externs()


def _spares(change: Change) -> bool:
    limit = GAIN * (change.base or 0.0) if change.metric == "bytes_swept" else 0.0
    return -(change.delta or 0.0) > limit


def _gained_seconds(time: Change, launches: Change | None) -> float | None:
    if time.delta is None or time.outcome == "unknown":
        return None
    fewer = -(launches.delta or 0.0) if launches else 0.0
    return -time.delta + LAUNCH_SECONDS * fewer


def _finding(comparison: Comparison, memory: Change, time: Change, gained: float) -> Finding:
    options = {**comparison.base.variant.options, **comparison.head.variant.options}
    differ = [
        name
        for name in options
        if comparison.base.variant.options.get(name) != comparison.head.variant.options.get(name)
    ]
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"peak memory {units.size(memory.base)} → {units.size(memory.head)} "
        f"({units.relative(memory.base, memory.head)}) and no time gained",
        evidence=(
            f"lower-bound time {units.seconds(time.base)} → {units.seconds(time.head)} "
            f"({units.relative(time.base, time.head) or 'the same'})",
            f"gained with launches at 5 µs: {units.signed(units.seconds, gained)} a step",
        ),
        advice=f"take back {', '.join(differ)}" if differ else "go back to the base",
        metric="peak_memory_bytes",
        amount=memory.delta,
    )


RULE = Rule("PC302", "more memory for no time", __doc__, of_comparison=_check)
