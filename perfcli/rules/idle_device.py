"""A reduction leaves most of the device idle, or is split where that gains nothing.

What it sees: in one run, without another to compare with,

* a looped reduction in fewer blocks than twice the multiprocessors, each of which goes through a
  long row on its own, waiting for memory over and over;
* a kernel whose last wave of blocks leaves most multiprocessors without work;
* a reduction in two stages whose rows are so short that one kernel would be done before the second
  has started.

What it costs is the estimated time of the kernel less that of the same work in more blocks (2.5 µs
for a second stage taken off), in full waves, or in one stage. It is reported from 1 µs and 1 % of
the step on, where a fifth of the kernel's time or more can be saved.

Why it costs: a block has one multiprocessor, and asks for a few kilobytes at a time. What 132
multiprocessors read in 180 µs, one block of two warps on each reads in 2.1 ms (torch 2.13, H200, by
estimate: 512 columns summed over 98,304 rows). A LayerNorm with an amax took 116 times as long in
one block (pytorch #109765). The other way round, a second kernel costs more than it gains where a
launch is most of the time (pytorch #179697, #181442).

What to try: `split_reductions=True` where it is off, `triton.cooperative_reductions=False` where
it keeps Inductor from splitting (pytorch #179859); where Inductor splits and did not here,
`triton.cooperative_reductions=True` (torch 2.6 and newer), with which several blocks reduce one row
together: for up to 16 rows, of 32,768 elements for each or more. `split_reductions=False` where
a split is too much. All hold for the whole model. A tail goes away with another block size
(`coordinate_descent_tuning`, on a device) or number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.model import Candidate, Cost, Cure, Finding, KernelFacts, Rule, Run, Severity
from perfcli.predict.savings import estimate_saving, estimate_total
from perfcli.rules._evidence.demands import coalesced, spread
from perfcli.rules._evidence.splits import KERNEL_SECONDS, Split, find_splits
from perfcli.rules._evidence.whole_reads import (
    ANY_REDUCTION,
    LOOPED,
    chunk_shape,
    reduced_elements,
    rows_of,
    whole_reads,
)
from perfcli.rules._evidence.words import number_kernels, origin_of
from perfcli.rules._evidence.worth import is_worth

LEAST_SHARE = 0.01
"""Of the step."""
LEAST_GAIN = 0.2
"""Of the kernel's own time."""
_FEW = 2
"""Blocks for each multiprocessor, below which a reduction has few."""
_MOST = 16
"""Blocks for each multiprocessor that a split is tried with."""
_COLUMNS = 4
"""Columns that a block sums at least, for its loads not to be all too narrow."""
_COOPERATIVE, _SPLIT = "triton.cooperative_reductions", "split_reductions"
_NEVER_SPLIT = ("argmax", "argmin", "sort")
"""Operators whose reductions Inductor never splits (``Reduction.num_splits``, torch 2.13)."""
_COOPERATIVE_ROWS, _COOPERATIVE_LENGTH = 16, 32768
"""Inductor's own conditions (``InductorChoices.should_use_cooperative_reduction``, torch 2.13)."""


def _check(run: Run) -> Iterator[Finding]:
    if run.target is None:
        return
    splits = list(find_splits(run))
    staged = {number for split in splits for number in (split.first, split.second)}
    gains = [_cost_of_split(run, split) for split in splits]
    net = sum(cost.seconds for cost in gains if cost)
    for split, cost in zip(splits, gains, strict=True):
        if cost is not None and _pays(run, cost, (split.first, split.second)):
            yield _say_split(run, split, cost, net > 0)
    for number, kernel, _ in number_kernels(run):
        expected = kernel.expected
        if expected is None or expected.work is None:
            continue
        few = expected.work.blocks < _FEW * run.target.sm_count
        if kernel.kind in LOOPED and few and expected.work.warp.rounds > 1:
            cost = _cost_of_few(run, number, expected.work.blocks)
            if cost is not None:
                yield _say_few(run, number, expected, cost)
        elif kernel.kind in (*ANY_REDUCTION, "pointwise") and number not in staged:
            cost = _cost_of_tail(run, number, expected)
            if cost is not None:
                yield _say_tail(run, number, expected, cost)


def _pays(run: Run, cost: Cost | None, kernels: Sequence[int]) -> bool:
    seconds = sum(run.kernels[number].step_seconds or 0.0 for number in kernels)
    return is_worth(cost, LEAST_SHARE, LEAST_GAIN * seconds)


# --- too few blocks ---------------------------------------------------------------------------


def _cost_of_few(run: Run, number: int, blocks: int) -> Cost | None:
    """Return what the best split saves, of those into powers of two."""
    assert run.target is not None
    kernel = run.kernels[number]
    added = KERNEL_SECONDS * kernel.launches
    most = min(_MOST * run.target.sm_count / blocks, reduced_elements(kernel) / 32)
    times = (2.0**n for n in range(1, int(math.log2(max(most, 1))) + 1))
    found = (estimate_saving(run, {number: (spread(each), coalesced)}, added) for each in times)
    best = max((each for each in found if each), key=lambda cost: cost.seconds, default=None)
    return best if _pays(run, best, (number,)) else None


def _waits_for_host(run: Run) -> bool:
    """Return whether the host needs longer than the device as it is, even at the least: what is
    split is launched more often, and gains nothing without CUDA graphs."""
    device = estimate_total(run)
    return run.host is not None and device is not None and run.host.low > device


def _say_few(run: Run, number: int, expected: Candidate, cost: Cost) -> Finding:
    kernel = run.kernels[number]
    assert run.target is not None and expected.work is not None
    rows, length, blocks = rows_of(kernel), reduced_elements(kernel), expected.work.blocks
    now = kernel.step_seconds or 0.0
    waits = _waits_for_host(run)
    grave: Severity = "error" if (cost.share or 0.0) >= 0.1 else "warning"
    return Finding(
        code=RULE.code,
        severity="info" if waits else grave,
        headline=f"{kernel.name} reduces {units.plural(rows, 'row')} of {units.count(length)} in "
        f"{units.plural(blocks, 'block')} for {run.target.sm_count} multiprocessors",
        kernels=(number,),
        evidence=(
            f"a warp waits for memory {units.count(round(expected.work.warp.rounds))} times, one "
            "after the other",
            f"{units.seconds(now)} of each step by estimate, "
            f"{units.seconds(now - cost.seconds)} where a row is split over several blocks",
            *(["the host needs longer than the device: it matters with CUDA graphs only"] * waits),
            *_say_settings(run),
        ),
        advice=_advise(run, kernel),
        cures=_list_cures(run, kernel),
        metric="idle_seconds",
        amount=cost.seconds,
        cost=cost,
        origin=origin_of(kernel),
    )


def _say_settings(run: Run) -> Iterator[str]:
    if run.settings.get(_SPLIT) is False:
        yield f"{_SPLIT} is off"
    elif run.settings.get(_COOPERATIVE) is True:
        yield f"{_COOPERATIVE} is on, and keeps Inductor from splitting"


def _list_cures(run: Run, kernel: KernelFacts) -> tuple[Cure, ...]:
    rows, length = rows_of(kernel), reduced_elements(kernel)
    never = any(op in o.op for o in kernel.origins for op in _NEVER_SPLIT)
    if run.settings.get(_SPLIT) is False and not never:
        return (Cure({_SPLIT: True}, "reduces a row with several blocks, in two kernels"),)
    if run.settings.get(_COOPERATIVE) is True and not never:
        return (Cure({_COOPERATIVE: False}, "lets Inductor split"),)
    if run.settings.get(_COOPERATIVE) is False and _can_cooperate(rows, length):
        return (Cure({_COOPERATIVE: True}, "reduces a row with several blocks of one kernel"),)
    return ()


def _can_cooperate(rows: int, length: int) -> bool:
    return rows <= _COOPERATIVE_ROWS and length >= _COOPERATIVE_LENGTH * min(rows, 8)


def _advise(run: Run, kernel: KernelFacts) -> str:
    if _list_cures(run, kernel):
        return ""
    return "reduce in two steps in the model: in parts of a row first, then over these"


# --- a tail -----------------------------------------------------------------------------------


def _cost_of_tail(run: Run, number: int, expected: Candidate) -> Cost | None:
    """Return what the same work saves in waves that are all full."""
    times = _fill(run, expected)
    if times is None:
        return None
    cost = estimate_saving(run, {number: (spread(times),)})
    return cost if _pays(run, cost, (number,)) else None


def _fill(run: Run, expected: Candidate) -> float | None:
    """Return how many times as many blocks would fill the last wave; None where there is one, or so
    many that the last one does not count."""
    assert run.target is not None and expected.work is not None
    waves = expected.work.blocks / (run.target.sm_count * (expected.blocks_per_sm or 1))
    return math.ceil(waves) / waves if 1 < waves < 6 else None


def _say_tail(run: Run, number: int, expected: Candidate, cost: Cost) -> Finding:
    kernel = run.kernels[number]
    assert run.target is not None and expected.work is not None
    once = run.target.sm_count * (expected.blocks_per_sm or 1)
    blocks = expected.work.blocks
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} needs {math.ceil(blocks / once)} waves for "
        f"{units.count(blocks)} blocks, the last of {units.plural(blocks % once, 'block')}",
        kernels=(number,),
        evidence=(
            f"{units.count(once)} blocks run at the same time, {expected.blocks_per_sm} on each of "
            f"{run.target.sm_count} multiprocessors",
        ),
        advice="another block size, or another number of rows where it is yours to choose",
        metric="idle_seconds",
        amount=cost.seconds,
        cost=cost,
        origin=origin_of(kernel),
    )


# --- split for nothing ------------------------------------------------------------------------


def _cost_of_split(run: Run, split: Split) -> Cost | None:
    """Return what one stage saves: no second kernel, for no more blocks than there are rows; of
    columns that are summed, a block takes a few at once."""
    first, second = run.kernels[split.first], run.kernels[split.second].step_seconds
    if second is None or first.expected is None or first.expected.work is None:
        return None
    along = all(
        chunk_shape(first, buffer, split.rows) for buffer in whole_reads(first, ANY_REDUCTION)
    )
    blocks = split.rows if along else split.rows / _COLUMNS
    whole = {split.first: (spread(min(1.0, blocks / first.expected.work.blocks)),)}
    return estimate_saving(run, whole, -second)


def _say_split(run: Run, split: Split, cost: Cost, pays: bool) -> Finding:
    first, second = run.kernels[split.first], run.kernels[split.second]
    now = (first.step_seconds or 0.0) + (second.step_seconds or 0.0)
    rows = f"{units.plural(split.rows, 'row')} of up to {units.count(split.length)}"
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{first.name} and {second.name} reduce {rows} in two stages, where one "
        "would be faster",
        kernels=(split.first, split.second),
        evidence=(
            f"{units.plural(split.chunks, 'chunk')} per row, "
            f"{units.size(first.bytes_moved)} in all",
            f"{units.seconds(now)} of each step by estimate, "
            f"{units.seconds(now - cost.seconds)} in one kernel",
        ),
        advice="" if pays else "no option joins these alone: others of this run are better split",
        cures=_list_unsplit(run) if pays else (),
        metric="idle_seconds",
        amount=cost.seconds,
        cost=cost,
        origin=origin_of(first),
    )


def _list_unsplit(run: Run) -> tuple[Cure, ...]:
    if run.settings.get(_SPLIT) is True:
        return (Cure({_SPLIT: False}, "reduces a row in one block"),)
    return ()


RULE = Rule("PC210", "idle device", __doc__, of_run=_check)
