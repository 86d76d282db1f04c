"""Two reductions read the same data, each in a kernel of its own, and one could do both.

What it sees: in one graph, a kernel that reduces the rows of a matrix and one that sums its columns
(whole, or in the first stage of a split), reading the same buffers whole; or two kernels that
reduce the same rows of the same buffers. None depends on the other, no library operator runs
between them, and a shared read would save a tenth of their bytes or more. It is reported only
where an option is the cause: `triton.mix_order_reduction` off, where Inductor's conditions hold
(rows x columns >= 5 * 2^20, rows >= 4,096, rows >= 2 x columns before torch 2.15, columns <=
16,384, sums only), or `max_fusion_size` or `max_fusion_unique_io_buffers` too low for the two.
`max_fusion_size` (64) limits the scheduler's nodes of a kernel; a run does not have these, and the
FX nodes that the two kernels compute count in their place. These are mostly more, so that the
option may be blamed wrongly where the kernels come near it.
Nothing is said where one kernel would read more buffers than Inductor's limit allows
(`triton.mix_order_reduction_max_reads`): that fusion is not missed.

Why it costs: the backward of a norm reduces along rows for the input's gradient and along columns
for the weight's. Apart, both read the input and the gradient. Mix-order kernels exist since torch
2.10 (pytorch #166938 on small shapes, #179494 on the read limit). The training step of RMSNorm,
32,768 x 8,192, takes 1.56 ms with and 1.78 ms without them on an H100 (torch 2.11).

What to try: the option that keeps them apart, at Inductor's default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from perfcli import units
from perfcli.model import Buffer, Cure, Finding, KernelFacts, OptionValue, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.demands import fewer_reads
from perfcli.rules._evidence.splits import KERNEL_SECONDS
from perfcli.rules._evidence.whole_reads import (
    ANY_REDUCTION,
    reduced_elements,
    row_stride,
    rows_of,
    whole_reads,
)
from perfcli.rules._evidence.words import are_independent, origin_of, torch_version

SHARE = 0.1
MIX_ORDER = "triton.mix_order_reduction"
FEWEST_POINTS = 5 * 2**20
FEWEST_ROWS = 4096
LONGEST_ROW = 16384
ANY_RATIO_SINCE = (2, 15)
MAX_FUSION_SIZE = 64


def _check(run: Run) -> Iterator[Finding]:
    done: set[int] = set()
    readers = _readers(run)
    for one in range(len(run.kernels)):
        for two in _same_readers(run, one, readers):
            cause = _cause(run, run.kernels[one], run.kernels[two])
            if cause and done.isdisjoint((one, two)) and are_independent(run, one, two):
                done.update((one, two))
                yield _finding(run, one, two, cause)


def _readers(run: Run) -> dict[tuple[str, str], list[int]]:
    """Return, for each graph and buffer, the reductions that read it whole."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, kernel in enumerate(run.kernels):
        for buffer in whole_reads(kernel, ANY_REDUCTION):
            found[kernel.graph, buffer.name].append(number)
    return found


def _same_readers(
    run: Run, one: int, readers: Mapping[tuple[str, str], list[int]]
) -> Iterator[int]:
    """Yield kernels of the same graph that read enough of what this one reads."""
    kernel = run.kernels[one]
    read = {(kernel.graph, buffer.name) for buffer in whole_reads(kernel, ANY_REDUCTION)}
    for two in sorted({number for place in read for number in readers[place]} - {one}):
        other = run.kernels[two]
        if _saved_bytes(kernel, other) >= SHARE * _moved_bytes(kernel, other) > 0:
            yield two


def _shared_reads(one: KernelFacts, two: KernelFacts) -> list[Buffer]:
    names = {buffer.name for buffer in whole_reads(two, ANY_REDUCTION)}
    return [b for b in whole_reads(one, ANY_REDUCTION) if b.name in names]


def _saved_bytes(one: KernelFacts, two: KernelFacts) -> int:
    return sum(buffer.bytes for buffer in _shared_reads(one, two))


def _moved_bytes(one: KernelFacts, two: KernelFacts) -> int:
    return (one.bytes_moved or 0) + (two.bytes_moved or 0)


def _cause(run: Run, one: KernelFacts, two: KernelFacts) -> dict[str, OptionValue]:
    """Return the options to set for the two to be fused; empty where no option keeps them apart."""
    if rows_of(one) == rows_of(two) and reduced_elements(one) == reduced_elements(two):
        return _too_large(run, one, two)
    rows = all(row_stride(one, buffer) is not None for buffer in _shared_reads(one, two))
    if rows and run.settings.get(MIX_ORDER) is False and _mixes(run, one, two):
        return {MIX_ORDER: True}
    return {}


def _too_large(run: Run, one: KernelFacts, two: KernelFacts) -> dict[str, OptionValue]:
    size = run.settings.get("max_fusion_size")
    nodes = sum(len({origin.node for origin in kernel.origins}) for kernel in (one, two))
    if isinstance(size, int) and size < min(nodes, MAX_FUSION_SIZE):
        return {"max_fusion_size": MAX_FUSION_SIZE}
    buffers = run.settings.get("max_fusion_unique_io_buffers")
    if isinstance(buffers, int) and len(_names(one) | _names(two)) > buffers:
        return {"max_fusion_unique_io_buffers": None}
    return {}


def _mixes(run: Run, inner: KernelFacts, outer: KernelFacts) -> bool:
    """Return whether Inductor would take both into one mix-order kernel, as far as shapes and reads
    say: its ``MixOrderReduction.can_fuse``."""
    rows, columns = rows_of(inner), reduced_elements(inner)
    chunks, left = divmod(rows_of(outer), columns)
    along_columns = not left and chunks and -(-rows // chunks) == reduced_elements(outer)
    ratio = 1 if torch_version(run) >= ANY_RATIO_SINCE else 2
    limit = run.settings.get("triton.mix_order_reduction_max_reads")
    reads = {b.name for k in (inner, outer) for b in k.buffers if b.is_read}
    return bool(
        along_columns
        and rows * columns >= FEWEST_POINTS
        and rows >= max(FEWEST_ROWS, ratio * columns)
        and columns <= LONGEST_ROW
        and any(o.node.startswith("sum") for o in outer.origins)
        and not (isinstance(limit, int) and len(reads) > limit)
    )


def _names(kernel: KernelFacts) -> set[str]:
    return {buffer.name for buffer in kernel.buffers}


def _finding(run: Run, one: int, two: int, options: dict[str, OptionValue]) -> Finding:
    first, second = run.kernels[one], run.kernels[two]
    saved, moved = _saved_bytes(first, second), _moved_bytes(first, second)
    shared = ", ".join(buffer.name for buffer in _shared_reads(first, second))
    kept = max(0.0, 1 - saved / (second.bytes_read or saved))
    launch = KERNEL_SECONDS * second.launches
    set_so = ", ".join(f"{name} is {run.settings[name]}" for name in options)
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{first.name} and {second.name} both read {units.size(saved)}: one kernel could "
        "read it once",
        kernels=(one, two),
        evidence=(
            f"read by both: {shared}",
            f"{units.percent(saved / moved)} of the {units.size(moved)} that they move",
            set_so,
        ),
        cures=(Cure(options, "lets Inductor fuse the two reductions"),),
        cost=estimate_saving(run, {two: (fewer_reads(kept),)}, -launch),
        metric="bytes_moved",
        amount=saved * first.launches,
        origin=origin_of(second),
    )


RULE = Rule("PC206", "reduction kept from fusing", __doc__, of_run=_check)
