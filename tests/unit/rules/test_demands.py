"""What a kernel would ask for without a fault: totals that stay, and those that go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import candidate
from handmade_estimate import work

from perfcli.predict.launch import Demand, demand_of
from perfcli.rules._evidence.demands import (
    coalesced,
    fewer_loads,
    fewer_reads,
    more_moved,
    more_read,
    more_resident,
    spread,
    taken_online,
    wider_accesses,
    without_spills,
)


def demand() -> Demand:
    """4096 blocks of four warps: each loads and stores 1024 sectors by 256 requests."""
    return demand_of(work(4096), candidate(blocks_per_sm=8), (), sms=132)


def test_spread_work_is_as_much_in_all() -> None:
    before, after = demand(), demand()
    spread(4.0)(after)
    assert after.blocks == 4 * before.blocks
    for name in ("requests", "issued", "rounds", "stalls", "new_sectors", "store_sectors"):
        whole = getattr(before, name) * before.blocks
        assert getattr(after, name) * after.blocks == pytest.approx(whole), name
    assert (after.read, after.written, after.code) == (before.read, before.written, before.code)


def test_fewer_loads_read_as_much_and_fewer_reads_do_not() -> None:
    before, loads, reads = demand(), demand(), demand()
    fewer_loads(0.25)(loads)
    fewer_reads(0.25)(reads)
    assert loads.requests == reads.requests == before.requests / 4
    assert loads.read == before.read
    assert reads.read == before.read / 4


def test_what_is_read_more_comes_from_memory() -> None:
    """Half of it was in the cache: of 3 parts, 1/2 + 2 are not."""
    made = replace(demand(), read=1e6, cold=0.5)
    more_read(2e6)(made)
    assert made.read == 3e6
    assert made.cold * made.read == pytest.approx(2.5e6)
    more_moved(1e6)(made)
    assert (made.read, made.written) == (4e6, demand().written + 1e6)


def test_a_spill_takes_its_instructions_with_it() -> None:
    made = replace(demand(), local_bytes=128 * 40.0, issued=1000.0, stalls=500.0, stack_bytes=64)
    without_spills(made)
    assert (made.local_bytes, made.stack_bytes) == (0, 0)
    assert made.issued == 960
    assert made.stalls == 480


def test_wider_accesses_need_fewer_instructions_and_whole_sectors() -> None:
    """2 bytes at a time to 16: an eighth of the requests, 11 instructions less for each other."""
    made = replace(
        demand(), requests=1600.0, store_requests=800.0, warps=16, issued=5000.0,
        store_sectors=4000.0, block_store_sectors=3000.0, partial=900.0, fragments=100.0,
    )  # fmt: skip
    wider_accesses(8.0)(made)
    assert made.requests == 200
    assert made.store_requests == 100
    assert made.issued == 5000 - 11 * 2100 / 16
    assert made.store_sectors == 3000
    assert made.partial == made.fragments == 0


def test_loads_that_are_coalesced_need_no_more_than_is_read() -> None:
    made = replace(demand(), read=4096 * 32 * 100.0)
    coalesced(made)
    assert (made.new_sectors, made.load_sectors, made.lines) == (100, 100, 25)
    few = replace(made, new_sectors=7.0)
    coalesced(few)
    assert few.new_sectors == 7


def test_blocks_that_share_a_multiprocessor() -> None:
    made = demand()
    more_resident(1.5)(made)
    assert made.blocks_per_sm == 12


def test_a_softmax_taken_online_takes_more_instructions() -> None:
    """1024 elements in each block of four warps: eight of each lane, ten instructions each."""
    made = replace(demand(), issued=1000.0, special=5.0, stalls=2000.0)
    taken_online(4096 * 1024)(made)
    assert made.issued == pytest.approx(1000 + 10 * 8)
    assert made.special == 5 + 8
    assert made.stalls == pytest.approx(2000 * 1.08)
