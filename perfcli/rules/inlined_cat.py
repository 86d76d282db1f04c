"""A cat was inlined into the kernel that reads it, which runs through all parts for each element.

What it sees: reductions that compute a cat and have three or more loads whose masks exclude each
other, one for each part, and the machine instructions of all parts but the first in the launch
configuration that is expected to win. Only where the step would be faster with the cat in a tensor
of its own, by a microsecond, 1 % of the step and 10 % of the kernel's time by the estimate: the
instructions of the other parts are saved; one more launch is added, and the bytes of the cat,
written and read once more (only read, where the kernel keeps the row in a buffer anyway).

Why it costs: threads of one warp can't skip the parts that they are not in. Each element computes
the masks, addresses and selects of all parts, and what was fused into them, and keeps one. A layer
norm of eight parts took 2.8 times as long on an MI350X (pytorch #180930).

What to try: `max_pointwise_cat_inputs` and, from torch 2.13 on, `max_complex_pointwise_cat_inputs`
(8 by default): a cat of more inputs is materialised before it is read. In the model, a buffer that
the parts are written into by those who make them.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Cost, Cure, Finding, KernelFacts, LaunchWork, OptionValue, Rule, Run
from perfcli.predict.calibration import calibration_for
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.demands import without_parts
from perfcli.rules._evidence.words import origin_of
from perfcli.rules._evidence.worth import is_worth

_FEWEST_PARTS = 3
_LEAST_OF_STEP = 0.01
_LEAST_OF_KERNEL = 0.1
_OPTIONS = ("max_complex_pointwise_cat_inputs", "max_pointwise_cat_inputs")


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel in enumerate(run.kernels):
        candidate = kernel.expected
        work = candidate.work if candidate else None
        if work is None or work.parts < _FEWEST_PARTS or not _has_cat(kernel):
            continue
        added = _cost_of_copy(run, kernel, work)
        if added is None:
            continue
        cost = estimate_saving(run, {number: ()}, added * kernel.launches, rework=without_parts)
        if is_worth(cost, _LEAST_OF_STEP, _LEAST_OF_KERNEL * (kernel.step_seconds or 0.0)):
            yield _finding(run, number, work, cost)


def _has_cat(kernel: KernelFacts) -> bool:
    """Return whether a reduction reads a cat: a kernel that only writes one has no choice."""
    return "reduction" in kernel.kind and any(
        origin.op.startswith("aten.cat") for origin in kernel.origins
    )


def _cost_of_copy(run: Run, kernel: KernelFacts, work: LaunchWork) -> float | None:
    """Return the seconds that a kernel adds which copies the parts into one tensor: a launch, and
    their bytes, written and read once more."""
    calibration = calibration_for(run.target) if run.target else None
    if calibration is None:
        return None
    moved = _count_bytes(kernel, work) * (1 if _keeps_row(work) else 2)
    c = calibration.constants
    return 1e-6 * (c["launch"] + moved / c["dram"])


def _keeps_row(work: LaunchWork) -> bool:
    """Return whether the kernel writes a buffer that it reads again behind the parts: the row."""
    accesses = work.accesses or ()
    parts = max((a.line for a in accesses if a.kind == "load" and a.masked), default=0)
    stores = [a for a in accesses if a.kind == "store" and a.line > parts]
    loads = [a for a in accesses if a.kind == "load"]
    return any(s.argument == each.argument and s.line < each.line for s in stores for each in loads)


def _count_bytes(kernel: KernelFacts, work: LaunchWork) -> int:
    """Return the bytes of the parts: those of buffers that are loaded under a mask that leaves some
    elements out, each once."""
    masked = {a.argument for a in work.accesses or () if a.kind == "load" and a.masked}
    return sum(b.bytes for b in kernel.buffers if b.argument in masked and b.is_read)


def _finding(run: Run, number: int, work: LaunchWork, cost: Cost) -> Finding:
    kernel = run.kernels[number]
    parted = sum(work.warp.parted.values())
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} has a cat of {work.parts} parts inlined: each element runs "
        "through the masked loads and selects of all of them",
        kernels=(number,),
        evidence=(
            f"{units.count(round(parted))} of {units.count(round(work.warp.total))} instructions "
            f"of a warp ({units.percent(parted / work.warp.total)}) are for all parts but the "
            "first",
            f"the parts have {units.size(_count_bytes(kernel, work))}: what a kernel of its own "
            "would copy",
        ),
        advice="materialise the cat in a kernel of its own before it is read",
        cures=tuple(_propose(run, work)),
        cost=cost,
        metric="inlined_instructions",
        amount=parted * work.warps * work.blocks * kernel.launches,
        origin=next((o for o in kernel.origins if o.op.startswith("aten.cat")), origin_of(kernel)),
    )


def _propose(run: Run, work: LaunchWork) -> Iterator[Cure]:
    fewer = work.parts // 2
    options: dict[str, OptionValue] = {
        name: fewer
        for name in _OPTIONS
        if isinstance(now := run.settings.get(name), int) and now > fewer
    }
    if options:
        yield Cure(options, "materialises a cat of more inputs before it is read")


RULE = Rule("PC209", "cat inlined into its reader", __doc__, of_run=_check)
