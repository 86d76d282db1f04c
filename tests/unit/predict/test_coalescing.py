"""What a launch asks for without its wasteful accesses, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade_estimate import work

from perfcli.model import LaunchWork, MemoryAccess
from perfcli.predict.coalescing import coalesce, is_wasteful


def access(kind: Any = "load", argument: str = "in_ptr0", **more: Any) -> MemoryAccess:
    """A warp's 64 requests of 32 floats, each in a sector of its own where 4 would hold 8."""
    given: dict[str, Any] = {
        "sectors": 2048.0, "needed": 256.0, "lines": 2048.0, "touched": 2048.0, "used": 256.0,
        **more,
    }  # fmt: skip
    return MemoryAccess(kind, argument, 7, 4, 64.0, **given)


def made(*accesses: MemoryAccess, touched: dict[str, float] | None = None) -> LaunchWork:
    counted = work()
    loads = [a for a in accesses if a.kind == "load"]
    stores = [a for a in accesses if a.kind == "store"]
    traffic = replace(
        counted.traffic,
        lines=sum(a.lines for a in loads),
        load_sectors=sum(a.sectors for a in loads),
        new_sectors=sum((touched or {"in_ptr0": 2048.0}).values()),
        touched=touched or {"in_ptr0": 2048.0},
        store_sectors=sum(a.sectors for a in stores),
        warp_store_sectors=sum(a.sectors for a in stores),
        block_store_sectors=sum(a.touched for a in stores),
        partial=sum(a.sectors for a in stores if is_wasteful(a)),
    )
    return replace(counted, traffic=traffic, accesses=accesses)


@pytest.mark.parametrize(
    ("given", "wasteful"),
    [
        ({}, True),
        ({"needed": 1025.0}, False),
        ({"indirect": True}, False),
        ({"known": False}, False),
        ({"kind": "store"}, True),
        ({"kind": "atomic"}, False),
    ],
)
def test_what_is_wasteful(given: dict[str, Any], wasteful: bool) -> None:
    assert is_wasteful(access(**given)) is wasteful


def test_a_load_fetches_what_it_needs() -> None:
    """256 sectors in 64 lines; what it needs beside another load of the same buffer stays."""
    straight = access(argument="in_ptr1", sectors=256.0, lines=64.0, touched=256.0)
    before = made(access(), straight, touched={"in_ptr0": 2048.0, "in_ptr1": 256.0})
    after = coalesce(before).traffic
    assert (after.load_sectors, after.lines) == (512, 128)
    assert after.touched == {"in_ptr0": 256, "in_ptr1": 256}
    assert after.new_sectors == pytest.approx(512)
    assert (after.requests, after.store_sectors) == (before.traffic.requests, 0)


def test_two_loads_of_the_same_sectors_need_both_their_parts() -> None:
    """Both touch the same 2048 sectors, and use 256 each."""
    assert coalesce(made(access(), access())).traffic.touched == {"in_ptr0": 512}
    # What they need together is no more than what there is.
    apart = access(used=2000.0)
    assert coalesce(made(apart, apart)).traffic.touched == {"in_ptr0": 2048}


def test_a_store_writes_whole_sectors() -> None:
    straight = access("store", "out_ptr1", sectors=256.0, lines=64.0, touched=256.0)
    after = coalesce(made(access("store", "out_ptr0"), straight)).traffic
    assert (after.store_sectors, after.warp_store_sectors) == (512, 512)
    assert after.block_store_sectors == 512
    assert after.partial == pytest.approx(2048 * 256 / 2304)


def test_what_nobody_counted_stays_as_it_is() -> None:
    assert coalesce(work()) == work()
    unknown = made(access(known=False))
    assert coalesce(unknown).traffic == unknown.traffic
