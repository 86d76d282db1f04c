"""Says what a launch would ask for if its loads and stores moved only the sectors that they need:
side by side from thread to thread, and as much at a time as a thread can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from perfcli.model import LaunchWork, MemoryAccess, Traffic, WarpWork

_WASTEFUL = 2.0
"""Times the sectors that it needs: rows that start anywhere cost a quarter more, and are no fault
of the order in which they are read."""
_SECTORS_OF_A_LINE = 4
_WIDEST = 16
"""Bytes that one instruction of a thread moves."""
_BESIDE = 2
"""Instructions that go with each load or store: its address and its mask."""


def is_wasteful(access: MemoryAccess) -> bool:
    """Return whether a load or store moves twice the sectors that it needs because of the order of
    its threads. What depends on data, and what could not be computed, is not known to."""
    return _wastes(access) and not is_narrow(access)


def is_narrow(access: MemoryAccess) -> bool:
    """Return whether it does because threads move the neighbouring elements that they have one by
    one."""
    size, apart = access.element_bytes, abs(access.apart)
    has_several = abs(access.steps.get(access.along, 0)) == size < apart <= _WIDEST
    return _wastes(access) and has_several


def _wastes(access: MemoryAccess) -> bool:
    return access.kind != "atomic" and (access.waste or 0.0) >= _WASTEFUL


def coalesce(work: LaunchWork) -> LaunchWork:
    """Return the work of the same launch if its wasteful accesses moved whole sectors, side by
    side."""
    return _gather(work, is_wasteful)


def widen(work: LaunchWork) -> LaunchWork:
    """Return the work of the same launch if its narrow accesses moved what a thread has of them at
    once."""
    spared = {"load": 0.0, "store": 0.0}
    for access in filter(is_narrow, work.accesses or ()):
        times = min(abs(access.apart) / access.element_bytes, access.waste or 1.0)
        spared[access.kind] += access.requests * (1 - 1 / times)
    gathered = _gather(work, is_narrow)
    traffic = replace(
        gathered.traffic,
        requests=gathered.traffic.requests - spared["load"],
        store_requests=gathered.traffic.store_requests - spared["store"],
    )
    fewer = {f"global-{kind}": number / work.warps for kind, number in spared.items()}
    fewer["integer"] = _BESIDE * sum(fewer.values())
    warp, longest = (_issue_less(each, fewer) for each in (work.warp, work.longest))
    return replace(gathered, traffic=traffic, warp=warp, longest=longest)


def _issue_less(warp: WarpWork, fewer: Mapping[str, float]) -> WarpWork:
    issued = {pipe: max(0.0, n - fewer.get(pipe, 0.0)) for pipe, n in warp.issued.items()}
    kept = sum(issued.values()) / warp.total if warp.total else 1.0
    return replace(warp, issued=issued, stall_cycles=warp.stall_cycles * kept)


_Which = Callable[[MemoryAccess], bool]


def _gather(work: LaunchWork, which: _Which) -> LaunchWork:
    """Return the work with only the sectors that are needed for some of its accesses."""
    if work.accesses is None:
        return work
    pairs = [(old, _shorten(old) if which(old) else old) for old in work.accesses]
    accesses = tuple(new for _, new in pairs)
    return replace(work, accesses=accesses, traffic=_gather_traffic(work.traffic, pairs))


def _shorten(access: MemoryAccess) -> MemoryAccess:
    lines = access.needed / _SECTORS_OF_A_LINE
    return replace(access, sectors=access.needed, lines=lines, touched=access.used)


_Pairs = Sequence[tuple[MemoryAccess, MemoryAccess]]


def _gather_traffic(traffic: Traffic, pairs: _Pairs) -> Traffic:
    loads = [pair for pair in pairs if pair[0].kind == "load"]
    stores = [pair for pair in pairs if pair[0].kind == "store"]
    written = sum(old.sectors for old, _ in stores)
    untouched = sum(old.sectors for old, new in stores if old is new)
    whole = untouched / written if written else 1.0
    touched = {
        base: min(sectors, sum(new.touched for _, new in loads if new.argument == base))
        for base, sectors in traffic.touched.items()
    }
    fresh = sum(traffic.touched.values())
    stored = _shrink(stores, lambda access: access.sectors)
    return replace(
        traffic,
        lines=traffic.lines * _shrink(loads, lambda access: access.lines),
        load_sectors=traffic.load_sectors * _shrink(loads, lambda access: access.sectors),
        new_sectors=traffic.new_sectors * (sum(touched.values()) / fresh if fresh else 1.0),
        store_sectors=traffic.store_sectors * stored,
        warp_store_sectors=traffic.warp_store_sectors * stored,
        block_store_sectors=traffic.block_store_sectors
        * _shrink(stores, lambda access: access.touched),
        partial=traffic.partial * whole,
        fragments=traffic.fragments * whole,
        touched=touched,
    )


def _shrink(pairs: _Pairs, count: Callable[[MemoryAccess], float]) -> float:
    """Return what is left of a count, 0 to 1."""
    before = sum(count(old) for old, _ in pairs)
    return sum(count(new) for _, new in pairs) / before if before else 1.0
