# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RET505, RUF005 (arguments have no Python types; branches are
# constant)
"""Streams long rows through shared memory: softmax, its logarithm and their gradients (see
``_rings.streaming``).

A row is taken from shared memory once, into registers, where it waits for what the other programs
tell; in shared memory rows are only on their way. Behind a row's end stand −∞, which count neither
as a maximum nor in a sum."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .._rings.streaming import (
    ADD,
    LOG2_E,
    LOWEST,
    PEAKS,
    WARP_WORDS,
    add,
    allocate,
    as_column,
    await_pair,
    await_previous,
    commit,
    element,
    fetch,
    fetch_tile,
    find_ends,
    find_sources,
    greater,
    lanes_of_warps,
    load,
    may_end,
    only_columns,
    peek,
    start_next,
    tell,
    tile_layout,
    told_at,
    wait,
    words_of,
    write,
)

FAR = gl.constexpr(2.0**20)
NOTHING_BF16 = gl.constexpr(-0x007F_0080)
NOTHING_FP16 = gl.constexpr(-0x03FF_0400)
"""A pair of −∞, as in ``tiles``."""
_GREATER_BF16 = gl.constexpr("max.bf16x2 $0, $1, $2;")
_GREATER_FP16 = gl.constexpr("max.f16x2 $0, $1, $2;")


@gluon.jit
def _comparable(words, KIND: gl.constexpr, HALVES: gl.constexpr, most):
    if HALVES == 1:
        return gl.maximum(most, words)
    else:
        return gl.inline_asm_elementwise(
            _GREATER_BF16 if gl.bfloat16 == KIND else _GREATER_FP16, "=r,r,r", [most, words],
            dtype=gl.int32, is_pure=True, pack=1,
        )  # fmt: skip


@gluon.jit
def _nothing(words, keep, KIND: gl.constexpr, HALVES: gl.constexpr):
    """Return −∞ in place of what is no column of the row."""
    if HALVES == 1:
        return gl.where(keep != 0, words, float("-inf"))
    else:
        other: gl.constexpr = NOTHING_BF16 if gl.bfloat16 == KIND else NOTHING_FP16
        return (words & keep) | (other & ~keep)


@gluon.jit
def _inside(
    words, tile: gl.constexpr, left, ends, layout: gl.constexpr, SURE: gl.constexpr,
    WARPS: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, KIND: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    """Return a tile in which −∞ stands for what is no column of the row."""
    TILE: gl.constexpr = WARPS * WARP_WORDS * HALVES
    if PEEL and may_end(tile, TILE, SURE, ALIGN):
        return _nothing(words, ends[tile][1], KIND, HALVES)
    elif (tile + 1) * TILE > SURE:
        at = (words_of(tile, layout, WARPS) >> 2) * 16
        if HALVES == 1:
            return gl.where(at < left, words, float("-inf"))
        else:
            return gl.where(at < left, words, NOTHING_BF16 if gl.bfloat16 == KIND else NOTHING_FP16)
    else:
        return words


@gluon.jit
def _summands(kept, layout: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr,
              LOG: gl.constexpr, KIND: gl.constexpr, HALVES: gl.constexpr):  # fmt: skip
    """Return the sum of y × dy of each warp, or of dy."""
    total = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            gradient = element(kept[TILES + tile], half, KIND, HALVES)
            if LOG:
                total += gradient
            else:
                total = gl.fma(element(kept[tile], half, KIND, HALVES), gradient, total)
    return gl.reduce(total, 1, add)


@gluon.jit(do_not_specialize=["rows"])
def forward_ring(
    x,
    out,
    words,
    rows,
    COLUMNS: gl.constexpr,
    STRIDE: gl.constexpr,
    CHUNK: gl.constexpr,
    FIRST: gl.constexpr,
    GROUPS: gl.constexpr,
    PARTS: gl.constexpr,
    TILES: gl.constexpr,
    WARPS: gl.constexpr,
    SLOTS: gl.constexpr,
    SPACING: gl.constexpr,
    VECTOR: gl.constexpr,
    ALIGN: gl.constexpr,
    PEEL: gl.constexpr,
    HALVES: gl.constexpr,
    LOG: gl.constexpr,
    APART: gl.constexpr,
    SCRATCH: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute softmax of each row, or its logarithm: look for a row's maximum; then write the row
    before it, tile by tile, and keep this one in its place."""
    KIND: gl.constexpr = x.dtype.element_ty
    SURE: gl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    layout: gl.constexpr = tile_layout(WARPS)
    group = FIRST + gl.program_id(0) // PARTS
    part = gl.program_id(0) % PARTS
    lead = group % SPACING * STRIDE % ALIGN if PEEL else 0
    tensors = (x,)
    SLOT: gl.constexpr = TILES * WARPS * WARP_WORDS * 4
    base, scratch = allocate(SLOTS * SLOT, SCRATCH, WARPS)
    memory = base + (words_of(0, layout, WARPS) >> 2) * 16
    end = (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    left = gl.minimum(end - part * CHUNK, CHUNK) * (4 // HALVES)
    for slot in gl.static_range(SLOTS):
        fetch(
            memory + slot * SLOT, tensors, group + slot * GROUPS, rows, part, left, layout, TILES,
            STRIDE, CHUNK, SURE, WARPS, ALIGN, HALVES,
        )  # fmt: skip
    ends = ()
    if PEEL:
        ends = find_ends(
            part, lead, layout, COLUMNS, CHUNK, SURE, TILES, WARPS, VECTOR, ALIGN, HALVES
        )
    lane = lanes_of_warps(WARPS, PARTS)
    await_previous(OVERLAP)
    slot = 0
    count = gl.maximum((rows - group + GROUPS - 1) // GROUPS, 0)
    # What is kept of the row before: its exponentials, and what they are relative to; of their
    # logarithms its words.
    kept = ()
    for _ in gl.static_range(TILES * (1 if LOG else HALVES)):
        zeros = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        if LOG and HALVES == 2:
            zeros = zeros.to(gl.int32)
        kept = kept + (zeros,)
    bottom = gl.zeros([WARPS], gl.float32, gl.SliceLayout(1, layout))
    beyond = bottom
    for round in range(count + 1):
        row = group + round * GROUPS
        done = row - GROUPS
        told = told_at(words, done, lane, APART)
        wait(SLOTS - 1)
        here = memory + slot * SLOT
        coming = row + SLOTS * GROUPS
        most = _inside(
            load(here, 0, WARPS, HALVES), 0, left, ends, layout, SURE, WARPS, ALIGN, PEEL, KIND,
            HALVES,
        )  # fmt: skip
        for tile in gl.static_range(1, TILES):
            found = _inside(
                load(here, tile, WARPS, HALVES), tile, left, ends, layout, SURE, WARPS, ALIGN,
                PEEL, KIND, HALVES,
            )  # fmt: skip
            most = _comparable(found, KIND, HALVES, most)
        seen = peek(told, PARTS, PEAKS)
        peak = element(most, 0, KIND, HALVES)
        if HALVES == 2:
            peak = gl.maximum(peak, element(most, 1, KIND, HALVES))
        peak = gl.reduce(peak, 1, greater)
        top = bottom[:, None]
        shift = top
        if done >= 0:
            first, second = await_pair(told, seen, (), PARTS, COLUMNS, PEAKS)
            first = gl.convert_layout(first, gl.SliceLayout(1, layout))
            second = gl.convert_layout(second, gl.SliceLayout(1, layout))
            if LOG:
                shift = gl.log(second)[:, None]
            else:
                shift = (gl.exp2((bottom - first) * LOG2_E - beyond) / second)[:, None]
            top = first[:, None]
        bottom = gl.maximum(peak, LOWEST)
        if HALVES == 2:
            factor = gl.where(gl.abs(bottom) < FAR, LOG2_E, 1.0)
            product = bottom * factor
            beyond = gl.fma(bottom, factor, -product)
            product = product[:, None]
            factor = factor[:, None]
        else:
            product = bottom[:, None]
        sources = find_sources(
            tensors, coming, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES
        )
        total = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        fresh = ()
        for tile in gl.static_range(TILES):
            written = ()
            for half in gl.static_range(HALVES):
                if LOG:
                    written = written + (element(kept[tile], half, KIND, HALVES) - top - shift,)
                else:
                    written = written + (kept[tile * HALVES + half] * shift,)
            write(
                out, done, done >= 0, written, tile, ends, part, lead, layout,
                COLUMNS, CHUNK, SURE, WARPS, VECTOR, ALIGN, PEEL, HALVES,
            )  # fmt: skip
            found = _inside(
                load(here, tile, WARPS, HALVES), tile, left, ends, layout, SURE, WARPS, ALIGN,
                PEEL, KIND, HALVES,
            )  # fmt: skip
            fetch_tile(here, sources, tile, coming < rows, left, layout, TILES, SURE, WARPS, HALVES)
            for half in gl.static_range(HALVES):
                value = element(found, half, KIND, HALVES)
                if HALVES == 2:
                    value = gl.exp2(gl.fma(value, factor, -product))
                else:
                    value = gl.exp2((value - product) * LOG2_E)
                total += value
                if not LOG:
                    fresh = fresh + (value,)
            if LOG:
                fresh = fresh + (found,)
        commit()
        kept = fresh
        sum_ = gl.reduce(total, 1, add)
        if HALVES == 2:
            sum_ = sum_ * gl.exp2(beyond)
        if round < count:
            tell(words, row, round, part, peak, sum_, scratch, (), layout, APART, WARPS, PEAKS)
        slot = gl.where(slot + 1 == SLOTS, 0, slot + 1)
    wait(0)
    start_next(OVERLAP)


@gluon.jit(do_not_specialize=["rows"])
def gradient_ring(
    y,
    dy,
    dx,
    words,
    rows,
    COLUMNS: gl.constexpr,
    STRIDE: gl.constexpr,
    CHUNK: gl.constexpr,
    FIRST: gl.constexpr,
    GROUPS: gl.constexpr,
    PARTS: gl.constexpr,
    TILES: gl.constexpr,
    WARPS: gl.constexpr,
    SLOTS: gl.constexpr,
    SPACING: gl.constexpr,
    VECTOR: gl.constexpr,
    ALIGN: gl.constexpr,
    PEEL: gl.constexpr,
    HALVES: gl.constexpr,
    LOG: gl.constexpr,
    APART: gl.constexpr,
    SCRATCH: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute softmax's gradient of each row, or its logarithm's. A row waits in registers."""
    KIND: gl.constexpr = y.dtype.element_ty
    SURE: gl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    layout: gl.constexpr = tile_layout(WARPS)
    group = FIRST + gl.program_id(0) // PARTS
    part = gl.program_id(0) % PARTS
    lead = group % SPACING * STRIDE % ALIGN if PEEL else 0
    tensors = (y, dy)
    SLOT: gl.constexpr = 2 * TILES * WARPS * WARP_WORDS * 4
    base, scratch = allocate(SLOTS * SLOT, SCRATCH, WARPS)
    memory = base + (words_of(0, layout, WARPS) >> 2) * 16
    end = (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    left = gl.minimum(end - part * CHUNK, CHUNK) * (4 // HALVES)
    for slot in gl.static_range(SLOTS):
        fetch(
            memory + slot * SLOT, tensors, group + slot * GROUPS, rows, part, left, layout, TILES,
            STRIDE, CHUNK, SURE, WARPS, ALIGN, HALVES,
        )  # fmt: skip
    ends = ()
    if PEEL:
        ends = find_ends(
            part, lead, layout, COLUMNS, CHUNK, SURE, TILES, WARPS, VECTOR, ALIGN, HALVES
        )
    lane = lanes_of_warps(WARPS, PARTS)
    await_previous(OVERLAP)
    slot = 0
    count = gl.maximum((rows - group + GROUPS - 1) // GROUPS, 0)
    old = ()
    for _ in gl.static_range(2 * TILES):
        zeros = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        if HALVES == 2:
            zeros = zeros.to(gl.int32)
        old = old + (zeros,)
    for round in range(count + 1):
        row = group + round * GROUPS
        done = row - GROUPS
        told = told_at(words, done, lane, APART)
        wait(SLOTS - 1)
        here = memory + slot * SLOT
        coming = row + SLOTS * GROUPS
        sources = find_sources(
            tensors, coming, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES
        )
        kept = ()
        for which in gl.static_range(2):
            for tile in gl.static_range(TILES):
                found = load(here, which * TILES + tile, WARPS, HALVES)
                if PEEL and may_end(tile, WARPS * WARP_WORDS * HALVES, SURE, ALIGN):
                    found = only_columns(found, ends[tile][1], HALVES)
                kept = kept + (found,)
        seen = peek(told, PARTS, ADD)
        for tile in gl.static_range(TILES):
            fetch_tile(here, sources, tile, coming < rows, left, layout, TILES, SURE, WARPS, HALVES)
        commit()
        one = _summands(kept, layout, TILES, WARPS, LOG, KIND, HALVES)
        if round < count:
            tell(words, row, round, part, one, one * 0.0, scratch, (), layout, APART, WARPS, ADD)
        if done >= 0:
            first, unused = await_pair(told, seen, (), PARTS, COLUMNS, ADD)
            shift = as_column(first, layout)
            for tile in gl.static_range(TILES):
                written = ()
                for half in gl.static_range(HALVES):
                    value = element(old[tile], half, KIND, HALVES)
                    gradient = element(old[TILES + tile], half, KIND, HALVES)
                    if LOG:
                        written = written + (gradient - gl.exp2(value * LOG2_E) * shift,)
                    else:
                        written = written + (value * (gradient - shift),)
                write(
                    dx, done, True, written, tile, ends, part, lead, layout,
                    COLUMNS, CHUNK, SURE, WARPS, VECTOR, ALIGN, PEEL, HALVES,
                )  # fmt: skip
        old = kept
        slot = gl.where(slot + 1 == SLOTS, 0, slot + 1)
    wait(0)
    start_next(OVERLAP)
