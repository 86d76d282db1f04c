# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RET505, RUF005 (arguments have no Python types; branches are
# constant)
"""Streams long rows of norms through shared memory: prototype of a forward ring.

As in ``ring``, persistent programs share each row and keep the weights of their columns, but a row
is taken from shared memory once, into registers, where it waits for what the other programs tell;
in shared memory rows are only on their way. With a mean, a pair is the sum and the squares about
the part's own mean; who joins pairs knows of how many columns each is."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .ring import (
    WARP_WORDS,
    _add_pairs,
    _await_assembly,
    _await_previous,
    _commit,
    _element,
    _ends,
    _fetch,
    _fetch_tile,
    _has_column,
    _join,
    _lanes,
    _layout,
    _load,
    _load_weights,
    _may_end,
    _memory,
    _only_columns,
    _peek,
    _sources,
    _start_next,
    _told_at,
    _wait,
    _weight,
    _words,
    _words_operands,
    _write,
)


@gluon.jit
def _add(a, b):
    return a + b


@gluon.constexpr_function
def _keep_counts_assembly():
    return "st.shared.v2.f32 [$3], {$1, $2}; // $0"


@gluon.jit
def _barrier():
    gl.inline_asm_elementwise("bar.sync 0; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1)


@gluon.constexpr_function
def _tell_assembly(warps, mean):
    """Keep a warp's two sums ($1, $2) at $3 in shared memory; have the last warp of the program to
    do so, by the counter at $5, join those of all warps, from $4 on, and tell them at $6. ``mean``:
    at $7 are counts of columns and their inverses, $8 is that of the program."""
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
        if mean:
            lines += [
                *(
                    f"ld.shared.v4.f32 {{n{n}, r{n}, n{n + 1}, r{n + 1}}}, [$7 + {8 * n}];"
                    for n in range(0, warps, 2)
                ),
                "add.f32 sum, a0, a1;",
                *(f"add.f32 sum, sum, a{n};" for n in range(2, warps)),
                "mul.f32 mean, sum, $8;",
                "neg.f32 mean, mean;",
                "mov.f32 total, 0f00000000;",
            ]
            for n in range(warps):
                lines += [
                    f"fma.rn.f32 a{n}, a{n}, r{n}, mean;",
                    f"mul.f32 r{n}, a{n}, n{n};",
                    f"add.f32 total, total, b{n};",
                    f"fma.rn.f32 total, a{n}, r{n}, total;",
                ]
            lines.append("mov.b64 word, {total, sum};")
        else:
            lines += [
                *(f"add.f32 {each}0, {each}0, {each}{n};" for n in range(1, warps) for each in "ab"),
                "mov.b64 word, {b0, a0};",
            ]
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred other;",
            ".reg .b32 old;",
            f".reg .f32 a<{warps}>, b<{warps}>, n<{warps}>, r<{warps}>, sum, mean, total;",
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
    words, row, round, part, first, second, scratch, counts, inverse, layout: gl.constexpr,
    APART: gl.constexpr, WARPS: gl.constexpr, MEAN: gl.constexpr,
):  # fmt: skip
    sums = scratch + 32 + (round & 3) * (8 * WARPS)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))
    to = (words + row.to(gl.int64) * APART + part).to(gl.int64)
    gl.inline_asm_elementwise(
        _tell_assembly(WARPS, MEAN), "=r,r,r,r,r,r,l,r,r",
        [first, second, sums + warp * 8, sums, scratch + (round & 3) * 4, to, counts, inverse],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _columns_of_parts(lane, lead, PARTS: gl.constexpr, CHUNK: gl.constexpr, COLUMNS: gl.constexpr):
    """Return how many columns the programs have whose words each lane looks for."""
    found = ()
    for n in gl.static_range((PARTS + 31) // 32):
        which = lane + 32 * n
        most = gl.minimum(gl.maximum(lead + COLUMNS - which * CHUNK, 0), CHUNK)
        found = found + ((most - gl.where(which == 0, lead, 0)).to(gl.float32),)
    return found


@gluon.jit
def _await(told, seen, columns, PARTS: gl.constexpr, COLUMNS: gl.constexpr, MEAN: gl.constexpr):
    """Return a row's two sums; with a mean, the second about it."""
    EACH: gl.constexpr = (PARTS + 31) // 32
    found = gl.inline_asm_elementwise(
        _await_assembly(EACH), _words_operands(EACH, 1), seen + (told,),
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip
    first = (found[0] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
    second = found[0].to(gl.int32).to(gl.float32, bitcast=True)
    firsts = (first,)
    for n in gl.static_range(1, EACH):
        one = (found[n] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
        firsts = firsts + (one,)
        first += one
        second += found[n].to(gl.int32).to(gl.float32, bitcast=True)
    if MEAN:
        total = gl.reduce(first, 1, _add)
        middle = (total / COLUMNS)[:, None]
        for n in gl.static_range(EACH):
            count = columns[n]
            off = firsts[n] / gl.maximum(count, 1.0) - middle
            second = gl.fma(off * count, off, second)
        return total, gl.reduce(second, 1, _add)
    else:
        return gl.reduce((first, second), 1, _add_pairs)


@gluon.constexpr_function
def _lacks(tile, lanes, sure, peel):
    """Return whether some program may have no column in a lane of this tile."""
    return (peel and tile == 0) or (tile + 1) * lanes > sure


@gluon.jit
def _own(
    value, other, half: gl.constexpr, tile: gl.constexpr, left, ends, layout: gl.constexpr,
    SURE: gl.constexpr, WARPS: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    """Return ``other`` in place of what is no column of the row."""
    if PEEL and _may_end(tile, WARPS * WARP_WORDS * HALVES, SURE, ALIGN):
        keep = ends[tile][1]
        if HALVES == 2:
            keep = keep & (0xFFFF if half == 0 else -0x1_0000)
        return gl.where(keep != 0, value, other)
    else:
        at = (_words(tile, layout, WARPS) >> 2) * 16
        return gl.where(at < left, value, other)


@gluon.jit(do_not_specialize=["rows"])
def forward_ring(
    x,
    residual,
    weight,
    bias,
    y,
    total,
    mean,
    rstd,
    words,
    rows,
    eps,
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
    RESIDUAL: gl.constexpr,
    MEAN: gl.constexpr,
    APART: gl.constexpr,
    SCRATCH: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    KIND: gl.constexpr = x.dtype.element_ty
    TILE: gl.constexpr = WARPS * WARP_WORDS * HALVES
    SURE: gl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    layout: gl.constexpr = _layout(WARPS)
    group = FIRST + gl.program_id(0) // PARTS
    part = gl.program_id(0) % PARTS
    lead = group % SPACING * STRIDE % ALIGN if PEEL else 0
    tensors = (x, residual) if RESIDUAL else (x,)
    SLOT: gl.constexpr = (1 + RESIDUAL) * TILES * WARPS * WARP_WORDS * 4
    base, scratch = _memory(SLOTS * SLOT, SCRATCH, WARPS)
    memory = base + (_words(0, layout, WARPS) >> 2) * 16
    end = (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    left = gl.minimum(end - part * CHUNK, CHUNK) * (4 // HALVES)
    for slot in gl.static_range(SLOTS):
        _fetch(
            memory + slot * SLOT, tensors, group + slot * GROUPS, rows, part, left, layout, TILES,
            STRIDE, CHUNK, SURE, WARPS, ALIGN, HALVES,
        )  # fmt: skip
    WIDE: gl.constexpr = HALVES == 1
    weights = _load_weights(weight, part, lead, layout, COLUMNS, CHUNK, TILES, WARPS, HALVES, WIDE)
    biases = ()
    if MEAN:
        biases = _load_weights(
            bias, part, lead, layout, COLUMNS, CHUNK, TILES, WARPS, HALVES, WIDE
        )
    ends = ()
    if PEEL:
        ends = _ends(part, lead, layout, COLUMNS, CHUNK, SURE, TILES, WARPS, VECTOR, ALIGN, HALVES)
    lane = _lanes(WARPS)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))
    columns = ()
    counts = scratch + 32 + 32 * WARPS
    inverse = 0.0
    own_inverse = warp.to(gl.float32)
    if MEAN:
        columns = _columns_of_parts(lane, lead, PARTS, CHUNK, COLUMNS)
        own = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        for tile in gl.static_range(TILES):
            for half in gl.static_range(HALVES):
                local = _words(tile, layout, WARPS) * HALVES + half
                own += gl.where(_has_column(part, lead, local, COLUMNS, CHUNK), 1.0, 0.0)
        own = gl.reduce(own, 1, _add)
        own_inverse = gl.where(own > 0, 1.0 / gl.maximum(own, 1.0), 0.0)
        gl.inline_asm_elementwise(
            _keep_counts_assembly(), "=r,r,r,r", [own, own_inverse, counts + warp * 8],
            dtype=gl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        _barrier()
        mine = gl.minimum(gl.maximum(lead + COLUMNS - part * CHUNK, 0), CHUNK)
        mine -= gl.where(part == 0, lead, 0)
        inverse = 1.0 / gl.maximum(mine, 1).to(gl.float32)
    _await_previous(OVERLAP)
    slot = 0
    count = gl.maximum((rows - group + GROUPS - 1) // GROUPS, 0)
    old = ()
    for _ in gl.static_range(TILES):
        zeros = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        if HALVES == 2:
            zeros = zeros.to(gl.int32)
        old = old + (zeros,)
    for round in range(count + 1):
        row = group + round * GROUPS
        done = row - GROUPS
        told = _told_at(words, done, lane, APART)
        seen = _peek(told, PARTS)
        _wait(SLOTS - 1)
        here = memory + slot * SLOT
        coming = row + SLOTS * GROUPS
        sources = _sources(
            tensors, coming, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES
        )
        kept = ()
        for tile in gl.static_range(TILES):
            one_tile = _load(here, tile, WARPS, HALVES)
            if RESIDUAL:
                two_tile = _load(here, TILES + tile, WARPS, HALVES)
                added = ()
                for half in gl.static_range(HALVES):
                    added = added + (
                        _element(one_tile, half, KIND, HALVES)
                        + _element(two_tile, half, KIND, HALVES),
                    )
                one_tile = _join(added, KIND, HALVES)
                if round < count:
                    _write(
                        total, row, added, tile, ends, part, lead, layout,
                        COLUMNS, CHUNK, SURE, WARPS, VECTOR, ALIGN, PEEL, HALVES,
                    )  # fmt: skip
            if PEEL and _may_end(tile, TILE, SURE, ALIGN):
                one_tile = _only_columns(one_tile, ends[tile][1], HALVES)
            kept = kept + (one_tile,)
        for tile in gl.static_range(TILES):
            _fetch_tile(
                here, sources, tile, coming < rows, left, layout, TILES, SURE, WARPS, HALVES
            )
        _commit()
        one = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        for tile in gl.static_range(TILES):
            for half in gl.static_range(HALVES):
                value = _element(kept[tile], half, KIND, HALVES)
                if MEAN:
                    one += value
                else:
                    one = gl.fma(value, value, one)
        one = gl.reduce(one, 1, _add)
        two = one * 0.0
        if MEAN:
            middle = (one * own_inverse)[:, None]
            squares = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
            for tile in gl.static_range(TILES):
                for half in gl.static_range(HALVES):
                    value = _element(kept[tile], half, KIND, HALVES)
                    off = value - middle
                    if _lacks(tile, TILE, SURE, PEEL):
                        off = _own(
                            off, 0.0, half, tile, left, ends, layout, SURE, WARPS, ALIGN, PEEL,
                            HALVES,
                        )  # fmt: skip
                    squares = gl.fma(off, off, squares)
            two = gl.reduce(squares, 1, _add)
        if round < count:
            _tell(
                words, row, round, part, one, two, scratch, counts, inverse, layout, APART, WARPS,
                MEAN,
            )  # fmt: skip
        if done >= 0:
            first, second = _await(told, seen, columns, PARTS, COLUMNS, MEAN)
            first = gl.convert_layout(first, gl.SliceLayout(1, layout)) / COLUMNS
            second = gl.convert_layout(second, gl.SliceLayout(1, layout)) / COLUMNS
            if MEAN:
                scale = gl.rsqrt(second + eps)
                once = (warp == 0) & (part == 0)
                gl.store(mean + (done + warp * 0), first, mask=once)
                gl.store(rstd + (done + warp * 0), scale, mask=once)
                shift = (-first * scale)[:, None]
            else:
                scale = gl.rsqrt(first + eps)
            middle = first[:, None]
            scale = scale[:, None]
            for tile in gl.static_range(TILES):
                written = ()
                for half in gl.static_range(HALVES):
                    value = _element(old[tile], half, KIND, HALVES)
                    w = _weight(weights, tile, half, KIND, HALVES, WIDE)
                    if MEAN:
                        b = _weight(biases, tile, half, KIND, HALVES, WIDE)
                        if HALVES == 2:
                            normal = gl.fma(value, scale, shift)
                        else:
                            normal = (value - middle) * scale
                        written = written + (gl.fma(normal, w, b),)
                    else:
                        written = written + (value * scale * w,)
                _write(
                    y, done, written, tile, ends, part, lead, layout,
                    COLUMNS, CHUNK, SURE, WARPS, VECTOR, ALIGN, PEEL, HALVES,
                )  # fmt: skip
        old = kept
        slot = gl.where(slot + 1 == SLOTS, 0, slot + 1)
    _wait(0)
    _start_next(OVERLAP)
