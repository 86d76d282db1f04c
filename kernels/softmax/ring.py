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


@gluon.jit
def _peak(kept, TILES: gl.constexpr, KIND: gl.constexpr, HALVES: gl.constexpr):
    """Return the maximum of each warp."""
    most = kept[0]
    for tile in gl.static_range(1, TILES):
        most = _comparable(kept[tile], KIND, HALVES, most)
    peak = element(most, 0, KIND, HALVES)
    if HALVES == 2:
        peak = gl.maximum(peak, element(most, 1, KIND, HALVES))
    return gl.reduce(peak, 1, greater)


@gluon.jit(do_not_specialize=["rows"])
def softmax_ring(
    x,
    dy,
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
    BACKWARD: gl.constexpr,
    LOG: gl.constexpr,
    APART: gl.constexpr,
    SCRATCH: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute softmax of each row, or its gradient; ``x`` of a gradient is the softmax."""
    KIND: gl.constexpr = x.dtype.element_ty
    HOW: gl.constexpr = ADD if BACKWARD else PEAKS
    SURE: gl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    layout: gl.constexpr = tile_layout(WARPS)
    group = FIRST + gl.program_id(0) // PARTS
    part = gl.program_id(0) % PARTS
    lead = group % SPACING * STRIDE % ALIGN if PEEL else 0
    tensors = (x, dy) if BACKWARD else (x,)
    SLOT: gl.constexpr = (1 + BACKWARD) * TILES * WARPS * WARP_WORDS * 4
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
    lane = lanes_of_warps(WARPS)
    await_previous(OVERLAP)
    slot = 0
    count = gl.maximum((rows - group + GROUPS - 1) // GROUPS, 0)
    # What is kept of the row before: its words; of softmax its exponentials, and what they are
    # relative to.
    EXPONENTIALS: gl.constexpr = not BACKWARD and not LOG
    old = ()
    for _ in gl.static_range((1 + BACKWARD) * TILES * (HALVES if EXPONENTIALS else 1)):
        zeros = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        if not EXPONENTIALS and HALVES == 2:
            zeros = zeros.to(gl.int32)
        old = old + (zeros,)
    old_bottom = gl.zeros([WARPS], gl.float32, gl.SliceLayout(1, layout))
    old_beyond = old_bottom
    for round in range(count + 1):
        row = group + round * GROUPS
        done = row - GROUPS
        told = told_at(words, done, lane, APART)
        seen = peek(told, PARTS, HOW)
        wait(SLOTS - 1)
        here = memory + slot * SLOT
        coming = row + SLOTS * GROUPS
        sources = find_sources(
            tensors, coming, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES
        )
        kept = ()
        for which in gl.static_range(1 + BACKWARD):
            for tile in gl.static_range(TILES):
                found = load(here, which * TILES + tile, WARPS, HALVES)
                if not BACKWARD:
                    found = _inside(
                        found, tile, left, ends, layout, SURE, WARPS, ALIGN, PEEL, KIND, HALVES
                    )
                elif PEEL and may_end(tile, WARPS * WARP_WORDS * HALVES, SURE, ALIGN):
                    found = only_columns(found, ends[tile][1], HALVES)
                kept = kept + (found,)
        for tile in gl.static_range(TILES):
            fetch_tile(here, sources, tile, coming < rows, left, layout, TILES, SURE, WARPS, HALVES)
        commit()
        bottom = old_bottom
        beyond = old_beyond
        if BACKWARD:
            one = _summands(kept, layout, TILES, WARPS, LOG, KIND, HALVES)
            two = one * 0.0
        else:
            one = _peak(kept, TILES, KIND, HALVES)
            bottom = gl.maximum(one, LOWEST)
            if HALVES == 2:
                factor = gl.where(gl.abs(bottom) < FAR, LOG2_E, 1.0)
                product = bottom * factor
                beyond = gl.fma(bottom, factor, -product)
                product = product[:, None]
                factor = factor[:, None]
            else:
                product = bottom[:, None]
            total = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
            fresh = ()
            for tile in gl.static_range(TILES):
                for half in gl.static_range(HALVES):
                    value = element(kept[tile], half, KIND, HALVES)
                    if HALVES == 2:
                        value = gl.exp2(gl.fma(value, factor, -product))
                    else:
                        value = gl.exp2((value - product) * LOG2_E)
                    total += value
                    fresh = fresh + (value,)
            two = gl.reduce(total, 1, add)
            if HALVES == 2:
                two = two * gl.exp2(beyond)
            if EXPONENTIALS:
                kept = fresh
        if round < count:
            tell(words, row, round, part, one, two, scratch, (), layout, APART, WARPS, HOW)
        if done >= 0:
            first, second = await_pair(told, seen, (), PARTS, COLUMNS, HOW)
            first = gl.convert_layout(first, gl.SliceLayout(1, layout))
            second = gl.convert_layout(second, gl.SliceLayout(1, layout))
            if EXPONENTIALS:
                shift = gl.exp2((old_bottom - first) * LOG2_E - old_beyond) / second
            elif BACKWARD:
                shift = first
            else:
                shift = gl.log(second)
            shift = shift[:, None]
            top = first[:, None]
            for tile in gl.static_range(TILES):
                written = ()
                for half in gl.static_range(HALVES):
                    if EXPONENTIALS:
                        written = written + (old[tile * HALVES + half] * shift,)
                    else:
                        value = element(old[tile], half, KIND, HALVES)
                        if BACKWARD:
                            gradient = element(old[TILES + tile], half, KIND, HALVES)
                            if LOG:
                                written = written + (gradient - gl.exp2(value * LOG2_E) * shift,)
                            else:
                                written = written + (value * (gradient - shift),)
                        else:
                            written = written + (value - top - shift,)
                write(
                    out, done, written, tile, ends, part, lead, layout,
                    COLUMNS, CHUNK, SURE, WARPS, VECTOR, ALIGN, PEEL, HALVES,
                )  # fmt: skip
        old = kept
        old_bottom = bottom
        old_beyond = beyond
        slot = gl.where(slot + 1 == SLOTS, 0, slot + 1)
    wait(0)
    start_next(OVERLAP)
