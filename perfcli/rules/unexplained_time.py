"""A kernel takes much more or less time than its estimate.

What it sees: in a comparison that was measured and has estimates, kernels of at least 1 % of the
step and 3 µs a launch whose measured time lies twice as far from the estimate as the end of its
interval, which holds nine of ten kernels. The largest is named, with the others counted.

Why it costs: nothing by itself. Without a device, what the estimate says of this kernel is worth
less than its interval promises, and where the kernel is slower than the estimate, something holds
it up that the estimate does not know.

What to try: a profiler says what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import (
    Comparison,
    Finding,
    GroupTiming,
    KernelFacts,
    Rule,
    Run,
    SideName,
    TimeEstimate,
)

CODE = "PC904"
LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class _Far:
    """Holds kernels whose measured seconds per step are far from those that were estimated."""

    side: SideName
    numbers: tuple[int, ...]
    name: str
    measured: float
    estimated: float
    low: float
    high: float


def _check(comparison: Comparison) -> Iterator[Finding]:
    found = list(_list_far(comparison))
    if not found:
        return
    worst = max(found, key=lambda far: abs(far.measured - far.estimated))
    times = f"{units.seconds(worst.measured)} measured, {units.seconds(worst.estimated)} estimated"
    edges = f"{units.seconds(worst.low)} to {units.seconds(worst.high)}"
    others = [far for far in found if far is not worst]
    yield Finding(
        code=CODE,
        severity="info",
        headline=f"{worst.name} takes {times}: the estimate does not explain it",
        kernels=worst.numbers if worst.side == "head" else (),
        evidence=(
            f"expected {edges} in nine of ten cases",
            *(
                f"{far.name}: {units.seconds(far.measured)} measured, "
                f"{units.seconds(far.estimated)} estimated"
                for far in others[:5]
            ),
        ),
        advice="look at it with a profiler; without a device its estimate is worth less",
        subject=worst.name if worst.side == "base" else "",
        doubt=True,
    )


def _list_far(comparison: Comparison) -> Iterator[_Far]:
    """Yield each group once: of the head, or of the base where it is gone."""
    timing = comparison.timing
    if timing is None or comparison.estimate is None:
        return
    for group in timing.groups:
        if group.group is None or (group.share_of_step or 0.0) < LEAST_SHARE:
            continue
        match = comparison.groups[group.group].match
        sides: tuple[tuple[SideName, Run, Sequence[int], float | None], ...] = (
            ("head", comparison.head, match.head, group.change.head),
            ("base", comparison.base, match.base, group.change.base),
        )
        for side, run, numbers, measured in sides:
            if numbers and measured is not None:
                kernels = [run.kernels[number] for number in numbers]
                yield from _judge_side(group, side, tuple(numbers), kernels, measured)
                break


def _judge_side(
    group: GroupTiming,
    side: SideName,
    numbers: tuple[int, ...],
    kernels: Sequence[KernelFacts],
    measured: float,
) -> Iterator[_Far]:
    known = [(k.estimate, k.launches) for k in kernels if k.estimate is not None]
    launches = sum(launched for _, launched in known)
    if len(known) < len(kernels) or not launches:
        return
    seconds, low, high = (
        sum(getattr(estimate, name) * launched for estimate, launched in known)
        for name in ("seconds", "low", "high")
    )
    average = TimeEstimate(seconds / launches, low / launches, high / launches)
    if average.is_far_from(measured / launches):
        yield _Far(side, numbers, group.name, measured, seconds, low, high)


RULE = Rule(CODE, "a time that the estimate does not explain", __doc__, of_comparison=_check)
