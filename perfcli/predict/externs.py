"""Adds library operators to the estimate of a step: their time on the device, and the host's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfcli.model import OperatorWork, Run, StepEstimate, TimeEstimate
from perfcli.predict.operators import estimate_call, estimate_host


def _add_externs(run: Run, step: StepEstimate) -> StepEstimate:
    """Return the estimate with library operators and the host. Its seconds are those of the whole
    step where every operator has an estimate, else of the generated kernels alone."""
    externs = tuple(_average(run, number) for number in range(len(run.externs)))
    step = replace(step, host_seconds=_estimate_host(run))
    known = _known(run, step := replace(step, externs=externs))
    return replace(
        step,
        seconds=step.seconds + sum(n * e.seconds for n, e in known),
        low=step.low + sum(n * e.low for n, e in known),
        high=step.high + sum(n * e.high for n, e in known),
    )


def _without_externs(run: Run, step: StepEstimate) -> StepEstimate:
    """Return the estimate of the generated kernels alone, added up as it was at first."""
    pairs = zip(run.kernels, step.kernels, strict=True)
    known = [(kernel.launches, e) for kernel, e in pairs if e is not None]
    return replace(
        step,
        seconds=sum(n * e.seconds for n, e in known),
        low=sum(n * e.low for n, e in known),
        high=sum(n * e.high for n, e in known),
        externs=(None,) * len(step.externs),
    )


def _sum_externs(run: Run, step: StepEstimate) -> float:
    """Return the seconds per step of all library operators, 0 where one has no estimate."""
    return sum(count * estimate.seconds for count, estimate in _known(run, step))


def _known(run: Run, step: StepEstimate) -> Sequence[tuple[int, TimeEstimate]]:
    if None in step.externs:
        return ()
    pairs = zip(run.externs, step.externs, strict=True)
    return [(extern.count, estimate) for extern, estimate in pairs if estimate is not None]


def _average(run: Run, number: int) -> TimeEstimate | None:
    """Return the estimate of an operator's average call."""
    extern = run.externs[number]
    total = TimeEstimate(0.0, 0.0, 0.0)
    for call in extern.calls:
        found = estimate_call(call.work, run.target) if call.work and run.target else None
        if found is None:
            return None
        total = TimeEstimate(
            total.seconds + call.count * found.seconds,
            total.low + call.count * found.low,
            total.high + call.count * found.high,
            doubts=tuple(dict.fromkeys((*total.doubts, *found.doubts))),
        )
    n = sum(call.count for call in extern.calls)
    if n == 0 or n != extern.count:
        return None  # some of its calls were not captured
    return replace(total, seconds=total.seconds / n, low=total.low / n, high=total.high / n)


def _list_changed_externs(base: Run, head: Run) -> Iterator[tuple[float, float]]:
    """Yield the seconds per step on both sides of each call of a library operator that one side
    makes more often than the other."""
    sides = [_count_calls(run) for run in (base, head)]
    works = {text: work for _, side in sides for text, work in side.items()}
    for text, work in works.items():
        before, after = (counts[text] for counts, _ in sides)
        found = estimate_call(work, base.target) if before != after and base.target else None
        if found is not None:
            yield before * found.seconds, after * found.seconds


def _count_calls(run: Run) -> tuple[Counter[str], dict[str, OperatorWork]]:
    counts: Counter[str] = Counter()
    works: dict[str, OperatorWork] = {}
    for extern in run.externs:
        for call in extern.calls:
            if call.work is not None:
                text = repr(call.work)
                counts[text] += call.count
                works[text] = call.work
    return counts, works


def _estimate_host(run: Run) -> float | None:
    """Return the seconds that the host needs to launch the step."""
    operators = [(each.op, each.count) for each in run.externs]
    kernels = sum(not launch.extern for launch in run.launches)
    return estimate_host(kernels, operators, run.target) if run.target else None
