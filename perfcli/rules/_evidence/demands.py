"""Says what a kernel would ask of a device without a fault: edits of its demand, with which a rule
asks ``predict.savings`` what the fault costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from perfcli.model import LaunchWork, WarpWork

if TYPE_CHECKING:
    from perfcli.predict.launch import Demand
    from perfcli.predict.savings import Edit

_SPILLED_WARP = 128
"""Bytes that one instruction moves to or from local memory for a warp: a word of each lane."""


def _scale_issue(demand: Demand, times: float) -> None:
    """Have so many times as many instructions issued, and waited for."""
    demand.issued *= times
    demand.stalls *= times
    demand.longest_stalls *= times


def without_spills(demand: Demand) -> None:
    """Take out what is moved to and from local memory, and the instructions that move it."""
    moving = min(demand.local_bytes / _SPILLED_WARP, demand.issued / 2)
    _scale_issue(demand, 1 - moving / max(demand.issued, 1.0))
    demand.local_bytes = 0.0
    demand.stack_bytes = 0


def fewer_loads(kept: float) -> Edit:
    """Return an edit that leaves this part of the loads, 0 to 1, and of what is waited for them,
    but all bytes: each was loaded several times."""

    def edit(demand: Demand) -> None:
        demand.requests *= kept
        demand.lines *= kept
        demand.load_sectors *= kept
        demand.new_sectors *= kept
        demand.l2_sectors *= kept
        demand.rounds *= kept
        demand.longest_rounds *= kept

    return edit


def fewer_reads(kept: float) -> Edit:
    """Return an edit that leaves this part of the loads and of the bytes that they read."""

    def edit(demand: Demand) -> None:
        demand.read *= kept
        fewer_loads(kept)(demand)

    return edit


def wider_accesses(times: float) -> Edit:
    """Return an edit in which each load and store of contiguous rows moves so many times as much,
    without a mask: what Inductor generates for rows of a good length."""

    def edit(demand: Demand) -> None:
        spared = (demand.requests + demand.store_requests) * (1 - 1 / times) / demand.warps
        issued = max(demand.issued - _OF_AN_ACCESS * spared, demand.issued / times)
        kept = issued / max(demand.issued, 1.0)
        demand.issued = issued
        for name in ("stalls", "longest_stalls", "rounds", "longest_rounds"):
            setattr(demand, name, getattr(demand, name) * kept)
        demand.requests /= times
        demand.store_requests /= times
        demand.lines = max(demand.lines / times, demand.new_sectors / _SECTORS_OF_A_LINE)
        demand.load_sectors = max(demand.load_sectors / times, demand.new_sectors)
        demand.store_sectors = demand.warp_store_sectors = demand.block_store_sectors
        demand.partial = demand.fragments = 0.0

    return edit


_OF_AN_ACCESS = 11
"""Instructions that go with a narrow access: its address, its mask, what is done for elements
behind the end, and itself. Softmax and RMSNorm of 50,257 columns have 11 to 18 more for each than
the same with ``patch.loop_peeling`` (torch 2.11, sm_90)."""


def taken_online(elements: int) -> Edit:
    """Return an edit for a softmax's maximum and sum in one sweep: more instructions for each of so
    many elements of the launch."""

    def edit(demand: Demand) -> None:
        each = elements / (demand.blocks * demand.warps * 32)
        _scale_issue(demand, (demand.issued + _ONLINE * each) / max(demand.issued, 1.0))
        demand.special += each

    return edit


_ONLINE = 10
"""Instructions that an element takes more, and an exponential: 47 → 58 for softmax of 50,304
columns (torch 2.11, sm_90)."""


def fewer_writes(kept: float) -> Edit:
    """Return an edit that leaves this part of the stores."""

    def edit(demand: Demand) -> None:
        demand.written *= kept
        for name in _OF_STORES:
            setattr(demand, name, getattr(demand, name) * kept)

    return edit


def computes(times: float) -> Edit:
    """Return an edit that runs so many times the instructions on what is loaded once."""

    def edit(demand: Demand) -> None:
        _scale_issue(demand, times)
        demand.special *= times
        demand.conversions *= times

    return edit


def more_resident(times: float) -> Edit:
    """Return an edit that lets so many times as many blocks share a multiprocessor."""

    def edit(demand: Demand) -> None:
        demand.blocks_per_sm = max(1, round(demand.blocks_per_sm * times))

    return edit


def spread(times: float) -> Edit:
    """Return an edit that has the same work done by so many times as many blocks, each of which
    does as much less."""

    def edit(demand: Demand) -> None:
        demand.blocks *= times
        for name in _OF_A_BLOCK:
            setattr(demand, name, getattr(demand, name) / times)

    return edit


def more_moved(size: float) -> Edit:
    """Return an edit that writes and reads so many bytes more: what a fused kernel keeps to
    itself and two kernels pass on."""

    def edit(demand: Demand) -> None:
        demand.read += size
        demand.written += size

    return edit


def more_read(size: float) -> Edit:
    """Return an edit that reads so many bytes more from memory."""

    def edit(demand: Demand) -> None:
        demand.cold = (demand.read * demand.cold + size) / (demand.read + size)
        demand.read += size

    return edit


def coalesced(demand: Demand) -> None:
    """Have every sector loaded once, in whole lines: a block that takes a few columns loads more
    than it needs, and with blocks enough for the device it need not."""
    sectors = demand.read / _SECTOR / demand.blocks
    demand.requests = min(demand.requests, sectors / _SECTORS_OF_A_LINE)
    demand.lines = min(demand.lines, sectors / _SECTORS_OF_A_LINE)
    demand.load_sectors = min(demand.load_sectors, sectors)
    demand.new_sectors = min(demand.new_sectors, sectors)
    demand.l2_sectors = min(demand.l2_sectors, sectors)


_OF_STORES = (
    "store_requests", "store_sectors", "warp_store_sectors", "block_store_sectors", "partial",
    "fragments",
)  # fmt: skip
_SECTOR = 32
_SECTORS_OF_A_LINE = 4
_OF_A_BLOCK = (
    "requests", "lines", "load_sectors", "new_sectors", "l2_sectors", "issued", "special",
    "conversions", "shared", "shuffles", "local_bytes", "bank_conflicts", "stalls", "rounds",
    "longest_stalls", "longest_rounds", "sweep_bytes", "store_requests", "store_sectors",
    "warp_store_sectors", "block_store_sectors", "partial", "fragments", "atomic_sectors",
)  # fmt: skip
"""What a block does less of when another does the rest."""


def without_divisions(work: LaunchWork) -> LaunchWork:
    """Return the work without the instructions that divide indices."""
    return replace(
        work,
        warp=_leave_out(work.warp, work.warp.divided),
        longest=_leave_out(work.longest, work.longest.divided),
    )


def without_parts(work: LaunchWork) -> LaunchWork:
    """Return the work without the instructions of all parts of a cat but the first."""
    return replace(
        work,
        warp=_leave_out(work.warp, work.warp.parted),
        longest=_leave_out(work.longest, work.longest.parted),
    )


def _leave_out(warp: WarpWork, some: Mapping[str, float]) -> WarpWork:
    issued = {pipe: n - some.get(pipe, 0.0) for pipe, n in warp.issued.items()}
    kept = sum(issued.values()) / warp.total if warp.total else 1.0
    return replace(warp, issued=issued, stall_cycles=warp.stall_cycles * kept)
