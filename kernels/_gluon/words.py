# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005 (arguments have no Python types; branches are constant)
"""Takes rows apart into words, in Gluon: what kernels have in common whose rows start anywhere.

A thread's words are ``HALVES`` elements of half precision, or one of float32; four of them are 16
bytes, and a tile is four for each thread. ``PARTS`` programs, or one, share each row, of which each
owns the same ``CHUNK`` lanes of all its rows; lanes are counted from the last multiple of ``ALIGN``
elements before the row, ``lead`` before its first column, and ``SURE`` of the last program's have
columns wherever the row starts.

Gluon is experimental: seen with triton 3.6 and 3.7.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

WARP_WORDS = gl.constexpr(128)
"""Words of a tile that one warp holds."""
LOG2_E = gl.constexpr(1.4426950408889634)
LOWEST = gl.constexpr(-3.4028234663852886e38)
_CONVERT_BF16 = gl.constexpr("cvt.rn.bf16x2.f32 $0, $1, $2;")
_CONVERT_FP16 = gl.constexpr("cvt.rn.f16x2.f32 $0, $1, $2;")
_STORE_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("l",) * 4 + ("r",) * 12))


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
def second_look(words, HALVES: gl.constexpr):
    """Return the words such that their elements are not kept from the first time that they were
    looked at, which would take twice the registers."""
    return opaque(words) if HALVES == 2 else words


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


@gluon.constexpr_function
def tile_layout(warps, blocks=1):
    """Return the layout of a tile: to each warp a row, of each block of a cluster, and to each
    thread four words in turn."""
    bases = [[1 << bit, 0] for bit in range(blocks.bit_length() - 1)]
    return gl.BlockedLayout([1, 4], [1, 32], [warps, 1], [1, 0], bases)


@gluon.constexpr_function
def _lanes_layout(warps, blocks):
    bases = [[1 << bit, 0] for bit in range(blocks.bit_length() - 1)]
    return gl.BlockedLayout([1, 1], [1, 32], [warps, 1], [1, 0], bases)


@gluon.constexpr_function
def lanes_for(count):
    """Return how many lanes of a warp look for so many things: a power of two. The others look for
    the same."""
    lanes = 1
    while lanes < min(count, 32):
        lanes *= 2
    return lanes


@gluon.jit
def lanes_of_warps(WARPS: gl.constexpr, COUNT: gl.constexpr, BLOCKS: gl.constexpr = 1):
    """Return the number of each lane of each warp, of those that look for different things."""
    each: gl.constexpr = _lanes_layout(WARPS, BLOCKS)
    none = gl.zeros([WARPS * BLOCKS, 1], gl.int32, each)
    return gl.arange(0, lanes_for(COUNT), gl.SliceLayout(0, each))[None, :] + none


@gluon.jit
def words_of(tile, layout: gl.constexpr, WARPS: gl.constexpr):
    """Return the words of a tile, counted from the program's first one."""
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, layout))[:, None]
    word = gl.arange(0, WARP_WORDS, gl.SliceLayout(0, layout))[None, :]
    return (tile * WARPS + warp) * WARP_WORDS + word


@gluon.jit
def vectors_of_warps(layout: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr):
    """Return the number of each word's vector, of a tile of its block."""
    warp = gl.arange(0, WARPS * BLOCKS, gl.SliceLayout(1, layout))[:, None] % WARPS
    word = gl.arange(0, WARP_WORDS, gl.SliceLayout(0, layout))[None, :]
    return (warp * WARP_WORDS + word) // 4


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
    """Return, for each tile in which a row may begin or end, what ``_columns_of_vectors`` does, and
    a mask of each word's own columns."""
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
def ends_of_row(
    lead, layout: gl.constexpr, COLUMNS: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr,
    VECTOR: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return the ends of a row, as by ``find_ends``, if it may start anywhere."""
    found = ()
    if PEEL:
        CHUNK: gl.constexpr = TILES * WARPS * WARP_WORDS * HALVES
        found = find_ends(
            0, lead, layout, COLUMNS, CHUNK, COLUMNS, TILES, WARPS, VECTOR, ALIGN, HALVES
        )
    return found


@gluon.jit
def lead_of(row, STRIDE: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr):
    """Return the lane of a row's first column."""
    return row % ALIGN * (STRIDE % ALIGN) % ALIGN if PEEL else 0


@gluon.jit
def bytes_of_row(
    row, COLUMNS: gl.constexpr, STRIDE: gl.constexpr, VECTOR: gl.constexpr, ALIGN: gl.constexpr,
    PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return the bytes of a row and its ``lead``, in whole vectors."""
    lanes = lead_of(row, STRIDE, ALIGN, PEEL) + COLUMNS
    return (lanes + VECTOR - 1) // VECTOR * VECTOR * (4 // HALVES)


@gluon.jit
def load_row(
    tensor, row, left, other: gl.constexpr, layout: gl.constexpr, COLUMNS: gl.constexpr,
    STRIDE: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr, ALIGN: gl.constexpr,
    HALVES: gl.constexpr, KEEP: gl.constexpr,
):  # fmt: skip
    """Return the tiles of a row; ``other`` behind its ``left`` bytes."""
    found = ()
    for tile in gl.static_range(TILES):
        word = words_of(tile, layout, WARPS)
        at = row_at(tensor, row, STRIDE, ALIGN, HALVES) + word
        if (tile + 1) * WARPS * WARP_WORDS * HALVES > COLUMNS:
            inside = word // 4 * 16 < left  # seen to be the same for each vector, unlike a shift
            found = found + (gl.load(at, mask=inside, other=other, eviction_policy=KEEP),)
        else:
            found = found + (gl.load(at, eviction_policy=KEEP),)
    return found


@gluon.jit
def only_columns(words, keep, HALVES: gl.constexpr, other: gl.constexpr = 0):
    """Return ``other`` in place of a neighbour's elements, which may be anything."""
    return (words & keep) | (other & ~keep) if HALVES == 2 else gl.where(keep != 0, words, other)


@gluon.jit
def write(
    tensor, row, out, tile: gl.constexpr, ends, part, lead, layout: gl.constexpr,
    COLUMNS: gl.constexpr, CHUNK: gl.constexpr, SURE: gl.constexpr, WARPS: gl.constexpr,
    VECTOR: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
    DROP: gl.constexpr,
):  # fmt: skip
    """Write a tile's columns: whole vectors of 16 bytes, and single elements of those that are
    shared with the row's neighbours."""
    KIND: gl.constexpr = tensor.dtype.element_ty
    TILE: gl.constexpr = WARPS * WARP_WORDS * HALVES
    to = row_at(tensor, row, COLUMNS, ALIGN, HALVES) + part * (CHUNK // HALVES)
    words = join(out, KIND, HALVES)
    word = words_of(tile, layout, WARPS)
    inside = word >= 0
    # Compared with multiples of a vector, so that the compiler sees one mask for each.
    if PEEL and tile == 0:
        begin = (lead + VECTOR - 1) // VECTOR * VECTOR
        inside = inside & (word >= (begin - part * CHUNK) // HALVES)
    if (tile + 1) * TILE > SURE:
        stop = (lead + COLUMNS) // VECTOR * VECTOR
        left = gl.minimum(stop - part * CHUNK, CHUNK)
        inside = inside & (word < left // HALVES)
    gl.store(to + word, words, mask=inside, eviction_policy=DROP)
    if PEEL and may_end(tile, TILE, SURE, ALIGN):
        bits = gl.where(inside, 0, ends[tile][0])
        gl.inline_asm_elementwise(
            _store_assembly(HALVES), _STORE_OPERANDS,
            [to.to(gl.int64), word, words.to(gl.int32, bitcast=True), bits],
            dtype=gl.int32, is_pure=False, pack=4,
        )  # fmt: skip


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
