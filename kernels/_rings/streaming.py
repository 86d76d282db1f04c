# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005 (arguments have no Python types; branches are constant)
"""Lets persistent programs stream rows through shared memory, in Gluon, and tell each other what
they find, without barriers: the pieces of which rings are made.

A thread's words are ``HALVES`` elements of half precision, or one of float32; four of them are 16
bytes, and a tile is four for each thread. ``PARTS`` programs share each row, of which each owns the
same ``CHUNK`` lanes of all its rows; lanes are counted from the last multiple of ``ALIGN`` elements
before the row, ``lead`` before its first column, and ``SURE`` of the last program's have columns
wherever the row starts.

The warps of a program wait for each other no more than programs do. A thread reads of a row what
it copied there itself, and the last warp that has a row's pair joins and tells those of all. A
compiler that sees shared memory being written and read puts barriers between, so both are done in
assembly.

Gluon is experimental: seen with triton 3.6 and 3.7.
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
_PUT_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("r",) * 8))
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
def start_next(OVERLAP: gl.constexpr):
    if OVERLAP:
        gl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; // $0",
            "=r", [], dtype=gl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@gluon.jit
def await_previous(OVERLAP: gl.constexpr):
    if OVERLAP:
        gl.inline_asm_elementwise(
            "griddepcontrol.wait; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
        )


@gluon.jit
def opaque(words):
    """Return the words in a way that keeps what is made of them from being kept for all rows."""
    return gl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [words], dtype=words.dtype, is_pure=False, pack=1
    )


@gluon.jit
def element(words, half: gl.constexpr, KIND: gl.constexpr, HALVES: gl.constexpr):
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
def join(out, KIND: gl.constexpr, HALVES: gl.constexpr):
    """Return words of a tile's elements, rounded to nearest even."""
    if HALVES == 1:
        return out[0]
    else:
        return gl.inline_asm_elementwise(
            _CONVERT_BF16 if gl.bfloat16 == KIND else _CONVERT_FP16,
            "=r,r,r", [out[1], out[0]], dtype=gl.int32, is_pure=True, pack=1,
        )  # fmt: skip


@gluon.jit
def begin_of_share(which, rows, SHARES: gl.constexpr):
    """Return where a share of the rows begins; of equal ones, as far as that is possible, the first
    have a row more."""
    return which * (rows // SHARES) + gl.minimum(which, rows % SHARES)


@gluon.jit
def share_at(place, rows, SHARES: gl.constexpr):
    """Return which of such shares a place belongs to; behind all of them, the last that has a
    row."""
    each = rows // SHARES
    longer = rows % SHARES
    border = longer * (each + 1)
    later = longer + (place - border) // gl.maximum(each, 1)
    found = gl.where(place < border, place // (each + 1), later)
    return gl.minimum(found, gl.minimum(rows, SHARES) - 1)


@gluon.jit
def kinds_of_group(
    group, rows, GROUPS: gl.constexpr, SPACING: gl.constexpr, MIXED: gl.constexpr
):  # fmt: skip
    """Return the first kind of rows that a group takes, and how many. Kinds are ordered, and each
    group has an equal share of that order; its last kind is the first of the next group, of which
    it has no row where they part between kinds."""
    if MIXED:
        kind = share_at(begin_of_share(group, rows, GROUPS), rows, SPACING)
        last = share_at(begin_of_share(group + 1, rows, GROUPS), rows, SPACING)
        return kind, last - kind + 1
    else:
        return group % SPACING, 1


@gluon.jit
def rows_of_kind(
    group, kind, rows, GROUPS: gl.constexpr, SPACING: gl.constexpr, MIXED: gl.constexpr
):  # fmt: skip
    """Return the first row of a kind that a group takes, which row none of them reaches, and how
    many there are."""
    if MIXED:
        start = begin_of_share(kind, rows, SPACING)
        begin = gl.maximum(start, begin_of_share(group, rows, GROUPS))
        stop = begin_of_share(group + 1, rows, GROUPS)
        count = gl.minimum(stop, begin_of_share(kind + 1, rows, SPACING)) - begin
        first = kind + (begin - start) * SPACING
        return first, first + count * SPACING, count
    else:
        return group, rows, gl.maximum((rows - group + GROUPS - 1) // GROUPS, 0)


@gluon.constexpr_function
def tile_layout(warps):
    """Return the layout of a tile: to each warp a row, to each thread four words in turn."""
    return gl.BlockedLayout([1, 4], [1, 32], [warps, 1], [1, 0])


@gluon.jit
def words_of(tile, layout: gl.constexpr, WARPS: gl.constexpr):
    """Return the words of a tile, counted from the program's first one."""
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))[:, None]
    word = gl.arange(0, WARP_WORDS, gl.SliceLayout(0, layout))[None, :]
    return (tile * WARPS + warp) * WARP_WORDS + word


@gluon.jit
def has_column(part, lead, local, COLUMNS: gl.constexpr, CHUNK: gl.constexpr):
    """Return which of a program's lanes are columns of the row."""
    lane = part * CHUNK + local
    return (local < CHUNK) & (lane >= lead) & (lane < lead + COLUMNS)


@gluon.constexpr_function
def may_end(tile, lanes, sure, align):
    """Return whether a vector that a row does not fill may lie in this tile of a program. Of the
    last program ``sure`` lanes have columns wherever the row starts; if less than none, the row may
    end in the program before."""
    return tile == 0 or sure < 0 or sure // lanes <= tile <= (sure + align - 1) // lanes


@gluon.jit
def row_at(tensor, row, STRIDE: gl.constexpr, ALIGN: gl.constexpr, HALVES: gl.constexpr):
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
def allocate(BYTES: gl.constexpr, SCRATCH: gl.constexpr, WARPS: gl.constexpr):
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
def load(at, which: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr):
    """Return a tile of a slot, counted from that at ``at``."""
    words = gl.inline_asm_elementwise(
        _load_assembly(which * WARPS * WARP_WORDS * 4), _LOAD_OPERANDS, [at],
        dtype=gl.int32, is_pure=False, pack=4,
    )  # fmt: skip
    return words if HALVES == 2 else words.to(gl.float32, bitcast=True)


@gluon.constexpr_function
def _put_assembly(offset):
    return f"st.shared.v4.b32 [$4 + {offset}], {{$8, $9, $10, $11}}; // $0, $1, $2, $3"


@gluon.jit
def put(at, words, which: gl.constexpr, WARPS: gl.constexpr):
    """Replace a tile of a slot, counted from that at ``at``."""
    gl.inline_asm_elementwise(
        _put_assembly(which * WARPS * WARP_WORDS * 4), _PUT_OPERANDS,
        [at, words.to(gl.int32, bitcast=True)], dtype=gl.int32, is_pure=False, pack=4,
    )  # fmt: skip


@gluon.jit
def commit():
    gl.inline_asm_elementwise(
        "cp.async.commit_group; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.constexpr_function
def _wait_assembly(most):
    return f"cp.async.wait_group {most}; // $0"


@gluon.jit
def wait(MOST: gl.constexpr):
    """Wait until no more than so many rows of this thread are on their way."""
    gl.inline_asm_elementwise(_wait_assembly(MOST), "=r", [], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def find_sources(
    tensors, row, rows, part, layout: gl.constexpr, STRIDE: gl.constexpr, CHUNK: gl.constexpr,
    WARPS: gl.constexpr, ALIGN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return the addresses of each thread's first vector of a row of each tensor."""
    first = gl.where(row < rows, row, 0)
    found = ()
    for which in gl.static_range(len(tensors)):
        at = row_at(tensors[which], first, STRIDE, ALIGN, HALVES) + part * (CHUNK // HALVES)
        found = found + ((at + (words_of(0, layout, WARPS) >> 2 << 2)).to(gl.int64),)
    return found


@gluon.jit
def fetch_tile(
    to, sources, tile: gl.constexpr, present, left, layout: gl.constexpr, TILES: gl.constexpr,
    SURE: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Start to copy a tile of a row of each tensor into a slot; zeros behind the ``left`` bytes of
    the program's part, and for a row that is not there."""
    TILE: gl.constexpr = WARPS * WARP_WORDS * 4
    at = (words_of(tile, layout, WARPS) >> 2) * 16
    inside = present & (at >= 0)
    if (tile + 1) * WARPS * WARP_WORDS * HALVES > SURE:
        inside = inside & (at < left)
    for which in gl.static_range(len(sources)):
        gl.inline_asm_elementwise(
            _copy_assembly((which * TILES + tile) * TILE, tile * TILE), _COPY_OPERANDS,
            [to, sources[which], gl.where(inside, 16, 0)], dtype=gl.int32, is_pure=False, pack=4,
        )  # fmt: skip


@gluon.jit
def fetch(
    to, tensors, row, rows, part, left, layout: gl.constexpr, TILES: gl.constexpr,
    STRIDE: gl.constexpr, CHUNK: gl.constexpr, SURE: gl.constexpr, WARPS: gl.constexpr,
    ALIGN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Start to copy a row of each tensor into a slot."""
    sources = find_sources(tensors, row, rows, part, layout, STRIDE, CHUNK, WARPS, ALIGN, HALVES)
    for tile in gl.static_range(TILES):
        fetch_tile(to, sources, tile, row < rows, left, layout, TILES, SURE, WARPS, HALVES)
    commit()


@gluon.jit
def _columns_of_vectors(
    tile: gl.constexpr, part, lead, layout: gl.constexpr, COLUMNS: gl.constexpr,
    CHUNK: gl.constexpr, WARPS: gl.constexpr, VECTOR: gl.constexpr,
):  # fmt: skip
    """Return, for the words of a tile, which elements of their vector are columns of the row: one
    bit each."""
    local = (words_of(tile, layout, WARPS) >> 2) * VECTOR
    lane = part * CHUNK + local
    before = gl.minimum(gl.maximum(lead - lane, 0), VECTOR)
    until = gl.minimum(gl.maximum(lead + COLUMNS - lane, 0), VECTOR)
    every: gl.constexpr = (1 << VECTOR) - 1
    return gl.where(local < CHUNK, (every >> (VECTOR - until)) & (every << before), 0)


@gluon.jit
def find_ends(
    part, lead, layout: gl.constexpr, COLUMNS: gl.constexpr, CHUNK: gl.constexpr,
    SURE: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr, VECTOR: gl.constexpr,
    ALIGN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return, for each tile in which a row may begin or end, what ``_columns_of_vectors`` does, and a mask
    of each word's own columns."""
    TILE: gl.constexpr = WARPS * WARP_WORDS * HALVES
    found = ()
    for tile in gl.static_range(TILES):
        if may_end(tile, TILE, SURE, ALIGN):
            bits = _columns_of_vectors(tile, part, lead, layout, COLUMNS, CHUNK, WARPS, VECTOR)
            own = bits >> (words_of(tile, layout, WARPS) & 3) * HALVES
            keep = gl.where((own & 1) != 0, 0xFFFF if HALVES == 2 else -1, 0)
            if HALVES == 2:
                keep |= gl.where((own & 2) != 0, -0x1_0000, 0)
            found = found + ((bits, keep),)
        else:
            found = found + ((0, 0),)
    return found


@gluon.jit
def only_columns(words, keep, HALVES: gl.constexpr):
    """Return zeros in place of a neighbour's elements, which may be anything."""
    return words & keep if HALVES == 2 else gl.where(keep != 0, words, 0.0)


@gluon.jit
def write(
    tensor, row, present, out, tile: gl.constexpr, ends, part, lead, layout: gl.constexpr,
    COLUMNS: gl.constexpr, CHUNK: gl.constexpr, SURE: gl.constexpr, WARPS: gl.constexpr,
    VECTOR: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Write a tile's columns of a row that is ``present``: whole vectors of 16 bytes, and single
    elements of those that are shared with the row's neighbours."""
    KIND: gl.constexpr = tensor.dtype.element_ty
    TILE: gl.constexpr = WARPS * WARP_WORDS * HALVES
    to = row_at(tensor, row, COLUMNS, ALIGN, HALVES) + part * (CHUNK // HALVES)
    words = join(out, KIND, HALVES)
    word = words_of(tile, layout, WARPS)
    inside = (word >= 0) & present
    # Compared with multiples of a vector, so that the compiler sees one mask for each.
    if PEEL and tile == 0:
        begin = (lead + VECTOR - 1) // VECTOR * VECTOR
        inside = inside & (word >= (begin - part * CHUNK) // HALVES)
    if (tile + 1) * TILE > SURE:
        stop = (lead + COLUMNS) // VECTOR * VECTOR
        left = gl.minimum(stop - part * CHUNK, CHUNK)
        inside = inside & (word < left // HALVES)
    gl.store(to + word, words, mask=inside)
    if PEEL and may_end(tile, TILE, SURE, ALIGN):
        bits = gl.where(inside, 0, ends[tile][0])
        bits = gl.where(present, bits, 0)
        gl.inline_asm_elementwise(
            _store_assembly(HALVES), _STORE_OPERANDS,
            [to.to(gl.int64), word, words.to(gl.int32, bitcast=True), bits],
            dtype=gl.int32, is_pure=False, pack=4,
        )  # fmt: skip


ADD, PEAKS, MEANS = (gl.constexpr(each) for each in ("add", "peaks", "means"))
"""What a pair is and how two are joined: sums of a row; the maximum and the sum of exponentials
relative to it; or the sum, and the sum of squares about the mean of what was added."""
LOG2_E = gl.constexpr(1.4426950408889634)
LOWEST = gl.constexpr(-3.4028234663852886e38)


@gluon.jit
def add(a, b):
    return a + b


@gluon.jit
def greater(a, b):
    return gl.maximum(a, b)


@gluon.jit
def add_pairs(a, b, c, d):
    return a + c, b + d


@gluon.jit
def join_peaks(a, b, c, d):
    top = gl.maximum(a, c)
    base = gl.maximum(top, LOWEST)  # of a row of −∞
    return top, b * gl.exp2((a - base) * LOG2_E) + d * gl.exp2((c - base) * LOG2_E)


@gluon.constexpr_function
def _joining(warps, how):
    """Return the lines that join the pairs of a program's warps, ``a`` and ``b``, into its word."""
    every = range(warps)
    if how == "peaks":
        return [
            "mov.f32 top, a0;",
            *(f"max.f32 top, top, a{n};" for n in every[1:]),
            "max.f32 base, top, 0fFF7FFFFF;",
            "mov.f32 total, 0f00000000;",
            *(
                line
                for n in every
                for line in (
                    f"sub.f32 a{n}, a{n}, base;",
                    f"mul.f32 a{n}, a{n}, 0f3FB8AA3B;",
                    f"ex2.approx.f32 a{n}, a{n};",
                    f"fma.rn.f32 total, b{n}, a{n}, total;",
                )
            ),
            "mov.b64 word, {total, top};",
        ]
    lines = [f"add.f32 {each}0, {each}0, {each}{n};" for n in every[1:] for each in "ab"]
    if how == "means":
        lines = [
            *(
                f"ld.shared.v4.f32 {{n{n}, r{n}, n{n + 1}, r{n + 1}}}, [$7 + {8 * n}];"
                for n in every[::2]
            ),
            "mov.f32 base, a0;",
            *(f"add.f32 base, base, a{n};" for n in every[1:]),
            "mul.f32 top, base, $8;",
            "neg.f32 top, top;",
            "mov.f32 total, 0f00000000;",
            *(
                line
                for n in every
                for line in (
                    f"fma.rn.f32 a{n}, a{n}, r{n}, top;",
                    f"mul.f32 r{n}, a{n}, n{n};",
                    f"add.f32 total, total, b{n};",
                    f"fma.rn.f32 total, a{n}, r{n}, total;",
                )
            ),
            "mov.b64 word, {total, base};",
        ]
        return lines
    return [*lines, "mov.b64 word, {b0, a0};"]


@gluon.constexpr_function
def _tell_assembly(warps, how):
    """Keep a warp's pair ($1, $2) at $3 in shared memory; have the last warp of the program to do
    so, by the counter at $5, join those of all warps, from $4 on, and tell them at $6."""
    lines = ["mov.b64 word, {$2, $1};"]
    if warps > 1:
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
            *_joining(warps, how),
        ]
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred other;",
            ".reg .b32 old;",
            f".reg .f32 a<{warps}>, b<{warps}>, n<{warps}>, r<{warps}>, top, base, total;",
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
def tell(
    words, row, round, part, first, second, scratch, counts, layout: gl.constexpr,
    APART: gl.constexpr, WARPS: gl.constexpr, HOW: gl.constexpr,
):  # fmt: skip
    """Publish this program's pair of a row, as one word; ``first`` and ``second`` are those of each
    warp. The last warp to come does it, so that none waits for another. As they are at most two
    rounds apart, there are places for four rows. ``counts``: of means, where those of warps are
    kept, and the inverse of the program's."""
    sums = scratch + 32 + (round & 3) * (8 * WARPS)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))
    to = (words + row.to(gl.int64) * APART + part).to(gl.int64)
    gl.inline_asm_elementwise(
        _tell_assembly(WARPS, HOW), "=r,r,r,r,r,r,l,r,r" if HOW == MEANS else "=r,r,r,r,r,r,l",
        (first, second, sums + warp * 8, sums, scratch + (round & 3) * 4, to) + counts,
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def keep_counts(
    part, lead, scratch, layout: gl.constexpr, COLUMNS: gl.constexpr, CHUNK: gl.constexpr,
    TILES: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Keep in shared memory how many columns each warp has, and the inverse. Return where, the
    inverse of the program's count, and of each warp's."""
    own = gl.zeros([WARPS, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            local = words_of(tile, layout, WARPS) * HALVES + half
            own += gl.where(has_column(part, lead, local, COLUMNS, CHUNK), 1.0, 0.0)
    own = gl.reduce(own, 1, add)
    inverse = gl.where(own > 0, 1.0 / gl.maximum(own, 1.0), 0.0)
    counts = scratch + 32 + 32 * WARPS
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))
    gl.inline_asm_elementwise(
        "st.shared.v2.f32 [$3], {$1, $2}; // $0", "=r,r,r,r", [own, inverse, counts + warp * 8],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    gl.inline_asm_elementwise("bar.sync 0; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1)
    whole = 1.0 / gl.maximum(_columns_of_part(part, lead, COLUMNS, CHUNK), 1).to(gl.float32)
    return counts, whole, inverse


@gluon.jit
def _columns_of_part(part, lead, COLUMNS: gl.constexpr, CHUNK: gl.constexpr):
    most = gl.minimum(gl.maximum(lead + COLUMNS - part * CHUNK, 0), CHUNK)
    return most - gl.where(part == 0, lead, 0)


@gluon.jit
def columns_of_parts(
    lane, lead, PARTS: gl.constexpr, COLUMNS: gl.constexpr, CHUNK: gl.constexpr
):  # fmt: skip
    """Return how many columns those programs have whose words each lane looks for."""
    found = ()
    for n in gl.static_range((PARTS + 31) // 32):
        found = found + (_columns_of_part(lane + 32 * n, lead, COLUMNS, CHUNK).to(gl.float32),)
    return found


@gluon.constexpr_function
def lanes_for(parts):
    """Return how many lanes of a warp look for the words of a row's programs: a power of two. The
    others look for the same."""
    lanes = 1
    while lanes < min(parts, 32):
        lanes *= 2
    return lanes


@gluon.constexpr_function
def _peek_assembly(parts, count, nothing):
    """Load a row's words, ``count`` in each lane: that of a program and of every 32nd further one,
    so that a warp's loads are of one line; ``nothing`` where there is no program."""
    lines = ["{", ".reg .pred there;", ".reg .b32 lane;", "mov.u32 lane, %laneid;"]
    lines.append(f"and.b32 lane, lane, {lanes_for(parts) - 1};")
    for n in range(count):
        lines += [
            f"mov.b64 ${n}, {nothing};",
            f"setp.lt.u32 there, lane, {parts - 32 * n};",
            f"@there ld.relaxed.gpu.global.b64 ${n}, [${count} + {256 * n}];",
        ]
    return "\n".join([*lines, "}"])


NO_PEAK = gl.constexpr(-0x0080_0000_0000_0000)
"""The word of a maximum of −∞ and a sum of 0."""


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
def told_at(words, row, lane, APART: gl.constexpr):
    """Return where each lane looks for what the programs of a row tell."""
    return (words + gl.maximum(row, 0).to(gl.int64) * APART + lane).to(gl.int64)


@gluon.jit
def peek(told, PARTS: gl.constexpr, HOW: gl.constexpr):
    """Return what the programs of a row have told by now."""
    EACH: gl.constexpr = (PARTS + 31) // 32
    return gl.inline_asm_elementwise(
        _peek_assembly(PARTS, EACH, NO_PEAK if HOW == PEAKS else 0), _words_operands(EACH, 0),
        [told], dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _unpack(word):
    first = (word >> 32).to(gl.int32).to(gl.float32, bitcast=True)
    return first, word.to(gl.int32).to(gl.float32, bitcast=True)


@gluon.jit
def await_pair(
    told, seen, columns, PARTS: gl.constexpr, COLUMNS: gl.constexpr, HOW: gl.constexpr
):  # fmt: skip
    """Return the pair of a row from what all of its programs have told, to each warp: each looks
    for itself, so that none waits for another. ``columns``: of means, as by
    ``columns_of_parts``."""
    EACH: gl.constexpr = (PARTS + 31) // 32
    found = gl.inline_asm_elementwise(
        _await_assembly(EACH), _words_operands(EACH, 1), seen + (told,),
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip
    first, second = _unpack(found[0])
    for n in gl.static_range(1, EACH):
        one, two = _unpack(found[n])
        if HOW == PEAKS:
            first, second = join_peaks(first, second, one, two)
        else:
            first += one
            second += two
    if HOW == PEAKS:
        return gl.reduce((first, second), 1, join_peaks)
    elif HOW == MEANS:
        total = gl.reduce(first, 1, add)
        mean = (total / COLUMNS)[:, None]
        for n in gl.static_range(EACH):
            one, _ = _unpack(found[n])
            off = one / gl.maximum(columns[n], 1.0) - mean
            second = gl.fma(off * columns[n], off, second)
        return total, gl.reduce(second, 1, add)
    else:
        return gl.reduce((first, second), 1, add_pairs)


@gluon.jit
def lanes_of_warps(WARPS: gl.constexpr, PARTS: gl.constexpr):
    """Return the number of each lane of each warp, of those that look for different words."""
    each: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [WARPS, 1], [1, 0])
    none = gl.zeros([WARPS, 1], gl.int32, each)
    return gl.arange(0, lanes_for(PARTS), gl.SliceLayout(0, each))[None, :] + none


@gluon.jit
def as_column(each, layout: gl.constexpr):
    """Return a number of each warp as a column of a tile."""
    return gl.convert_layout(each, gl.SliceLayout(1, layout))[:, None]
