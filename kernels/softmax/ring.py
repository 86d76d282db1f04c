# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RET505, RUF005 (arguments have no Python types; branches are
# constant)
"""Streams long rows through shared memory: softmax, its logarithm and their gradients, in Gluon.

As in ``_norms.ring``, persistent programs share each row, but a row is taken from shared memory
once, into registers, where it waits for what the other programs tell; in shared memory rows are
only on their way.

A row's statistics are a pair: of a softmax the maximum and the sum of exponentials relative to it,
of a gradient the sum and nothing. Behind a row's end stand −∞, which count in neither."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .._norms.ring import (
    WARP_WORDS,
    _add_pairs,
    _await_assembly,
    _await_previous,
    _column,
    _commit,
    _element,
    _ends,
    _fetch,
    _fetch_tile,
    _lanes,
    _layout,
    _load,
    _may_end,
    _memory,
    _only_columns,
    _sources,
    _start_next,
    _told_at,
    _wait,
    _words,
    _words_operands,
    _write,
)

LOG2_E = gl.constexpr(1.4426950408889634)
LOWEST = gl.constexpr(-3.4028234663852886e38)
FAR = gl.constexpr(2.0**20)
NOTHING_BF16 = gl.constexpr(-0x007F_0080)
NOTHING_FP16 = gl.constexpr(-0x03FF_0400)
_GREATER_BF16 = gl.constexpr("max.bf16x2 $0, $1, $2;")
_GREATER_FP16 = gl.constexpr("max.f16x2 $0, $1, $2;")


@gluon.jit
def _greater(a, b):
    return gl.maximum(a, b)


@gluon.jit
def _join_pairs(a, b, c, d):
    """Join two (maximum, sum)."""
    top = gl.maximum(a, c)
    base = gl.maximum(top, LOWEST)
    return top, b * gl.exp2((a - base) * LOG2_E) + d * gl.exp2((c - base) * LOG2_E)


@gluon.jit
def _comparable(words, KIND: gl.constexpr, HALVES: gl.constexpr, most):
    if HALVES == 1:
        return gl.maximum(most, words)
    else:
        return gl.inline_asm_elementwise(
            _GREATER_BF16 if gl.bfloat16 == KIND else _GREATER_FP16, "=r,r,r", [most, words],
            dtype=gl.int32, is_pure=True, pack=1,
        )  # fmt: skip


@gluon.constexpr_function
def _tell_assembly(warps, peaks):
    """As ``_norms.ring._tell_assembly``; ``peaks``: the first of a pair is a maximum, to which the
    second is relative."""
    if warps == 1:
        lines = ["mov.b64 word, {$2, $1};"]
    else:
        lines = [
            "st.shared.v2.f32 [$3], {$1, $2};",
            "atom.acq_rel.cta.shared.add.u32 old, [$5], 1;",
            f"and.b32 old, old, {warps - 1};",
            f"setp.ne.u32 other, old, {warps - 1};",
            "@other bra TOLD;",
            *(
                f"ld.shared.v4.f32 {{a{n}, b{n}, a{n + 1}, b{n + 1}}}, [$4 + {8 * n}];"
                for n in range(0, warps, 2)
            ),
        ]
        if peaks:
            lines += [
                "max.f32 top, a0, a1;",
                *(f"max.f32 top, top, a{n};" for n in range(2, warps)),
                "max.f32 base, top, 0fFF7FFFFF;",
                "mov.f32 total, 0f00000000;",
            ]
            for n in range(warps):
                lines += [
                    f"sub.f32 a{n}, a{n}, base;",
                    f"mul.f32 a{n}, a{n}, 0f3FB8AA3B;",
                    f"ex2.approx.f32 a{n}, a{n};",
                    f"fma.rn.f32 total, b{n}, a{n}, total;",
                ]
            lines.append("mov.b64 word, {total, top};")
        else:
            lines += [
                *(f"add.f32 a0, a0, a{n};" for n in range(1, warps)),
                "mov.b64 word, {b0, a0};",
            ]
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred other;",
            ".reg .b32 old;",
            f".reg .f32 a<{warps}>, b<{warps}>, top, base, total;",
            ".reg .b64 word;",
            "mov.u32 old, %laneid;",
            "setp.ne.u32 other, old, 0;",
            "@other bra TOLD;",
            *lines,
            "atom.relaxed.gpu.global.exch.b64 word, [$6], word;",
            "TOLD:",
            "}",
        ]
    )


@gluon.jit
def _tell(
    words, row, round, part, first, second, scratch, layout: gl.constexpr,
    APART: gl.constexpr, WARPS: gl.constexpr, PEAKS: gl.constexpr,
):  # fmt: skip
    sums = scratch + 32 + (round & 3) * (8 * WARPS)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))
    to = (words + row.to(gl.int64) * APART + part).to(gl.int64)
    gl.inline_asm_elementwise(
        _tell_assembly(WARPS, PEAKS), "=r,r,r,r,r,r,l",
        [first, second, sums + warp * 8, sums, scratch + (round & 3) * 4, to],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.constexpr_function
def _peek_assembly(parts, count, nothing):
    lines = ["{", ".reg .pred there;", ".reg .b32 lane;", "mov.u32 lane, %laneid;"]
    for n in range(count):
        lines += [
            f"mov.b64 ${n}, {nothing};",
            f"setp.lt.u32 there, lane, {parts - 32 * n};",
            f"@there ld.relaxed.gpu.global.b64 ${n}, [${count} + {256 * n}];",
        ]
    return "\n".join([*lines, "}"])


NO_PEAK = gl.constexpr(-0x0080_0000_0000_0000)
"""The word of a maximum of −∞ and a sum of 0."""


@gluon.jit
def _peek(told, PARTS: gl.constexpr, PEAKS: gl.constexpr):
    EACH: gl.constexpr = (PARTS + 31) // 32
    return gl.inline_asm_elementwise(
        _peek_assembly(PARTS, EACH, NO_PEAK if PEAKS else 0), _words_operands(EACH, 0), [told],
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _await(told, seen, PARTS: gl.constexpr, PEAKS: gl.constexpr):
    EACH: gl.constexpr = (PARTS + 31) // 32
    found = gl.inline_asm_elementwise(
        _await_assembly(EACH), _words_operands(EACH, 1), seen + (told,),
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip
    first = (found[0] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
    second = found[0].to(gl.int32).to(gl.float32, bitcast=True)
    for n in gl.static_range(1, EACH):
        one = (found[n] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
        two = found[n].to(gl.int32).to(gl.float32, bitcast=True)
        if PEAKS:
            first, second = _join_pairs(first, second, one, two)
        else:
            first += one
            second += two
    if PEAKS:
        return gl.reduce((first, second), 1, _join_pairs)
    else:
        return gl.reduce((first, second), 1, _add_pairs)


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
    if PEEL and _may_end(tile, TILE, SURE, ALIGN):
        return _nothing(words, ends[tile][1], KIND, HALVES)
    elif (tile + 1) * TILE > SURE:
        at = (_words(tile, layout, WARPS) >> 2) * 16
        if HALVES == 1:
            return gl.where(at < left, words, float("-inf"))
        else:
            return gl.where(at < left, words, NOTHING_BF16 if gl.bfloat16 == KIND else NOTHING_FP16)
    else:
        return words


@gluon.jit
def _add(a, b):
    return a + b


@gluon.jit
def _summands(kept, layout: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr,
              LOG: gl.constexpr, KIND: gl.constexpr, HALVES: gl.constexpr):  # fmt: skip
    """Return the sum of y × dy of each warp, or of dy."""
    total = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            gradient = _element(kept[TILES + tile], half, KIND, HALVES)
            if LOG:
                total += gradient
            else:
                total = gl.fma(_element(kept[tile], half, KIND, HALVES), gradient, total)
    return gl.reduce(total, 1, _add)


@gluon.jit
def _peak(kept, TILES: gl.constexpr, KIND: gl.constexpr, HALVES: gl.constexpr):
    """Return the maximum of each warp."""
    most = kept[0]
    for tile in gl.static_range(1, TILES):
        most = _comparable(kept[tile], KIND, HALVES, most)
    peak = _element(most, 0, KIND, HALVES)
    if HALVES == 2:
        peak = gl.maximum(peak, _element(most, 1, KIND, HALVES))
    return gl.reduce(peak, 1, _greater)


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
    SURE: gl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    layout: gl.constexpr = _layout(WARPS)
    group = FIRST + gl.program_id(0) // PARTS
    part = gl.program_id(0) % PARTS
    lead = group % SPACING * STRIDE % ALIGN if PEEL else 0
    tensors = (x, dy) if BACKWARD else (x,)
    SLOT: gl.constexpr = (1 + BACKWARD) * TILES * WARPS * WARP_WORDS * 4
    base, scratch = _memory(SLOTS * SLOT, SCRATCH, WARPS)
    memory = base + (_words(0, layout, WARPS) >> 2) * 16
    end = (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    left = gl.minimum(end - part * CHUNK, CHUNK) * (4 // HALVES)
    for slot in gl.static_range(SLOTS):
        _fetch(
            memory + slot * SLOT, tensors, group + slot * GROUPS, rows, part, left, layout, TILES,
            STRIDE, CHUNK, SURE, WARPS, ALIGN, HALVES,
        )  # fmt: skip
    ends = ()
    if PEEL:
        ends = _ends(part, lead, layout, COLUMNS, CHUNK, SURE, TILES, WARPS, VECTOR, ALIGN, HALVES)
    lane = _lanes(WARPS)
    _await_previous(OVERLAP)
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
        told = _told_at(words, done, lane, APART)
        seen = _peek(told, PARTS, not BACKWARD)
        _wait(SLOTS - 1)
        here = memory + slot * SLOT
        coming = row + SLOTS * GROUPS
        sources = _sources(
            tensors, coming, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES
        )
        kept = ()
        for which in gl.static_range(1 + BACKWARD):
            for tile in gl.static_range(TILES):
                found = _load(here, which * TILES + tile, WARPS, HALVES)
                if not BACKWARD:
                    found = _inside(
                        found, tile, left, ends, layout, SURE, WARPS, ALIGN, PEEL, KIND, HALVES
                    )
                elif PEEL and _may_end(tile, WARPS * WARP_WORDS * HALVES, SURE, ALIGN):
                    found = _only_columns(found, ends[tile][1], HALVES)
                kept = kept + (found,)
        for tile in gl.static_range(TILES):
            _fetch_tile(
                here, sources, tile, coming < rows, left, layout, TILES, SURE, WARPS, HALVES
            )
        _commit()
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
                    value = _element(kept[tile], half, KIND, HALVES)
                    if HALVES == 2:
                        value = gl.exp2(gl.fma(value, factor, -product))
                    else:
                        value = gl.exp2((value - product) * LOG2_E)
                    total += value
                    fresh = fresh + (value,)
            two = gl.reduce(total, 1, _add)
            if HALVES == 2:
                two = two * gl.exp2(beyond)
            if EXPONENTIALS:
                kept = fresh
        if round < count:
            _tell(words, row, round, part, one, two, scratch, layout, APART, WARPS, not BACKWARD)
        if done >= 0:
            first, second = _await(told, seen, PARTS, not BACKWARD)
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
                        value = _element(old[tile], half, KIND, HALVES)
                        if BACKWARD:
                            gradient = _element(old[TILES + tile], half, KIND, HALVES)
                            if LOG:
                                written = written + (gradient - gl.exp2(value * LOG2_E) * shift,)
                            else:
                                written = written + (value * (gradient - shift),)
                        else:
                            written = written + (value - top - shift,)
                _write(
                    out, done, written, tile, ends, part, lead, layout,
                    COLUMNS, CHUNK, SURE, WARPS, VECTOR, ALIGN, PEEL, HALVES,
                )  # fmt: skip
        old = kept
        old_bottom = bottom
        old_beyond = beyond
        slot = gl.where(slot + 1 == SLOTS, 0, slot + 1)
    _wait(0)
    _start_next(OVERLAP)
