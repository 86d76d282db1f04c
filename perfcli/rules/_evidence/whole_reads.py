"""Finds which buffers a reduction reads whole, and whether a second sweep over a row finds it in
L2."""

from __future__ import annotations

import math
from collections.abc import Collection

from perfcli.model import Buffer, Candidate, KernelFacts, KernelKind, Run


def points_of(kernel: KernelFacts) -> int | None:
    """Return points of the iteration space, or None where it is not known."""
    return math.prod(kernel.sizes.values()) if kernel.sizes else None


def reduced_elements(kernel: KernelFacts) -> int:
    """Return elements that one result is reduced from; 1 for what does not reduce."""
    return math.prod(size for name, size in kernel.sizes.items() if name.startswith("r"))


def rows_of(kernel: KernelFacts) -> int:
    """Return results of a reduction: points of the iteration space that are not reduced over."""
    return math.prod(size for name, size in kernel.sizes.items() if not name.startswith("r"))


LOOPED: tuple[KernelKind, ...] = ("reduction",)
ANY_REDUCTION: tuple[KernelKind, ...] = ("reduction", "persistent-reduction")


def whole_reads(kernel: KernelFacts, kinds: Collection[KernelKind] = LOOPED) -> list[Buffer]:
    """Return what a kernel of these kinds (looped reductions) reads one element of at each of its
    points: neither what is broadcast nor what is gathered from a larger buffer."""
    points = points_of(kernel)
    if kernel.kind not in kinds or points is None:
        return []
    return [
        buffer
        for buffer in kernel.buffers
        # A split rounds its chunks up, so that a kernel has a few points too many.
        if buffer.is_read and points / 2 < math.prod(buffer.shape) <= points
    ]


def row_stride(kernel: KernelFacts, buffer: Buffer) -> int | None:
    """Return elements from one row to the next where the kernel reduces the buffer's last
    dimensions and these are contiguous; else None."""
    length = 1
    for size, stride in zip(reversed(buffer.shape), reversed(buffer.stride), strict=True):
        if length == reduced_elements(kernel):
            return stride
        if stride != length:
            return None
        length *= size
    return None


def chunk_shape(kernel: KernelFacts, buffer: Buffer, rows: int) -> tuple[int, int] | None:
    """Return elements of one of so many rows, and how many chunks it is cut into, where a kernel
    reduces the buffer's last dimension in equal contiguous chunks, the last one of a row masked."""
    length = buffer.shape[-1] if buffer.shape else 0
    if not rows or rows * length != math.prod(buffer.shape) or buffer.stride[-1] != 1:
        return None
    chunks, rest = divmod(rows_of(kernel), rows)
    # As many rows as columns: nothing says which of the two is reduced.
    if rest or chunks < 2 or rows == length or reduced_elements(kernel) != -(-length // chunks):
        return None
    return length, chunks


def in_flight(run: Run, kernel: KernelFacts, again: int) -> int | None:
    """Return bytes of ``again``, the bytes that the whole kernel reads again, that belong to the
    rows that are being reduced at the same time: what a cache must hold for a second sweep to find
    them. Of the launch configuration that needs least; None where one is not known."""
    rows = rows_of(kernel)
    if run.target is None or not rows or not kernel.candidates:
        return None
    together = [_rows_together(c, run.target.sm_count) for c in kernel.candidates]
    known = [n for n in together if n is not None]
    return again * min(rows, *known) // rows if len(known) == len(together) else None


def _rows_together(candidate: Candidate, sms: int) -> int | None:
    if not candidate.blocks_per_sm:
        return None
    blocks = [size for name, size in candidate.config.items() if name in ("XBLOCK", "YBLOCK")]
    return candidate.blocks_per_sm * sms * math.prod(blocks)
