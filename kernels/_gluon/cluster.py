# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001 (arguments have no Python types)
"""Lets the blocks of a cluster, which share a row, tell each other what they find: from shared
memory to shared memory, which takes a fraction of a microsecond, where it takes more than one
through global memory.

A cluster is one program of Triton's: its tiles have a row for each warp of each block, and what the
compiler makes of them stays within a warp. What warps exchange they exchange here, in assembly:
triton 3.6 and 3.7, with which this was seen, cannot reduce across blocks.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .._clusters import BARRIER_BYTES, mailbox_bytes
from .words import add_pairs, join_peaks, lanes_of_warps

mailbox_bytes = gluon.constexpr_function(mailbox_bytes)
SUMS, PEAKS = gl.constexpr("sums"), gl.constexpr("peaks")
"""What a pair is: two sums of a row; or its maximum and the sum of exponentials relative to it."""


@gluon.constexpr_function
def _memory_layout(blocks):
    return gl.SwizzledSharedLayout(1, 1, 1, [0], [[0]] * (blocks.bit_length() - 1))


@gluon.constexpr_function
def _line_layout(warps, blocks):
    return gl.BlockedLayout([1], [32], [warps], [0], [[0]] * (blocks.bit_length() - 1))


@gluon.constexpr_function
def _open_assembly(before, bytes_, count, queue):
    """Return where shared memory begins, once the barriers of ``count`` mailboxes ``before`` bytes
    behind that wait for what comes into them, with ``queue`` also one for a first row, and it is
    said that this block is there."""
    each = bytes_ + 4 if queue else bytes_
    barriers = [(before + n * (bytes_ + BARRIER_BYTES) + bytes_, each) for n in range(count)]
    if queue:
        barriers.append((before + count * (bytes_ + BARRIER_BYTES), 4))
    return "\n".join(
        [
            "{",
            ".reg .pred first;",
            ".reg .b32 thread;",
            "mov.u32 thread, %tid.x;",
            "setp.eq.u32 first, thread, 0;",
            "bar.sync 0;",
            *(
                f"@first mbarrier.init.shared::cta.b64 [global_smem + {at}], 1;"
                for at, _ in barriers
            ),
            "@first fence.mbarrier_init.release.cluster;",
            *(
                "@first mbarrier.arrive.expect_tx.shared::cta.b64 _, "
                f"[global_smem + {at}], {expected};"
                for at, expected in barriers
            ),
            "barrier.cluster.arrive.relaxed.aligned;",
            "mov.u32 $0, global_smem;",
            "}",
        ]
    )


@gluon.jit
def open_mailboxes(
    WARPS: gl.constexpr, BLOCKS: gl.constexpr, COUNT: gl.constexpr = 1, BEFORE: gl.constexpr = 0,
    QUEUE: gl.constexpr = False,
):  # fmt: skip
    """Allocate shared memory: ``BEFORE`` bytes for something else, ``COUNT`` mailboxes, and with
    ``QUEUE`` a barrier and a word for the cluster's first row. Return where it begins. As the only
    allocation it begins where all shared memory does."""
    BYTES: gl.constexpr = mailbox_bytes(WARPS, BLOCKS)
    LINES: gl.constexpr = (BEFORE + COUNT * BYTES + (16 if QUEUE else 0) + 127) // 128
    memory: gl.constexpr = _memory_layout(BLOCKS)
    allocated = gl.allocate_shared_memory(gl.int32, [LINES, 32], memory)
    line: gl.constexpr = _line_layout(WARPS, BLOCKS)
    allocated.index(0).store(gl.zeros([32], gl.int32, line))  # else there would be none
    return gl.inline_asm_elementwise(
        _open_assembly(BEFORE, WARPS * BLOCKS * 8, COUNT, QUEUE), "=&r", [],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.constexpr_function
def _post_assembly(blocks):
    """Send a warp's pair ($1, $2) to $3 of the first blocks, whose barrier is at $4: a lane to
    each."""
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred there;",
            ".reg .b32 lane, at, barrier;",
            ".reg .b64 word;",
            "mov.u32 lane, %laneid;",
            f"setp.lt.u32 there, lane, {blocks};",
            "@there mapa.shared::cluster.u32 at, $3, lane;",
            "@there mapa.shared::cluster.u32 barrier, $4, lane;",
            "mov.b64 word, {$1, $2};",
            "@there st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 "
            "[at], word, [barrier];",
            "}",
        ]
    )


@gluon.constexpr_function
def _await_assembly(blocks):
    """Wait until all pairs are there, in one of the first blocks."""
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred done;",
            ".reg .b32 rank;",
            "mov.u32 rank, %cluster_ctarank;",
            f"setp.ge.u32 done, rank, {blocks};",
            "@done bra DONE;",
            "AGAIN:",
            "mbarrier.try_wait.parity.shared::cta.b64 done, [$1], $2;",
            "@!done bra AGAIN;",
            "DONE:",
            "}",
        ]
    )


@gluon.constexpr_function
def _read_assembly(count):
    """Load ``count`` pairs: that of a warp and of every 32nd further one."""
    return "\n".join(
        f"ld.shared.v2.f32 {{${2 * n}, ${2 * n + 1}}}, [${2 * count} + {256 * n}];"
        for n in range(count)
    )


@gluon.constexpr_function
def _read_operands(count):
    return ",".join(("=&r",) * (2 * count) + ("r",))


@gluon.jit
def await_blocks():
    """Wait until all blocks of the cluster have opened their mailboxes."""
    gl.inline_asm_elementwise(
        "barrier.cluster.wait.aligned; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def post(
    first, second, mailbox, layout: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr,
    TOLD: gl.constexpr,
):  # fmt: skip
    """Send each warp's pair to the first ``TOLD`` blocks."""
    ALL: gl.constexpr = WARPS * BLOCKS
    warp = gl.arange(0, ALL, gl.SliceLayout(1, layout))
    gl.inline_asm_elementwise(
        _post_assembly(TOLD), "=r,r,r,r,r",
        [first, second, mailbox + warp * 8, mailbox + (ALL * 8 + warp * 0)],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def receive(
    mailbox, parity, WARPS: gl.constexpr, BLOCKS: gl.constexpr, TOLD: gl.constexpr
):  # fmt: skip
    """Return the pairs of all warps, in each lane those of one and of every 32nd further one, once
    they are there."""
    ALL: gl.constexpr = WARPS * BLOCKS
    EACH: gl.constexpr = (ALL + 31) // 32
    gl.inline_asm_elementwise(
        _await_assembly(TOLD), "=r,r,r", [mailbox + ALL * 8, parity],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    return gl.inline_asm_elementwise(
        _read_assembly(EACH), _read_operands(EACH),
        [mailbox + lanes_of_warps(WARPS, ALL, BLOCKS) * 8],
        dtype=(gl.float32,) * (2 * EACH), is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def rearm(mailbox, WARPS: gl.constexpr, BLOCKS: gl.constexpr, BESIDES: gl.constexpr):
    """Let a mailbox wait for the pairs of a later row, and for so many bytes ``BESIDES``, once this
    block has what it waited for."""
    gl.inline_asm_elementwise(
        _rearm_assembly(WARPS * BLOCKS * 8 + BESIDES), "=r,r", [mailbox + WARPS * BLOCKS * 8],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.constexpr_function
def _rearm_assembly(expected):
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred first;",
            ".reg .b32 thread;",
            "mov.u32 thread, %tid.x;",
            "setp.eq.u32 first, thread, 0;",
            f"@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1], {expected};",
            "}",
        ]
    )


@gluon.jit
def take_rows(counter, COUNT: gl.constexpr):
    """Take so many rows from the counter, and return the first one's number to the first thread of
    the cluster."""
    return gl.inline_asm_elementwise(
        _take_assembly(COUNT), "=&r,l", [counter.to(gl.int64)],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.constexpr_function
def _take_assembly(count):
    return "\n".join(
        [
            "{",
            ".reg .pred first;",
            ".reg .b32 thread, rank;",
            "mov.u32 thread, %tid.x;",
            "mov.u32 rank, %cluster_ctarank;",
            "or.b32 thread, thread, rank;",
            "setp.eq.u32 first, thread, 0;",
            "mov.u32 $0, 0;",
            f"@first atom.relaxed.gpu.global.add.u32 $0, [$1], {count};",
            "}",
        ]
    )


@gluon.constexpr_function
def _send_assembly(blocks):
    """Send what the first thread of the cluster has in $1 to $2 of all blocks, whose barrier is at
    $3."""
    return "\n".join(
        [
            "{ // $0",
            ".reg .pred other, there;",
            ".reg .b32 warp, rank, lane, row, at, barrier;",
            "mov.u32 warp, %tid.x;",
            "shr.u32 warp, warp, 5;",
            "mov.u32 rank, %cluster_ctarank;",
            "or.b32 warp, warp, rank;",
            "setp.ne.u32 other, warp, 0;",
            "@other bra SENT;",
            "shfl.sync.idx.b32 row, $1, 0, 31, -1;",
            "mov.u32 lane, %laneid;",
            f"setp.lt.u32 there, lane, {blocks};",
            "@there mapa.shared::cluster.u32 at, $2, lane;",
            "@there mapa.shared::cluster.u32 barrier, $3, lane;",
            "@there st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 "
            "[at], row, [barrier];",
            "SENT:",
            "}",
        ]
    )


@gluon.jit
def _send(row, to, barrier, BLOCKS: gl.constexpr):
    gl.inline_asm_elementwise(
        _send_assembly(BLOCKS), "=r,r,r,r", [row, to, barrier],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def send_row(row, mailbox, WARPS: gl.constexpr, BLOCKS: gl.constexpr):
    """Send the row's number that the first thread has to the mailboxes of all blocks."""
    barrier = mailbox + WARPS * BLOCKS * 8
    _send(row, barrier + 8, barrier, BLOCKS)


@gluon.jit
def _row_at(at):
    return gl.inline_asm_elementwise(
        "ld.shared.b32 $0, [$1];", "=r,r", [at], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def next_row(mailbox, WARPS: gl.constexpr, BLOCKS: gl.constexpr):
    """Return the row's number that came with the pairs."""
    return _row_at(mailbox + (WARPS * BLOCKS * 8 + 8))


@gluon.jit
def first_row(row, at, BLOCKS: gl.constexpr):
    """Return to all blocks of the cluster, once they have opened their mailboxes, which row its
    first thread has taken: it comes behind the barrier ``at``."""
    await_blocks()
    _send(row, at + 8, at, BLOCKS)
    gl.inline_asm_elementwise(
        _await_assembly(BLOCKS), "=r,r,r", [at, 0], dtype=gl.int32, is_pure=False, pack=1
    )
    return _row_at(at + 8)


@gluon.jit
def join_own(found, WARPS: gl.constexpr, BLOCKS: gl.constexpr, HOW: gl.constexpr):
    """Return what the pairs make together that each lane has received."""
    first, second = found[0], found[1]
    for n in gl.static_range(1, (WARPS * BLOCKS + 31) // 32):
        if HOW == PEAKS:
            first, second = join_peaks(first, second, found[2 * n], found[2 * n + 1])
        else:
            first, second = add_pairs(first, second, found[2 * n], found[2 * n + 1])
    return first, second


@gluon.jit
def exchange(
    first, second, mailbox, layout: gl.constexpr, WARPS: gl.constexpr, BLOCKS: gl.constexpr,
    HOW: gl.constexpr, TOLD: gl.constexpr,
):  # fmt: skip
    """Send each warp's pair to the first ``TOLD`` blocks, once all of them have opened their
    mailboxes, and return to each of their warps what the pairs of all make together; what warps of
    the other blocks get means nothing. With a barrier of the cluster, instead of one that counts
    what arrives, softmax of 4096 × 65536 reached 85 percent of a copy instead of 99.6, by 8
    blocks."""
    await_blocks()
    post(first, second, mailbox, layout, WARPS, BLOCKS, TOLD)
    found = receive(mailbox, 0, WARPS, BLOCKS, TOLD)
    first, second = join_own(found, WARPS, BLOCKS, HOW)
    if HOW == PEAKS:
        first, second = gl.reduce((first, second), 1, join_peaks)
    else:
        first, second = gl.reduce((first, second), 1, add_pairs)
    first = gl.convert_layout(first, gl.SliceLayout(1, layout))
    return first, gl.convert_layout(second, gl.SliceLayout(1, layout))
