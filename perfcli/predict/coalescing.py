"""Says what a launch would ask for if each of its loads and stores moved only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from perfcli.model import LaunchWork, MemoryAccess, Traffic

_WASTEFUL = 2.0
"""Times the sectors that it needs: rows that start anywhere cost a quarter more, and are no fault
of the order in which they are read."""
_SECTORS_OF_A_LINE = 4


def is_wasteful(access: MemoryAccess) -> bool:
    """Return whether a load or store moves twice the sectors that it needs. What depends on data,
    and what could not be computed, is not known to."""
    return access.kind != "atomic" and (access.waste or 0.0) >= _WASTEFUL


def coalesce(work: LaunchWork) -> LaunchWork:
    """Return the work of the same launch if its wasteful accesses moved whole sectors, side by
    side."""
    if work.accesses is None:
        return work
    accesses = tuple(_gather(access) for access in work.accesses)
    return replace(work, accesses=accesses, traffic=_coalesce_traffic(work, accesses))


def _gather(access: MemoryAccess) -> MemoryAccess:
    if not is_wasteful(access):
        return access
    lines = access.needed / _SECTORS_OF_A_LINE
    return replace(access, sectors=access.needed, lines=lines, touched=access.used)


def _coalesce_traffic(work: LaunchWork, accesses: tuple[MemoryAccess, ...]) -> Traffic:
    traffic = work.traffic
    pairs = list(zip(work.accesses or (), accesses, strict=True))
    loads = [pair for pair in pairs if pair[0].kind == "load"]
    stores = [pair for pair in pairs if pair[0].kind == "store"]
    written = sum(old.sectors for old, _ in stores)
    well = sum(old.sectors for old, _ in stores if not is_wasteful(old))
    whole = well / written if written else 1.0
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


def _shrink(
    pairs: Sequence[tuple[MemoryAccess, MemoryAccess]], count: Callable[[MemoryAccess], float]
) -> float:
    """Return what is left of a count, 0 to 1."""
    before = sum(count(old) for old, _ in pairs)
    return sum(count(new) for _, new in pairs) / before if before else 1.0
