"""A reduction is split on one side only, and the other way was better.

What it sees: in a comparison, kernels of one FX node that reduce the same rows in two stages
(chunks, then one partial result per chunk) on one side and in one stage on the other, where they
and the node's kernels behind them take a tenth longer or more in head, by estimate; not where the
side that splits has as many of these reductions in one stage as the other has: then it is another
one that is split. It is an error where the estimate doubles and that is more than 2 % of the step.
In one stage a block has one row or a few, and a multiprocessor's share of the memory bandwidth:
with fewer blocks than multiprocessors the others are idle, with a few more than a multiple of them
most wait for the last.
In two stages all of them work, but there are more kernels (2.5 µs each) and sometimes more bytes.
These lower bounds decide where nothing is estimated, an error from 0.5 % of all kernels' bounds on.

Why it costs: on an H100 with torch 2.11, LayerNorm of bfloat16: 4 rows of 1,048,576 take 18 µs
split and 258 µs in one stage (estimated: 13 and 248), 64 of 131,072 take 25 and 51; but 263 rows of
50,304 take 42 µs split and 32 in one stage. A LayerNorm with an amax took 116 times as long
without splits (pytorch #109765).

What to try: `split_reductions=True` where a split was lost with the option (off, or kept off by
`triton.cooperative_reductions`, pytorch #179859); `split_reductions=False` where one was gained:
it holds for the whole model. Thresholds of Inductor's own: torch 2.8 to 2.12 split fewer than
2 rows for each multiprocessor of more than 8,192 elements; later ones split less on Blackwell
(PR #179729, #188579). Another number of rows, if it is yours to choose, decides too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.diff.metrics import DECIDING
from perfcli.model import Comparison, Cost, Cure, Finding, KernelFacts, Rule, Run
from perfcli.predict.savings import estimate_loss
from perfcli.predict.step import LEAST_CHANGE
from perfcli.rules._evidence.splits import (
    Split,
    blocks_of,
    find_splits,
    is_also_whole,
    related_kernels,
    split_seconds,
    unsplit,
    unsplit_seconds,
)
from perfcli.rules._evidence.whole_reads import ANY_REDUCTION, reduced_elements, rows_of
from perfcli.rules._evidence.words import origin_of

NOTICEABLE = 1.1


@dataclass(frozen=True, slots=True)
class _Times:
    """Holds seconds of a step: estimated, of what was matched with the kernels that reduce, where
    the cost is known; else lower bounds of the kernels that share their FX nodes."""

    before: float
    after: float
    cost: Cost | None = None
    head: tuple[int, ...] = ()
    """The kernels of the head that were estimated."""


def _check(comparison: Comparison) -> Iterator[Finding]:
    base, head = comparison.base, comparison.head
    for split, number, ours, theirs in _one_sided(base, head):
        times = _estimate(comparison, (split.first, split.second), (number,)) or _bound(
            _in_two_stages(base, ours, theirs),
            _in_one_stage(head, number, theirs),
            head.kernels[number].launches,
        )
        if times and times.after >= NOTICEABLE * times.before:
            alike = _list_alike(head, number, times.head)
            yield _finding(head, alike, split, times, False)
    for split, number, theirs, ours in _one_sided(head, base):
        times = _estimate(comparison, (number,), (split.first, split.second)) or _bound(
            _in_one_stage(base, number, ours),
            _in_two_stages(head, theirs, ours),
            head.kernels[split.first].launches,
        )
        if times and times.after >= NOTICEABLE * times.before:
            both = (split.first, split.second)
            yield _finding(head, both, split, times, True)


def _estimate(comparison: Comparison, before: Sequence[int], after: Sequence[int]) -> _Times | None:
    """Return the times of all that was matched with the kernels that reduce, on either side: what
    one of them took over from others is on both."""
    base, head = comparison.base, comparison.head
    sides = (set(before), set(after))
    for match in (group.match for group in comparison.groups):
        if sides[0].intersection(match.base) or sides[1].intersection(match.head):
            sides[0].update(match.base)
            sides[1].update(match.head)
    ours, theirs = (sorted(side) for side in sides)
    cost = estimate_loss(base, ours, head, theirs)
    seconds = sum(base.kernels[number].step_seconds or 0.0 for number in ours)
    return None if cost is None else _Times(seconds, seconds + cost.seconds, cost, tuple(theirs))


def _list_alike(head: Run, number: int, together: Sequence[int]) -> tuple[int, ...]:
    """Return the kernel, and those of these that reduce as many rows of its length, the one that
    takes longest first."""
    one = head.kernels[number]
    same = {
        other
        for other in together
        if head.kernels[other].kind in ANY_REDUCTION
        and rows_of(head.kernels[other]) == rows_of(one)
        and reduced_elements(head.kernels[other]) == reduced_elements(one)
    }
    return tuple(sorted({number, *same}, key=lambda n: -(head.kernels[n].step_seconds or 0.0)))


def _bound(before: float | None, after: float | None, launches: int) -> _Times | None:
    return _Times(before * launches, after * launches) if before and after else None


def _one_sided(run: Run, other: Run) -> Iterator[tuple[Split, int, list[int], list[int]]]:
    """Yield what is split in one run only: the split, the kernel of the other run that does the
    same in one stage, and on both sides the kernels that share FX nodes with that. Not by the
    match: a kernel that only uses the result shares its nodes and may be taken for the partner."""
    done: set[int] = set()
    for split in find_splits(run):
        number = unsplit(other, split, run.kernels[split.first])
        if number is None or number in done:
            continue
        if not is_also_whole(run, split, other, number):
            done.add(number)
            nodes = other.kernels[number]
            yield (
                split,
                number,
                _kernels_sharing(run, split.first, nodes),
                _kernels_sharing(other, number, nodes),
            )


def _kernels_sharing(run: Run, reducing: int, nodes: KernelFacts) -> list[int]:
    """Return kernels that share FX nodes with a reduction, but for those that it reads from: what
    they gained or lost is no matter of its split."""
    read = {b.name for b in run.kernels[reducing].buffers if b.is_read}
    return [
        number
        for number in related_kernels(run, nodes)
        if number == reducing or read.isdisjoint(_written(run.kernels[number]))
    ]


def _written(kernel: KernelFacts) -> set[str]:
    return {b.name for b in kernel.buffers if b.is_written}


def _in_one_stage(run: Run, number: int, kernels: Sequence[int]) -> float | None:
    """Return the seconds in one stage. Only the kernel that reduces has so few blocks; those that
    use its result have their own."""
    alone = _swept(run, [number])
    others = _swept(run, [n for n in kernels if n != number])
    if alone is None or others is None:
        return None
    reducing = unsplit_seconds(run, alone, blocks_of(run.kernels[number]))
    using = split_seconds(run, others, 0)
    return None if reducing is None or using is None else reducing + using


def _in_two_stages(run: Run, kernels: Sequence[int], fewer: Sequence[int]) -> float | None:
    swept = _swept(run, kernels)
    return None if swept is None else split_seconds(run, swept, len(kernels) - len(fewer))


def _swept(run: Run, kernels: Sequence[int]) -> int | None:
    swept = [run.kernels[n].bytes_swept for n in kernels]
    known = [bytes for bytes in swept if bytes is not None]
    return sum(known) if len(known) == len(swept) else None


def _finding(
    head: Run, kernels: tuple[int, ...], split: Split, times: _Times, is_split: bool
) -> Finding:
    kernel = head.kernels[kernels[0]]
    cures = _split_off(head) if is_split else _split_on(head)
    what = "now split" if is_split else "no longer split"
    more = f" and {len(kernels) - 1} more" if len(kernels) > 1 and not is_split else ""
    verb = "reduce" if more else "reduces"
    sms = head.target.sm_count if head.target else 0
    least, said = ("", " by estimate") if times.cost else ("at least ", "")
    return Finding(
        code=RULE.code,
        severity="error"
        if times.after >= 2 * times.before and _decides(head, times)
        else "warning",
        headline=f"{kernel.name}{more} {verb} {units.plural(split.rows, 'row')} of up to "
        f"{units.count(split.length)} {what}: {least}{units.seconds(times.after)} instead of "
        f"{units.seconds(times.before)}{said}",
        kernels=kernels,
        evidence=(
            f"{units.plural(split.chunks, 'chunk')} per row where it is split",
            f"{units.plural(_count_blocks(kernel), 'block')} for {sms} multiprocessors in head",
        ),
        advice="" if cures else "another number of rows, or the torch that decided otherwise",
        cures=cures,
        metric="estimated_seconds" if times.cost else "lower_bound_seconds",
        amount=times.after,
        cost=times.cost,
        origin=origin_of(kernel),
    )


def _count_blocks(kernel: KernelFacts) -> int:
    work = kernel.expected.work if kernel.expected else None
    return blocks_of(kernel) if work is None else work.blocks


def _decides(head: Run, times: _Times) -> bool:
    """Return whether the step is that much longer that it is called worse."""
    if times.cost is not None:
        return (times.cost.share or 0.0) > LEAST_CHANGE
    known = [(k.lower_bound_seconds or 0.0) * k.launches for k in head.kernels]
    return times.after - times.before > DECIDING["lower_bound_seconds"] * sum(known)


def _split_on(head: Run) -> tuple[Cure, ...]:
    if head.settings.get("split_reductions") is False:
        return (Cure({"split_reductions": True}, "reduces a row with several blocks"),)
    if head.settings.get("triton.cooperative_reductions") is True:
        return (Cure({"triton.cooperative_reductions": False}, "lets Inductor split again"),)
    return ()


def _split_off(head: Run) -> tuple[Cure, ...]:
    if head.settings.get("split_reductions") is True:
        return (Cure({"split_reductions": False}, "reduces a row in one block"),)
    return ()


RULE = Rule("PC205", "split reduction", __doc__, explains=("PC210",), of_comparison=_check)
