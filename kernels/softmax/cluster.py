# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005 (arguments have no Python types; branches are
# constant)
"""Computes softmax of a long row, its logarithm, their gradients and cross-entropy, by a cluster
of blocks, which holds the row in registers.

Words hold two elements of half precision, or one of float32. A row's lanes are counted from the
last multiple of ``ALIGN`` elements before it, ``lead`` before its first column; behind a row stand
−∞, which count neither as a maximum nor in a sum, or zeros.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .._gluon.cluster import PEAKS, SUMS, exchange, open_mailboxes
from .._gluon.words import (
    LOG2_E,
    LOWEST,
    WARP_WORDS,
    add,
    await_previous,
    bytes_of_row,
    element,
    ends_of_row,
    greater,
    lead_of,
    load_row,
    may_end,
    only_columns,
    second_look,
    start_next,
    tile_layout,
    write,
)

FAR = gl.constexpr(2.0**20)
NOTHING_BF16 = gl.constexpr(-0x007F_0080)
NOTHING_FP16 = gl.constexpr(-0x03FF_0400)
"""As in ``tiles``: what counts as far from zero, and a pair of −∞."""
_GREATER_BF16 = gl.constexpr("max.bf16x2 $0, $1, $2;")
_GREATER_FP16 = gl.constexpr("max.f16x2 $0, $1, $2;")


@gluon.jit
def _greater_words(words, KIND: gl.constexpr, HALVES: gl.constexpr, most):
    if HALVES == 1:
        return gl.maximum(most, words)
    else:
        return gl.inline_asm_elementwise(
            _GREATER_BF16 if gl.bfloat16 == KIND else _GREATER_FP16, "=r,r,r", [most, words],
            dtype=gl.int32, is_pure=True, pack=1,
        )  # fmt: skip


@gluon.constexpr_function
def _nothing(kind, halves):
    """Return what stands behind a row of which the maximum is asked."""
    if halves == 1:
        return float("-inf")
    return NOTHING_BF16 if gl.bfloat16 == kind else NOTHING_FP16


@gluon.jit
def _begin(
    COLUMNS: gl.constexpr, STRIDE: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr,
    VECTOR: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
    OVERLAP: gl.constexpr,
):  # fmt: skip
    """Return the mailbox, the row, its ``lead``, and the bytes of both, once what is read is there.
    Let the next kernel start."""
    mailbox = open_mailboxes(WARPS, BLOCKS)
    row = gl.program_id(0)
    lead = lead_of(row, STRIDE, ALIGN, PEEL)
    left = bytes_of_row(row, COLUMNS, STRIDE, VECTOR, ALIGN, PEEL, HALVES)
    await_previous(OVERLAP)
    start_next(OVERLAP)
    return mailbox, row, lead, left


@gluon.jit
def _exponent(base, HALVES: gl.constexpr):
    """Return by what an element of half precision is multiplied, and what is subtracted from that,
    so that it becomes the exponent of 2 relative to ``base``, and how far the latter is rounded."""
    if HALVES == 2:
        factor = gl.where(gl.abs(base) < FAR, LOG2_E, 1.0)
        product = base * factor
        return factor, product, gl.fma(base, factor, -product)
    else:
        return base, base, base


@gluon.jit
def _exponential(value, base, factor, product, HALVES: gl.constexpr):
    """Return the exponential of elements relative to ``base``."""
    if HALVES == 2:
        return gl.exp2(gl.fma(value, factor[:, None], -product[:, None]))
    else:
        return gl.exp2((value - base[:, None]) * LOG2_E)


@gluon.jit
def _statistics(
    kept, ends, layout: gl.constexpr, COLUMNS: gl.constexpr, TILES: gl.constexpr,
    ALL: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
    KIND: gl.constexpr, EXPONENTIALS: gl.constexpr,
):  # fmt: skip
    """Return the tiles without a neighbour's elements, each warp's maximum and sum of exponentials,
    what these are relative to and how far that is rounded, and the exponentials, if they are to be
    kept."""
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    NOTHING: gl.constexpr = _nothing(KIND, HALVES)
    if PEEL:
        own = ()
        for tile in gl.static_range(TILES):
            words = kept[tile]
            if may_end(tile, TILE, COLUMNS, ALIGN):
                words = only_columns(words, ends[tile][1], HALVES, NOTHING)
            own = own + (words,)
        kept = own
    most = kept[0]
    for tile in gl.static_range(1, TILES):
        most = _greater_words(kept[tile], KIND, HALVES, most)
    peak = element(most, 0, KIND, HALVES)
    if HALVES == 2:
        peak = gl.maximum(peak, element(most, 1, KIND, HALVES))
    peak = gl.reduce(peak, 1, greater)
    bottom = gl.maximum(peak, LOWEST)
    factor, product, beyond = _exponent(bottom, HALVES)
    total = gl.zeros([ALL, WARP_WORDS], gl.float32, layout)
    exponentials = ()
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            value = element(kept[tile], half, KIND, HALVES)
            value = _exponential(value, bottom, factor, product, HALVES)
            total += value
            if EXPONENTIALS:
                exponentials = exponentials + (value,)
    sums = gl.reduce(total, 1, add)
    if HALVES == 2:
        sums = sums * gl.exp2(-beyond)
    return kept, peak, sums, bottom, beyond, exponentials


@gluon.jit
def forward_cluster(
    x_ptr,
    y_ptr,
    COLUMNS: gl.constexpr,
    STRIDE: gl.constexpr,
    TILES: gl.constexpr,
    WARPS: gl.constexpr,
    BLOCKS: gl.constexpr,
    VECTOR: gl.constexpr,
    ALIGN: gl.constexpr,
    PEEL: gl.constexpr,
    HALVES: gl.constexpr,
    KEEP: gl.constexpr,
    DROP: gl.constexpr,
    LOG: gl.constexpr,
    RECOMPUTE: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute softmax of a row, or its logarithm. Of softmax the exponentials are kept, so that
    each is computed once, or with ``RECOMPUTE`` the words, which take half of the registers."""
    KIND: gl.constexpr = x_ptr.dtype.element_ty
    ALL: gl.constexpr = WARPS * BLOCKS
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    layout: gl.constexpr = tile_layout(WARPS, BLOCKS)
    mailbox, row, lead, left = _begin(
        COLUMNS, STRIDE, WARPS, BLOCKS, VECTOR, ALIGN, PEEL, HALVES, OVERLAP
    )
    NOTHING: gl.constexpr = _nothing(KIND, HALVES)
    kept = load_row(
        x_ptr, row, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN, HALVES, KEEP
    )
    ends = ends_of_row(lead, layout, COLUMNS, TILES, ALL, VECTOR, ALIGN, PEEL, HALVES)
    kept, peak, sums, bottom, beyond, exponentials = _statistics(
        kept,
        ends,
        layout,
        COLUMNS,
        TILES,
        ALL,
        ALIGN,
        PEEL,
        HALVES,
        KIND,
        not LOG and not RECOMPUTE,
    )
    top, whole = exchange(peak, sums, mailbox, layout, WARPS, BLOCKS, PEAKS, BLOCKS)
    if LOG:
        shift = gl.log(whole)
    elif RECOMPUTE:
        base = gl.maximum(top, LOWEST)
        factor, product, beyond = _exponent(base, HALVES)
        shift = (gl.exp2(-beyond) if HALVES == 2 else 1.0) / whole
    else:
        shift = (bottom - top) * LOG2_E
        shift = gl.exp2(shift - beyond if HALVES == 2 else shift) / whole
    for tile in gl.static_range(TILES):
        out = ()
        if LOG or RECOMPUTE:
            words = second_look(kept[tile], HALVES)
        for half in gl.static_range(HALVES):
            if LOG:
                out = out + (element(words, half, KIND, HALVES) - top[:, None] - shift[:, None],)
            elif RECOMPUTE:
                value = element(words, half, KIND, HALVES)
                value = _exponential(value, base, factor, product, HALVES)
                out = out + (value * shift[:, None],)
            else:
                out = out + (exponentials[tile * HALVES + half] * shift[:, None],)
        write(
            y_ptr, row, out, tile, ends, 0, lead, layout,
            COLUMNS, TILES * TILE, COLUMNS, ALL, VECTOR, ALIGN, PEEL, HALVES, DROP,
        )  # fmt: skip


@gluon.jit
def loss_cluster(
    x_ptr,
    target_ptr,
    loss_ptr,
    lse_ptr,
    ignored,
    COLUMNS: gl.constexpr,
    STRIDE: gl.constexpr,
    TILES: gl.constexpr,
    WARPS: gl.constexpr,
    BLOCKS: gl.constexpr,
    VECTOR: gl.constexpr,
    ALIGN: gl.constexpr,
    PEEL: gl.constexpr,
    HALVES: gl.constexpr,
    KEEP: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute cross-entropy of a row. Only the first block is told what the others found, and only
    its first warp writes."""
    KIND: gl.constexpr = x_ptr.dtype.element_ty
    ALL: gl.constexpr = WARPS * BLOCKS
    layout: gl.constexpr = tile_layout(WARPS, BLOCKS)
    mailbox, row, lead, left = _begin(
        COLUMNS, STRIDE, WARPS, BLOCKS, VECTOR, ALIGN, PEEL, HALVES, OVERLAP
    )
    target = gl.load(target_ptr + row)
    NOTHING: gl.constexpr = _nothing(KIND, HALVES)
    kept = load_row(
        x_ptr, row, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN, HALVES, KEEP
    )
    there = (target >= 0) & (target < COLUMNS)
    logit = gl.load(x_ptr + row.to(gl.int64) * STRIDE + target, mask=there, other=float("nan"))
    ends = ends_of_row(lead, layout, COLUMNS, TILES, ALL, VECTOR, ALIGN, PEEL, HALVES)
    _, peak, sums, _, _, _ = _statistics(
        kept, ends, layout, COLUMNS, TILES, ALL, ALIGN, PEEL, HALVES, KIND, False
    )
    top, whole = exchange(peak, sums, mailbox, layout, WARPS, BLOCKS, PEAKS, 1)
    warp = gl.arange(0, ALL, gl.SliceLayout(1, layout))
    loss = (top - logit.to(gl.float32)) + gl.log(whole)
    at = row + warp * 0
    gl.store(loss_ptr + at, gl.where(target == ignored, 0.0, loss), mask=warp == 0)
    gl.store(lse_ptr + at, top + gl.log(whole), mask=warp == 0)


@gluon.jit
def gradient_cluster(
    y_ptr,
    dy_ptr,
    dx_ptr,
    COLUMNS: gl.constexpr,
    STRIDE: gl.constexpr,
    TILES: gl.constexpr,
    WARPS: gl.constexpr,
    BLOCKS: gl.constexpr,
    VECTOR: gl.constexpr,
    ALIGN: gl.constexpr,
    PEEL: gl.constexpr,
    HALVES: gl.constexpr,
    KEEP: gl.constexpr,
    DROP: gl.constexpr,
    LOG: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute softmax's gradient of a row, or its logarithm's."""
    KIND: gl.constexpr = y_ptr.dtype.element_ty
    ALL: gl.constexpr = WARPS * BLOCKS
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    layout: gl.constexpr = tile_layout(WARPS, BLOCKS)
    mailbox, row, lead, left = _begin(
        COLUMNS, STRIDE, WARPS, BLOCKS, VECTOR, ALIGN, PEEL, HALVES, OVERLAP
    )
    NOTHING: gl.constexpr = 0 if HALVES == 2 else 0.0
    gradients = load_row(
        dy_ptr, row, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN, HALVES, KEEP
    )
    values = load_row(
        y_ptr, row, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN, HALVES, KEEP
    )
    ends = ends_of_row(lead, layout, COLUMNS, TILES, ALL, VECTOR, ALIGN, PEEL, HALVES)
    total = gl.zeros([ALL, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        gradient_words = gradients[tile]
        words = values[tile]
        if PEEL and may_end(tile, TILE, COLUMNS, ALIGN):
            gradient_words = only_columns(gradient_words, ends[tile][1], HALVES)
            words = only_columns(words, ends[tile][1], HALVES)
        for half in gl.static_range(HALVES):
            gradient = element(gradient_words, half, KIND, HALVES)
            if LOG:
                total += gradient
            else:
                total = gl.fma(element(words, half, KIND, HALVES), gradient, total)
    own = gl.reduce(total, 1, add)
    whole, _ = exchange(own, own, mailbox, layout, WARPS, BLOCKS, SUMS, BLOCKS)
    shift = whole[:, None]
    for tile in gl.static_range(TILES):
        out = ()
        gradient_words = second_look(gradients[tile], HALVES)
        words = second_look(values[tile], HALVES)
        for half in gl.static_range(HALVES):
            gradient = element(gradient_words, half, KIND, HALVES)
            value = element(words, half, KIND, HALVES)
            if LOG:
                out = out + (gradient - gl.exp2(value * LOG2_E) * shift,)
            else:
                out = out + (value * (gradient - shift),)
        write(
            dx_ptr, row, out, tile, ends, 0, lead, layout,
            COLUMNS, TILES * TILE, COLUMNS, ALL, VECTOR, ALIGN, PEEL, HALVES, DROP,
        )  # fmt: skip
