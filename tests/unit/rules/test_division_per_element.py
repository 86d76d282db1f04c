"""Kernels that divide the index of every element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, kernel, run
from handmade_estimate import MICRO, work

from perfcli.model import Finding, KernelFacts, Run
from perfcli.predict.step import estimate_run
from perfcli.rules.division_per_element import RULE

BLOCKS = 65536
TILES = "triton.prefer_nd_tiling"


def dividing(divided: float = 200.0, **more: Any) -> KernelFacts:
    """Eight warps of 1000 instructions in each of 65,536 blocks that move 4 kB."""
    issued = {"integer": 800.0 - divided, "special": 100.0, "conversion": 100.0}
    parts = {"integer": divided} if divided else {}
    issued["integer"] += divided
    counted = work(BLOCKS, sectors=64.0)
    warp = replace(counted.warp, issued=issued, divided=parts, stall_cycles=500.0, rounds=1.0)
    counted = replace(
        counted, warps=8, warp=warp, longest=warp, dividing_lines=(21, 22) if divided else ()
    )
    config = candidate(blocks_per_sm=8, work=counted, config={"XBLOCK": 512})
    given: dict[str, Any] = {
        "read": BLOCKS * 2048, "written": BLOCKS * 2048, "candidates": (config,),
        "sizes": {"x": BLOCKS * 512}, "scalars": {"ks0": 5120}, **more,
    }  # fmt: skip
    return kernel("triton_poi_fused_cat_0", "1", **given)


def estimated(*kernels: KernelFacts, **more: Any) -> Run:
    given: dict[str, Any] = {"weighed": True, "settings": {TILES: False}, **more}
    return estimate_run(run(kernels, **given))


def found(*kernels: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(estimated(*kernels, **more)))


def test_a_size_that_only_a_run_knows() -> None:
    (finding,) = found(dividing())
    assert (finding.code, finding.severity) == ("PC208", "warning")
    assert finding.headline == (
        "triton_poi_fused_cat_0 divides the index of every element by sizes that are only known "
        "when it runs: 20 % of its instructions"
    )
    # 1000 instructions of 8 warps of 32 threads for 4096 bytes: 62.5. An H100 starts 4 on each of
    # 132 multiprocessors at 1.755 GHz, of 32 threads, while it moves 3.35 TB/s.
    assert finding.evidence == (
        "200 of 1,000 instructions of a warp divide or take remainders: lines 21, 22",
        "62.5 instructions for each byte moved; h100 can start 8.9 while it moves one",
        "not constants: ks0 = 5,120",
    )
    assert "mark_static" in finding.advice
    assert [dict(cure.options) for cure in finding.cures] == [{TILES: True}]
    assert finding.amount == 200 * 8 * BLOCKS


def test_it_costs_what_the_kernel_takes_less_without() -> None:
    bad = estimated(dividing())
    (finding,) = RULE.of_run(bad)
    base = dividing(0.0)
    counted = base.candidates[0].work
    assert counted is not None
    warp = replace(
        counted.warp, issued={**counted.warp.issued, "integer": 600.0}, stall_cycles=400.0
    )
    counted = replace(counted, warp=warp, longest=warp)
    clean = estimated(replace(base, candidates=(replace(base.candidates[0], work=counted),)))
    assert not list(RULE.of_run(clean))
    before, after = bad.kernels[0].step_seconds, clean.kernels[0].step_seconds
    assert before is not None and after is not None and finding.cost is not None
    assert finding.cost.seconds == pytest.approx(before - after)
    assert finding.cost.seconds > 10 * MICRO


def test_a_constant_that_is_no_power_of_two() -> None:
    (finding,) = found(dividing(scalars={}), settings={})
    assert "by no power of two" in finding.headline
    assert "powers of two" in finding.advice
    assert (len(finding.evidence), finding.cures) == (2, ())


def test_what_costs_little_is_no_finding() -> None:
    """5 % of the instructions, none, and all of a kernel that the step does not notice."""
    assert found(dividing(50.0)) == []
    assert found(dividing(0.0)) == []
    large = kernel(
        "triton_poi_fused_b_1", "2", read=1 << 36, written=1 << 36, launches=10,
        candidates=(candidate(blocks_per_sm=8, work=work(1 << 24)),), sizes={"x": 1 << 24},
    )  # fmt: skip
    assert found(dividing(), large) == []
