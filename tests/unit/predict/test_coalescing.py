"""What a launch asks for without its wasteful accesses, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade_estimate import work

from perfcli.model import LaunchWork, MemoryAccess
from perfcli.predict.coalescing import coalesce, is_narrow, is_wasteful, widen


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


def narrow(kind: Any = "load", **more: Any) -> MemoryAccess:
    """Threads that have 8 neighbouring elements of 2 bytes each, and load them one by one: 64
    requests of a warp, each of 32 elements that lie 16 bytes apart, in 16 sectors where 2 would
    do."""
    given: dict[str, Any] = {
        "sectors": 1024.0, "needed": 128.0, "lines": 256.0, "touched": 128.0, "used": 128.0,
        "apart": 16, "steps": {"x": 2}, "along": "x", **more,
    }  # fmt: skip
    return MemoryAccess(kind, "in_ptr0", 7, 2, 64.0, **given)


def test_what_is_narrow_is_no_matter_of_the_order_of_threads() -> None:
    assert is_narrow(narrow())
    assert not is_wasteful(narrow())
    for other in (narrow(apart=4096), narrow(steps={"x": 32}), narrow(needed=1024.0)):
        assert not is_narrow(other)
    assert is_wasteful(narrow(apart=4096))


def test_wide_accesses_need_an_eighth_of_the_instructions() -> None:
    """64 requests of 4 warps become 8: 14 loads less in each warp, and what goes with them."""
    before = made(narrow(), touched={"in_ptr0": 128.0})
    warp = replace(before.warp, issued={"global-load": 16.0, "integer": 84.0}, stall_cycles=100.0)
    requests = replace(before.traffic, requests=64.0)
    after = widen(replace(before, warp=warp, longest=warp, traffic=requests))
    assert after.traffic.requests == 8
    assert (after.traffic.load_sectors, after.traffic.lines) == (128, 32)
    assert after.warp.issued == {"global-load": 2, "integer": 84 - 28}
    assert after.warp.stall_cycles == pytest.approx(58)
    assert coalesce(before).traffic == before.traffic
