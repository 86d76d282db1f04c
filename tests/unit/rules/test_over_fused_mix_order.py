from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, candidate, kernel, run

from perfcli.model import Buffer, Candidate, Finding, KernelFacts
from perfcli.rules.over_fused_mix_order import RULE

MAX_READS, MIX_ORDER = "triton.mix_order_reduction_max_reads", "triton.mix_order_reduction"
SPILLS = candidate(2, registers=255, stack_bytes=368, shared_bytes=112928, local_stores=92)


def mix_order(reads: int, *candidates: Candidate, **more: Any) -> KernelFacts:
    buffers = tuple(
        Buffer(f"in_ptr{n}", f"buf{n}", "input", "bfloat16", (98304, 512), (512, 1), 1)
        for n in range(reads)
    )
    others = (
        Buffer("out_ptr0", "buf90", "output", "float32", (512,), (1,), 1),
        Buffer("ws_ptr", "workspace_0", "workspace", "float32", (512,), (1,), 1),
    )
    given: dict[str, Any] = {
        "kind": "mix-order-reduction",
        "candidates": candidates or (SPILLS,),
        "buffers": (*buffers, *others),
        "sizes": {"x": 98304, "r0_": 512},
        **more,
    }
    return kernel("triton_per_fused_mul_sum_17", "sum", **given)


def found(
    one: KernelFacts, settings: dict[str, Any] | None = None, torch: str = "2.13.0"
) -> list[Finding]:
    environment = replace(ENVIRONMENT, torch=torch)
    return list(RULE.of_run(run([one], settings=settings or {}, environment=environment)))


def test_seventeen_reads_that_spill() -> None:
    (finding,) = found(mix_order(17), {MAX_READS: 1000, MIX_ORDER: True})
    assert finding.headline == (
        "triton_per_fused_mul_sum_17 fuses 17 reads into one mix-order pass "
        "and spills 92 words per thread"
    )
    assert finding.severity == "warning"
    assert finding.evidence == (
        "17 buffers read, torch's limit is 10; in this run it is 1000",
        "255 registers, 92 spilled words, 112,928 B shared memory",
        "2 blocks of 2 warps per multiprocessor (6.25 % occupancy), limited by shared memory",
    )
    assert (finding.metric, finding.amount) == ("spilled_words", 92)
    assert [dict(cure.options) for cure in finding.cures] == [{MAX_READS: 10}, {MIX_ORDER: False}]


def test_ten_reads_are_within_the_limit() -> None:
    assert found(mix_order(10)) == []
    assert len(found(mix_order(11))) == 1


def test_many_reads_and_few_warps_without_a_cost_are_no_finding() -> None:
    """Measured: 15 reads, 202 registers, 4 warps per multiprocessor, 95 % of a copy's speed."""
    fine = candidate(
        2, registers=202, shared_bytes=112800, global_loads={"128": 165, "32": 6}, local_loads=0
    )
    assert fine.occupancy == 0.0625
    moved = {"read": 1309413376, "written": 393216}
    assert found(mix_order(16, fine, **moved)) == []


def test_many_reads_whose_loads_cannot_use_the_bandwidth() -> None:
    starved = candidate(2, registers=202, shared_bytes=112800, global_loads={"16": 16})
    (finding,) = found(mix_order(16, starved, read=10**9, written=0), {MAX_READS: 10})
    assert finding.headline.endswith("leaves 4 warps per multiprocessor")
    assert finding.severity == "warning"
    assert (finding.metric, finding.amount) == ("occupancy", 0.9375)
    assert finding.cures == ()


def test_sixteen_spilled_words_are_tolerated() -> None:
    few = candidate(2, registers=255, stack_bytes=64, local_stores=9)
    assert found(mix_order(17, few)) == []


def test_other_kernels_may_read_what_they_like() -> None:
    assert found(mix_order(17, kind="pointwise")) == []


@pytest.mark.parametrize(
    ("torch", "cures"), [("2.11.0+cu130", 2), ("2.12.1", 2), ("2.9.1", 1), ("2.13.0", 1)]
)
def test_the_limit_is_proposed_where_perfcli_brings_it(torch: str, cures: int) -> None:
    (finding,) = found(mix_order(17), {MIX_ORDER: True}, torch)
    assert len(finding.cures) == cures
    assert "in this run there is none" in finding.evidence[0]


def test_reads_are_counted_in_the_source_where_buffers_are_not_known() -> None:
    assert len(found(mix_order(0, loads=17, buffers=()))) == 1
    assert found(mix_order(0, loads=10, buffers=())) == []
