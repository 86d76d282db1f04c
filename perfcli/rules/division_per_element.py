"""A kernel divides its index for every element, and that takes a good part of its time.

What it sees: source lines that divide, or take the remainder, of a whole tensor of indices by a
number that is no power of two (`x0 = xindex % ks0`), and the machine instructions of these lines in
the launch configuration that is expected to win. Only where the kernel would be 10 % faster without
them, which is a microsecond of the step and 1 % of it, by the estimate: a kernel that waits for
memory divides for nothing.

Why it costs: GPUs have no instruction that divides whole numbers. By a constant it takes a few, by
a size that is only known when the kernel runs 20 and more, twice as many in 64 bits, for each
element. A multiprocessor starts 4 instructions a cycle: an H200 can afford 6 of each thread for
each byte that it moves. A cat along a dynamic width took 2 to 2.5 times as long (pytorch #189940).

What to try: sizes that do not change should be static: no `dynamic=True`, `mark_dynamic` for the
dimensions that do change, `torch._dynamo.mark_static` for the others. With
`triton.prefer_nd_tiling=True` rows and columns have an axis each, so that nothing is divided. A
size that is a power of two is divided by with a shift.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Cost, Cure, Finding, KernelFacts, LaunchWork, Rule, Run
from perfcli.predict.calibration import calibration_for
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.demands import without_divisions
from perfcli.rules._evidence.words import origin_of
from perfcli.rules._evidence.worth import is_worth

_LEAST_OF_STEP = 0.01
_LEAST_OF_KERNEL = 0.1
_TILES = "triton.prefer_nd_tiling"
_SCHEDULERS = 4
"""Of a multiprocessor: each starts one instruction of a warp a cycle."""


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel in enumerate(run.kernels):
        candidate = kernel.expected
        if candidate is None or candidate.work is None or not candidate.work.warp.divided:
            continue
        cost = estimate_saving(run, {number: ()}, rework=without_divisions)
        if is_worth(cost, _LEAST_OF_STEP, _LEAST_OF_KERNEL * (kernel.step_seconds or 0.0)):
            yield _finding(run, number, candidate.work, candidate, cost)


def _finding(run: Run, number: int, work: LaunchWork, candidate: Candidate, cost: Cost) -> Finding:
    kernel = run.kernels[number]
    sizes = {name: size for name, size in kernel.scalars.items() if name.startswith("ks")}
    divided = sum(work.warp.divided.values())
    divisor = "sizes that are only known when it runs" if sizes else "no power of two"
    lines = ", ".join(map(str, work.dividing_lines))
    evidence = [
        f"{units.count(round(divided))} of {units.count(round(work.warp.total))} instructions of a "
        f"warp divide or take remainders: line{'s' * (len(work.dividing_lines) > 1)} {lines}",
        *_balance(run, kernel, work),
    ]
    if sizes:
        said = ", ".join(f"{name} = {units.count(size)}" for name, size in sizes.items())
        evidence.append(f"not constants: {said}")
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} divides the index of every element by {divisor}: "
        f"{units.percent(divided / work.warp.total)} of its instructions",
        kernels=(number,),
        evidence=tuple(evidence),
        advice=_advise(bool(sizes)),
        cures=tuple(_propose(run)),
        cost=cost,
        metric="dividing_instructions",
        amount=divided * work.warps * work.blocks * kernel.launches,
        origin=origin_of(kernel),
    )


def _balance(run: Run, kernel: KernelFacts, work: LaunchWork) -> Iterator[str]:
    """Yield the instructions for each byte that is moved, beside those that the device can start
    while it moves one."""
    calibration = calibration_for(run.target) if run.target else None
    if calibration is None or run.target is None or not kernel.bytes_moved:
        return
    threads = run.target.warp_size
    each = work.warp.total * work.warps * work.blocks * threads / kernel.bytes_moved
    rate = run.target.sm_count * _SCHEDULERS * calibration.clock_mhz * 1e6 * threads
    yield (
        f"{each:.3g} instructions for each byte moved; {run.target.name} can start "
        f"{rate / run.target.bandwidth:.2g} while it moves one"
    )


def _advise(dynamic: bool) -> str:
    if dynamic:
        return (
            "make sizes static that do not change (mark_static, mark_dynamic for the others, no "
            "dynamic=True), or give rows and columns an axis each"
        )
    return "give rows and columns an axis each, or choose sizes that are powers of two"


def _propose(run: Run) -> Iterator[Cure]:
    if run.settings.get(_TILES) is False:
        yield Cure(
            {_TILES: True}, "gives rows and columns an axis each, so that nothing is divided"
        )


RULE = Rule("PC208", "division for every element", __doc__, of_run=_check)
