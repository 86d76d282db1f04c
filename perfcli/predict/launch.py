"""Turns the work of a launch into seconds: one bound for each thing that can hold it up.

Every function here takes numbers or arrays of numbers alike, so that a calibration fits the same
formulas to thousands of launches that an estimate applies to one. Sources of the formulas:
docs/time.md. Constants in cycles refer to the calibration's clock.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from perfcli.model import Buffer, Candidate, LaunchWork, Traffic

Numbers = Any
"""A float, or an array of them: numpy's functions take both."""


@dataclass(slots=True)
class Demand:
    """Holds what launches ask of a device: floats for one launch, arrays for many.

    Counts of the memory system are those of one block, instructions those of one warp.
    """

    blocks: Numbers
    warps: Numbers
    blocks_per_sm: Numbers
    shared_bytes: Numbers
    stack_bytes: Numbers
    read: Numbers
    """Bytes that the launch reads, each once."""
    written: Numbers
    cold: Numbers
    """The part of ``read`` that no earlier launch left in the L2 cache, 0 to 1."""
    issued: Numbers
    special: Numbers
    conversions: Numbers
    shared: Numbers
    shuffles: Numbers
    code: Numbers
    local_bytes: Numbers
    requests: Numbers
    lines: Numbers
    load_sectors: Numbers
    new_sectors: Numbers
    l2_sectors: Numbers
    """Those of ``new_sectors`` that no other block on the same multiprocessor has brought there."""
    store_requests: Numbers
    store_sectors: Numbers
    warp_store_sectors: Numbers
    block_store_sectors: Numbers
    partial: Numbers
    fragments: Numbers
    atomic_sectors: Numbers
    atomic_contention: Numbers
    stalls: Numbers
    rounds: Numbers
    near: Numbers
    """The part of ``rounds`` for what L1 has, 0 to 1."""
    again: Numbers
    """The part of ``rounds`` for what the block loaded in an earlier sweep, 0 to 1."""
    sweep_bytes: Numbers
    """Bytes that a block loads in one sweep."""
    shared_share: Numbers
    """The part of ``new_sectors`` that other blocks load as well, 0 to 1."""
    bank_conflicts: Numbers
    longest_stalls: Numbers
    longest_rounds: Numbers


_OF_TRAFFIC = {f.name for f in fields(Demand)} & {f.name for f in fields(Traffic)}


def stack(demands: list[Demand]) -> Demand:
    """Return the demands of many launches as one of arrays."""
    return Demand(
        **{f.name: np.array([getattr(d, f.name) for d in demands], float) for f in fields(Demand)}
    )


def demand_of(
    work: LaunchWork, candidate: Candidate, buffers: Sequence[Buffer], sms: int, cold: float = 1.0
) -> Demand:
    """Return what a launch of a configuration asks for. ``cold`` is the part of its input that no
    earlier launch left in the L2 cache, 0 to 1."""
    traffic, warp, longest = work.traffic, work.warp, work.longest
    issued = warp.issued
    read, written = count_moved(work, buffers)
    return Demand(
        blocks=work.blocks,
        warps=work.warps,
        blocks_per_sm=max(candidate.blocks_per_sm or 1, 1),
        shared_bytes=candidate.shared_bytes or 0,
        stack_bytes=candidate.stack_bytes or 0,
        read=read,
        written=written,
        cold=cold,
        issued=warp.total,
        special=issued.get("special", 0.0),
        conversions=issued.get("conversion", 0.0),
        shared=issued.get("shared-load", 0.0) + issued.get("shared-store", 0.0),
        shuffles=issued.get("shuffle", 0.0),
        code=max(warp.instructions, 1),
        local_bytes=warp.local_bytes,
        l2_sectors=_count_l2_sectors(work, buffers, sms),
        atomic_contention=_updates_per_address(work),
        stalls=warp.stall_cycles,
        rounds=warp.rounds,
        near=warp.near_rounds / max(warp.rounds, 1e-9),
        again=warp.again_rounds / max(warp.rounds, 1e-9),
        sweep_bytes=sum(traffic.touched.values()) / max(1.0, *traffic.swept.values()) * 32
        if traffic.swept
        else 0.0,
        shared_share=max(0.0, 1 - read / max(1.0, traffic.new_sectors * 32 * work.blocks)),
        longest_stalls=max(warp.stall_cycles, longest.stall_cycles),
        longest_rounds=max(warp.rounds, longest.rounds),
        **{name: getattr(traffic, name) for name in _OF_TRAFFIC},
    )


def count_moved(work: LaunchWork, buffers: Sequence[Buffer]) -> tuple[float, float]:
    """Return the bytes that a launch reads and writes, each once: what its blocks touch, of no
    buffer more than it holds."""
    traffic, blocks = work.traffic, work.blocks
    sizes = _measure_buffers(work, buffers)
    read = sum(
        min(sizes.get(argument, math.inf), sectors * _SECTOR * blocks)
        for argument, sectors in traffic.touched.items()
    )
    written = (traffic.block_store_sectors + traffic.atomic_addresses) * _SECTOR * blocks
    outputs = sum(buffer.bytes for buffer in buffers if buffer.is_written)
    return read, min(written, outputs or math.inf)


def _measure_buffers(work: LaunchWork, buffers: Sequence[Buffer]) -> dict[str, float]:
    """Return the bytes of each buffer that come with the elements that are read: of a sector of
    which no block uses more than a part all comes, as far as the buffer goes."""
    sizes: dict[str, float] = {buffer.argument: buffer.bytes for buffer in buffers}
    used: dict[str, float] = defaultdict(float)
    widths: dict[str, int] = {}
    for access in work.accesses or ():
        if access.kind == "load" and access.known and not access.indirect:
            used[access.argument] += access.used
            widths[access.argument] = access.element_bytes
    for buffer in buffers:
        touched = work.traffic.touched.get(buffer.argument, 0.0)
        share = used.get(buffer.argument, 0.0) / touched if touched else 0.0
        if 0 < share < 1:
            pairs = zip(buffer.shape, buffer.stride, strict=True)
            extent = 1 + sum((size - 1) * abs(stride) for size, stride in pairs)
            whole = extent * widths[buffer.argument]
            sizes[buffer.argument] = max(buffer.bytes, min(whole, buffer.bytes / share))
    return sizes


def _count_l2_sectors(work: LaunchWork, buffers: Sequence[Buffer], sms: int) -> float:
    """Return the sectors that one block brings to its multiprocessor: a buffer that fits into L1
    comes there once, whichever of its blocks asks for it."""
    sizes = _measure_buffers(work, buffers)
    on_one = max(1.0, work.blocks / sms)
    sectors = 0.0
    for argument, touched in work.traffic.touched.items():
        size = sizes.get(argument, math.inf)
        sectors += min(touched, size / _SECTOR / on_one) if size <= L1_BYTES else touched
    return sectors


_SECTOR = 32
L1_BYTES = 256e3
"""L1 and shared memory of one multiprocessor (Hopper tuning guide)."""
_WORDS_OF_A_SECTOR = 8


def _updates_per_address(work: LaunchWork) -> float:
    """How often atomics update one address, on average over those that they update."""
    traffic, blocks = work.traffic, work.blocks
    if not traffic.atomic_addresses:
        return 0.0
    own = 1 - traffic.atomic_shared * (1 - 1 / blocks)
    sectors = max(1.0, blocks * traffic.atomic_addresses * own)
    words = min(_WORDS_OF_A_SECTOR, traffic.atomic_updates / traffic.atomic_addresses)
    return blocks * traffic.atomic_updates / (sectors * max(1.0, words))


def bounds(w: Demand, c: Mapping[str, float], sms: int, clock: float) -> dict[str, Any]:
    """Return microseconds by bound; ``combine`` joins them."""
    per = w.blocks / sms
    on_one = np.where(per < 4, np.ceil(per), per + 0.5)
    resident = np.minimum(np.ceil(per), w.blocks_per_sm)
    turns = per / w.blocks_per_sm
    waves = np.maximum(1, np.where(turns < 6, np.ceil(turns), turns + 0.5))
    on_sm = on_one * w.warps
    cold = w.read * w.cold
    total = w.read + w.written
    cache = c["store_cache_bytes"]
    spilled_out = np.minimum(1, c["write_through"] / (1 + (cache / np.maximum(total, 1)) ** 2))
    dram = cold + w.written * spilled_out
    b = {"DRAM": dram / c["dram"] + (total - np.minimum(dram, total)) / c["l2_hit"]}
    conflict = np.maximum(0, np.minimum(w.partial, w.warp_store_sectors - w.block_store_sectors))
    unmerged = np.maximum(0, w.store_sectors - w.warp_store_sectors)
    sectors = w.l2_sectors + w.warp_store_sectors
    l2 = (
        sectors
        + c["partial"] * w.partial
        + c["fragment"] * w.fragments
        + c["conflict"] * conflict
        + c["unmerged"] * unmerged
    )
    b["L2"] = w.blocks * l2 * 32 / c["l2"]
    b["L2 to SM"] = on_one * sectors * 32 / c["l2_to_sm"] / clock
    b["L1"] = (
        on_one
        * (
            (w.lines + w.atomic_sectors / 4) * c["line"]
            + w.store_sectors * c["store_sector"]
            + (w.requests + w.store_requests) * c["request"]
            + w.load_sectors * c["load_sector"]
        )
        / clock
    )
    b["issue"] = on_sm * w.issued / np.minimum(4, resident * w.warps) * c["issue"] / clock
    b["MUFU"] = on_sm * w.special * 2 * c["special"] / clock
    b["conversions"] = on_sm * w.conversions * 2 * c["conversion"] / clock
    b["shared memory"] = (
        on_sm * (w.shared + w.shuffles) * c["shared"] + on_one * w.bank_conflicts * c["bank"]
    ) / clock
    b["code"] = on_sm * w.issued * np.maximum(0, 1 - c["code_cached"] / w.code) * c["code"] / clock
    # A round that goes to DRAM, to L2, or no further than L1.
    # Blocks that run at the same time wait for the same line together: only later ones find it.
    share = np.where(w.read > 0, w.cold * (1 - w.shared_share * (1 - 1 / waves)), 0)
    beyond = c["round"] * (c["round_hit"] + (1 - c["round_hit"]) * share)
    again = np.where(
        w.sweep_bytes * resident < L1_BYTES, c["round_l1"], c["round"] * c["round_hit"]
    )
    round_ = (1 - w.near - w.again) * beyond + w.near * c["round_l1"] + w.again * again
    straight = c["code_stall"] * np.maximum(0, 1 - c["code_cached"] / w.code)
    chain = waves * (
        w.stalls * c["stall"]
        + w.rounds * round_
        + c["wave"]
        + w.issued * straight
        + resident
        * (
            w.lines * c["latency_line"]
            + w.warps * w.issued / 4 * c["latency_issue"]
            + w.bank_conflicts * c["latency_bank"]
        )
    )
    longest = w.longest_stalls * c["stall"] + w.longest_rounds * round_ + c["wave"]
    b["latency"] = np.maximum(chain, longest) / clock
    b["blocks"] = w.blocks * (c["block"] + w.warps * c["block_warp"])
    out = 1 - (L1_BYTES - w.shared_bytes * resident) / np.maximum(
        1, resident * w.warps * 32 * w.stack_bytes
    )
    b["spills"] = np.maximum(
        on_sm * w.local_bytes / 128 / clock,
        w.blocks * w.warps * w.local_bytes * np.clip(out, 0, 1) / c["local"],
    )
    b["atomics"] = w.blocks * w.atomic_sectors * c["atomic"] + w.atomic_contention * c["contended"]
    return b


def combine(b: Mapping[str, Any], c: Mapping[str, float]) -> Any:
    """Return microseconds: bounds overlap, so their p-norm; atomics and the launch add to it."""
    waiting = _norm((b["DRAM"], b["latency"]), c["norm_waiting"])
    working = (t for n, t in b.items() if n not in ("DRAM", "latency", "atomics"))
    return c["launch"] + _norm((waiting, *working), c["norm"]) + b["atomics"]


def _norm(times: Iterable[Any], power: float) -> Any:
    return sum(np.maximum(t, 1e-9) ** power for t in times) ** (1 / power)
