"""Bounds of launches whose numbers follow from the constants by hand."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from handmade import candidate

from perfcli.model import Buffer, LaunchWork, MemoryAccess, Traffic, WarpWork
from perfcli.predict.calibration import shipped
from perfcli.predict.launch import Demand, bounds, combine, demand_of, stack

CONSTANTS = shipped()["h200"].constants
SMS, CLOCK = 132, 1755.0


def demand(**given: float) -> Demand:
    """One block of one warp on each multiprocessor that does nothing, but for what is given."""
    nothing = dict.fromkeys((f.name for f in fields(Demand)), 0.0)
    return Demand(**{**nothing, "blocks": SMS, "warps": 1, "blocks_per_sm": 8, "code": 1, **given})


def bound(name: str, **given: float) -> float:
    return float(bounds(demand(**given), CONSTANTS, SMS, CLOCK)[name])


def test_cold_input_goes_through_dram() -> None:
    megabytes = 100.0
    micros = bound("DRAM", read=megabytes * 1e6, cold=1.0)
    assert micros == pytest.approx(megabytes * 1e6 / CONSTANTS["dram"])
    # The data sheet's 4.8 TB/s, of which between 85 and 110 % were fitted.
    assert 4.8 * 0.85 < CONSTANTS["dram"] / 1e6 < 4.8 * 1.1
    assert bound("DRAM", read=megabytes * 1e6, cold=0.0) < micros / 3


def test_a_chain_of_loads_is_as_long_as_its_rounds() -> None:
    """One warp that waits for 100 loads from DRAM, one after the other."""
    micros = bound("latency", rounds=100.0, read=1.0, cold=1.0)
    assert micros == pytest.approx((100 * CONSTANTS["round"] + CONSTANTS["wave"]) / CLOCK)
    hot = bound("latency", rounds=100.0, read=1.0, cold=0.0)
    near = bound("latency", rounds=100.0, near=1.0, read=1.0, cold=1.0)
    assert near < hot < micros
    # Published for Hopper: L1 about 30 to 40 cycles, L2 about 200 to 270, DRAM 500 to 800.
    assert 20 < CONSTANTS["round_l1"] < 60
    assert 150 < CONSTANTS["round"] * CONSTANTS["round_hit"] < 320
    assert 450 < CONSTANTS["round"] < 900


def test_a_second_sweep_is_near_only_where_it_fits_into_l1() -> None:
    small = bound("latency", rounds=10.0, again=1.0, sweep_bytes=64e3, read=1.0, cold=1.0)
    large = bound("latency", rounds=10.0, again=1.0, sweep_bytes=512e3, read=1.0, cold=1.0)
    assert large > 3 * small


def test_waves_repeat_the_chain() -> None:
    """Nine blocks for each multiprocessor, of which eight fit: two waves."""
    one = bound("latency", blocks=8.0 * SMS, rounds=10.0, read=1.0, cold=1.0)
    two = bound("latency", blocks=9.0 * SMS, rounds=10.0, read=1.0, cold=1.0)
    assert two == pytest.approx(2 * one)


def test_four_schedulers_issue_one_instruction_each() -> None:
    few = bound("issue", warps=1.0, issued=1000.0)
    four = bound("issue", warps=4.0, issued=1000.0)
    eight = bound("issue", warps=8.0, issued=1000.0)
    assert four == pytest.approx(few)
    assert eight == pytest.approx(2 * four)
    assert few == pytest.approx(1000 * CONSTANTS["issue"] / CLOCK)


def test_bank_conflicts_add_their_cycles() -> None:
    more = bound("shared memory", bank_conflicts=992.0) - bound("shared memory")
    assert more == pytest.approx(992 * CONSTANTS["bank"] / CLOCK)


def test_bounds_overlap_and_atomics_do_not() -> None:
    alone = {"DRAM": 10.0, "latency": 0.0, "issue": 0.0, "atomics": 0.0}
    assert combine(alone, CONSTANTS) == pytest.approx(CONSTANTS["launch"] + 10.0, rel=1e-6)
    beside = combine({**alone, "issue": 10.0}, CONSTANTS)
    assert CONSTANTS["launch"] + 10 < beside < CONSTANTS["launch"] + 20
    assert combine({**alone, "atomics": 5.0}, CONSTANTS) == pytest.approx(
        CONSTANTS["launch"] + 15.0, rel=1e-6
    )


def test_many_launches_are_estimated_as_one_is() -> None:
    """A calibration fits arrays with the formulas that an estimate applies to one launch."""
    each = [
        demand(rounds=float(n), read=1e6 * n, cold=0.5, issued=100.0 * n, lines=8.0 * n)
        for n in range(1, 6)
    ]
    together = combine(bounds(stack(each), CONSTANTS, SMS, CLOCK), CONSTANTS)
    alone = [combine(bounds(one, CONSTANTS, SMS, CLOCK), CONSTANTS) for one in each]
    assert np.allclose(together, alone)


def work(**traffic: object) -> LaunchWork:
    warp = WarpWork({"float": 10.0}, 50.0, 1.0, 0.0, 20, 1.0, 1.0)
    return LaunchWork((1320, 1, 1), 4, Traffic(**traffic), warp, warp)  # type: ignore[arg-type]


def buffer(argument: str, size: int, role: str = "input") -> Buffer:
    return Buffer(argument, argument, role, "float32", (size // 4,), (1,), size)  # type: ignore[arg-type]


def test_a_buffer_is_read_once_however_many_blocks_ask_for_it() -> None:
    """1,320 blocks read 4 kB of their own and the same 8 kB, which L1 holds for all of an SM."""
    asked = work(touched={"x": 128.0, "w": 256.0}, new_sectors=384.0, block_store_sectors=64.0)
    buffers = [buffer("x", 1320 * 4096), buffer("w", 8192), buffer("y", 1320 * 2048, "output")]
    found = demand_of(asked, candidate(), buffers, SMS)
    assert found.read == 1320 * 4096 + 8192
    assert found.written == 1320 * 2048
    # Ten blocks share a multiprocessor: a tenth of the 256 sectors each.
    assert found.l2_sectors == 128 + 25.6


def test_what_comes_along_with_what_is_read_counts() -> None:
    """Every 16th bfloat16 of 1,320 x 4,096: each comes with its sector of 16, 16 times the bytes;
    of a buffer that holds no more than twice what is read, only that."""
    access = MemoryAccess("load", "x", 1, 2, 128, 4096, 256, touched=4096.0, used=256.0)
    asked = replace(work(touched={"x": 4096.0}, new_sectors=4096.0), accesses=(access,))
    each = 1320 * 4096 * 2
    strided = Buffer("x", "x", "input", "bfloat16", (1320 * 4096, 16), (16, 1), each)
    assert demand_of(asked, candidate(), [strided], SMS).read == 16 * each
    narrow = replace(strided, shape=(1320 * 4096, 2), stride=(2, 1))
    assert demand_of(asked, candidate(), [narrow], SMS).read == 2 * each
    unknown = replace(asked, accesses=(replace(access, known=False),))
    assert demand_of(unknown, candidate(), [strided], SMS).read == each


def test_updates_of_one_address_are_counted_over_the_grid() -> None:
    """Every block adds 1,024 floats to the same 128 sectors: 1,320 updates for each address."""
    asked = work(
        atomic_sectors=128.0, atomic_addresses=128.0, atomic_updates=1024.0, atomic_shared=1.0
    )
    assert demand_of(asked, candidate(), [], SMS).atomic_contention == pytest.approx(1320)
    apart = work(
        atomic_sectors=128.0, atomic_addresses=128.0, atomic_updates=1024.0, atomic_shared=0.0
    )
    assert demand_of(apart, candidate(), [], SMS).atomic_contention == pytest.approx(1)


# --- every bound by hand ---------------------------------------------------------------------

ROUND = {
    "dram": 1000.0, "l2_hit": 4000.0, "store_cache_bytes": 1e6, "write_through": 0.75,
    "partial": 3.0, "fragment": 5.0, "conflict": 7.0, "unmerged": 11.0, "l2": 6400.0,
    "l2_to_sm": 32.0, "line": 2.0, "store_sector": 3.0, "request": 5.0, "load_sector": 7.0,
    "issue": 2.0, "special": 3.0, "conversion": 5.0, "shared": 7.0, "bank": 11.0,
    "code_cached": 100.0, "code": 4.0, "round": 600.0, "round_hit": 0.4, "round_l1": 30.0,
    "code_stall": 2.0, "stall": 3.0, "wave": 500.0, "latency_line": 2.0, "latency_issue": 3.0,
    "latency_bank": 5.0, "block": 0.5, "block_warp": 0.25, "local": 640.0, "atomic": 0.01,
    "contended": 0.125, "launch": 2.0, "norm_waiting": 2.0, "norm": 2.0,
}  # fmt: skip
"""Round constants, on ten multiprocessors of 100 MHz."""
STORES = {"l2_sectors": 10, "warp_store_sectors": 20, "fragments": 2}
CHAIN = {"rounds": 10, "read": 1, "cold": 1}
SPILLS = {"local_bytes": 1280, "warps": 2, "stack_bytes": 8000}


@pytest.mark.parametrize(
    ("name", "given", "micros"),
    [
        # A quarter of what is read comes from DRAM; of what is written 0.75 / (1 + (1 / size)²).
        ("DRAM", {"read": 8000, "cold": 0.25}, 2 + 1.5),
        ("DRAM", {"written": 1e6}, 375 + 156.25),
        ("DRAM", {"written": 1e6, "read": 1e6, "cold": 0}, 600 + 350),
        ("DRAM", {"written": 2e6, "write_through": 1.25}, 2000),
        ("DRAM", {"written": 3e6, "write_through": 1.5}, 3000),
        ("DRAM", {}, 0),
        # Sectors, parts of sectors, fragments, of which six conflict, and five that are not merged.
        ("L2", {**STORES, "block_store_sectors": 12, "partial": 6, "store_sectors": 25}, 7.75),
        ("L2", {**STORES, "block_store_sectors": 12, "partial": 10, "store_sectors": 25}, 9.05),
        ("L2", {**STORES, "block_store_sectors": 30, "partial": 6, "store_sectors": 10}, 2.9),
        # Whole blocks as long as there are few, then half a block of waiting for the last.
        ("L2 to SM", STORES, 0.3),
        ("L2 to SM", {**STORES, "blocks": 25}, 0.9),
        ("L2 to SM", {**STORES, "blocks": 39}, 1.2),
        ("L2 to SM", {**STORES, "blocks": 40}, 1.35),
        ("L2 to SM", {**STORES, "blocks": 45}, 1.5),
        ("L1", {"lines": 4, "atomic_sectors": 8}, 0.12),
        ("L1", {"store_sectors": 3, "requests": 2, "store_requests": 1, "load_sectors": 6}, 0.66),
        ("L1", {"lines": 4, "blocks": 25}, 0.24),
        ("issue", {"issued": 100, "warps": 2, "blocks": 30}, 3),
        ("issue", {"issued": 100, "blocks_per_sm": 1, "blocks": 20}, 4),
        ("issue", {"issued": 100, "blocks": 25}, 2),
        ("MUFU", {"special": 50, "warps": 2}, 6),
        ("MUFU", {"special": 50, "blocks": 20}, 6),
        ("conversions", {"conversions": 50, "warps": 2}, 10),
        ("conversions", {"conversions": 50, "blocks": 20}, 10),
        (
            "shared memory",
            {"shared": 3, "shuffles": 2, "warps": 2, "blocks": 20, "bank_conflicts": 10},
            1.4 + 2.2,
        ),
        ("code", {"issued": 100, "code": 400}, 3),
        ("code", {"issued": 100, "code": 400, "warps": 2, "blocks": 20}, 12),
        ("code", {"issued": 100, "code": 80}, 0),
        # Ten rounds of 600 cycles and a wave of 500.
        ("latency", CHAIN, 65),
        ("latency", {**CHAIN, "cold": 0.5}, 47),
        ("latency", {**CHAIN, "read": 0}, 29),
        ("latency", {**CHAIN, "near": 0.5}, 36.5),
        ("latency", {**CHAIN, "again": 0.5, "sweep_bytes": 1000}, 36.5),
        ("latency", {**CHAIN, "again": 0.5, "sweep_bytes": 255_999}, 36.5),
        ("latency", {**CHAIN, "again": 0.5, "sweep_bytes": 256_000}, 47),
        ("latency", {**CHAIN, "again": 0.5, "sweep_bytes": 128_000, "blocks": 20}, 47),
        ("latency", {**CHAIN, "shared_share": 0.5}, 65),
        ("latency", {**CHAIN, "shared_share": 0.5, "blocks": 160}, 112),
        ("latency", {"blocks": 400}, 25),
        ("latency", {"blocks": 410}, 30),
        ("latency", {"blocks": 480}, 32.5),
        ("latency", {"stalls": 20}, 5.6),
        ("latency", {"issued": 100, "code": 400}, 7.25),
        ("latency", {"issued": 100, "code": 400, "warps": 2}, 8),
        ("latency", {"lines": 3, "bank_conflicts": 4, "blocks": 20}, 5.52),
        ("latency", {"lines": 3, "blocks": 200, "blocks_per_sm": 4}, 26.2),
        ("latency", {"longest_stalls": 1000, "longest_rounds": 2, "read": 1, "cold": 1}, 47),
        ("blocks", {"warps": 4}, 15),
        ("blocks", {"blocks": 30}, 22.5),
        # Half, three quarters, all and nothing of the stack is pushed out of L1.
        ("spills", SPILLS, 20),
        ("spills", {**SPILLS, "shared_bytes": 128e3}, 30),
        ("spills", {**SPILLS, "shared_bytes": 300e3}, 40),
        ("spills", {**SPILLS, "stack_bytes": 800}, 0.2),
        ("spills", {**SPILLS, "stack_bytes": 800, "blocks": 25}, 0.6),
        ("spills", {**SPILLS, "blocks": 20, "shared_bytes": 64e3}, 70),
        ("atomics", {"atomic_sectors": 8, "atomic_contention": 16}, 2.8),
    ],
)
def test_a_bound_by_hand(name: str, given: dict[str, float], micros: float) -> None:
    own = {"write_through"} & given.keys()
    constants = {**ROUND, **{key: given[key] for key in own}}
    asked = {key: float(value) for key, value in given.items() if key not in own}
    found = bounds(demand(**{"blocks": 10.0, **asked}), constants, 10, 100.0)
    assert float(found[name]) == pytest.approx(micros, rel=1e-9)


def test_bounds_are_joined_by_hand() -> None:
    """3 and 4 wait for 5, beside 12 they are 13; the launch and atomics add to it."""
    found = {"DRAM": 3.0, "latency": 4.0, "L2": 12.0, "atomics": 1.5}
    assert combine(found, ROUND) == pytest.approx(2 + 13 + 1.5)
    assert combine(found, {**ROUND, "norm": 1.0}) == pytest.approx(2 + 17 + 1.5)
    assert combine(found, {**ROUND, "norm_waiting": 1.0, "norm": 1.0}) == pytest.approx(22.5)


def test_what_a_launch_asks_for_by_hand() -> None:
    """Each number of the work has its place, those of the memory system and of instructions."""
    issued = {
        "special": 2.0, "conversion": 3.0, "shared-load": 5.0, "shared-store": 7.0,
        "shuffle": 11.0,
    }  # fmt: skip
    warp = WarpWork(issued, 90.0, 8.0, 64.0, 40, 1.0, 1.0, near_rounds=2.0, again_rounds=4.0)
    longest = replace(warp, rounds=16.0, stall_cycles=80.0)
    traffic = Traffic(
        requests=1.0, lines=2.0, load_sectors=3.0, new_sectors=100.0, store_requests=5.0,
        store_sectors=6.0, warp_store_sectors=7.0, block_store_sectors=8.0, partial=9.0,
        fragments=10.0, atomic_sectors=11.0, bank_conflicts=12.0,
        touched={"x": 30.0, "w": 20.0}, swept={"x": 5.0, "w": 2.0},
    )  # fmt: skip
    configured = candidate(blocks_per_sm=3, shared_bytes=4096, stack_bytes=16)
    buffers = [buffer("x", 9600), buffer("w", 640), buffer("y", 1024, "output")]
    asked = LaunchWork((20, 2, 1), 4, traffic, warp, longest)
    found = demand_of(asked, configured, buffers, 10, cold=0.25)
    assert (found.blocks, found.warps, found.blocks_per_sm) == (40, 4, 3)
    assert (found.shared_bytes, found.stack_bytes, found.cold) == (4096, 16, 0.25)
    # Of x and w no more than they hold; 40 · 8 sectors are stored, of which y holds 1,024 bytes.
    assert (found.read, found.written) == (9600 + 640, 1024)
    assert (found.issued, found.special, found.conversions) == (warp.total, 2, 3)
    assert (found.shared, found.shuffles, found.code, found.local_bytes) == (12, 11, 40, 64)
    assert (found.requests, found.lines, found.load_sectors, found.new_sectors) == (1, 2, 3, 100)
    assert (found.store_requests, found.store_sectors, found.warp_store_sectors) == (5, 6, 7)
    assert (found.block_store_sectors, found.partial, found.fragments) == (8, 9, 10)
    assert (found.atomic_sectors, found.atomic_contention, found.bank_conflicts) == (11, 0, 12)
    # Four blocks share what L1 holds of x (300 sectors) and of w (20).
    assert found.l2_sectors == 30 + 5
    assert (found.rounds, found.near, found.again) == (8, 0.25, 0.5)
    assert found.sweep_bytes == 50 / 5 * 32
    assert found.shared_share == pytest.approx(1 - 10240 / (100 * 32 * 40))
    assert (found.stalls, found.longest_stalls, found.longest_rounds) == (90, 90, 16)


def test_what_is_not_known_of_a_launch_asks_for_little() -> None:
    unknown = replace(candidate(), blocks_per_sm=None, shared_bytes=None, stack_bytes=None)
    nothing = WarpWork({}, 0.0, 0.0, 0.0, 0, 0.0, 0.0)
    asked = LaunchWork((6, 1, 1), 1, Traffic(touched={"x": 2.0}), nothing, nothing)
    found = demand_of(asked, unknown, [], 10)
    assert (found.blocks_per_sm, found.shared_bytes, found.stack_bytes) == (1, 0, 0)
    assert (found.code, found.cold, found.near, found.again) == (1, 1, 0, 0)
    assert (found.sweep_bytes, found.shared_share) == (0, 0)
    rare = replace(nothing, rounds=0.5, near_rounds=0.25, again_rounds=0.125)
    found = demand_of(replace(asked, warp=rare), unknown, [], 10)
    assert (found.rounds, found.near, found.again) == (0.5, 0.5, 0.25)
    # A buffer of unknown size is read by every block, and comes through L2 each time.
    assert (found.read, found.written, found.l2_sectors) == (2 * 32 * 6, 0, 2)
    few = replace(asked, traffic=Traffic(touched={"x": 2.0}, swept={"x": 0.5}))
    assert demand_of(few, unknown, [], 10).sweep_bytes == 2 * 32
    assert demand_of(asked, candidate(blocks_per_sm=0), [], 10).blocks_per_sm == 1


@pytest.mark.parametrize(
    ("size", "blocks", "sectors"),
    [
        (256_000, 20, 128.0),  # L1 holds it: half of the 8,000 sectors, or what is touched
        (256_000, 800, 100.0),
        (256_032, 800, 128.0),  # too large for L1
        (3_200, 5, 100.0),  # half a block on each multiprocessor is one where it is
    ],
)
def test_what_l1_holds_is_brought_once(size: int, blocks: int, sectors: float) -> None:
    nothing = WarpWork({}, 0.0, 0.0, 0.0, 0, 0.0, 0.0)
    asked = LaunchWork((blocks, 1, 1), 1, Traffic(touched={"x": 128.0}), nothing, nothing)
    assert demand_of(asked, candidate(), [buffer("x", size)], 10).l2_sectors == sectors


@pytest.mark.parametrize(
    ("addresses", "updates", "shared", "contention"),
    [
        (2.0, 16.0, 1.0, 40.0),  # each block all 16 words: 40 blocks update each
        (2.0, 16.0, 0.0, 1.0),
        (2.0, 16.0, 0.5, 40 * 16 / (40 * 2 * 0.5125 * 8)),
        (2.0, 4.0, 1.0, 40.0),  # two words of a sector
        (2.0, 64.0, 1.0, 160.0),  # no sector has more than eight words
        (2.0, 1.0, 1.0, 20.0),  # half a word is one
        (0.0, 16.0, 1.0, 0.0),
        (0.01, 0.08, 1.0, 3.2 * 1 / 8),  # all together touch one sector at least
    ],
)
def test_updates_of_one_address_by_hand(
    addresses: float, updates: float, shared: float, contention: float
) -> None:
    nothing = WarpWork({}, 0.0, 0.0, 0.0, 0, 0.0, 0.0)
    traffic = Traffic(atomic_addresses=addresses, atomic_updates=updates, atomic_shared=shared)
    asked = LaunchWork((40, 1, 1), 1, traffic, nothing, nothing)
    found = demand_of(asked, candidate(), [], 10).atomic_contention
    assert found == pytest.approx(contention, rel=1e-9)
