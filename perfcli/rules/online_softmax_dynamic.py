"""A softmax's maximum and sum are taken in two sweeps, because the row's length is dynamic.

What it sees: looped kernels of one softmax (Inductor's operator `prepare_softmax_online` is among
their origins) whose reduced size is a symbol, and none of which takes maximum and sum together.
It is a warning where the rows that are reduced at the same time (blocks per multiprocessor x
multiprocessors x rows per block) do not fit into the L2 cache, else worth knowing only.

Why it costs: since torch 2.10 Inductor takes both together only where it can prove that a row has
8 elements or more (`unroll_reductions_threshold`), and a dynamic size may be as small as 2 (seen
with torch 2.11 and 2.13). Maximum and sum then read the row once each, from memory where L2 does
not hold it. Where it does, the two sweeps are the faster way: online softmax takes more
instructions. A length that is not known also keeps loads narrow, since rows need not start at
multiples of 16 bytes.

What to try: say that the row is long enough: `torch._check(x.size(-1) >= 8)` in the model, or
`torch._dynamo.mark_dynamic(x, -1, min=8, max=...)` before the call (without a maximum the call
fails, torch 2.11 and 2.13). Both bring online softmax back in torch 2.11 and 2.13. So does
`unroll_reductions_threshold=2` without a change to the model: two elements is what Inductor can
prove. It also stops unrolling sums of 2 to 7 elements. Softmax of
bfloat16 on an H100, torch 2.11: 8,192 x 50,304 takes 1.32 ms instead of 1.43, 4,096 x 65,536
0.87 instead of 0.94; but 32,768 x 8,192, which L2 holds, 0.92 instead of 0.74. Clear the compile
cache: Inductor's FX graph cache gave back the kernel without the check. A static row length
(`mark_static`, `dynamic=False`) helps more: 0.90 ms, 0.60 ms and 0.61 ms.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Cure, Finding, KernelFacts, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.demands import fewer_loads
from perfcli.rules._evidence.softmax import SPLIT_ONLINE_SINCE, Softmax, find_taken_apart
from perfcli.rules._evidence.whole_reads import in_flight, reduced_elements
from perfcli.rules._evidence.words import origin_of, torch_version

_THRESHOLD, _PROVABLE = "unroll_reductions_threshold", 2


def _check(run: Run) -> Iterator[Finding]:
    for softmax in find_taken_apart(run):
        sweeps = sum(_sweeps(run.kernels[n], softmax) for n in softmax.sweeping)
        if softmax.dynamic and sweeps > 1:
            yield _finding(run, softmax, sweeps)


def _sweeps(kernel: KernelFacts, softmax: Softmax) -> int:
    passes = kernel.source_facts.passes if kernel.source_facts else {}
    names = {buffer.name for buffer in softmax.inputs}
    return max(passes.get(b.argument, 0) for b in kernel.buffers if b.name in names)


def _finding(run: Run, softmax: Softmax, sweeps: int) -> Finding:
    kernel = run.kernels[softmax.sweeping[0]]
    once = sum(buffer.bytes for buffer in softmax.inputs)
    held = in_flight(run, kernel, once) if len(softmax.sweeping) == 1 else once
    l2 = run.target.l2_bytes if run.target else 0
    costs = held is not None and held > l2
    least = run.settings.get(_THRESHOLD, 8)
    return Finding(
        code=RULE.code,
        severity="warning" if costs else "info",
        headline=f"{kernel.name} sweeps {units.size(once)} {sweeps} times: a softmax's maximum "
        "and sum are apart, since the row's length is dynamic",
        kernels=softmax.sweeping,
        evidence=(
            f"{sweeps} sweeps, where online softmax takes {sweeps - 1}",
            f"the row's length is a symbol (here {units.count(reduced_elements(kernel))}): "
            f"Inductor cannot prove that it is {least} or more",
            *_cached(held, l2),
            *_narrow_loads(kernel),
        ),
        advice=_advice(run, softmax, costs, f"torch._check(x.size(-1) >= {least})"),
        cures=tuple(_cures(run)) if costs else (),
        cost=estimate_saving(
            run, dict.fromkeys(softmax.sweeping, (fewer_loads((sweeps - 1) / sweeps),))
        ),
        metric="bytes_swept",
        amount=once * kernel.launches,
        origin=origin_of(kernel),
    )


def _advice(run: Run, softmax: Softmax, costs: bool, check: str) -> str:
    if not costs:
        return "a static row length would widen the loads; online softmax gains nothing in cache"
    split = len(softmax.sweeping) > 1 and torch_version(run) < SPLIT_ONLINE_SINCE
    return f"try {check}, or a static row length" + (" (and torch 2.13 or newer)" if split else "")


def _cures(run: Run) -> Iterator[Cure]:
    least = run.settings.get(_THRESHOLD)
    if isinstance(least, int) and least > _PROVABLE:
        yield Cure({_THRESHOLD: _PROVABLE}, "Inductor can prove that a row has two elements")


def _cached(held: int | None, l2: int) -> Iterator[str]:
    if held is not None and l2:
        fits = "more than" if held > l2 else "which fits into"
        yield f"{units.size(held)} are in use at once, {fits} the L2 cache's {units.size(l2)}"


def _narrow_loads(kernel: KernelFacts) -> Iterator[str]:
    widths = [int(width) for width in kernel.best.global_loads] if kernel.best else []
    if widths and max(widths) < 128:
        yield f"its widest load is {max(widths)} bits"


RULE = Rule(
    "PC202",
    "online softmax lost to a dynamic dimension",
    __doc__,
    explains=("PC203",),
    of_run=_check,
)
