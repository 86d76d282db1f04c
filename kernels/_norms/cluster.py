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
device has room for at the same time, no plan knows. The first block asks for the next row before it
reads one, and tells the others with what its first warp has found of that. Without, each cluster
has one row.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .._gluon.cluster import (
    await_blocks,
    first_row,
    group_of_thread,
    mailbox_bytes,
    next_row,
    open_mailboxes,
    post,
    receive,
    rearm,
    send_row,
    take_row,
)
from .._gluon.words import (
    WARP_WORDS,
    add,
    add_pairs,
    await_previous,
    element,
    ends_of_row,
    groups_in,
    join,
    lanes_of_warps,
    load_row,
    load_tile,
    may_end,
    only_columns,
    opaque,
    row_at,
    tile_layout,
    warps_of,
    words_of,
    write,
)

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
def _store_assembly(offset, plane):
    """Store a vector's words, $8 to $11, at $4 if $12 is not 0: each in its plane, or side by side
    if there are none."""
    stores = [f"@some st.shared.v4.b32 [$4 + {offset}], {{$8, $9, $10, $11}};"]
    if plane:
        stores = [f"@some st.shared.b32 [$4 + {offset + k * plane}], ${8 + k};" for k in range(4)]
    return "\n".join(
        ["{ // $0, $1, $2, $3", ".reg .pred some;", "setp.ne.b32 some, $12, 0;", *stores, "}"]
    )


@gluon.constexpr_function
def _load_assembly(offset, planes, odd):
    """Load a vector's words from $4, or from the four planes at $4, $8, $12 and $16; with ``odd``,
    those from $8, $12, $16 and $20 on also as the words after each."""
    if not planes:
        return f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {offset}];"
    given = 8 if odd else 4
    lines = [f"ld.shared.b32 ${k}, [${given + 4 * k} + {offset}];" for k in range(4)]
    if odd:
        lines.append(f"ld.shared.b32 $7, [${given} + {offset + 4}];")
        lines += [f"mov.b32 ${4 + k}, ${k + 1};" for k in range(3)]
    return "\n".join(lines)


@gluon.constexpr_function
def _load_operands(odd):
    return ",".join(("=&r",) * (8 if odd else 4) + ("r",) * 16)


@gluon.jit
def _vectors(layout: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr):
    """Return the number of each word's vector, of a tile of its block."""
    warp = warps_of(layout, WARPS * BLOCKS)[:, None] % WARPS
    word = gl.arange(0, WARP_WORDS, gl.SliceLayout(0, layout))[None, :]
    return (warp * WARP_WORDS + word) >> 2


@gluon.jit
def _keep(
    tensor, memory, group, OFFSET: gl.constexpr, layout: gl.constexpr, COLUMNS: gl.constexpr,
    TILES: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr, ALIGN: gl.constexpr,
    PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Put the weights of a block's lanes ``OFFSET`` bytes behind ``memory``; each of the groups of
    warps that have a row of their own puts some tiles there."""
    GROUPS: gl.constexpr = groups_in(layout, WARPS * BLOCKS)
    BEFORE: gl.constexpr = ALIGN // HALVES if PEEL else 0
    PLANE: gl.constexpr = plane_bytes(WARPS, ALIGN, HALVES) if PEEL else 0
    TILE: gl.constexpr = tile_bytes(WARPS, ALIGN, HALVES, PEEL)
    vector = _vectors(layout, WARPS, BLOCKS)
    to = memory + vector * (4 if PEEL else 16)
    at = row_at(tensor, gl.program_id(0) * 0, 0, ALIGN, HALVES)
    for tile in gl.static_range(TILES):
        first = (words_of(tile, layout, WARPS * BLOCKS) >> 2) * 4
        for more in gl.static_range(2 if PEEL else 1):
            # Those that are before the block's lanes, and then as many at their end.
            begin = first + (more * WARPS * WARP_WORDS - BEFORE)
            word = words_of(tile, layout, WARPS * BLOCKS) + (more * WARPS * WARP_WORDS - BEFORE)
            there = vector >= 0
            if more:
                there = vector < BEFORE // 4
            if GROUPS > 1:
                there = there & (group == tile % GROUPS)
            if (tile + 1) * WARPS * BLOCKS * WARP_WORDS * HALVES > COLUMNS:
                inside = (begin >= 0) & (begin * HALVES < COLUMNS)
                found = gl.load(at + word, mask=inside & there, other=0)
            elif tile == 0:
                found = gl.load(at + word, mask=(begin >= 0) & there, other=0)
            elif more or GROUPS > 1:
                found = gl.load(at + word, mask=there, other=0)
            else:
                found = gl.load(at + word)
            gl.inline_asm_elementwise(
                _store_assembly(OFFSET + tile * TILE + more * WARPS * 128, PLANE),
                _STORE_OPERANDS,
                [to, found.to(gl.int32, bitcast=True), gl.where(there, 1, 0)],
                dtype=gl.int32, is_pure=False, pack=4,
            )  # fmt: skip


@gluon.jit
def _keep_all(
    weight, bias, memory, group, layout: gl.constexpr, COLUMNS: gl.constexpr, TILES: gl.constexpr,
    WARPS: gl.constexpr, BLOCKS: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr,
    HALVES: gl.constexpr, MEAN: gl.constexpr,
):  # fmt: skip
    """Put the weights of a block's lanes, and behind them the biases, into shared memory."""
    _keep(weight, memory, group, 0, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES)
    if MEAN:
        BEHIND: gl.constexpr = TILES * tile_bytes(WARPS, ALIGN, HALVES, PEEL)
        _keep(
            bias, memory, group, BEHIND, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES
        )
    gl.inline_asm_elementwise(
        "bar.sync 0; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _planes(
    memory, lead, layout: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr,
    ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return where the words of each vector's lanes are for a row."""
    vector = _vectors(layout, WARPS, BLOCKS)
    if PEEL:
        PLANE: gl.constexpr = plane_bytes(WARPS, ALIGN, HALVES)
        words = (ALIGN - lead) // HALVES
        found = ()
        for k in gl.static_range(4):
            found = found + (memory + ((words + k & 3) * PLANE + (words + k >> 2) * 4) + vector * 4,)
        return found
    else:
        return (memory + vector * 16,) * 4


@gluon.jit
def _weights(
    planes, OFFSET: gl.constexpr, ODD: gl.constexpr, PEEL: gl.constexpr, KIND: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    """Return the weights of words, a tile for each element of a word; ``ODD``: the first of these
    is the second one of a word in shared memory."""
    words = gl.inline_asm_elementwise(
        _load_assembly(OFFSET, PEEL, ODD), _load_operands(ODD),
        [planes[0], planes[1], planes[2], planes[3]], dtype=(gl.int32,) * (1 + ODD), is_pure=False, pack=4,
    )  # fmt: skip
    if HALVES == 1:
        return (words[0].to(gl.float32, bitcast=True),)
    elif ODD:
        return element(words[0], 1, KIND, HALVES), element(words[1], 0, KIND, HALVES)
    else:
        return element(words[0], 0, KIND, HALVES), element(words[0], 1, KIND, HALVES)


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
def _lead(row, STRIDE: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr):
    return row % ALIGN * (STRIDE % ALIGN) % ALIGN if PEEL else 0


@gluon.jit
def _left(
    row, lead, rows, COLUMNS: gl.constexpr, VECTOR: gl.constexpr, HALVES: gl.constexpr
):  # fmt: skip
    """Return the bytes of a row and its lead in whole vectors; none of a row that is not there."""
    left = (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR * (4 // HALVES)
    return gl.where(row < rows, left, 0)


@gluon.jit
def _mean_and_squares(
    found, lead, layout: gl.constexpr, COLUMNS: gl.constexpr, WARPS: gl.constexpr,
    BLOCKS: gl.constexpr, MEAN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return a row's mean and the sum of squares about it, to each warp, from the pairs of all: of
    a layer norm a warp's sum and its squares about its own mean, else twice its squares."""
    ALL: gl.constexpr = WARPS * BLOCKS
    GROUPS: gl.constexpr = groups_in(layout, ALL)
    EACH: gl.constexpr = (ALL + 31) // 32
    first, second = found[0], found[1]
    for n in gl.static_range(1, EACH):
        first, second = add_pairs(first, second, found[2 * n], found[2 * n + 1])
    first, second = gl.reduce((first, second), 1, add_pairs)
    mean = gl.convert_layout(first / COLUMNS, gl.SliceLayout(1, layout))
    squares = gl.convert_layout(second, gl.SliceLayout(1, layout))
    if MEAN:
        lane = lanes_of_warps(WARPS * GROUPS, ALL, BLOCKS)
        middle = (first / COLUMNS)[:, None]
        for n in gl.static_range(EACH):
            count = _columns_of_warps(lead, lane + 32 * n, COLUMNS, ALL, HALVES).to(gl.float32)
            off = found[2 * n] / gl.maximum(count, 1.0) - middle
            between = count * off * off if n == 0 else gl.fma(count * off, off, between)
        squares += gl.convert_layout(gl.reduce(between, 1, add), gl.SliceLayout(1, layout))
    return mean, squares


@gluon.constexpr_function
def _whole_tile(tiles, lanes, columns, align, peel):
    """Return a tile of which all words have all columns of any row; −1 if there is none."""
    return next((n for n in range(tiles) if not _is_partial(n, lanes, columns, align, peel)), -1)


@gluon.constexpr_function
def _partial_tiles(tiles, lanes, columns, align, peel):
    return sum(_is_partial(n, lanes, columns, align, peel) for n in range(tiles))


@gluon.jit
def _squares_of_warps(
    own, layout: gl.constexpr, TILES: gl.constexpr, ALL: gl.constexpr, KIND: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    EVERY: gl.constexpr = ALL * groups_in(layout, ALL)
    total = gl.zeros([EVERY, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            value = element(own[tile], half, KIND, HALVES)
            total = gl.fma(value, value, total)
    squares = gl.reduce(total, 1, add)
    return squares, squares


@gluon.jit
def _statistics_of_warps(
    own, ends, layout: gl.constexpr, COLUMNS: gl.constexpr, TILES: gl.constexpr,
    ALL: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, KIND: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    """Return each warp's sum, and its squares about its own mean.

    Words in one place of all tiles are taken relative to one of them, whose tile has all columns:
    their squares about their mean are what is left of at most ``TILES`` × ``HALVES`` + 1 times as
    much, so that cancelling costs a few bits at most, whatever the numbers are. Where there is no
    such tile, they are relative to their sum's mean, which takes another look at them.
    """
    EVERY: gl.constexpr = ALL * groups_in(layout, ALL)
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    WHOLE: gl.constexpr = _whole_tile(TILES, TILE, COLUMNS, ALIGN, PEEL)
    PARTIAL: gl.constexpr = _partial_tiles(TILES, TILE, COLUMNS, ALIGN, PEEL)
    count = gl.full([EVERY, WARP_WORDS], (TILES - PARTIAL) * HALVES, gl.int32, layout)
    first = gl.zeros([EVERY, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        if _is_partial(tile, TILE, COLUMNS, ALIGN, PEEL):
            found = _own_columns(tile, ends, layout, COLUMNS, ALL, PEEL, HALVES)
            for half in gl.static_range(HALVES):
                count += found >> 16 * half & 1
    count = count.to(gl.float32)
    if WHOLE >= 0:
        middle = element(own[WHOLE], 0, KIND, HALVES)
    else:
        for tile in gl.static_range(TILES):
            for half in gl.static_range(HALVES):
                first += element(own[tile], half, KIND, HALVES)
        middle = first / gl.maximum(count, 1.0)
    one = gl.zeros([EVERY, WARP_WORDS], gl.float32, layout)
    two = gl.zeros([EVERY, WARP_WORDS], gl.float32, layout)
    for tile in gl.static_range(TILES):
        for half in gl.static_range(HALVES):
            off = element(own[tile], half, KIND, HALVES) - middle
            if _is_partial(tile, TILE, COLUMNS, ALIGN, PEEL):
                found = _own_columns(tile, ends, layout, COLUMNS, ALL, PEEL, HALVES)
                off = gl.where((found >> 16 * half & 1) != 0, off, 0.0)
            one += off
            two = gl.fma(off, off, two)
    inverse = gl.rsqrt(gl.maximum(count, 1.0))
    off = one * (inverse * inverse)
    squares = gl.fma(-one, off, two)
    own_mean = middle + off
    one, of_warp = gl.reduce((own_mean * count, count), 1, add_pairs)
    off = own_mean - (one / gl.maximum(of_warp, 1.0))[:, None]
    return one, gl.reduce(gl.fma(count * off, off, squares), 1, add)


@gluon.jit
def _same_of_warp(each):
    """Return a number of each warp as if it were another one: neither LLVM nor ptxas sees that it
    is not. What is made of it in one of two branches cannot be made before they part then, which
    takes more registers than there are."""
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", [each], dtype=each.dtype, is_pure=False,
        pack=1,
    )  # fmt: skip


@gluon.jit
def _finish(
    x, residual, y, kept, more, row, coming, rows, ends, lead, left, middle, scale, planes,
    layout: gl.constexpr, COLUMNS: gl.constexpr, STRIDE: gl.constexpr, TILES: gl.constexpr,
    ALL: gl.constexpr, VECTOR: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr,
    HALVES: gl.constexpr, RESIDUAL: gl.constexpr, MEAN: gl.constexpr, KEPT: gl.constexpr,
    ODD: gl.constexpr, QUEUE: gl.constexpr, KEEP: gl.constexpr, DROP: gl.constexpr,
):  # fmt: skip
    """Write a row, and load the one that comes into the registers that this leaves; return it."""
    KIND: gl.constexpr = x.dtype.element_ty
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    NOTHING: gl.constexpr = 0 if HALVES == 2 else 0.0
    next_kept = ()
    next_more = ()
    if ODD:
        scale = _same_of_warp(scale)
    scale = scale[:, None]
    middle = middle[:, None]
    for tile in gl.static_range(TILES):
        words = opaque(kept[tile]) if HALVES == 2 else kept[tile]
        w = _weights(planes, tile * KEPT, ODD, PEEL, KIND, HALVES)
        b = w
        if MEAN:
            b = _weights(planes, (TILES + tile) * KEPT, ODD, PEEL, KIND, HALVES)
        out = ()
        for half in gl.static_range(HALVES):
            value = element(words, half, KIND, HALVES)
            if MEAN and HALVES == 2:
                value = gl.fma(value, scale, -middle * scale)
            elif MEAN:
                value = (value - middle) * scale
            else:
                value = value * scale
            if MEAN:
                value = gl.fma(value, w[half], b[half])
            else:
                value = value * w[half]
            out = out + (value,)
        write(
            y, row, out, tile, ends, 0, lead, layout,
            COLUMNS, TILES * TILE, COLUMNS, ALL, VECTOR, ALIGN, PEEL, HALVES, DROP,
        )  # fmt: skip
        if not QUEUE:
            next_kept = kept
            next_more = more
        else:
            next_kept = next_kept + (
                load_tile(
                    x, coming, left, tile, NOTHING, layout, COLUMNS, STRIDE, ALL, ALIGN, HALVES,
                    KEEP,
                ),
            )  # fmt: skip
            if RESIDUAL:
                next_more = next_more + (
                    load_tile(
                        residual, coming, left, tile, NOTHING, layout, COLUMNS, STRIDE, ALL, ALIGN,
                        HALVES, KEEP,
                    ),
                )  # fmt: skip
    return next_kept, next_more


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
    GROUPS: gl.constexpr,
    BLOCKS: gl.constexpr,
    VECTOR: gl.constexpr,
    ALIGN: gl.constexpr,
    PEEL: gl.constexpr,
    HALVES: gl.constexpr,
    RESIDUAL: gl.constexpr,
    MEAN: gl.constexpr,
    QUEUE: gl.constexpr,
    KEEP: gl.constexpr,
    DROP: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute norms of rows; ``MEAN``: layer norm. The next row is loaded into the registers that
    writing a row leaves, tile by tile."""
    KIND: gl.constexpr = x.dtype.element_ty
    ALL: gl.constexpr = WARPS * BLOCKS
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    KEPT: gl.constexpr = tile_bytes(WARPS, ALIGN, HALVES, PEEL)
    WEIGHTS: gl.constexpr = TILES * KEPT * (1 + MEAN)
    MAILBOX: gl.constexpr = mailbox_bytes(WARPS, BLOCKS)
    NOTHING: gl.constexpr = 0 if HALVES == 2 else 0.0
    layout: gl.constexpr = tile_layout(WARPS * GROUPS, BLOCKS)
    COUNT: gl.constexpr = 2 if QUEUE else 1
    memory = open_mailboxes(WARPS, BLOCKS, GROUPS, COUNT, WEIGHTS, QUEUE)
    group = group_of_thread(WARPS)
    mailboxes = memory + WEIGHTS + group * (COUNT * MAILBOX)
    await_previous(OVERLAP)
    row = gl.program_id(0) * GROUPS + group
    if QUEUE:
        taken = take_row(words, WARPS)
        _keep_all(
            weight, bias, memory, group, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES,
            MEAN,
        )
        at = memory + (WEIGHTS + GROUPS * COUNT * MAILBOX) + group * 16
        row = first_row(taken, at, WARPS, BLOCKS)
    lead = _lead(row, STRIDE, ALIGN, PEEL)
    left = _left(row, lead, rows, COLUMNS, VECTOR, HALVES)
    at = gl.minimum(row, rows - 1)
    kept = load_row(
        x, at, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN, HALVES, KEEP
    )
    more = ()
    if RESIDUAL:
        more = load_row(
            residual, at, left, NOTHING, layout, COLUMNS, STRIDE, TILES, ALL, ALIGN, HALVES, KEEP
        )
    if not QUEUE:
        _keep_all(
            weight, bias, memory, group, layout, COLUMNS, TILES, WARPS, BLOCKS, ALIGN, PEEL, HALVES,
            MEAN,
        )
    round = row * 0
    while row < rows:
        if QUEUE:
            taken = take_row(words, WARPS)
        lead = _lead(row, STRIDE, ALIGN, PEEL)
        ends = ends_of_row(lead, layout, COLUMNS, TILES, ALL, VECTOR, ALIGN, PEEL, HALVES)
        own = kept
        if RESIDUAL:
            own = ()
            for tile in gl.static_range(TILES):
                out = ()
                for half in gl.static_range(HALVES):
                    one = element(kept[tile], half, KIND, HALVES)
                    out = out + (one + element(more[tile], half, KIND, HALVES),)
                write(
                    total, row, out, tile, ends, 0, lead, layout,
                    COLUMNS, TILES * TILE, COLUMNS, ALL, VECTOR, ALIGN, PEEL, HALVES, DROP,
                )  # fmt: skip
                own = own + (join(out, KIND, HALVES),)
        if not MEAN:
            masked = ()
            for tile in gl.static_range(TILES):
                tile_words = own[tile]
                if PEEL and may_end(tile, TILE, COLUMNS, ALIGN):
                    tile_words = only_columns(tile_words, ends[tile][1], HALVES)
                masked = masked + (tile_words,)
            first, second = _squares_of_warps(masked, layout, TILES, ALL, KIND, HALVES)
        else:
            first, second = _statistics_of_warps(
                own, ends, layout, COLUMNS, TILES, ALL, ALIGN, PEEL, KIND, HALVES
            )
        mailbox = mailboxes + (round & 1) * MAILBOX
        if not QUEUE:
            await_blocks()
        post(first, second, mailbox, layout, WARPS, BLOCKS, BLOCKS)
        if QUEUE:
            send_row(taken, mailbox, WARPS, BLOCKS)
        told = receive(mailbox, round >> 1 & 1, WARPS, BLOCKS, BLOCKS, GROUPS)
        middle, squares = _mean_and_squares(
            told, lead, layout, COLUMNS, WARPS, BLOCKS, MEAN, HALVES
        )
        coming = rows
        if QUEUE:
            coming = next_row(mailbox, WARPS, BLOCKS)
            rearm(mailbox, WARPS, BLOCKS)
        scale = gl.rsqrt(squares / COLUMNS + eps)
        if MEAN:
            warp = warps_of(layout, ALL)
            gl.store(mean + row + warp * 0, middle, mask=warp == 0)
            gl.store(rstd + row + warp * 0, scale, mask=warp == 0)
        planes = _planes(memory, lead, layout, WARPS, BLOCKS, ALIGN, PEEL, HALVES)
        left = _left(coming, _lead(coming, STRIDE, ALIGN, PEEL), rows, COLUMNS, VECTOR, HALVES)
        at = gl.minimum(coming, rows - 1)
        if HALVES == 2 and STRIDE % 2 == 1:
            if lead % 2 == 1:
                kept, more = _finish(
                    x, residual, y, own, more, row, at, rows, ends, lead, left, middle,
                    scale, planes, layout, COLUMNS, STRIDE, TILES, ALL, VECTOR, ALIGN,
                    PEEL, HALVES, RESIDUAL, MEAN, KEPT, True, QUEUE, KEEP, DROP,
                )  # fmt: skip
            else:
                kept, more = _finish(
                    x, residual, y, own, more, row, at, rows, ends, lead, left, middle,
                    scale, planes, layout, COLUMNS, STRIDE, TILES, ALL, VECTOR, ALIGN,
                    PEEL, HALVES, RESIDUAL, MEAN, KEPT, False, QUEUE, KEEP, DROP,
                )  # fmt: skip
        else:
            kept, more = _finish(
                x, residual, y, own, more, row, at, rows, ends, lead, left, middle,
                scale, planes, layout, COLUMNS, STRIDE, TILES, ALL, VECTOR, ALIGN,
                PEEL, HALVES, RESIDUAL, MEAN, KEPT, False, QUEUE, KEEP, DROP,
            )  # fmt: skip
        row = coming
        round += 1
