"""Adds up what one side of a comparison with hand-written kernels costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from perfcli.diff.metrics import launched_kernels
from perfcli.model import Candidate, KernelFacts, Run, Totals

_WIDEST = "128"


def totals_of(run: Run) -> Totals:
    kernels = launched_kernels(run.kernels)
    best = [kernel.best for kernel in kernels if kernel.best]
    registers = [c.registers for c in best if c.registers is not None]
    shared = [c.shared_bytes for c in best if c.shared_bytes is not None]
    occupancy = [c.occupancy for c in best if c.occupancy is not None]
    return Totals(
        launches=sum(kernel.launches for kernel in kernels),
        bytes_moved=_per_step(kernels, lambda k: k.bytes_moved),
        bytes_swept=_per_step(kernels, lambda k: k.bytes_swept),
        passes=_passes(kernels),
        wide_share=_wide_share(kernels),
        registers=max(registers, default=None),
        spilled_words=_sum([kernel.spilled_words for kernel in kernels]),
        shared_bytes=max(shared, default=None),
        occupancy=min(occupancy, default=None),
    )


def _per_step(
    kernels: Sequence[KernelFacts], value: Callable[[KernelFacts], int | None]
) -> int | None:
    """Bytes of all launches, and of what finishes their results."""
    values = [(value(kernel), kernel) for kernel in kernels]
    return _sum([None if v is None else (v + k.finishing_bytes) * k.launches for v, k in values])


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _passes(kernels: Sequence[KernelFacts]) -> float | None:
    """Return bytes of inputs that are read over bytes of inputs; each input of each graph counts
    once in the latter."""
    inputs: dict[tuple[str, str], int] = {}
    read = 0
    for kernel in kernels:
        if kernel.source_facts is None:
            return None
        for name, size, passes in _reads(kernel, kernel.source_facts.passes):
            inputs[kernel.graph, name] = max(size, inputs.get((kernel.graph, name), 0))
            read += size * passes * kernel.launches
    whole = sum(inputs.values())
    return read / whole if whole else None


def _reads(kernel: KernelFacts, passes: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    for buffer in kernel.buffers:
        if buffer.graph_input and buffer.is_read:
            yield buffer.name, buffer.bytes, passes.get(buffer.argument, 1)


def _wide_share(kernels: Sequence[KernelFacts]) -> float | None:
    """Return the share weighed by bytes read: kernels that load little weigh little."""
    wide = whole = 0.0
    for kernel in kernels:
        share = _widest(kernel.candidates)
        if share is not None:
            read = (kernel.bytes_read or 0) * kernel.launches
            wide, whole = wide + share * read, whole + read
    return wide / whole if whole else None


def _widest(candidates: Sequence[Candidate]) -> float | None:
    """Return the share of the launch configuration that loads most of its bits so: which one the
    device takes is not known."""
    found = [share for candidate in candidates if (share := _share(candidate)) is not None]
    return max(found, default=None)


def _share(candidate: Candidate) -> float | None:
    if candidate.tma_loads:
        return 1.0
    bits = {width: int(width) * number for width, number in candidate.global_loads.items()}
    every = sum(bits.values())
    return bits.get(_WIDEST, 0) / every if every else None
