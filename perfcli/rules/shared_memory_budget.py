"""A kernel's block needs more shared memory than the device gives one, or nearly.

What it sees: launch configurations that ask for more than a block can have (232,448 B on Hopper,
101,376 B on Ada; 1,024 B more are reserved for each block and are not the program's), or that the
compiler gave up as out of resources. It is an error where no configuration is left that fits: one
of several is dropped by the autotuner and costs nothing. Where such a kernel is pipelined, torch
2.13 and later compile it again without (`triton.dynamic_disable_pipelining`) and launch that: then
it is a warning. A kernel that fits within 3 % of the limit is worth knowing: with one more input of
its tile, or on a device with less, it does not.

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
from perfcli.rules._evidence.launches import buffers_read, mix_order_cures, residency, resources
from perfcli.rules._evidence.words import origin_of

NEARLY = 0.97
STAGES = "triton.mix_order_reduction_allow_multi_stages"
RETRIES = "triton.dynamic_disable_pipelining"
_OUT = re.compile(r"out of resource|OutOfResources", re.IGNORECASE)


def _check(run: Run) -> Iterator[Finding]:
    limit = run.target.shared_bytes_per_block_optin if run.target else None
    for number, kernel in enumerate(run.kernels):
        if not limit or not kernel.candidates or not kernel.launches:
            continue
        best = kernel.best
        if all(_exceeds(candidate, limit) for candidate in kernel.candidates):
            yield _report_exceeded(run, number, kernel, limit)
            continue
        retried = _find_retried(run, kernel, limit)
        if retried:
            yield _report_exceeded(run, number, kernel, limit, retried)
        elif best and NEARLY * limit < (best.shared_bytes or 0) <= limit:
            yield _report_nearly(run, number, kernel, best, limit)


def _exceeds(candidate: Candidate, limit: int) -> bool:
    out = _OUT.search(candidate.error) is not None and "shared" in candidate.error.lower()
    return out or (candidate.shared_bytes or 0) > limit


def _report_exceeded(
    run: Run, number: int, kernel: KernelFacts, limit: int, retried: Candidate | None = None
) -> Finding:
    over = [c for c in kernel.candidates if _exceeds(c, limit)]
    least = min((c.shared_bytes for c in over if c.shared_bytes), default=None)
    what = "is compiled again without its pipeline" if retried else "cannot be launched"
    needs = units.exact_bytes(least) if least else "more than that"
    return Finding(
        code=RULE.code,
        severity="warning" if retried else "error",
        headline=f"{kernel.name} {what}: a block can have {units.exact_bytes(limit)} of shared "
        f"memory and needs {needs}",
        kernels=(number,),
        evidence=(
            f"{units.plural(len(over), 'launch configuration')}, none fits",
            *((f"without: {resources(retried)}",) if retried else ()),
            *sorted({c.error.splitlines()[0] for c in over if c.error}),
        ),
        advice="fewer stages, a smaller block, or fewer inputs in one kernel",
        cures=_cures(run, kernel, retried is not None),
        metric="shared_bytes",
        amount=least,
        origin=origin_of(kernel),
    )


def _find_retried(run: Run, kernel: KernelFacts, limit: int) -> Candidate | None:
    """Return what Inductor compiled anew with one stage because none of its own configurations
    fits: then all that fit have one stage, and one of them only in that differs from one that does
    not."""
    fitting = [c for c in kernel.candidates if not _exceeds(c, limit)]
    over = [c for c in kernel.candidates if _exceeds(c, limit) and _is_pipelined(c)]
    if run.settings.get(RETRIES) is not True or any(_is_pipelined(c) for c in fitting):
        return None
    tiles = [_tile(candidate) for candidate in over]
    return next((c for c in fitting if _tile(c) in tiles), None)


def _is_pipelined(candidate: Candidate) -> bool:
    return candidate.num_stages > 1 or candidate.config.get("NUM_STAGES", 1) > 1


def _tile(candidate: Candidate) -> tuple[int, dict[str, int]]:
    config = {k: v for k, v in candidate.config.items() if k != "NUM_STAGES"}
    return candidate.num_warps, config


def _report_nearly(
    run: Run, number: int, kernel: KernelFacts, best: Candidate, limit: int
) -> Finding:
    used = best.shared_bytes or 0
    return Finding(
        code=RULE.code,
        severity="info",
        headline=f"{kernel.name} has {units.exact_bytes(limit - used)} of shared memory left "
        f"of {units.exact_bytes(limit)}",
        kernels=(number,),
        evidence=(
            f"{units.exact_bytes(used)}, {units.percent(used / limit)} of what a block can have",
            residency(best),
        ),
        advice="one more input, or a device with less, and it cannot be launched",
        metric="shared_bytes",
        amount=used,
        origin=origin_of(kernel),
    )


def _cures(run: Run, kernel: KernelFacts, retried: bool) -> tuple[Cure, ...]:
    if kernel.kind != "mix-order-reduction":
        return ()
    stages = run.settings.get(STAGES) and not retried
    cure = Cure({STAGES: False}, "keeps no tiles in flight in shared memory")
    smaller = mix_order_cures(run, buffers_read(kernel) or 0)
    return (cure, *smaller) if stages else smaller


RULE = Rule("PC105", "shared-memory budget exceeded or only just met", __doc__, of_run=_check)
