# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RET505, RUF005 (arguments have no Python types; branches are
# constant)
"""Computes norms of long rows by persistent clusters of blocks, which keep a row in registers, and
the weights of its columns in shared memory from one row to the next.

From L2, weights and biases of a layer norm come as often as rows come from memory, and limit it. In
shared memory they lie such that rows may start anywhere (lanes, ``lead``, ``ALIGN`` and ``PEEL`` as
in ``_gluon.words``): a block has those of its lanes from ``ALIGN`` columns before them on, word 4 i
+ k of a tile as word i of plane k. So the words of all lanes that a row's lead shifts them by are
next to each other, in one plane, and a word of an odd lead is put together from two.

With ``QUEUE``, a cluster takes its rows from a counter, which starts at zero: how many clusters the
device has room for at the same time, no plan knows. Its first rows are ``SLOTS`` + 1 that follow
one another. Then its first block asks for one more before it reads one, and tells the others with
what its first warp has found of that. A cluster's numbers only grow: where one is beyond the rows,
so are all after it. Without ``QUEUE``, each cluster has one row.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .._gluon.cluster import (
    SUMS,
    await_blocks,
    first_row,
    join_own,
    mailbox_bytes,
    next_row,
    open_mailboxes,
    post,
    rearm,
    receive,
    send_row,
    take_rows,
)
from .._gluon.streaming import fetch, load, wait
from .._gluon.words import (
    WARP_WORDS,
    add,
    await_previous,
    bytes_of_row,
    element,
    ends_of_row,
    join,
    lanes_of_warps,
    lead_of,
    load_row,
    may_end,
    only_columns,
    row_at,
    second_look,
    tile_layout,
    vectors_of_warps,
    words_of,
    write,
)

LINE = gl.constexpr(128)
"""Slots begin at multiples of so many bytes. Where they began at odd multiples of 16, the whole
kernel took a tenth more time (H200, 2026-11-29)."""
_LOAD_OPERANDS = gl.constexpr(",".join(("=&r",) * 4 + ("r",) * 20))
_STORE_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("r",) * 12))


@gluon.constexpr_function
def plane_bytes(warps, align, halves):
    """Return the bytes of a plane: of each vector of a tile's lanes a word, of those before them,
    and of one that is read and not used."""
    return (warps * 32 + align // halves // 4 + 1) * 4


@gluon.constexpr_function
def tile_bytes(warps, align, halves, peel):
    """Return the bytes of a tile's weights."""
    return 4 * plane_bytes(warps, align, halves) if peel else warps * 512


@gluon.constexpr_function
def _store_words_assembly(offset, plane):
    """Store a vector's words, $8 to $11, at $4 if $12 is not 0: each in its plane, or side by side
    if there are none."""
    stores = [f"@some st.shared.v4.b32 [$4 + {offset}], {{$8, $9, $10, $11}};"]
    if plane:
        stores = [f"@some st.shared.b32 [$4 + {offset + k * plane}], ${8 + k};" for k in range(4)]
    return "\n".join(
        ["{ // $0, $1, $2, $3", ".reg .pred some;", "setp.ne.b32 some, $12, 0;", *stores, "}"]
    )


@gluon.constexpr_function
def _load_kept_assembly(offset, planes, odd):
    """Load a vector's words from $4, or from the four planes at $4, $8, $12 and $16; with ``odd``,
    put together from pairs of words that are $20 bits apart."""
    if not planes:
        return f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {offset}];"
    if not odd:
        return "\n".join(f"ld.shared.b32 ${k}, [${4 + 4 * k} + {offset}];" for k in range(4))
    return "\n".join(
        [
            "{",
            ".reg .b32 w<5>;",
            *(f"ld.shared.b32 w{k}, [${4 + 4 * k} + {offset}];" for k in range(4)),
            f"ld.shared.b32 w4, [$4 + {offset + 4}];",
            *(f"shf.r.wrap.b32 ${k}, w{k}, w{k + 1}, $20;" for k in range(4)),
            "}",
        ]
    )


@gluon.jit
def _keep(
    tensor, memory, OFFSET: gl.constexpr, layout: gl.constexpr, COLUMNS: gl.constexpr,
    TILES: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr, ALIGN: gl.constexpr,
    PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Put the weights of a block's lanes ``OFFSET`` bytes behind ``memory``."""
    BEFORE: gl.constexpr = ALIGN // HALVES if PEEL else 0
    PLANE: gl.constexpr = plane_bytes(WARPS, ALIGN, HALVES) if PEEL else 0
    TILE: gl.constexpr = tile_bytes(WARPS, ALIGN, HALVES, PEEL)
    vector = vectors_of_warps(layout, WARPS, BLOCKS)
    to = memory + vector * (4 if PEEL else 16)
    at = row_at(tensor, gl.program_id(0) * 0, 0, ALIGN, HALVES)
    for tile in gl.static_range(TILES):
        first = words_of(tile, layout, WARPS * BLOCKS) // 4 * 4
        for more in gl.static_range(2 if PEEL else 1):
            # Those that are before the block's lanes, and then as many at their end.
            begin = first + (more * WARPS * WARP_WORDS - BEFORE)
            word = words_of(tile, layout, WARPS * BLOCKS) + (more * WARPS * WARP_WORDS - BEFORE)
            there = vector >= 0
            if more:
                there = vector < BEFORE // 4
            if (tile + 1) * WARPS * BLOCKS * WARP_WORDS * HALVES > COLUMNS:
                inside = (begin >= 0) & (begin * HALVES < COLUMNS)
                found = gl.load(at + word, mask=inside & there, other=0)
            elif more:
                found = gl.load(at + word, mask=there, other=0)
            elif tile == 0:
                found = gl.load(at + word, mask=begin >= 0, other=0)
            else:
                found = gl.load(at + word)
            gl.inline_asm_elementwise(
                _store_words_assembly(OFFSET + tile * TILE + more * WARPS * 128, PLANE),
                _STORE_OPERANDS,
                [to, found.to(gl.int32, bitcast=True), gl.where(there, 1, 0)],
                dtype=gl.int32, is_pure=False, pack=4,
            )  # fmt: skip


@gluon.jit
def _keep_all(
    weight, bias, memory, layout: gl.constexpr, COLUMNS: gl.constexpr, TILES: gl.constexpr,
    WARPS: gl.constexpr, BLOCKS: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr,
    HALVES: gl.constexpr, MEAN: gl.constexpr,
):  # fmt: skip
    """Put the weights of a block's lanes, and behind them the biases, into shared memory."""
    _keep(weight, memory, 0, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES)
    if MEAN:
        BEHIND: gl.constexpr = TILES * tile_bytes(WARPS, ALIGN, HALVES, PEEL)
        _keep(bias, memory, BEHIND, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES)
    gl.inline_asm_elementwise("bar.sync 0; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def _planes(
    memory, lead, layout: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr,
    ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return where the words of each vector's lanes are for a row."""
    vector = vectors_of_warps(layout, WARPS, BLOCKS)
    if PEEL:
        PLANE: gl.constexpr = plane_bytes(WARPS, ALIGN, HALVES)
        words = (ALIGN - lead) // HALVES
        found = ()
        for k in gl.static_range(4):
            found = found + (
                memory + ((words + k & 3) * PLANE + (words + k >> 2) * 4) + vector * 4,
            )
        return found + (((ALIGN - lead) % HALVES) * 16 + vector * 0,)
    else:
        return (memory + vector * 16,) * 5


@gluon.jit
def _weights(
    planes, OFFSET: gl.constexpr, ODD: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr
):  # fmt: skip
    """Return the weights of a tile's lanes, as words."""
    words = gl.inline_asm_elementwise(
        _load_kept_assembly(OFFSET, PEEL, ODD), _LOAD_OPERANDS,
        [planes[0], planes[1], planes[2], planes[3], planes[4]],
        dtype=gl.int32, is_pure=False, pack=4,
    )  # fmt: skip
    return words if HALVES == 2 else words.to(gl.float32, bitcast=True)


@gluon.constexpr_function
def _is_partial(tile, lanes, columns, align, peel):
    """Return whether some words of a tile may not have all of their columns."""
    return may_end(tile, lanes, columns, align) if peel else (tile + 1) * lanes > columns


@gluon.jit
def _own_columns(
    tile: gl.constexpr, ends, layout: gl.constexpr, COLUMNS: gl.constexpr, WARPS: gl.constexpr,
    PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return a mask of each word's columns."""
    if PEEL:
        return ends[tile][1]
    else:
        return gl.where(words_of(tile, layout, WARPS) * HALVES < COLUMNS, -1, 0)


@gluon.jit
def _columns_of_warps(
    lead, warp, COLUMNS: gl.constexpr, ALL: gl.constexpr, HALVES: gl.constexpr
):  # fmt: skip
    """Return how many columns of a row warps have."""
    OF_WARP: gl.constexpr = WARP_WORDS * HALVES
    lanes = lead + COLUMNS
    rest = lanes % (ALL * OF_WARP) - warp * OF_WARP
    found = lanes // (ALL * OF_WARP) * OF_WARP + gl.minimum(gl.maximum(rest, 0), OF_WARP)
    return gl.where(warp == 0, found - lead, found)


@gluon.jit
def _mean_and_squares(
    found, lead, layout: gl.constexpr, COLUMNS: gl.constexpr, WARPS: gl.constexpr,
    BLOCKS: gl.constexpr, MEAN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return a row's mean and the sum of squares about it, to each warp, from the pairs of all: of
    a layer norm a warp's sum and its squares about its own mean, else twice its squares."""
    ALL: gl.constexpr = WARPS * BLOCKS
    EACH: gl.constexpr = (ALL + 31) // 32
    first, second = join_own(found, WARPS, BLOCKS, SUMS)
    mean = gl.reduce(first, 1, add) / COLUMNS
    if MEAN:
        lane = lanes_of_warps(WARPS, ALL, BLOCKS)
        for n in gl.static_range(EACH):
            count = _columns_of_warps(lead, lane + 32 * n, COLUMNS, ALL, HALVES).to(gl.float32)
            off = found[2 * n] / gl.maximum(count, 1.0) - mean[:, None]
            second = gl.fma(count * off, off, second)
    squares = gl.convert_layout(gl.reduce(second, 1, add), gl.SliceLayout(1, layout))
    return gl.convert_layout(mean, gl.SliceLayout(1, layout)), squares


@gluon.jit
def _squares_of_warps(
    own, layout: gl.constexpr, TILES: gl.constexpr, ALL: gl.constexpr, KIND: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    total = gl.zeros([ALL, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            value = element(own[tile], half, KIND, HALVES)
            total = gl.fma(value, value, total)
    squares = gl.reduce(total, 1, add)
    return squares, squares


@gluon.jit
def _statistics_of_warps(
    own, ends, lead, layout: gl.constexpr, COLUMNS: gl.constexpr, TILES: gl.constexpr,
    ALL: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, KIND: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    """Return each warp's sum, and its squares about its own mean."""
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    total = gl.zeros([ALL, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            total += element(own[tile], half, KIND, HALVES)
    sums = gl.reduce(total, 1, add)
    warp = gl.arange(0, ALL, gl.SliceLayout(1, layout))
    count = _columns_of_warps(lead, warp, COLUMNS, ALL, HALVES).to(gl.float32)
    middle = (sums / gl.maximum(count, 1.0))[:, None]
    total = gl.zeros([ALL, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        words = second_look(own[tile], HALVES)
        for half in gl.static_range(HALVES):
            off = element(words, half, KIND, HALVES) - middle
            if _is_partial(tile, TILE, COLUMNS, ALIGN, PEEL):
                found = _own_columns(tile, ends, layout, COLUMNS, ALL, PEEL, HALVES)
                off = gl.where((found >> 16 * half & 1) != 0, off, 0.0)
            total = gl.fma(off, off, total)
    return sums, gl.reduce(total, 1, add)


@gluon.jit
def _finish(
    y, own, row, ends, lead, middle, scale, planes, layout: gl.constexpr, COLUMNS: gl.constexpr,
    TILES: gl.constexpr, ALL: gl.constexpr, VECTOR: gl.constexpr, ALIGN: gl.constexpr,
    PEEL: gl.constexpr, HALVES: gl.constexpr, MEAN: gl.constexpr, KEPT: gl.constexpr,
    ODD: gl.constexpr, DROP: gl.constexpr,
):  # fmt: skip
    """Write a row; ``ODD``: as in ``_weights``."""
    KIND: gl.constexpr = y.dtype.element_ty
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    scale = scale[:, None]
    middle = middle[:, None]
    for tile in gl.static_range(TILES):
        words = second_look(own[tile], HALVES)
        w = _weights(planes, tile * KEPT, ODD, PEEL, HALVES)
        b = w
        if MEAN:
            b = _weights(planes, (TILES + tile) * KEPT, ODD, PEEL, HALVES)
        out = ()
        for half in gl.static_range(HALVES):
            value = element(words, half, KIND, HALVES)
            if MEAN and HALVES == 2:
                value = gl.fma(value, scale, -middle * scale)
            elif MEAN:
                value = (value - middle) * scale
            else:
                value = value * scale
            factor = element(w, half, KIND, HALVES)
            if MEAN:
                value = gl.fma(value, factor, element(b, half, KIND, HALVES))
            else:
                value = value * factor
            out = out + (value,)
        write(
            y, row, out, tile, ends, 0, lead, layout,
            COLUMNS, TILES * TILE, COLUMNS, ALL, VECTOR, ALIGN, PEEL, HALVES, DROP,
        )  # fmt: skip


@gluon.jit(do_not_specialize=["rows"])
def norm_cluster(
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
    TILES: gl.constexpr,
    WARPS: gl.constexpr,
    BLOCKS: gl.constexpr,
    VECTOR: gl.constexpr,
    ALIGN: gl.constexpr,
    PEEL: gl.constexpr,
    HALVES: gl.constexpr,
    RESIDUAL: gl.constexpr,
    MEAN: gl.constexpr,
    QUEUE: gl.constexpr,
    SLOTS: gl.constexpr,
    KEEP: gl.constexpr,
    DROP: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute norms of rows; ``MEAN``: layer norm. While a row is in registers, the next ``SLOTS``
    are on their way to shared memory."""
    KIND: gl.constexpr = x.dtype.element_ty
    ALL: gl.constexpr = WARPS * BLOCKS
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    KEPT: gl.constexpr = tile_bytes(WARPS, ALIGN, HALVES, PEEL)
    WEIGHTS: gl.constexpr = (TILES * KEPT * (1 + MEAN) + LINE - 1) // LINE * LINE
    SLOT: gl.constexpr = TILES * WARPS * 512 * (1 + RESIDUAL) if QUEUE else 0
    MAILBOX: gl.constexpr = mailbox_bytes(WARPS, BLOCKS)
    ODD: gl.constexpr = HALVES == 2 and STRIDE % 2 == 1
    NOTHING: gl.constexpr = 0 if HALVES == 2 else 0.0
    layout: gl.constexpr = tile_layout(WARPS, BLOCKS)
    BEFORE: gl.constexpr = WEIGHTS + SLOTS * SLOT
    memory = open_mailboxes(WARPS, BLOCKS, 2 if QUEUE else 1, BEFORE, QUEUE)
    mailboxes = memory + BEFORE
    tensors = (x, residual) if RESIDUAL else (x,)
    slot = memory + WEIGHTS + vectors_of_warps(layout, WARPS, BLOCKS) * 16
    await_previous(OVERLAP)
    row = gl.program_id(0)
    ahead = (rows,)
    if QUEUE:
        taken = take_rows(words, SLOTS + 1)
        _keep_all(
            weight, bias, memory, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES, MEAN
        )
        row = first_row(taken, mailboxes + 2 * MAILBOX, BLOCKS)
        ahead = ()
        for n in gl.static_range(SLOTS):
            at = bytes_of_row(row + n, COLUMNS, STRIDE, VECTOR, ALIGN, PEEL, HALVES)
            fetch(
                slot + n * SLOT, tensors, row + n, row + n < rows, 0, at, layout, TILES, STRIDE, 0,
                COLUMNS, WARPS, ALIGN, HALVES, KEEP, BLOCKS,
            )  # fmt: skip
            ahead = ahead + (row + (n + 1),)
    round = row * 0
    while row < rows:
        lead = lead_of(row, STRIDE, ALIGN, PEEL)
        kept = ()
        if QUEUE:
            taken = take_rows(words, 1)
            here = slot + round % SLOTS * SLOT
            wait(SLOTS - 1)
            for tile in gl.static_range(TILES):
                kept = kept + (load(here, tile, WARPS, HALVES),)
        else:
            left = bytes_of_row(row, COLUMNS, STRIDE, VECTOR, ALIGN, PEEL, HALVES)
            kept = load_row(
                x, row, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN, HALVES, KEEP
            )
            if RESIDUAL:
                more = load_row(
                    residual, row, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN,
                    HALVES, KEEP,
                )  # fmt: skip
            _keep_all(
                weight, bias, memory, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES,
                MEAN,
            )  # fmt: skip
        ends = ends_of_row(lead, layout, COLUMNS, TILES, ALL, VECTOR, ALIGN, PEEL, HALVES)
        own = ()
        for tile in gl.static_range(TILES):
            tile_words = kept[tile]
            if RESIDUAL:
                other = load(here, TILES + tile, WARPS, HALVES) if QUEUE else more[tile]
                out = ()
                for half in gl.static_range(HALVES):
                    one = element(tile_words, half, KIND, HALVES)
                    out = out + (one + element(other, half, KIND, HALVES),)
                write(
                    total, row, out, tile, ends, 0, lead, layout,
                    COLUMNS, TILES * TILE, COLUMNS, ALL, VECTOR, ALIGN, PEEL, HALVES, DROP,
                )  # fmt: skip
                tile_words = join(out, KIND, HALVES)
            if PEEL and may_end(tile, TILE, COLUMNS, ALIGN):
                tile_words = only_columns(tile_words, ends[tile][1], HALVES)
            own = own + (tile_words,)
        if QUEUE:
            coming = ahead[SLOTS - 1]
            left = bytes_of_row(coming, COLUMNS, STRIDE, VECTOR, ALIGN, PEEL, HALVES)
            fetch(
                here, tensors, coming, coming < rows, 0, left, layout, TILES, STRIDE, 0, COLUMNS,
                WARPS, ALIGN, HALVES, KEEP, BLOCKS,
            )  # fmt: skip
        if MEAN:
            first, second = _statistics_of_warps(
                own, ends, lead, layout, COLUMNS, TILES, ALL, ALIGN, PEEL, KIND, HALVES
            )
        else:
            first, second = _squares_of_warps(own, layout, TILES, ALL, KIND, HALVES)
        mailbox = mailboxes + (round & 1) * MAILBOX
        if not QUEUE:
            await_blocks()
        post(first, second, mailbox, layout, WARPS, BLOCKS, BLOCKS)
        if QUEUE:
            send_row(taken, mailbox, WARPS, BLOCKS)
        told = receive(mailbox, round >> 1 & 1, WARPS, BLOCKS, BLOCKS)
        middle, squares = _mean_and_squares(
            told, lead, layout, COLUMNS, WARPS, BLOCKS, MEAN, HALVES
        )
        later = rows
        if QUEUE:
            later = next_row(mailbox, WARPS, BLOCKS)
            rearm(mailbox, WARPS, BLOCKS, 4)  # the row after it comes, too
        scale = gl.rsqrt(squares / COLUMNS + eps)
        if MEAN:
            warp = gl.arange(0, ALL, gl.SliceLayout(1, layout))
            gl.store(mean + row + warp * 0, middle, mask=warp == 0)
            gl.store(rstd + row + warp * 0, scale, mask=warp == 0)
        planes = _planes(memory, lead, layout, WARPS, BLOCKS, ALIGN, PEEL, HALVES)
        _finish(
            y, own, row, ends, lead, middle, scale, planes, layout, COLUMNS, TILES, ALL, VECTOR,
            ALIGN, PEEL, HALVES, MEAN, KEPT, ODD, DROP,
        )  # fmt: skip
        row = ahead[0]
        ahead = (ahead[SLOTS - 1], later) if SLOTS == 2 else (later,)
        round += 1
