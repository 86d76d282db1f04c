# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RET505, RUF005, SIM102 (arguments have no Python types; branches
# are constant)
"""Streams long rows through shared memory: gradients of norms (see ``_gluon.streaming``).

``PARTS`` persistent programs share each row, and ``GROUPS`` groups of them take rows. A program
owns the same ``CHUNK`` lanes of all its rows (lanes, ``lead``, ``ALIGN`` and ``PEEL`` as in
``lanes``), and keeps ``SLOTS`` rows in shared memory.

Rows lie in ``SPACING`` ways, their kinds, and what registers hold for lanes fits rows of one kind.
Where there are as many groups for each kind, groups take rows in turn. Otherwise a group's share
may have rows of several kinds: these are its segments. A segment ends when all of its rows are
finished. Meanwhile the first rows of the next segment are copied into the slots that are free, if
both segments have at least ``SLOTS`` rows. Warps do not wait for each other there. One that leaves
a segment has seen the sums of all its rows told, to which all warps of its program have added
theirs: no counter is in use, and each segment counts its rounds from 0. What it copies into slots
lies over its own words only.

A round tells the sums of a row that has arrived, finishes the one ``BEHIND`` rows
before it, whose sums the other programs have told meanwhile, and starts to copy another one over
it, tile by tile: nobody waits for memory or for another program, and registers hold only the
weights and the columns' sums. All programs have to be resident at once: the launch is cooperative,
so that it starts with all of them or not at all.

A word that another program has told in global memory arrives behind everything that is being
copied. With ``BLOCKS`` > 1, a program is a cluster of so many blocks instead, which has whole rows
(``PARTS`` = 1), and whose warps send their sums to the shared memory of all blocks. A tile is
spread over all of its warps. Clusters do not wait for each other and are launched as usual.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .._gluon.cluster import (
    SUMS,
    await_blocks,
    join_own,
    mailbox_bytes,
    open_mailboxes,
    post,
    rearm,
    receive,
)
from .._gluon.streaming import (
    allocate,
    as_column,
    await_sums,
    commit,
    fetch,
    fetch_tile,
    find_sources,
    kinds_of_group,
    load,
    peek,
    per_thread,
    rows_of_kind,
    tell,
    told_at,
    wait,
)
from .._gluon.words import (
    WARP_WORDS,
    add_pairs,
    await_previous,
    element,
    find_ends,
    has_column,
    lanes_of_warps,
    may_end,
    only_columns,
    opaque,
    second_look,
    start_next,
    tile_layout,
    vectors_of_warps,
    words_of,
    write,
)


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
            local = words_of(tile, layout, WARPS) * HALVES + half
            inside = has_column(part, lead, local, COLUMNS, CHUNK)
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
        return element(opaque(weights[tile]), half, KIND, HALVES)


@gluon.jit
def _load_all(
    slot, tile: gl.constexpr, RESIDUAL: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    """Return a tile of each tensor from a slot."""
    x = load(slot, tile, WARPS, HALVES)
    dy = load(slot, TILES + tile, WARPS, HALVES)
    more = load(slot, 2 * TILES + tile, WARPS, HALVES) if RESIDUAL else x
    return x, dy, more


@gluon.constexpr_function
def _keep_assembly(halves):
    """Store the sums of a vector's elements, those of each word in $8 and further and of its other
    half four later, at $4, if the last operand is not 0."""
    order = [f"${8 + word + 4 * half}" for word in range(4) for half in range(halves)]
    stores = (
        f"@some st.global.v4.f32 [$4 + {16 * n}], {{{', '.join(order[4 * n : 4 * n + 4])}}};"
        for n in range(halves)
    )
    return "\n".join(
        [
            "{ // $0, $1, $2, $3",
            ".reg .pred some;",
            f"setp.ne.b32 some, ${8 + 4 * halves}, 0;",
            *stores,
            "}",
        ]
    )


@gluon.constexpr_function
def _keep_operands(halves):
    return ",".join(("=r",) * 4 + ("l",) * 4 + ("f",) * (4 * halves) + ("r",) * 4)


@gluon.jit
def _keep(
    partial, sums, part, lead, layout: gl.constexpr, PITCH: gl.constexpr, HEAD: gl.constexpr,
    CHUNK: gl.constexpr, TILES: gl.constexpr, WARPS: gl.constexpr, PEEL: gl.constexpr,
    HALVES: gl.constexpr,
):  # fmt: skip
    """Write a program's sums of its lanes, 16 bytes at a time, behind a head that tells ``lead``.
    By columns, they would be written four bytes here and there: 20 µs in all of a layer norm."""
    if PEEL:
        gl.store(partial, lead.to(gl.float32), mask=part == 0)
    to = partial + HEAD + part * CHUNK
    for tile in gl.static_range(TILES):
        local = words_of(tile, layout, WARPS) * HALVES
        inside = (local < CHUNK) & (part * CHUNK + local < PITCH - HEAD)
        found = (sums[tile * HALVES],)
        if HALVES == 2:
            found = found + (sums[tile * HALVES + 1],)
        gl.inline_asm_elementwise(
            _keep_assembly(HALVES), _keep_operands(HALVES),
            ((to + local).to(gl.int64),) + found + (gl.where(inside, 1, 0),),
            dtype=gl.int32, is_pure=False, pack=4,
        )  # fmt: skip


@gluon.jit
def _bytes_left(
    kind, part, STRIDE: gl.constexpr, COLUMNS: gl.constexpr, CHUNK: gl.constexpr,
    VECTOR: gl.constexpr, ALIGN: gl.constexpr, PEEL: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return how many bytes of rows of a kind the program's part has, in whole vectors."""
    lead = kind * STRIDE % ALIGN if PEEL else 0
    end = (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    return gl.minimum(end - part * CHUNK, CHUNK) * (4 // HALVES)


@gluon.jit
def _mailbox_of(
    mailboxes, turn, WARPS: gl.constexpr, BLOCKS: gl.constexpr, MAILBOXES: gl.constexpr
):  # fmt: skip
    return mailboxes + turn % MAILBOXES * mailbox_bytes(WARPS, BLOCKS)


@gluon.jit
def _receive(
    mailboxes, turn, WARPS: gl.constexpr, BLOCKS: gl.constexpr, MAILBOXES: gl.constexpr
):  # fmt: skip
    """Return the two sums of a row from what all warps of the cluster have sent."""
    mailbox = _mailbox_of(mailboxes, turn, WARPS, BLOCKS, MAILBOXES)
    found = receive(mailbox, turn // MAILBOXES % 2, WARPS, BLOCKS, BLOCKS)
    rearm(mailbox, WARPS, BLOCKS, 0)
    first, second = join_own(found, WARPS, BLOCKS, SUMS)
    return gl.reduce((first, second), 1, add_pairs)


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
    GROUPS: gl.constexpr,
    PARTIALS: gl.constexpr,
    PITCH: gl.constexpr,
    HEAD: gl.constexpr,
    PARTS: gl.constexpr,
    BLOCKS: gl.constexpr,
    MAILBOXES: gl.constexpr,
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
    KEEP: gl.constexpr,
    DROP: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """Compute all gradients in one pass, the weight's as ``PARTIALS`` partial sums: one for each
    segment of each group. The formulas are those of ``backward``."""
    KIND: gl.constexpr = x.dtype.element_ty
    SURE: gl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    CLUSTER: gl.constexpr = BLOCKS > 1
    ALL: gl.constexpr = WARPS * BLOCKS
    layout: gl.constexpr = tile_layout(WARPS, BLOCKS)
    TILE: gl.constexpr = ALL * WARP_WORDS * HALVES
    MIXED: gl.constexpr = GROUPS % SPACING != 0
    STEP: gl.constexpr = SPACING if MIXED else GROUPS
    group = gl.program_id(0) // PARTS
    part = gl.program_id(0) % PARTS
    # Of a mean, biases take as many registers as sums.
    WIDE: gl.constexpr = HALVES == 1 or not MEAN
    tensors = (x, dy, dsum) if RESIDUAL else (x, dy)
    SLOT: gl.constexpr = (2 + RESIDUAL) * TILES * WARPS * WARP_WORDS * 4
    if CLUSTER:
        base = open_mailboxes(WARPS, BLOCKS, MAILBOXES, SLOTS * SLOT)
        scratch = base + SLOTS * SLOT
    else:
        base, scratch = allocate(SLOTS * SLOT, SCRATCH, WARPS)
        lane = lanes_of_warps(WARPS, PARTS)
    memory = base + vectors_of_warps(layout, WARPS, BLOCKS) * 16
    earlier = 0  # rows, of earlier segments
    slot = 0
    fetched = 0  # whether the segment's first rows are in slots, or on their way
    kind, kinds = kinds_of_group(group, rows, GROUPS, SPACING, MIXED)
    for nth in range(kinds):
        lead = (kind + nth) * STRIDE % ALIGN if PEEL else 0
        begin, until, count = rows_of_kind(group, kind + nth, rows, GROUPS, SPACING, MIXED)
        least = begin if MIXED else 0
        rounds = count + BEHIND
        if MIXED:
            rounds = gl.where(count > 0, rounds, 0)
        left = _bytes_left(
            kind + nth, part, STRIDE, COLUMNS, CHUNK, VECTOR, ALIGN, PEEL, HALVES
        )  # fmt: skip
        if fetched == 0:
            for first in gl.static_range(SLOTS - BEHIND):
                fetch(
                    memory + first * SLOT, tensors, begin + first * STEP,
                    begin + first * STEP < until, part, left, layout, TILES, STRIDE, CHUNK, SURE,
                    WARPS, ALIGN, HALVES, KEEP, BLOCKS,
                )  # fmt: skip
        if MIXED:
            next_begin, next_until, next_count = rows_of_kind(
                group, kind + nth + 1, rows, GROUPS, SPACING, MIXED
            )
            goes_on = (nth + 1 < kinds) & (gl.minimum(count, next_count) >= SLOTS)
        weights = _load_weights(
            weight, part, lead, layout, COLUMNS, CHUNK, TILES, ALL, HALVES, WIDE
        )
        ends = ()
        if PEEL:
            ends = find_ends(
                part, lead, layout, COLUMNS, CHUNK, SURE, TILES, ALL, VECTOR, ALIGN, HALVES
            )
        sums = ()
        for _ in gl.static_range(TILES * HALVES):
            sums = sums + (gl.zeros([ALL, WARP_WORDS], gl.float32, layout),)
        biases = sums if MEAN else ()
        await_previous(OVERLAP)
        if CLUSTER:
            if nth == 0:
                await_blocks()
        if MEAN:
            mu = gl.load(mean + begin, mask=begin < until, other=0.0)
            done_mu = mu * 0.0
            sigma = mu * 0.0
        for round in range(rounds):
            row = begin + round * STEP
            done = row - BEHIND * STEP
            if MEAN:  # of the next round: they may come from far away
                after = done + STEP
                is_there = (after >= least) & (after < until)
                next_mu = gl.load(mean + row + STEP, mask=row + STEP < until, other=0.0)
                next_done_mu = gl.load(mean + after, mask=is_there, other=0.0)
                next_sigma = gl.load(rstd + after, mask=is_there, other=0.0)
            if not CLUSTER:
                told = told_at(words, done, lane, APART)
                seen = peek(told, PARTS)
            wait(SLOTS - BEHIND - 1)
            here = memory + slot * SLOT
            before = memory + gl.where(slot >= BEHIND, slot - BEHIND, slot - BEHIND + SLOTS) * SLOT
            coming = row + (SLOTS - BEHIND) * STEP
            is_coming = coming < until
            if MIXED:
                of_next = goes_on & (coming >= until)
                coming = gl.where(of_next, coming - until + next_begin, coming)
                is_coming = is_coming | (of_next & (coming < next_until))
                left = _bytes_left(
                    coming % SPACING, part, STRIDE, COLUMNS, CHUNK, VECTOR, ALIGN, PEEL, HALVES
                )  # fmt: skip
            one = gl.zeros([ALL, WARP_WORDS], gl.float32, layout)
            two = gl.zeros([ALL, WARP_WORDS], gl.float32, layout)
            for tile in gl.static_range(TILES):
                x_tile = load(here, tile, WARPS, HALVES)
                dy_tile = load(here, TILES + tile, WARPS, HALVES)
                if PEEL and may_end(tile, TILE, SURE, ALIGN):
                    keep = second_look(ends[tile][1], HALVES)
                    x_tile = only_columns(x_tile, keep, HALVES)
                    dy_tile = only_columns(dy_tile, keep, HALVES)
                for half in gl.static_range(HALVES):
                    value = element(x_tile, half, KIND, HALVES)
                    w = _weight(weights, tile, half, KIND, HALVES, WIDE)
                    g = element(dy_tile, half, KIND, HALVES) * w
                    if MEAN:
                        one += g
                        two = gl.fma(g, value if HALVES == 2 else value - mu, two)
                    else:
                        one = gl.fma(value, value, one)
                        two = gl.fma(g, value, two)
            one, two = gl.reduce((one, two), 1, add_pairs)
            turn = earlier + round
            if round < count:
                if CLUSTER:
                    mailbox = _mailbox_of(scratch, turn, WARPS, BLOCKS, MAILBOXES)
                    post(one, two, mailbox, layout, WARPS, BLOCKS, BLOCKS)
                else:
                    tell(words, row, round, part, one, two, scratch, layout, APART, WARPS)
            if done >= least:
                if CLUSTER:
                    first, second = _receive(scratch, turn - BEHIND, WARPS, BLOCKS, MAILBOXES)
                else:
                    first, second = await_sums(told, seen, PARTS)
                first = as_column(first, layout) / COLUMNS
                second = as_column(second, layout) / COLUMNS
                if MEAN and HALVES == 2:  # the input is rounded more than this product
                    second -= first * done_mu
                if MEAN:
                    scale = sigma
                    shift = -first * sigma
                    slope = -(second * scale) * scale
                else:
                    scale = gl.rsqrt(first + eps)
                    slope = -(second * scale) * scale * scale
                sources = find_sources(
                    tensors, coming, is_coming, part, layout, STRIDE, CHUNK, ALL, ALIGN, HALVES
                )
                before = per_thread(before, KEEP)
                new_sums = ()
                new_biases = ()
                x_tile, dy_tile, more = _load_all(before, 0, RESIDUAL, TILES, WARPS, HALVES)
                for tile in gl.static_range(TILES):
                    out = ()
                    for half in gl.static_range(HALVES):
                        value = element(x_tile, half, KIND, HALVES)
                        gradient = element(dy_tile, half, KIND, HALVES)
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
                            found += element(more, half, KIND, HALVES)
                        out = out + (found,)
                    if tile + 1 < TILES:  # ahead of the copies, behind which it would wait
                        x_tile, dy_tile, more = _load_all(
                            before, tile + 1, RESIDUAL, TILES, WARPS, HALVES
                        )
                    write(
                        dx, done, out, tile, ends, part, lead, layout,
                        COLUMNS, CHUNK, SURE, ALL, VECTOR, ALIGN, PEEL, HALVES, DROP,
                    )  # fmt: skip
                    fetch_tile(
                        before, sources, tile, is_coming, left, layout, TILES, SURE, WARPS,
                        HALVES, KEEP, BLOCKS,
                    )  # fmt: skip
                sums = new_sums
                biases = new_biases
                commit()
            elif fetched == 0:  # else all slots have rows, or wait for them
                fetch(
                    before, tensors, coming, is_coming, part, left, layout, TILES,
                    STRIDE, CHUNK, SURE, WARPS, ALIGN, HALVES, KEEP, BLOCKS,
                )  # fmt: skip
            slot = gl.where(slot + 1 == SLOTS, 0, slot + 1)
            if MEAN:
                mu = next_mu
                done_mu = next_done_mu
                sigma = next_sigma
        if MIXED:  # the rounds that only finished rows passed over slots of the next segment
            slot = gl.where(goes_on, gl.where(slot < BEHIND, slot + SLOTS, slot) - BEHIND, 0)
            fetched = goes_on.to(gl.int32)
        if fetched == 0:
            wait(0)
        earlier += count
        if nth == kinds - 1:
            start_next(OVERLAP)
        to = partial + (group + kind + nth if MIXED else group).to(gl.int64) * PITCH
        _keep(to, sums, part, lead, layout, PITCH, HEAD, CHUNK, TILES, ALL, PEEL, HALVES)
        if MEAN:
            to += PARTIALS * PITCH
            _keep(to, biases, part, lead, layout, PITCH, HEAD, CHUNK, TILES, ALL, PEEL, HALVES)
