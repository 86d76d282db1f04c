"""A kernel's block needs more shared memory than the device gives one, or nearly.

What it sees: launch configurations that ask for more than a block can have (232,448 B on Hopper,
101,376 B on Ada; 1,024 B more are reserved for each block and are not the program's), or that the
compiler gave up as out of resources. It is an error where no configuration is left that fits: one
of several is dropped by the autotuner and costs nothing. A kernel that fits within 3 % of the limit
is worth knowing: with one more input of its tile, or on a device with less, it does not.

Why it costs: nothing shows until the launch, which fails (`OutOfResources`). A loop that is
pipelined needs (`num_stages` − 1) × the bytes of all its tiles, and a little (triton 3.6 on
sm_90); what reductions exchange between warps comes on top. nvFuser's outer reductions over-ran the
same limit at 7, 14, 28 and 56 inputs of fp32 because they left that out.

What to try: fewer stages, a smaller block, fewer inputs in one kernel. For a mix-order kernel
`triton.mix_order_reduction_allow_multi_stages=False` switches the pipeline off (torch 2.11+).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Cure, Finding, KernelFacts, Rule, Run
from perfcli.rules import _launches
from perfcli.rules._evidence import origin_of

NEARLY = 0.97
STAGES = "triton.mix_order_reduction_allow_multi_stages"
_OUT = re.compile(r"out of resource|OutOfResources", re.IGNORECASE)


def check(run: Run) -> Iterator[Finding]:
    limit = run.target.shared_bytes_per_block_optin if run.target else None
    for number, kernel in enumerate(run.kernels):
        if not limit or not kernel.candidates:
            continue
        best = kernel.best
        if all(_exceeds(candidate, limit) for candidate in kernel.candidates):
            yield _exceeded(run, number, kernel, limit)
        elif best and NEARLY * limit < (best.shared_bytes or 0) <= limit:
            yield _nearly(run, number, kernel, best, limit)


def _exceeds(candidate: Candidate, limit: int) -> bool:
    out = _OUT.search(candidate.error) is not None and "shared" in candidate.error.lower()
    return out or (candidate.shared_bytes or 0) > limit


def _exceeded(run: Run, number: int, kernel: KernelFacts, limit: int) -> Finding:
    sizes = [c.shared_bytes for c in kernel.candidates if c.shared_bytes]
    least = min(sizes, default=None)
    errors = {c.error.splitlines()[0] for c in kernel.candidates if c.error}
    return Finding(
        code=RULE.code,
        severity="error",
        headline=f"{kernel.name} cannot be launched: its block needs "
        f"{units.exact_bytes(least) if least else 'more'} of shared memory"
        f"{'' if least else ' than there is'}, a block can have {units.exact_bytes(limit)}",
        kernels=(number,),
        evidence=(
            f"{units.plural(len(kernel.candidates), 'launch configuration')}, none fits",
            *sorted(errors),
        ),
        advice="fewer stages, a smaller block, or fewer inputs in one kernel",
        cures=_cures(run, kernel),
        metric="shared_bytes",
        amount=least,
        origin=origin_of(kernel),
    )


def _nearly(run: Run, number: int, kernel: KernelFacts, best: Candidate, limit: int) -> Finding:
    used = best.shared_bytes or 0
    return Finding(
        code=RULE.code,
        severity="info",
        headline=f"{kernel.name} has {units.exact_bytes(limit - used)} of shared memory left "
        f"of {units.exact_bytes(limit)}",
        kernels=(number,),
        evidence=(
            f"{units.exact_bytes(used)}, {units.percent(used / limit)} of what a block can have",
            _launches.residency(best),
        ),
        advice="one more input, or a device with less, and it cannot be launched",
        metric="shared_bytes",
        amount=used,
        origin=origin_of(kernel),
    )


def _cures(run: Run, kernel: KernelFacts) -> tuple[Cure, ...]:
    if kernel.kind == "mix-order-reduction" and run.settings.get(STAGES):
        return (Cure({STAGES: False}, "keeps no tiles in flight in shared memory"),)
    return ()


RULE = Rule("PC105", "shared-memory budget exceeded or only just met", __doc__, of_run=check)
