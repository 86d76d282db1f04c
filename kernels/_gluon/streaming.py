# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005 (arguments have no Python types; branches are constant)
"""Lets persistent programs stream rows through shared memory, in Gluon, and tell each other what
they find, without barriers: the pieces of which rings are made (see ``words``). Triton's own
pipeliner cannot do it: a row has to stay there until its sums are known.

The warps of a program wait for each other no more than programs do. A thread reads of a row what
it copied there itself, and the last warp that has a row's sums adds up and tells those of all. A
compiler that sees shared memory being written and read puts barriers between, so both are done in
assembly.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .words import WARP_WORDS, add_pairs, lanes_for, row_at, words_of

_LOAD_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("r",) * 4))
_COPY_OPERANDS = gl.constexpr(",".join(("=r",) * 4 + ("r",) * 4 + ("l",) * 4 + ("r",) * 4))


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
def _load_assembly(offset):
    return f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {offset}];"


@gluon.constexpr_function
def _copy_assembly(to, at, keep):
    """Start to copy the vector at $8 to shared memory, or zeros where $12 is 0 instead of 16; L2
    evicts it last if ``keep`` says so."""
    if not keep:
        return f"cp.async.cg.shared.global [$4 + {to}], [$8 + {at}], 16, $12; // $0, $1, $2, $3"
    return "\n".join(
        [
            "{ // $0, $1, $2, $3",
            ".reg .b64 policy;",
            f"createpolicy.fractional.L2::{keep}.b64 policy, 1.0;",
            f"cp.async.cg.shared.global.L2::cache_hint [$4 + {to}], [$8 + {at}], 16, $12, policy;",
            "}",
        ]
    )


# Never less than the address: bits 24 and further are the block's rank in its cluster, below 16.
# ptxas cannot know that.
_PER_THREAD = gl.constexpr("min.u32 $0, $1, 0x7fffffff;")


@gluon.jit
def per_thread(to, KEEP: gl.constexpr):
    """Return addresses to copy to with a policy such that ptxas sees no part of them that all
    threads share. It would put that part into a uniform register, for which the instruction has no
    room: an illegal instruction (ptxas 12.8, sm_90)."""
    if KEEP != "":
        return gl.inline_asm_elementwise(
            _PER_THREAD, "=r,r", [to], dtype=gl.int32, is_pure=False, pack=1
        )
    else:
        return to


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
    tensors, row, present, part, layout: gl.constexpr, STRIDE: gl.constexpr, CHUNK: gl.constexpr,
    WARPS: gl.constexpr, ALIGN: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    """Return the addresses of each thread's first vector of a row of each tensor; those of row 0
    for a row that is not there."""
    first = gl.where(present, row, 0)
    found = ()
    for which in gl.static_range(len(tensors)):
        at = row_at(tensors[which], first, STRIDE, ALIGN, HALVES) + part * (CHUNK // HALVES)
        found = found + ((at + (words_of(0, layout, WARPS) >> 2 << 2)).to(gl.int64),)
    return found


@gluon.jit
def fetch_tile(
    to, sources, tile: gl.constexpr, present, left, layout: gl.constexpr, TILES: gl.constexpr,
    SURE: gl.constexpr, WARPS: gl.constexpr, HALVES: gl.constexpr, KEEP: gl.constexpr,
    BLOCKS: gl.constexpr = 1,
):  # fmt: skip
    """Start to copy a tile of a row of each tensor into a slot; ``to`` is where each thread's own
    vector of it begins (see ``per_thread``). Zeros are copied behind the ``left`` bytes of the
    program's part, and for a row that is not there. ``BLOCKS``: of a cluster, whose tiles have so
    many warps of each."""
    TILE: gl.constexpr = WARPS * WARP_WORDS * 4
    at = (words_of(tile, layout, WARPS * BLOCKS) >> 2) * 16
    inside = present & (at >= 0)
    if (tile + 1) * WARPS * BLOCKS * WARP_WORDS * HALVES > SURE:
        inside = inside & (at < left)
    for which in gl.static_range(len(sources)):
        gl.inline_asm_elementwise(
            _copy_assembly((which * TILES + tile) * TILE, tile * TILE * BLOCKS, KEEP),
            _COPY_OPERANDS, [to, sources[which], gl.where(inside, 16, 0)],
            dtype=gl.int32, is_pure=False, pack=4,
        )  # fmt: skip


@gluon.jit
def fetch(
    to, tensors, row, present, part, left, layout: gl.constexpr, TILES: gl.constexpr,
    STRIDE: gl.constexpr, CHUNK: gl.constexpr, SURE: gl.constexpr, WARPS: gl.constexpr,
    ALIGN: gl.constexpr, HALVES: gl.constexpr, KEEP: gl.constexpr, BLOCKS: gl.constexpr = 1,
):  # fmt: skip
    """Start to copy a row of each tensor into a slot; ``BLOCKS`` as in ``fetch_tile``."""
    sources = find_sources(
        tensors, row, present, part, layout, STRIDE, CHUNK, WARPS * BLOCKS, ALIGN, HALVES
    )
    to = per_thread(to, KEEP)
    for tile in gl.static_range(TILES):
        fetch_tile(
            to, sources, tile, present, left, layout, TILES, SURE, WARPS, HALVES, KEEP, BLOCKS
        )
    commit()


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
def tell(
    words, row, round, part, first, second, scratch, layout: gl.constexpr,
    APART: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """Publish this program's two sums of a row, as one word; ``first`` and ``second`` are those of
    each warp. The last warp to come does it, so that none waits for another. As they are at most
    ``BEHIND`` rounds apart, one or two, there are places for four rows."""
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
    lines.append(f"and.b32 lane, lane, {lanes_for(parts) - 1};")
    for n in range(count):
        lines += [
            f"mov.b64 ${n}, 0;",
            f"setp.lt.u32 there, lane, {parts - 32 * n};",
            f"@there ld.relaxed.gpu.global.b64 ${n}, [${count} + {256 * n}];",
        ]
    return "\n".join([*lines, "}"])


@gluon.constexpr_function
def _await_words_assembly(count):
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
def peek(told, PARTS: gl.constexpr):
    """Return what the programs of a row have told by now."""
    EACH: gl.constexpr = (PARTS + 31) // 32
    return gl.inline_asm_elementwise(
        _peek_assembly(PARTS, EACH), _words_operands(EACH, 0), [told],
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def await_sums(told, seen, PARTS: gl.constexpr):
    """Return the two sums of a row from what all of its programs have told, to each warp: each
    looks for itself, so that none waits for another."""
    EACH: gl.constexpr = (PARTS + 31) // 32
    found = gl.inline_asm_elementwise(
        _await_words_assembly(EACH), _words_operands(EACH, 1), seen + (told,),
        dtype=(gl.int64,) * EACH, is_pure=False, pack=1,
    )  # fmt: skip
    first = (found[0] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
    second = found[0].to(gl.int32).to(gl.float32, bitcast=True)
    for n in gl.static_range(1, EACH):
        first += (found[n] >> 32).to(gl.int32).to(gl.float32, bitcast=True)
        second += found[n].to(gl.int32).to(gl.float32, bitcast=True)
    return gl.reduce((first, second), 1, add_pairs)


@gluon.jit
def as_column(each, layout: gl.constexpr):
    """Return a number of each warp as a column of a tile."""
    return gl.convert_layout(each, gl.SliceLayout(1, layout))[:, None]
