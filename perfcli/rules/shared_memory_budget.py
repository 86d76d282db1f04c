"""A kernel's block needs more shared memory than the device gives one, or nearly.

What it sees: launch configurations that ask for more than a block can have (232,448 B on Hopper,
101,376 B on Ada; 1,024 B more are reserved for each block and are not the program's), or that the
compiler gave up as out of resources. It is an error where no configuration is left that fits: one
of several is dropped by the autotuner and costs nothing. Where such a kernel is pipelined, torch
2.13 and later compile it again without (`triton.dynamic_disable_pipelining`): then it is a warning,
and what other rules say of its configurations is said of code that never runs. A kernel that fits
within 3 % of the limit is worth knowing: with one more input of its tile, or on a device with
less, it does not.

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
RETRIES = "triton.dynamic_disable_pipelining"
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
    retried = _retried(run, kernel)
    what = "is compiled again without its pipeline" if retried else "cannot be launched"
    needs = units.exact_bytes(least) if least else "more than that"
    return Finding(
        code=RULE.code,
        severity="warning" if retried else "error",
        headline=f"{kernel.name} {what}: a block can have {units.exact_bytes(limit)} of shared "
        f"memory and needs {needs}",
        kernels=(number,),
        evidence=(
            f"{units.plural(len(kernel.candidates), 'launch configuration')}, none fits",
            *(_without_pipeline(kernel) if retried else ()),
            *sorted(errors),
        ),
        advice="fewer stages, a smaller block, or fewer inputs in one kernel",
        cures=_cures(run, kernel, retried),
        metric="shared_bytes",
        amount=least,
        origin=origin_of(kernel),
    )


def _retried(run: Run, kernel: KernelFacts) -> bool:
    """Whether Inductor compiles a kernel anew with one stage when none of its own fits."""
    return run.settings.get(RETRIES) is True and any(_pipelined(c) for c in kernel.candidates)


def _pipelined(candidate: Candidate) -> bool:
    return candidate.num_stages > 1 or candidate.config.get("NUM_STAGES", 1) > 1


def _without_pipeline(kernel: KernelFacts) -> Iterator[str]:
    """What perfcli knows of the code that runs in the end, if it was among the alternatives."""
    for other in kernel.alternatives:
        if other.num_warps == kernel.candidates[-1].num_warps and not other.error:
            config = {**kernel.candidates[-1].config, "NUM_STAGES": 1}
            if other.config == config and "NUM_STAGES" in kernel.candidates[-1].config:
                yield (
                    f"without: {units.count(other.registers)} registers, "
                    f"{units.plural(other.spilled_words or 0, 'spilled word')}, "
                    f"{units.exact_bytes(other.shared_bytes)} shared memory"
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


def _cures(run: Run, kernel: KernelFacts, retried: bool) -> tuple[Cure, ...]:
    if kernel.kind != "mix-order-reduction":
        return ()
    stages = run.settings.get(STAGES) and not retried
    cure = Cure({STAGES: False}, "keeps no tiles in flight in shared memory")
    smaller = _launches.mix_order_cures(run, _launches.buffers_read(kernel) or 0)
    return (cure, *smaller) if stages else smaller


RULE = Rule("PC105", "shared-memory budget exceeded or only just met", __doc__, of_run=check)
