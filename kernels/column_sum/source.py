"""Writes the source of the column-sum kernels for n inputs, with pointers or TMA descriptors.

Both walk down ``rows_per_split`` rows of one column tile, add all inputs of a tile element by
element in fp32, and reduce the tile over its rows once, after the loop. One block writes one row
of ``partial``; ``column_sum_finish`` adds these rows in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable

_HEAD = """import triton
import triton.language as tl


@triton.jit
"""

_POINTERS = """def column_sum_pointers_{n}(
    {inputs},
    partial,
    rows,
    column_units,
    stride_units,
    rows_per_split,
    TILE_R: tl.constexpr,
    TILE_I: tl.constexpr,
    STAGES: tl.constexpr,
    UNIT: tl.constexpr,
    WHOLE_ROWS: tl.constexpr,
    WHOLE_COLUMNS: tl.constexpr,
    EVICT: tl.constexpr,
):
    # Triton's launcher tells multiples of 16 from others only; UNIT says the rest: 1128 = 141 · 8.
    columns = column_units * UNIT
    row_stride = stride_units * UNIT
    split = tl.program_id(1)
    column = tl.program_id(0) * TILE_I + tl.arange(0, TILE_I)
    line = tl.arange(0, TILE_R)
    first = split * rows_per_split
    last = tl.minimum(first + rows_per_split, rows)
    # 32-bit offsets within a tile; the tile's own row may lie beyond 2^31 elements.
    offsets = line[:, None] * row_stride + column[None, :]
    inside = (column < columns)[None, :]
    start = first.to(tl.int64) * row_stride
    total = tl.zeros([TILE_R, TILE_I], tl.float32)
    for row in tl.range(first, last, TILE_R, num_stages=STAGES):
        if WHOLE_ROWS and WHOLE_COLUMNS:
{loads}
        else:
            mask = inside
            if not WHOLE_ROWS:
                mask = mask & (row + line < last)[:, None]
{masked_loads}
{sums}
        start += TILE_R * row_stride
    result = tl.sum(total, 0)
    place = partial + split.to(tl.int64) * columns + column
    if WHOLE_COLUMNS:
        tl.store(place, result.to(partial.dtype.element_ty))
    else:
        tl.store(place, result.to(partial.dtype.element_ty), mask=column < columns)
"""

_TMA = """def column_sum_tma_{n}(
    {inputs},
    partial,
    rows,
    columns,
    rows_per_split,
    TILE_R: tl.constexpr,
    TILE_I: tl.constexpr,
    STAGES: tl.constexpr,
):
    # rows_per_split is a multiple of TILE_R: a descriptor has no row mask, so a tile must not
    # reach into the next split. Elements beyond the array are read as zero.
    split = tl.program_id(1)
    first_column = tl.program_id(0) * TILE_I
    first = split * rows_per_split
    last = tl.minimum(first + rows_per_split, rows)
    total = tl.zeros([TILE_R, TILE_I], tl.float32)
    for row in tl.range(first, last, TILE_R, num_stages=STAGES):
{loads}
{sums}
    column = first_column + tl.arange(0, TILE_I)
    result = tl.sum(total, 0).to(partial.dtype.element_ty)
    tl.store(partial + split.to(tl.int64) * columns + column, result, mask=column < columns)
"""


def _input_names(inputs: int) -> tuple[str, ...]:
    return tuple(f"x{index}" for index in range(inputs))


def _pointers_source(inputs: int) -> str:
    """Write ``column_sum_pointers_<inputs>``."""
    return _HEAD + _POINTERS.format(
        n=inputs,
        inputs=", ".join(_input_names(inputs)),
        loads=_lines(
            inputs, 12, "v{0} = tl.load(x{0} + start + offsets, eviction_policy=EVICT)".format
        ),
        masked_loads=_lines(
            inputs,
            12,
            "v{0} = tl.load(x{0} + start + offsets, mask=mask, other=0.0, "
            "eviction_policy=EVICT)".format,
        ),
        sums=_sums(inputs),
    )


def _tma_source(inputs: int) -> str:
    """Write ``column_sum_tma_<inputs>``."""
    return _HEAD + _TMA.format(
        n=inputs,
        inputs=", ".join(_input_names(inputs)),
        loads=_lines(inputs, 8, "v{0} = x{0}.load([row, first_column])".format),
        sums=_sums(inputs),
    )


def _sums(inputs: int) -> str:
    return _lines(inputs, 8, "total += v{0}.to(tl.float32)".format)


def _lines(inputs: int, indent: int, line: Callable[[int], str]) -> str:
    return "\n".join(" " * indent + line(index) for index in range(inputs))
