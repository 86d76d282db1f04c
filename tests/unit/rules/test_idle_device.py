"""Idle devices: what a split, a full wave or one stage would save, against the estimate of kernels
that are made that way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, origins, run
from handmade_reductions import matrix, reduction

from perfcli.machine import targets
from perfcli.model import (
    Finding,
    KernelFacts,
    Launch,
    LaunchWork,
    OptionValue,
    Run,
    Traffic,
    WarpWork,
)
from perfcli.predict.step import estimate_run
from perfcli.rules._evidence.splits import KERNEL_SECONDS
from perfcli.rules.idle_device import RULE

ON = {"split_reductions": True, "triton.cooperative_reductions": False}
OFF = {**ON, "split_reductions": False}


def asks(blocks: int, loops: float) -> LaunchWork:
    """Blocks of four warps, each of which goes through so many tiles of 4 kB, one after the
    other."""
    lines = 32 * loops
    traffic = Traffic(
        requests=lines, lines=lines, load_sectors=4 * lines, new_sectors=4 * lines,
        touched={"in_ptr0": 4 * lines}, swept={"in_ptr0": 1.0},
    )  # fmt: skip
    warp = WarpWork({"fp32": 24 * loops, "global-load": 8 * loops}, 40 * loops, loops, 0, 300, 8, 1)
    return LaunchWork((blocks, 1, 1), 4, traffic, warp, warp)


def summing(rows: int, columns: int, blocks: int, op: str = "sum", **more: Any) -> KernelFacts:
    """Sum rows of float32, in tiles of 1024 elements."""
    loops = rows * columns / 1024 / blocks
    config = candidate(blocks_per_sm=8, work=asks(blocks, loops), registers=32)
    return reduction(
        f"triton_red_fused_{op}_0",
        (matrix(rows, columns, dtype="float32"),),
        {"x": rows, "r0_": columns},
        origins=origins(op),
        candidates=(config,),
        **more,
    )


def made(*kernels: KernelFacts, settings: Mapping[str, OptionValue] = ON) -> Run:
    weighed = run(list(kernels), weighed=True, settings=settings)
    return estimate_run(replace(weighed, target=targets.get("h200")))


def found(*kernels: KernelFacts, settings: Mapping[str, OptionValue] = ON) -> list[Finding]:
    return list(RULE.of_run(made(*kernels, settings=settings)))


def seconds(kernel: KernelFacts) -> float:
    (estimated,) = made(kernel).kernels
    assert estimated.step_seconds is not None
    return estimated.step_seconds


def options(finding: Finding) -> list[dict[str, OptionValue]]:
    return [dict(cure.options) for cure in finding.cures]


def test_one_long_row_in_one_block() -> None:
    """16.8 million elements: split over 1024 blocks they take a hundredth of the time."""
    whole = summing(1, 2**24, blocks=1)
    (finding,) = found(whole, settings=OFF)
    assert finding.severity == "error"
    assert finding.headline.endswith(
        "reduces 1 row of 16,777,216 in 1 block for 132 multiprocessors"
    )
    assert finding.evidence[0] == "a warp waits for memory 16,384 times, one after the other"
    assert options(finding) == [{"split_reductions": True}]
    split = min(seconds(summing(1, 2**24, blocks=n)) for n in (256, 512, 1024, 2048))
    assert finding.cost is not None
    assert finding.cost.seconds == pytest.approx(seconds(whole) - split - KERNEL_SECONDS, rel=0.01)
    assert finding.cost.share == pytest.approx(finding.cost.seconds / seconds(whole))


@pytest.mark.parametrize("blocks", [528, 2048, 8192])
def test_enough_blocks_are_fine(blocks: int) -> None:
    assert found(summing(blocks, 2**24 // blocks, blocks)) == []


def test_a_short_row_has_nothing_to_split() -> None:
    assert found(summing(64, 1024, blocks=64)) == []


def test_what_is_a_hundredth_of_the_step_or_less_is_none() -> None:
    """Beside 400 times as much work in as many blocks as there should be."""
    small, rest = summing(1, 2**20, blocks=1), summing(8192, 2**18, blocks=8192)
    assert len(found(small)) == 1
    assert found(small, replace(rest, name="triton_red_fused_sum_1", launches=40)) == []


@pytest.mark.parametrize(
    ("op", "rows", "columns", "settings", "cures"),
    [
        ("sum", 1, 2**24, ON, [{"triton.cooperative_reductions": True}]),
        ("sum", 1, 2**24, {**ON, "triton.cooperative_reductions": True},
         [{"triton.cooperative_reductions": False}]),
        ("argmax", 1, 2**24, OFF, [{"triton.cooperative_reductions": True}]),
        ("argmax", 64, 2**20, OFF, []),
        ("sum", 64, 2**20, ON, []),
        ("sum", 1, 2**24, {}, []),
    ],
    ids=["not split", "kept from it", "argmax", "many argmax", "too many rows", "not known"],
)  # fmt: skip
def test_only_options_that_apply_are_proposed(
    op: str,
    rows: int,
    columns: int,
    settings: Mapping[str, OptionValue],
    cures: list[dict[str, OptionValue]],
) -> None:
    (finding,) = found(summing(rows, columns, rows, op), settings=settings)
    assert options(finding) == cures
    assert bool(finding.advice) is not bool(cures)


def staged(rows: int, columns: int, chunks: int, blocks: int) -> tuple[KernelFacts, KernelFacts]:
    """The same in two stages."""
    first = summing(rows * chunks, columns // chunks, blocks)
    partial = matrix(rows, chunks, name="buf0", dtype="float32", role="output")
    read = matrix(rows, columns, dtype="float32")
    first = replace(first, buffers=(read, replace(partial, argument="out_ptr0")))
    second = summing(rows, chunks, max(rows // 64, 1))
    inputs = (replace(partial, role="input"),)
    return first, replace(second, name="triton_per_fused_sum_1", buffers=inputs)


def test_a_small_reduction_in_two_stages() -> None:
    two = staged(256, 2048, 2, blocks=256)
    (finding,) = found(*two)
    assert finding.kernels == (0, 1)
    assert "reduce 256 rows of up to 2,048 in two stages" in finding.headline
    assert options(finding) == [{"split_reductions": False}]
    assert finding.cost is not None
    whole = seconds(summing(256, 2048, blocks=256))
    assert finding.cost.seconds == pytest.approx(sum(map(seconds, two)) - whole, rel=0.05)


def test_a_long_one_in_two_stages_is_fine() -> None:
    assert found(*staged(4, 2**22, 256, blocks=1024)) == []


def test_a_split_is_not_taken_from_those_that_need_it() -> None:
    small = staged(256, 2048, 2, blocks=256)
    large = [
        replace(k, name=f"{k.name}9", graph="forward 1") for k in staged(4, 2**22, 256, blocks=1024)
    ]
    (finding,) = found(*small, *large)
    assert finding.cures == ()
    assert finding.advice


def test_a_last_wave_that_is_nearly_empty() -> None:
    """1057 blocks where 1056 run at the same time."""
    full, over = (summing(n, 2**16, n) for n in (1056, 1057))
    assert found(full) == []
    latency = [f for f in found(over) if "waves" in f.headline]
    assert all("2 waves for 1,057 blocks, the last of 1 block" in f.headline for f in latency)


def test_nothing_is_said_without_estimates() -> None:
    bare = replace(summing(1, 2**24, 1), candidates=(candidate(blocks_per_sm=8, registers=32),))
    assert found(bare) == []
    assert list(RULE.of_run(replace(made(summing(1, 2**24, 1)), target=None))) == []


def test_where_the_host_needs_longer_a_split_gains_nothing() -> None:
    """A row of 32,768 takes a block about 13 µs; entering the graph and a launch take 25 at least,
    and a launch more does not help. A row of 16.8 million takes milliseconds."""

    def launched(kernel: KernelFacts) -> Finding:
        bare = made(kernel, settings=OFF)
        once = replace(bare, launches=(Launch(kernel.graph, kernel.name),))
        (finding,) = RULE.of_run(estimate_run(once))
        return finding

    short, long = launched(summing(1, 2**15, blocks=1)), launched(summing(1, 2**24, blocks=1))
    assert short.severity == "info"
    assert any("it matters with CUDA graphs only" in line for line in short.evidence)
    assert long.severity == "error"
    assert not any("CUDA graphs" in line for line in long.evidence)
