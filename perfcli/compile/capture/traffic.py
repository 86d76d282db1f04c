"""Counts the bytes that a kernel must move and the memory that a schedule needs, as Inductor
estimates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Moved:
    read: int | None
    written: int | None
    arguments: Mapping[str, int] = field(default_factory=dict)
    """Bytes behind each argument that the kernel may read, ``in_ptr0``."""


UNKNOWN = Moved(None, None)


def bytes_moved(kernel: Any) -> Moved:
    """Return the bytes read and written by a generated kernel, each buffer (or the slices of it
    that are touched) once: ``SIMDKernel.estimate_kernel_num_bytes`` for the sum, its outputs for
    the writes; for a combo kernel, which has no estimate, its arguments. Unknown for all others."""
    estimate = getattr(kernel, "estimate_kernel_num_bytes", None)
    combo = hasattr(kernel, "sub_kernels")
    if estimate is None and not combo:
        return UNKNOWN
    try:
        written = _bytes_written(kernel)
        arguments = _bytes_by_argument(kernel)
        if estimate is None:
            return Moved(sum(arguments.values()), written, arguments)
        total = int(estimate()) + _bytes_overlooked(kernel)
    except Exception:  # an estimate: whatever it stumbles over, the kernel itself is fine
        return UNKNOWN
    return Moved(total - written, written, arguments) if total >= written else UNKNOWN


def mean(uses: Sequence[Moved]) -> Moved:
    """Return what one launch moves on average over the places that launch a kernel; unknown where
    it is for one of them."""
    if not uses or any(use.read is None or use.written is None for use in uses):
        return UNKNOWN
    names = {name for use in uses for name in use.arguments}
    return Moved(
        _mean([use.read for use in uses]),
        _mean([use.written for use in uses]),
        {name: _mean([use.arguments.get(name) for use in uses]) for name in sorted(names)},
    )


def _mean(values: Sequence[int | None]) -> int:
    return round(sum(value or 0 for value in values) / len(values))


def _bytes_by_argument(kernel: Any) -> dict[str, int]:
    args = kernel.args
    named = {inner: name for name, inner in args.input_buffers.items() if isinstance(inner, str)}
    for buffer in args.inplace_buffers.values():
        if hasattr(buffer, "other_names"):
            named[buffer.inner_name] = buffer.other_names[0]
    return {inner: _bytes_of([name], kernel) for inner, name in named.items()}


def _bytes_written(kernel: Any) -> int:
    outputs = kernel.args.output_buffers.items()
    names = [name for name, inner in outputs if isinstance(inner, str)]  # else it was removed
    inplace = {id(b): b for b in kernel.args.inplace_buffers.values() if hasattr(b, "other_names")}
    names += [buffer.other_names[-1] for buffer in inplace.values()]
    return _bytes_of(names, kernel)


def _bytes_overlooked(kernel: Any) -> int:
    """Return the bytes of inputs that a user's kernel wrote in place: the scheduler knows them
    under new names, so Inductor's estimate takes them for unused."""
    known = kernel.features.buf_accesses()
    return _bytes_of([name for name in kernel.args.input_buffers if name not in known], kernel)


def _bytes_of(names: list[str], kernel: Any) -> int:
    """Return the bytes of these buffers, each counted once and with no more elements than the
    kernel has points."""
    from torch._inductor.utils import get_dtype_size
    from torch._inductor.virtualized import V

    sizes = V.graph.sizevars
    total = 0
    for name in names:
        numel = int(sizes.optimization_hint(V.graph.get_numel(name)))
        total += min(numel, _points(name, kernel)) * get_dtype_size(V.graph.get_dtype(name))
    return total


def _points(name: str, kernel: Any) -> int:
    """Return the points of the iteration space; for a combo kernel, of those parts that work on the
    buffer."""
    from torch._inductor.virtualized import V

    parts = getattr(kernel, "sub_kernels", None)
    if parts is not None:
        return sum(_points(name, p) for p in parts if name in p.features.buf_accesses())
    return int(V.graph.sizevars.optimization_hint(_product(kernel.numels.values())))


def _product(values: Any) -> Any:
    result: Any = 1
    for value in values:
        result = result * value
    return result


def live_memory(scheduler: Any) -> tuple[int, tuple[int, ...]] | None:
    """Return Inductor's own estimate (``memory.prepare_planning_info``) of the bytes that the
    schedule's buffers and freeable inputs take: the peak, and what is live at each node of the
    schedule in order. Return None where this torch has no estimate.

    Asked after code was generated: the estimate counts every buffer of the schedule, and only then
    it is known which of them live inside of a kernel and are never allocated.
    """
    try:
        from torch._inductor import memory
        from torch._inductor.virtualized import V
        from torch.utils._ordered_set import OrderedSet

        outputs = OrderedSet(V.graph.get_output_names())
        _, freeable_inputs = memory.prepare_planning_info(
            scheduler.nodes,
            scheduler.name_to_buf,
            scheduler.name_to_fused_node,
            OrderedSet(V.graph.graph_inputs.keys()),
            outputs,
        )
        inside = V.graph.removed_buffers | V.graph.inplaced_to_remove
        for name in inside & OrderedSet(scheduler.name_to_buf):
            buffer = scheduler.name_to_buf[name]
            buffer.mpi_buffer = replace(buffer.mpi_buffer, size_alloc=0, size_free=0)
        peak, live = memory.estimate_peak_memory(scheduler.nodes, freeable_inputs, outputs)
    except Exception:
        return None
    return int(peak), tuple(map(int, live))
