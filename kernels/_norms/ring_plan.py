"""Cuts long rows among programs that stream them through shared memory (see ``ring``). Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import pow

from perfcli.model import KernelLaunch, Problem, Target

from .._clusters import mailbox_bytes, why_none
from .._elements import ITEM_BYTES, lanes_of, sector_of, vector
from .._eviction import policies
from .blocks import (
    Blocks,
    _round_up,
    has_mean,
    has_residual,
    mark_missing,
    step,
    words_apart,
)
from .cuts import (
    LAUNCH,
    alignments,
    halves,
    inputs_of,
    most_registers,
    moved_bytes,
    peels,
    share_of_partials,
    shares_sectors,
    spacing_of,
    takes_vectors,
)

LEAST_SLOTS, MOST_SLOTS, MOST_TILES = 3, 12, 8
"""Of a ring: at least one row that waits for the sums of others, one that is added up, and one on
its way."""
MOST_PARTS, ANY_PARTS = 100, 160
"""Programs of a row, each of which looks for the words of all; more than ``MOST_PARTS`` only where
there is no other way. With 129, rmsnorm-backward 545 × 246615 bfloat16 reached 91.3 percent of a
copy, and 91.9 with 64 of twice the threads; with 132, layernorm-backward 986 × 136250 reached 80.3,
where 90 were expected (H200, 2026-11-29)."""


def _is_possible(problem: Problem, target: Target) -> bool:
    """Return whether the target copies to shared memory without waiting, and rows can be copied 16
    bytes at a time, which is all that it does so."""
    able = target.vendor == "nvidia" and target.capability >= (8, 0)
    return able and takes_vectors(problem)


Shapes = tuple[tuple[int, int], ...]
SHAPES: Shapes = ((32, 8), (64, 4), (128, 2), (256, 1))
"""Threads of a program, and programs per multiprocessor: a quarter or less of its threads, each
with as many registers as there are. More threads of fewer columns compute more besides."""


def candidates(problem: Problem, target: Target, shapes: Shapes = SHAPES) -> Iterator[Blocks]:
    """Yield every way to cut the problem whose programs are all resident."""
    if not _is_possible(problem, target):
        return
    found = []
    for align, (threads, per_sm) in product(alignments(problem), shapes):
        tile = threads * vector(problem)
        for tiles in range(1, MOST_TILES + 1):
            blocks = Blocks("ring", threads, 1, tile, align, tiles, per_sm=per_sm)
            for count in ways_to_group(problem, target, blocks):
                made = share(problem, target, replace(blocks, groups=count))
                if made is not None and made.parts <= ANY_PARTS:
                    found.append(made)
    yield from [each for each in found if each.parts <= MOST_PARTS] or found


MAILBOXES = 4
"""Of a block, for as many rows in turn, where a row is finished one round after its sums are sent.
A warp that sends the sums of a row has received those of the row two before, of all warps; and
these had read those of the row four before, whose mailbox is used again, before they sent them."""
BLOCKS = 2
"""Of a cluster. A cluster of two always finds room on the two multiprocessors of a TPC. Larger ones
do not: on an H200, clusters of 16 found room on 7 groups of 16 multiprocessors, 20 were left over,
and the last clusters ran when all others were done (2026-11-29)."""


def clusters_pay(problem: Problem) -> bool:
    """Return whether clusters may be faster than all else, as far as it was measured: for layer
    norm without a residual. Of others, other ways were faster in 11 of 11 problems, by up to 10
    points of a copy, which the estimate does not see (H200, 2026-11-29: rmsnorm-backward 8697 ×
    15434 bfloat16 in clusters 90.5 percent, in a ring 96.6; with a residual 147169 × 912 float16
    89.8, by whole rows 99.5)."""
    return has_mean(problem) and not has_residual(problem)


def clusters(problem: Problem, target: Target) -> Iterator[Blocks]:
    """Yield every way to cut rows among the blocks of clusters."""
    if not _is_possible(problem, target) or why_none(target):
        return
    for align, (threads, per_sm) in product(alignments(problem), SHAPES):
        tile = threads * BLOCKS * vector(problem)
        tiles = -(-lanes_of(problem, align) // tile)
        if tiles > MOST_TILES:
            continue
        blocks = Blocks("cluster", threads, 1, tile, align, tiles, BLOCKS, per_sm=per_sm)
        for count in ways_to_group(problem, target, blocks):
            made = _with_slots(problem, target, replace(blocks, groups=count))
            if made is not None:
                yield made


def ways_to_group(problem: Problem, target: Target, blocks: Blocks) -> Iterator[int]:
    """Yield how many groups of programs may take rows: as many for each kind of rows, so that all
    rows of a group lie alike; and as many as there is room for, where that saves more rounds than
    the least that a further segment takes."""
    spacing = spacing_of(problem, blocks.align)
    parts = BLOCKS if blocks.variant == "cluster" else _fewest_parts(problem, blocks)
    room = blocks.per_sm * target.sm_count // parts
    alike = min(room, _round_up(problem.rows, spacing)) // spacing * spacing
    every = min(room, problem.rows)
    if alike:
        yield alike
    if every and (not alike or -(-problem.rows // alike) + (-problem.rows // every) > 1):
        yield every


def _fewest_parts(problem: Problem, blocks: Blocks) -> int:
    return -(-lanes_of(problem, blocks.align) // (blocks.tile * blocks.tiles))


def share(problem: Problem, target: Target, blocks: Blocks) -> Blocks | None:
    """Return the blocks with as many programs for each row as leave no multiprocessor idle, and as
    many rows in shared memory as it has room for; None where they do not fit."""
    lanes = lanes_of(problem, blocks.align)
    fewest = _fewest_parts(problem, blocks)
    resident = blocks.per_sm * target.sm_count
    most = max(fewest, min(resident // blocks.groups, -(-lanes // blocks.tile)))
    parts = _even_parts(problem, blocks, most, max(fewest, int(SHARED * most)))
    chunk = _chunk(problem, blocks, parts)
    made = replace(blocks, parts=-(-lanes // chunk), tiles=-(-chunk // blocks.tile))
    return _with_slots(problem, target, made)


def _with_slots(problem: Problem, target: Target, blocks: Blocks) -> Blocks | None:
    """Return the blocks with as many rows in shared memory as it has room for; None where that is
    too few, or where a thread needs more registers than it may have."""
    room = target.shared_bytes_per_sm // blocks.per_sm - target.reserved_shared_bytes_per_block
    room = min(room, target.shared_bytes_per_block_optin) // 128 * 128
    slots = min((room - _scratch(blocks)) // _slot(problem, blocks), MOST_SLOTS)
    if slots < LEAST_SLOTS or _registers(problem, blocks) > most_registers(target, blocks):
        return None
    return replace(blocks, stages=slots)


def _even_parts(problem: Problem, blocks: Blocks, most: int, least: int) -> int:
    """Return the most programs of a row whose last one ends in the last tile of the others; if none
    do, whose last one lacks no more than a tile of what they have; ``most`` where there are none:
    what each tile of a program may lack takes instructions, and registers until they spill. Those
    whose parts are whole sectors of memory come first."""
    lanes = lanes_of(problem, blocks.align)

    def lacking(parts: int) -> int:
        return _chunk(problem, blocks, parts) * parts - lanes

    def of_last_tile(parts: int) -> int:
        return (_chunk(problem, blocks, parts) - 1) % blocks.tile + 1

    every = range(most, least - 1, -1)
    whole = [n for n in every if _chunk(problem, blocks, n) % sector_of(problem) == 0]
    for among in (whole, every):
        alike = (parts for parts in among if lacking(parts) + blocks.align < of_last_tile(parts))
        even = (parts for parts in among if lacking(parts) <= blocks.tile)
        found = next(alike, next(even, 0))
        if found:
            return found
    return most


SHARED = 0.94
"""The least share of the programs that a row may have: fewer are not tried to make them alike."""


def _chunk(problem: Problem, blocks: Blocks, parts: int) -> int:
    """Return the lanes of a program: whole sectors of memory, or where the last program would lack
    more than a tile then, whole vectors."""
    lanes, wide = lanes_of(problem, blocks.align), vector(problem)
    if blocks.variant == "cluster":
        return blocks.tiles * blocks.tile
    found = _round_up(-(-lanes // parts), sector_of(problem))
    even = found * parts - lanes <= blocks.tile
    return found if even else _round_up(-(-lanes // parts), wide)


def is_mixed(problem: Problem, blocks: Blocks) -> bool:
    """Return whether rows of several kinds fall to a group."""
    return blocks.groups % spacing_of(problem, blocks.align) != 0


def segments(problem: Problem, blocks: Blocks) -> list[tuple[int, ...]]:
    """Return, for each group, the rows of each of its segments. The last one may have none: a group
    ends with the kind of rows with which the next one begins (see ``_gluon.streaming``)."""
    rows, count, spacing = problem.rows, blocks.groups, spacing_of(problem, blocks.align)
    if not is_mixed(problem, blocks):
        return [(-(-max(rows - group, 0) // count),) for group in range(count)]
    kinds = [_begin_of_share(kind, rows, spacing) for kind in range(spacing + 1)]
    found = []
    for group in range(count):
        begin, stop = (_begin_of_share(which, rows, count) for which in (group, group + 1))
        first, last = (
            min(bisect_right(kinds, place) - 1, rows - 1, spacing - 1) for place in (begin, stop)
        )
        own = range(first, last + 1)
        found.append(tuple(min(stop, kinds[n + 1]) - max(begin, kinds[n]) for n in own))
    return found


def _begin_of_share(which: int, rows: int, shares: int) -> int:
    """Return where one of equal shares of the rows begins; the first have a row more."""
    return which * (rows // shares) + min(which, rows % shares)


HEAD = 4
"""Floats before a partial sum, which tell where its columns begin."""


def pitch(problem: Problem, blocks: Blocks) -> int:
    """Return how many floats apart partial sums are."""
    return HEAD + lanes_of(problem, blocks.align)


def partial_sums(problem: Problem, blocks: Blocks) -> int:
    """Return how many partial sums there are: one for each segment."""
    return sum(map(len, segments(problem, blocks)))


def _slot(problem: Problem, blocks: Blocks) -> int:
    tile = blocks.threads * vector(problem)
    return inputs_of(problem) * blocks.tiles * tile * ITEM_BYTES[problem.dtype]


def _scratch(blocks: Blocks) -> int:
    """Return the bytes by which the warps of a program tell each other their sums."""
    if blocks.variant == "cluster":
        return _round_up(MAILBOXES * mailbox_bytes(blocks.threads // 32, blocks.parts), 128)
    return _round_up(32 + blocks.threads, 128)


def shared_bytes(problem: Problem, blocks: Blocks) -> int:
    """Return the shared memory of a program, as compiled."""
    return blocks.stages * _slot(problem, blocks) + _scratch(blocks)


def behind(blocks: Blocks) -> int:
    """Return how many rows a program adds up before it finishes the first of them."""
    return 2 if blocks.stages > 3 and blocks.variant == "ring" else 1


def _registers(problem: Problem, blocks: Blocks) -> int:
    """Return about how many registers a thread needs, for its columns' weights and sums and
    besides, such that ptxas 12.8 spills next to nothing for sm_90."""
    elements = blocks.tiles * vector(problem)
    mixed = is_mixed(problem, blocks)
    if blocks.variant == "cluster":  # whose blocks have both ends of a row
        own = 120 if has_mean(problem) or peels(problem, blocks) else 56
    else:
        own = 56 + 16 * peels(problem, blocks)
        own += 48 * (has_mean(problem) or mixed) * (_tiles_with_ends(problem, blocks) > 2)
    own += elements * has_residual(problem) // 2 + OF_SEGMENTS * mixed
    looks = -(-blocks.parts // 32) - 1
    each = 2 + has_mean(problem) * (0.5 if halves(problem) == 2 else 1)
    return int(own + 6 * looks + elements * each)


OF_SEGMENTS = 28
"""Registers for what a program of several segments has to remember: of a mean and 64 elements of
half precision, ptxas would keep 30 words in local memory that it reads in each round."""


def _tiles_with_ends(problem: Problem, blocks: Blocks) -> int:
    """Return in how many tiles of some program a row may begin, end or have no column, where rows
    start anywhere: of three of them and a mean, ptxas spills up to 24 bytes, and a ring reaches 78
    percent of a copy instead of 91 (layernorm-backward 9309 × 14419, 43338 × 3097)."""
    if not peels(problem, blocks):
        return 0
    sure = problem.columns - (blocks.parts - 1) * _chunk(problem, blocks, blocks.parts)
    return 1 + blocks.tiles - max(sure, 0) // blocks.tile


def estimate_efficiency(problem: Problem, target: Target, blocks: Blocks) -> float:
    """Return about which share of the memory's bandwidth is reached: all rounds last as long as
    their transfers or as what programs do, more where both are long. The constants fit 634 launches
    of 99 problems (H200, triton 3.6, 2026-11-29), half of them within 1.2 percent; those of
    segments 45 launches of nine."""
    cluster = blocks.variant == "cluster"
    found = segments(problem, blocks)
    moves = moved_bytes(problem) / target.bandwidth
    each = PER_ELEMENT[problem.dtype] + OF_MEAN * has_mean(problem)
    instructions = PER_ROUND + blocks.tiles * vector(problem) * each
    works = blocks.per_sm * blocks.threads / 128 * instructions * ISSUE
    waits = CLUSTER_STALL if cluster else STALLS[blocks.threads] + FEW / blocks.parts
    rounds = max(sum(each) + behind(blocks) * sum(map(bool, each)) for each in found)
    busy = rounds * (works + waits)
    parts_share = _chunk(problem, blocks, blocks.parts) % sector_of(problem) != 0
    longer = SHARED_SECTORS * (parts_share or shares_sectors(problem, blocks))
    longer += ODD * (cluster and halves(problem) == 2 and problem.stride % 2)
    transfers = moves * (1 + longer)
    power = CLUSTER_OVERLAPPED if cluster else OVERLAPPED
    together = pow(pow(transfers, power) + pow(busy, power), 1 / power)
    besides = LAUNCHES - cluster * LAUNCH
    besides += (max(map(len, found)) - 1) * (SEGMENT + SEGMENT_OF_MEAN * has_mean(problem))
    besides += moves * share_of_partials(problem, target, sum(map(len, found)))
    return moves / (together + besides)


PER_ROUND = 115
"""Instructions of a thread in a round."""
PER_ELEMENT = {"bfloat16": 10.8, "float16": 12.9, "float32": 16.1}
"""Instructions for each element, and what float16's conversions take longer."""
OF_MEAN = 7.0
"""What a mean adds to them, registers included, so that others wait."""
ISSUE = 0.393e-9
"""Seconds of a quarter of a multiprocessor for each instruction of a warp."""
STALLS = {32: 0.38e-6, 64: 0.58e-6, 128: 0.57e-6, 256: 0.57e-6}
"""Seconds of a round that a program waits besides, by its threads: most of it for what others tell
in global memory, which comes behind all that is being copied."""
CLUSTER_STALL = 0.34e-6
"""The same of a cluster's block, to which others tell it in shared memory."""
FEW = 0.44e-6
"""What it adds to them that a row has one program, or with more a part of it: whole rows arrive at
one multiprocessor."""
OVERLAPPED, CLUSTER_OVERLAPPED = 4.6, 9.0
SHARED_SECTORS = 0.053
"""By how much longer transfers last whose tiles begin within sectors."""
ODD = 0.045
"""The same where a cluster's block has the ends of many rows of odd widths, which it writes two
bytes at a time."""
LAUNCHES = 7e-6
"""Seconds before the first row and behind the last; clusters need a launch less."""
SEGMENT, SEGMENT_OF_MEAN = 6e-6, 6e-6
"""Seconds that each further segment takes besides its rounds, and more of a mean: its weights are
waited for, and its columns' sums are written, with a mean twice as many. Segments of fewer rows
than a ring has slots also wait for their first rows, which no problem that was timed had."""


def launches(
    problem: Problem, target: Target, blocks: Blocks, function: str, there: str, absent: str
) -> list[KernelLaunch]:
    """Return the launches that stream rows; ``there`` and ``absent`` are tensors of theirs."""
    # Of 11 problems −0.4 to 1.5 points of a copy faster than as usual (H200, 2026-11-29).
    keep, drop = policies(problem, target, inputs_of(problem) + 1)
    cluster = blocks.variant == "cluster"
    together, parts = (blocks.parts, 1) if cluster else (1, blocks.parts)
    made = step(
        problem, target, blocks, function, (blocks.groups * parts, 1, 1),
        f"{there} rows eps" if cluster else f"{there} words rows eps",
        f"{absent} words" if cluster else absent,
        COLUMNS=problem.columns, STRIDE=problem.stride,
        CHUNK=_chunk(problem, blocks, blocks.parts), GROUPS=blocks.groups,
        PARTIALS=partial_sums(problem, blocks), PITCH=pitch(problem, blocks), HEAD=HEAD,
        PARTS=parts, BLOCKS=together, MAILBOXES=MAILBOXES * cluster, TILES=blocks.tiles,
        WARPS=blocks.threads // 32, SLOTS=blocks.stages, BEHIND=behind(blocks),
        SPACING=spacing_of(problem, blocks.align), VECTOR=vector(problem), ALIGN=blocks.align,
        PEEL=peels(problem, blocks),
        HALVES=halves(problem), RESIDUAL=has_residual(problem), MEAN=has_mean(problem),
        APART=words_apart(parts), SCRATCH=_scratch(blocks), KEEP=keep, DROP=drop,
        OVERLAP=target.overlaps_launches,
    )  # fmt: skip
    made = replace(
        made,
        maxnreg=most_registers(target, blocks),
        all_at_once=not cluster,
        cluster=together,
        shared_bytes=shared_bytes(problem, blocks),
    )
    if cluster:
        return [made]
    return [mark_missing(problem, target, words_apart(parts)), made]
