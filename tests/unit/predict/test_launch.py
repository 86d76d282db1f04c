"""Bounds of launches whose numbers follow from the constants by hand."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from handmade import candidate

from perfcli.model import Buffer, LaunchWork, Traffic, WarpWork
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
