"""A kernel's threads read or write memory with gaps between neighbours.

What it sees: loads and stores for which a warp's instruction moves twice the sectors of 32 bytes
that its bytes need, or more, in the launch configuration that is expected to win. Addresses are
those that the kernel's index arithmetic gives, run for a few blocks; what depends on loaded data or
can't be computed is unknown, and no finding. Only where that costs a microsecond of the step, 1 %
of it and 15 % of the kernel's time, by the estimate: sectors that other threads of the block use
soon after come from the L1 cache and cost little.

Why it costs: memory, L2 and L1 move whole sectors. If neighbouring threads read 2 bytes that are 32
bytes apart, 16 times the bytes come (pytorch #193722: 3 times as long). Inductor lets threads run
along the axis that most of a kernel's tensors have side by side; a transposed tensor, a reduction
along a slow axis (pytorch #149982), or a layout for block-scaled products (pytorch #153194) has its
elements side by side along another.

What to try: where all of the buffer is read, only not in its own order, a tile with both axes:
`triton.coalesce_tiling_analysis=True` (the default; it does nothing with dynamic sizes),
`triton.prefer_nd_tiling=True`, for reductions with `triton.tile_reductions=True`. Or store the
tensor in the order in which it is read: `.contiguous()` where it is made, another order of
dimensions, one memory format for all images (`channels_last`). Where only every nth element is
read, no tile helps: keep what is read together in a tensor of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.model import (
    Buffer,
    Candidate,
    Cost,
    Cure,
    Finding,
    KernelFacts,
    MemoryAccess,
    OptionValue,
    Rule,
    Run,
)
from perfcli.predict.coalescing import coalesce, is_wasteful
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.words import origin_of
from perfcli.rules._evidence.worth import is_worth

_LEAST_OF_STEP = 0.01
_LEAST_OF_KERNEL = 0.15
_ANALYSIS = "triton.coalesce_tiling_analysis"
_TILES = "triton.prefer_nd_tiling"
_TILED_REDUCTIONS = "triton.tile_reductions"
_SPLIT_SCAN = "triton_spl_"
_MOST_NAMED = 4


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel in enumerate(run.kernels):
        candidate = kernel.expected
        if candidate is None or candidate.work is None or not kernel.launches:
            continue
        wasteful = _list_wasteful(candidate)
        if not wasteful:
            continue
        cost = estimate_saving(run, {number: ()}, rework=coalesce)
        if is_worth(cost, _LEAST_OF_STEP, _LEAST_OF_KERNEL * (kernel.step_seconds or 0.0)):
            yield _finding(run, number, wasteful, candidate, cost)


def _list_wasteful(candidate: Candidate) -> list[MemoryAccess]:
    """Return the wasteful accesses of a configuration, the one that moves most in vain first."""
    accesses = candidate.work.accesses if candidate.work else None
    found = [access for access in accesses or () if is_wasteful(access)]
    return sorted(found, key=lambda access: access.needed - access.sectors)


def _finding(
    run: Run, number: int, wasteful: Sequence[MemoryAccess], candidate: Candidate, cost: Cost
) -> Finding:
    kernel = run.kernels[number]
    worst = wasteful[0]
    buffers = {buffer.argument: buffer for buffer in kernel.buffers}
    buffer = buffers.get(worst.argument)
    work = candidate.work
    blocks = work.blocks if work else 1
    verb = "reads" if worst.kind == "load" else "writes"
    moved, needed = _each(worst)
    evidence = [_describe(access) for access in wasteful[:_MOST_NAMED]]
    evidence.append(_blame(worst, buffer))
    if buffer is not None:
        evidence.append(_lay_out(run, kernel, buffer))
    gaps = buffer is not None and _has_gaps(worst, buffer)
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} {verb} {worst.argument} with gaps between threads: {moved} "
        f"sectors for each {worst.kind} of a warp where {needed} would do",
        kernels=(number,),
        evidence=tuple(evidence),
        advice=_advise(worst, gaps, buffer),
        cures=() if gaps else tuple(_propose(run, kernel)),
        cost=cost,
        metric="wasted_sectors",
        amount=sum(a.sectors - a.needed for a in wasteful) * blocks * kernel.launches,
        origin=origin_of(kernel),
    )


def _each(access: MemoryAccess) -> tuple[str, str]:
    """Return the sectors of one instruction of a warp, moved and needed."""
    pair = (access.sectors / access.requests, access.needed / access.requests)
    return f"{pair[0]:.3g}", f"{pair[1]:.3g}"


def _describe(access: MemoryAccess) -> str:
    moved, needed = _each(access)
    return (
        f"{access.argument}, line {access.line}: each {access.kind} of a warp moves {moved} "
        f"sectors and needs {needed}, {access.waste:.3g} × as much"
    )


def _blame(access: MemoryAccess, buffer: Buffer | None) -> str:
    """Return along which axis threads run, how far apart that puts them in which dimension, and
    along which axis they would be side by side."""
    size = access.element_bytes
    step = abs(access.steps.get(access.along, 0))
    if step > size:
        apart = units.plural(step // size, "element")
        text = f"along {access.along}, neighbouring threads are {apart} apart in {access.argument} "
        text += f"({units.exact_bytes(step)})"
        text += _name_dimension(step // size, buffer) if buffer is not None else ""
    else:
        text = f"along {access.along}, what a thread moves at a time is "
        text += f"{units.exact_bytes(abs(access.apart))} from what its neighbour does"
    near = [axis for axis, each in access.steps.items() if each == size and axis != access.along]
    if near:
        text += f"; along {near[0]} they would be side by side"
    return text


def _name_dimension(step: int, buffer: Buffer) -> str:
    """Return ``: its dimension 0`` or ``, within its dimension 1``: where such a step leads."""
    pairs = list(enumerate(zip(buffer.shape, buffer.stride, strict=True)))
    for place, (size, stride) in pairs:
        if stride == step and size > 1:
            return f": its dimension {place}"
    for place, (size, stride) in sorted(pairs, key=lambda pair: -pair[1][1]):
        if 0 < stride < step < stride * size:
            return f", within its dimension {place}"
    return ""


def _lay_out(run: Run, kernel: KernelFacts, buffer: Buffer) -> str:
    shape, stride = (" × ".join(map(str, numbers)) for numbers in (buffer.shape, buffer.stride))
    layout = f"{buffer.argument} is {buffer.dtype} {shape} with strides {stride}"
    return f"{layout}, {_say_source(run, kernel, buffer)}"


def _say_source(run: Run, kernel: KernelFacts, buffer: Buffer) -> str:
    """Return where a buffer comes from: the graph's caller, another kernel and its line."""
    if buffer.graph_input:
        return f"an input of the graph ({buffer.name})"
    for other in run.kernels:
        if other is kernel or other.graph != kernel.graph:
            continue
        if any(b.name == buffer.name and b.is_written for b in other.buffers):
            origin = origin_of(other)
            place = f" ({origin.location}  {origin.code})" if origin and origin.location else ""
            return f"written by {other.name}{place}"
    return "a result" if buffer.is_written else "written by a library operator"


def _has_gaps(access: MemoryAccess, buffer: Buffer) -> bool:
    """Return whether most of the buffer is not read at all: whatever the order of threads, whole
    sectors come for parts of them."""
    pairs = zip(buffer.shape, buffer.stride, strict=True)
    extent = access.element_bytes * (1 + sum((size - 1) * abs(n) for size, n in pairs))
    return buffer.bytes < extent / 2 and access.used < access.touched / 2


def _advise(access: MemoryAccess, gaps: bool, buffer: Buffer | None) -> str:
    if gaps:
        return (
            f"keep the elements of {access.argument} that are used together in a tensor of their "
            "own: no order of threads makes use of the others"
        )
    if access.kind == "store":
        return "let the result have the order in which it is computed, or tile both axes"
    images = buffer is not None and len(buffer.shape) == 4
    other = ", one memory format for all images" if images else ""
    return (
        f"tile both axes, or store {access.argument} in the order in which it is read: "
        f".contiguous() where it is made, another order of dimensions{other}"
    )


def _propose(run: Run, kernel: KernelFacts) -> Iterator[Cure]:
    """Yield options that tile a kernel by more axes, those that are not set yet."""
    settings = run.settings
    if kernel.name.startswith(_SPLIT_SCAN):  # Inductor fails: its scans have one axis
        return
    if settings.get(_ANALYSIS) is False:
        yield Cure({_ANALYSIS: True}, "chooses tiles by which accesses they make contiguous")
    wanted: dict[str, OptionValue] = {_TILES: True}
    if "reduction" in kernel.kind:
        wanted[_TILED_REDUCTIONS] = True
    if all(name in settings for name in wanted) and not all(settings[n] for n in wanted):
        yield Cure(wanted, "tiles by more than one axis")


RULE = Rule("PC207", "uncoalesced access", __doc__, of_run=_check)
