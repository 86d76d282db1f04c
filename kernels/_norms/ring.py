# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RET505, RUF005 (arguments have no Python types; branches are
# constant)
"""Streams long rows through shared memory: norms and their gradients, in Gluon, which Triton's own
pipeliner cannot do (a row has to stay there until its sums are known). Nothing else here uses
Gluon, which is experimental: seen with triton 3.6 and 3.7.

``PARTS`` persistent programs share each row, and ``GROUPS`` groups of them take rows in turn: those
from ``FIRST`` on in this launch. A program owns the same ``CHUNK`` lanes of all its rows (lanes,
``lead``, ``ALIGN`` and ``PEEL`` as in ``lanes``). It keeps ``SLOTS`` rows in shared memory. A round
tells the sums of a row that has arrived, in one word (see ``exchange``), finishes the one
``BEHIND`` rows before it, whose sums the other programs have told meanwhile, and starts to copy
another one over it, tile by tile: nobody waits for memory or for another program, and registers
hold only the weights and, of a gradient, the columns' sums.

The warps of a program wait for each other no more than programs do. A thread reads of a row what
it copied there itself, and the last warp that has a row's sums adds up and tells those of all. A
compiler that sees shared memory being written and read puts barriers between, so both are done in
assembly.

A thread's words are ``HALVES`` elements of half precision, or one of float32; four of them are 16
bytes, and a tile is four for each thread. All programs have to be resident at once: the launch is
cooperative, so that it starts with all of them or not at all.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

WARP_WORDS = gl.constexpr(128)
"""Words of a tile that one warp holds."""
_CONVERT_BF16 = gl.constexpr("cvt.rn.bf16x2.f32 $0, $1, $2;")
_CONVERT_FP16 = gl.constexpr("cvt.rn.f16x2.f32 $0, $1, $2;")
_STORE_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("l",) * 4 + ("r",) * 12))
_LOAD_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("r",) * 4))
_COPY_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("r",) * 4 + ("l",) * 4 + ("r",) * 4))


@gluon.constexpr_function
def _store_assembly(halves):
    """Store the elements of a vector (words $12 to $15 at word $8 of $4) whose bits are set in
    $16."""
    lines = [
        "{",
        ".reg .pred none, some;",
        ".reg .b64 at;",
        ".reg .b32 bit;",
        ".reg .b16 first, second;",
        "setp.eq.b32 none, $16, 0;",
        "@none bra STORED;",
        "mad.wide.s32 at, $8, 4, $4;",
    ]
    for word in range(4):
        elements = [f"${12 + word}"]
        if halves == 2:
            lines.append(f"mov.b32 {{first, second}}, ${12 + word};")
            elements = ["first", "second"]
        for half, element in enumerate(elements):
            lines += [
                f"and.b32 bit, $16, {1 << word * halves + half};",
                "setp.ne.b32 some, bit, 0;",
                f"@some st.global.b{32 // halves} [at + {4 * word + 2 * half}], {element};",
            ]
    return "\n".join([*lines, "STORED:", "}"])


@gluon.jit
def _start_next(OVERLAP: gl.constexpr):
    if OVERLAP:
        gl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; // $0",
            "=r", [], dtype=gl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@gluon.jit
def _await_previous(OVERLAP: gl.constexpr):
    if OVERLAP:
        gl.inline_asm_elementwise(
            "griddepcontrol.wait; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
        )


@gluon.jit
def _opaque(words):
    """Return the words in a way that keeps what is made of them from being kept for all rows."""
    return gl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [words], dtype=words.dtype, is_pure=False, pack=1
    )


@gluon.jit
def _element(words, half: gl.constexpr, KIND: gl.constexpr, HALVES: gl.constexpr):
    """Return the first or second element of words, as float32."""
    if HALVES == 1:
        return words.to(gl.float32)
    elif gl.bfloat16 == KIND:
        bits = words << 16 if half == 0 else words & -0x1_0000
        return bits.to(gl.float32, bitcast=True)
    else:
        bits = words if half == 0 else words >> 16
        return bits.to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)


@gluon.jit
def _join(out, KIND: gl.constexpr, HALVES: gl.constexpr):
    """Return words of a tile's elements, rounded to nearest even."""
    if HALVES == 1:
        return out[0]
    else:
        return gl.inline_asm_elementwise(
            _CONVERT_BF16 if gl.bfloat16 == KIND else _CONVERT_FP16,
            "=r,r,r", [out[1], out[0]], dtype=gl.int32, is_pure=True, pack=1,
        )  # fmt: skip


@gluon.constexpr_function
def _layout(warps):
    """Return the layout of a tile: to each warp a row, to each thread four words in turn."""
    return gl.BlockedLayout([1, 4], [1, 32], [warps, 1], [1, 0])


@gluon.jit
def _words(tile, layout: gl.constexpr, WARPS: gl.constexpr):
    """Return the words of a tile, counted from the program's first one."""
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))[:, None]
    word = gl.arange(0, WARP_WORDS, gl.SliceLayout(0, layout))[None, :]
    return (tile * WARPS + warp) * WARP_WORDS + word


@gluon.jit
def _has_column(part, lead, local, COLUMNS: gl.constexpr, CHUNK: gl.constexpr):
    """Return which of a program's lanes are columns of the row."""
    lane = part * CHUNK + local
    return (local < CHUNK) & (lane >= lead) & (lane < lead + COLUMNS)


@gluon.constexpr_function
def _may_end(tile, lanes, sure, align):
    """Return whether a vector that a row does not fill may lie in this tile of a program. Of the
    last program ``sure`` lanes have columns wherever the row starts; if less than none, the row may
    end in the program before."""
    return tile == 0 or sure < 0 or sure // lanes <= tile <= (sure + align - 1) // lanes


@gluon.jit
def _row_at(tensor, row, STRIDE: gl.constexpr, ALIGN: gl.constexpr, HALVES: gl.constexpr):
    """Return the word of the row's lane 0; that it starts a vector is visible."""
    start = row.to(gl.int64) * STRIDE // ALIGN * (ALIGN // HALVES)
    if HALVES == 2:
        tensor = tensor.to(gl.pointer_type(gl.int32), bitcast=True)
    return tensor + start


@gluon.constexpr_function
def _load_assembly(offset):
    return f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {offset}];"


@gluon.constexpr_function
def _copy_assembly(to, at):
    """Start to copy the vector at $8 to shared memory, or zeros where $12 is 0 instead of 16."""
    return f"cp.async.cg.shared.global [$4 + {to}], [$8 + {at}], 16, $12; // $0, $1, $2, $3"


@gluon.constexpr_function
def _begin_assembly(scratch):
    """Return where shared memory begins, once the counters at ``scratch`` are zero."""
    return "\n".join(
        [
            "{",
            ".reg .pred other;",
            "mov.u32 $0, %tid.x;",
            "setp.ne.u32 other, $0, 0;",
            "mov.u32 $0, 0;",
            f"@!other st.shared.v4.b32 [global_smem + {scratch}], {{$0, $0, $0, $0}};",
            "bar.sync 0;",
            "mov.u32 $0, global_smem;",
            "}",
        ]
    )


@gluon.jit
def _memory(BYTES: gl.constexpr, SCRATCH: gl.constexpr, WARPS: gl.constexpr):
    """Allocate shared memory for rows and ``SCRATCH`` bytes besides, and return where both begin:
    in the latter are four counters of the warps that have told a row's sums, and these sums. As
    the only allocation it begins where all shared memory does; the plan's ``shared_bytes`` tells
    that it is."""
    memory: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    allocated = gl.allocate_shared_memory(gl.int32, [(BYTES + SCRATCH) // 128, 32], memory)
    flat: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    allocated.index(0).store(gl.zeros([32], gl.int32, flat))  # else there would be none
    base = gl.inline_asm_elementwise(
        _begin_assembly(BYTES), "=&r", [], dtype=gl.int32, is_pure=False, pack=1
    )
    return base, base + BYTES


@gluon.jit
def _load(at, which: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr):
    """Return a tile of a slot, counted from that at ``at``."""
    words = gl.inline_asm_elementwise(
        _load_assembly(which * WARPS * WARP_WORDS * 4), _LOAD_OPERANDS, [at],
        dtype=gl.int32, is_pure=False, pack=4,
    )  # fmt: skip
    return words if HALVES == 2 else words.to(gl.float32, bitcast=True)


@gluon.jit
def _commit():
    gl.inline_asm_elementwise(
        "cp.async.commit_group; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.constexpr_function
def _wait_assembly(most):
    return f"cp.async.wait_group {most}; // $0"


@gluon.jit
def _wait(MOST: gl.constexpr):
    """Wait until no more than so many rows of this thread are on their way."""
    gl.inline_asm_elementwise(_wait_assembly(MOST), "=r", [], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def _sources(
    tensors, row, rows, part, layout: gl.constexpr, STRIDE: gl.constexpr, CHUNK: gl.constexpr,
    WARPS: gl.constexpr, ALIGN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return the addresses of each thread's first vector of a row of each tensor."""
    first = gl.where(row < rows, row, 0)
    found = ()
    for which in gl.static_range(len(tensors)):
        at = _row_at(tensors[which], first, STRIDE, ALIGN, HALVES) + part * (CHUNK // HALVES)
        found = found + ((at + (_words(0, layout, WARPS) >> 2 << 2)).to(gl.int64),)
    return found


@gluon.jit
def _fetch_tile(
    to, sources, tile: gl.constexpr, present, left, layout: gl.constexpr, TILES: gl.constexpr,
    SURE: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Start to copy a tile of a row of each tensor into a slot; zeros behind the ``left`` bytes of
    the program's part, and for a row that is not there."""
    TILE: gl.constexpr = WARPS * WARP_WORDS * 4
    at = (_words(tile, layout, WARPS) >> 2) * 16
    inside = present & (at >= 0)
    if (tile + 1) * WARPS * WARP_WORDS * HALVES > SURE:
        inside = inside & (at < left)
    for which in gl.static_range(len(sources)):
        gl.inline_asm_elementwise(
            _copy_assembly((which * TILES + tile) * TILE, tile * TILE), _COPY_OPERANDS,
            [to, sources[which], gl.where(inside, 16, 0)], dtype=gl.int32, is_pure=False, pack=4,
        )  # fmt: skip


@gluon.jit
def _fetch(
    to, tensors, row, rows, part, left, layout: gl.constexpr, TILES: gl.constexpr,
    STRIDE: gl.constexpr, CHUNK: gl.constexpr, SURE: gl.constexpr, WARPS: gl.constexpr,
    ALIGN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Start to copy a row of each tensor into a slot."""
    sources = _sources(tensors, row, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES)
    for tile in gl.static_range(TILES):
        _fetch_tile(to, sources, tile, row < rows, left, layout, TILES, SURE, WARPS, HALVES)
    _commit()


@gluon.jit
def _columns_of(
    tile: gl.constexpr, part, lead, layout: gl.constexpr, COLUMNS: gl.constexpr,
    CHUNK: gl.constexpr, WARPS: gl.constexpr, VECTOR: gl.constexpr,
):  # fmt: skip
    """Return, for the words of a tile, which elements of their vector are columns of the row: one
    bit each."""
    local = (_words(tile, layout, WARPS) >> 2) * VECTOR
    lane = part * CHUNK + local
    before = gl.minimum(gl.maximum(lead - lane, 0), VECTOR)
    until = gl.minimum(gl.maximum(lead + COLUMNS - lane, 0), VECTOR)
    every: gl.constexpr = (1 << VECTOR) - 1
    return gl.where(local < CHUNK, (every >> (VECTOR - until)) & (every << before), 0)


@gluon.jit
def _ends(
    part, lead, layout: gl.constexpr, COLUMNS: gl.constexpr, CHUNK: gl.constexpr,
    SURE: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr, VECTOR: gl.constexpr,
    ALIGN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return, for each tile in which a row may begin or end, what ``_columns_of`` does, and a mask
    of each word's own columns."""
    TILE: gl.constexpr = WARPS * WARP_WORDS * HALVES
    found = ()
    for tile in gl.static_range(TILES):
        if _may_end(tile, TILE, SURE, ALIGN):
            bits = _columns_of(tile, part, lead, layout, COLUMNS, CHUNK, WARPS, VECTOR)
            own = bits >> (_words(tile, layout, WARPS) & 3) * HALVES
            keep = gl.where((own & 1) != 0, 0xFFFF if HALVES == 2 else -1, 0)
            if HALVES == 2:
                keep |= gl.where((own & 2) != 0, -0x1_0000, 0)
            found = found + ((bits, keep),)
        else:
            found = found + ((0, 0),)
    return found


@gluon.jit
def _only_columns(words, keep, HALVES: gl.constexpr):
    """Return zeros in place of a neighbour's elements, which may be anything."""
    return words & keep if HALVES == 2 else gl.where(keep != 0, words, 0.0)


@gluon.jit
def _load_weights(
    weight, part, lead, layout: gl.constexpr, COLUMNS: gl.constexpr, CHUNK: gl.constexpr,
    TILES: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr, WIDE: gl.constexpr,
):  # fmt: skip
    """Return the program's part of the weights as tiles of words; ``WIDE``: as float32, one tile
    for each element of a word, which takes more registers and fewer instructions."""
    tiles = ()
    low = 0
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            local = _words(tile, layout, WARPS) * HALVES + half
            inside = _has_column(part, lead, local, COLUMNS, CHUNK)
            value = gl.load(weight + (part * CHUNK - lead) + local, mask=inside, other=0.0)
            if WIDE:
                tiles = tiles + (value.to(gl.float32),)
            else:
                bits = value.to(gl.int16, bitcast=True).to(gl.int32) & 0xFFFF
                if half == 0:
                    low = bits
                else:
                    tiles = tiles + (low | bits << 16,)
    return tiles


@gluon.jit
def _weight(weights, tile, half, KIND: gl.constexpr, HALVES: gl.constexpr, WIDE: gl.constexpr):
    """Return a tile's weights as float32."""
    if WIDE:
        return weights[tile * HALVES + half]
    else:
        return _element(_opaque(weights[tile]), half, KIND, HALVES)


@gluon.jit
def _write(
    tensor, row, out, tile: gl.constexpr, ends, part, lead, layout: gl.constexpr,
    COLUMNS: gl.constexpr, CHUNK: gl.constexpr, SURE: gl.constexpr, WARPS: gl.constexpr,
    VECTOR: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Write a tile's columns: whole vectors of 16 bytes, and single elements of those that are
    shared with the row's neighbours."""
    KIND: gl.constexpr = tensor.dtype.element_ty
    TILE: gl.constexpr = WARPS * WARP_WORDS * HALVES
    to = _row_at(tensor, row, COLUMNS, ALIGN, HALVES) + part * (CHUNK // HALVES)
    words = _join(out, KIND, HALVES)
    word = _words(tile, layout, WARPS)
    inside = word >= 0
    # Compared with multiples of a vector, so that the compiler sees one mask for each.
    if PEEL and tile == 0:
        begin = (lead + VECTOR - 1) // VECTOR * VECTOR
        inside = inside & (word >= (begin - part * CHUNK) // HALVES)
    if (tile + 1) * TILE > SURE:
        stop = (lead + COLUMNS) // VECTOR * VECTOR
        left = gl.minimum(stop - part * CHUNK, CHUNK)
        inside = inside & (word < left // HALVES)
    gl.store(to + word, words, mask=inside)
    if PEEL and _may_end(tile, TILE, SURE, ALIGN):
        bits = gl.where(inside, 0, ends[tile][0])
        gl.inline_asm_elementwise(
            _store_assembly(HALVES), _STORE_OPERANDS,
            [to.to(gl.int64), word, words.to(gl.int32, bitcast=True), bits],
            dtype=gl.int32, is_pure=False, pack=4,
        )  # fmt: skip


@gluon.jit
def _keep(
    partial, sums, part, lead, layout: gl.constexpr, COLUMNS: gl.constexpr, CHUNK: gl.constexpr,
    TILES: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Write a program's sums of its columns."""
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            local = _words(tile, layout, WARPS) * HALVES + half
            inside = _has_column(part, lead, local, COLUMNS, CHUNK)
            to = partial + (part * CHUNK - lead) + local
            gl.store(to, sums[tile * HALVES + half], mask=inside)


@gluon.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@gluon.constexpr_function
def _tell_assembly(warps):
    """Keep a warp's two sums ($1, $2) at $3 in shared memory; have the last warp of the program to
    do so, by the counter at $5, add up those of all warps, from $4 on, and tell them at $6."""
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
            *(f"add.f32 {each}0, {each}0, {each}{n};" for n in range(1, warps) for each in "ab"),
            "mov.b64 word, {b0, a0};",
        ]
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred other;",
            ".reg .b32 old;",
            f".reg .f32 a<{warps}>, b<{warps}>;",
            ".reg .b64 word;",
            "mov.u32 old, %laneid;",
            "setp.ne.u32 other, old, 0;",
            "@other bra TOLD;",
            *lines,
            # A plain store is seen later: 65 percent of a copy instead of 76 (544 × 247035).
            "atom.relaxed.gpu.global.exch.b64 word, [$6], word;",
            "TOLD:",
            "}",
        ]
    )


@gluon.jit
def _tell(
    words, row, round, part, first, second, scratch, layout: gl.constexpr,
    APART: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """Publish this program's two sums of a row, as one word; ``first`` and ``second`` are those of
    each warp. The last warp to come does it, so that none waits for another. As they are at most
    ``BEHIND`` rounds apart, which is two, there are places for four rows."""
    sums = scratch + 32 + (round & 3) * (8 * WARPS)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))
    to = (words + row.to(gl.int64) * APART + part).to(gl.int64)
    gl.inline_asm_elementwise(
        _tell_assembly(WARPS), "=r,r,r,r,r,r,l",
        [first, second, sums + warp * 8, sums, scratch + (round & 3) * 4, to],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.constexpr_function
def _peek_assembly(parts, count):
    """Load a row's words, ``count`` in each lane: that of a program and of every 32nd further one,
    so that a warp's loads are of one line; 0 where there is no program."""
    lines = ["{", ".reg .pred there;", ".reg .b32 lane;", "mov.u32 lane, %laneid;"]
    for n in range(count):
        lines += [
            f"mov.b64 ${n}, 0;",
            f"setp.lt.u32 there, lane, {parts - 32 * n};",
            f"@there ld.relaxed.gpu.global.b64 ${n}, [${count} + {256 * n}];",
        ]
    return "\n".join([*lines, "}"])


@gluon.constexpr_function
def _await_assembly(count):
    """Load those of ``count`` words that are missing, at the same time, until all are told. After a
    second they are taken as they are, two NaN: a row's sums may be that, if they are of such
    numbers."""
    every = range(count)
    return "\n".join(
        [
            "{",
            ".reg .pred any, over, " + ", ".join(f"p{n}" for n in every) + ";",
            ".reg .b32 polls;",
            "mov.b32 polls, 0;",
            *(f"mov.b64 ${n}, ${count + n};" for n in every),
            "AGAIN:",
            *(f"setp.eq.s64 p{n}, ${n}, -1;" for n in every),
            "mov.pred any, p0;",
            *(f"or.pred any, any, p{n};" for n in every[1:]),
            "@!any bra SEEN;",
            "setp.gt.u32 over, polls, 1048576;",
            "@over bra SEEN;",
            "add.u32 polls, polls, 1;",
            *(f"@p{n} ld.relaxed.gpu.global.b64 ${n}, [${2 * count} + {256 * n}];" for n in every),
            "bra AGAIN;",
            "SEEN:",
            "}",
        ]
    )


@gluon.constexpr_function
def _words_operands(count, given):
    return ",".join(("=&l",) * count + ("l",) * (given * count + 1))


@gluon.jit
def _told_at(words, row, lane, APART: gl.constexpr):
    """Return where each lane looks for what the programs of a row tell."""
    return (words + gl.maximum(row, 0).to(gl.int64) * APART + lane).to(gl.int64)


@gluon.jit
def _peek(told, PARTS: gl.constexpr):
    """Return what the programs of a row have told by now."""
    EACH: gl.constexpr = (PARTS + 31) // 32
    return gl.inline_asm_elementwise(
        _peek_assembly(PARTS, EACH), _words_operands(EACH, 0), [told],
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _await(told, seen, PARTS: gl.constexpr):
    """Return the two sums of a row from what all of its programs have told, to each warp: each
    looks for itself, so that none waits for another."""
    EACH: gl.constexpr = (PARTS + 31) // 32
    found = gl.inline_asm_elementwise(
        _await_assembly(EACH), _words_operands(EACH, 1), seen + (told,),
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip
    first = (found[0] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
    second = found[0].to(gl.int32).to(gl.float32, bitcast=True)
    for n in gl.static_range(1, EACH):
        first += (found[n] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
        second += found[n].to(gl.int32).to(gl.float32, bitcast=True)
    return gl.reduce((first, second), 1, _add_pairs)


@gluon.jit
def _lanes(WARPS: gl.constexpr):
    """Return the number of each lane of each warp."""
    each: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [WARPS, 1], [1, 0])
    none = gl.zeros([WARPS, 1], gl.int32, each)
    return gl.arange(0, 32, gl.SliceLayout(0, each))[None, :] + none


@gluon.jit
def _column(each, layout: gl.constexpr):
    """Return a number of each warp as a column of a tile."""
    return gl.convert_layout(each, gl.SliceLayout(1, layout))[:, None]


@gluon.jit(do_not_specialize=["rows"])
def gradient_ring(
    x,
    dy,
    dsum,
    weight,
    mean,
    rstd,
    dx,
    partial,
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
    BEHIND: gl.constexpr,
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
    """Compute all gradients in one pass, the weight's as one partial sum for each group. The
    formulas are those of ``backward``."""
    KIND: gl.constexpr = x.dtype.element_ty
    SURE: gl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    layout: gl.constexpr = _layout(WARPS)
    group = FIRST + gl.program_id(0) // PARTS
    part = gl.program_id(0) % PARTS
    lead = group % SPACING * STRIDE % ALIGN if PEEL else 0
    # Of a mean, biases take as many registers as sums.
    WIDE: gl.constexpr = HALVES == 1 or not MEAN
    tensors = (x, dy, dsum) if RESIDUAL else (x, dy)
    SLOT: gl.constexpr = (2 + RESIDUAL) * TILES * WARPS * WARP_WORDS * 4
    base, scratch = _memory(SLOTS * SLOT, SCRATCH, WARPS)
    memory = base + (_words(0, layout, WARPS) >> 2) * 16
    end = (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    left = gl.minimum(end - part * CHUNK, CHUNK) * (4 // HALVES)
    for slot in gl.static_range(SLOTS - BEHIND):
        _fetch(
            memory + slot * SLOT, tensors, group + slot * GROUPS, rows, part, left, layout, TILES,
            STRIDE, CHUNK, SURE, WARPS, ALIGN, HALVES,
        )  # fmt: skip
    weights = _load_weights(weight, part, lead, layout, COLUMNS, CHUNK, TILES, WARPS, HALVES, WIDE)
    ends = ()
    if PEEL:
        ends = _ends(part, lead, layout, COLUMNS, CHUNK, SURE, TILES, WARPS, VECTOR, ALIGN, HALVES)
    sums = ()
    for _ in gl.static_range(TILES * HALVES):
        sums = sums + (gl.zeros([WARPS, WARP_WORDS], gl.float32, layout),)
    biases = sums if MEAN else ()
    lane = _lanes(WARPS)
    _await_previous(OVERLAP)
    slot = 0
    count = gl.maximum((rows - group + GROUPS - 1) // GROUPS, 0)
    if MEAN:
        mu = gl.load(mean + group, mask=group < rows, other=0.0)
        done_mu = mu * 0.0
        sigma = mu * 0.0
    for round in range(count + BEHIND):
        row = group + round * GROUPS
        done = row - BEHIND * GROUPS
        if MEAN:  # of the next round: they may come from far away
            after = done + GROUPS
            is_there = (after >= 0) & (after < rows)
            next_mu = gl.load(mean + row + GROUPS, mask=row + GROUPS < rows, other=0.0)
            next_done_mu = gl.load(mean + after, mask=is_there, other=0.0)
            next_sigma = gl.load(rstd + after, mask=is_there, other=0.0)
        told = _told_at(words, done, lane, APART)
        seen = _peek(told, PARTS)
        _wait(SLOTS - BEHIND - 1)
        here = memory + slot * SLOT
        before = memory + gl.where(slot >= BEHIND, slot - BEHIND, slot - BEHIND + SLOTS) * SLOT
        coming = row + (SLOTS - BEHIND) * GROUPS
        one = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        two = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
        for tile in gl.static_range(TILES):
            x_tile = _load(here, tile, WARPS, HALVES)
            dy_tile = _load(here, TILES + tile, WARPS, HALVES)
            if PEEL and _may_end(tile, WARPS * WARP_WORDS * HALVES, SURE, ALIGN):
                x_tile = _only_columns(x_tile, ends[tile][1], HALVES)
                dy_tile = _only_columns(dy_tile, ends[tile][1], HALVES)
            for half in gl.static_range(HALVES):
                value = _element(x_tile, half, KIND, HALVES)
                w = _weight(weights, tile, half, KIND, HALVES, WIDE)
                g = _element(dy_tile, half, KIND, HALVES) * w
                if MEAN:
                    one += g
                    two = gl.fma(g, value if HALVES == 2 else value - mu, two)
                else:
                    one = gl.fma(value, value, one)
                    two = gl.fma(g, value, two)
        one, two = gl.reduce((one, two), 1, _add_pairs)
        if round < count:
            _tell(words, row, round, part, one, two, scratch, layout, APART, WARPS)
        if done >= 0:
            first, second = _await(told, seen, PARTS)
            first = _column(first, layout) / COLUMNS
            second = _column(second, layout) / COLUMNS
            if MEAN and HALVES == 2:  # the input is rounded more than this product
                second -= first * done_mu
            if MEAN:
                scale = sigma
                shift = -first * sigma
                slope = -(second * scale) * scale
            else:
                scale = gl.rsqrt(first + eps)
                slope = -(second * scale) * scale * scale
            sources = _sources(
                tensors, coming, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES
            )
            new_sums = ()
            new_biases = ()
            for tile in gl.static_range(TILES):
                x_tile = _load(before, tile, WARPS, HALVES)
                dy_tile = _load(before, TILES + tile, WARPS, HALVES)
                if RESIDUAL:
                    more = _load(before, 2 * TILES + tile, WARPS, HALVES)
                out = ()
                for half in gl.static_range(HALVES):
                    value = _element(x_tile, half, KIND, HALVES)
                    gradient = _element(dy_tile, half, KIND, HALVES)
                    w = _weight(weights, tile, half, KIND, HALVES, WIDE)
                    last = sums[tile * HALVES + half]
                    if MEAN:
                        if HALVES == 2:
                            normal = gl.fma(value, scale, -done_mu * scale)
                        else:
                            normal = (value - done_mu) * scale
                        new_sums = new_sums + (gl.fma(gradient, normal, last),)
                        new_biases = new_biases + (biases[tile * HALVES + half] + gradient,)
                        g = gradient * w
                        found = gl.fma(normal, slope, gl.fma(g, scale, shift))
                    else:
                        scaled = gradient * scale
                        new_sums = new_sums + (gl.fma(scaled, value, last),)
                        g = scaled * w
                        found = gl.fma(value, slope, g)
                    if RESIDUAL:
                        found += _element(more, half, KIND, HALVES)
                    out = out + (found,)
                _write(
                    dx, done, out, tile, ends, part, lead, layout,
                    COLUMNS, CHUNK, SURE, WARPS, VECTOR, ALIGN, PEEL, HALVES,
                )  # fmt: skip
                _fetch_tile(
                    before, sources, tile, coming < rows, left, layout, TILES, SURE, WARPS, HALVES
                )
            sums = new_sums
            biases = new_biases
            _commit()
        else:
            _fetch(
                before, tensors, coming, rows, part, left, layout, TILES,
                STRIDE, CHUNK, SURE, WARPS, ALIGN, HALVES,
            )  # fmt: skip
        slot = gl.where(slot + 1 == SLOTS, 0, slot + 1)
        if MEAN:
            mu = next_mu
            done_mu = next_done_mu
            sigma = next_sigma
    _wait(0)
    _start_next(OVERLAP)
    to = partial + group.to(gl.int64) * COLUMNS
    _keep(to, sums, part, lead, layout, COLUMNS, CHUNK, TILES, WARPS, HALVES)
    if MEAN:
        to += GROUPS * COLUMNS
        _keep(to, biases, part, lead, layout, COLUMNS, CHUNK, TILES, WARPS, HALVES)
