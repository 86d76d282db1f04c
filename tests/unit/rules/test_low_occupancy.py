from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import H100, candidate, kernel, run

from perfcli.model import Candidate, Finding
from perfcli.rules.low_occupancy import RULE

SHORT: dict[str, Any] = {"registers": 255, "global_loads": {"32": 4}}


def found(*candidates: Candidate, read: int = 10**9, **more: Any) -> list[Finding]:
    settings = more.pop("settings", {})
    target = more.pop("target", H100)
    one = kernel(
        "triton_per_fused_0",
        candidates=candidates,
        read=read,
        written=more.pop("written", 0),
        **{"kind": "persistent-reduction", "sizes": {"x": 10**6, "r0_": 1024}, **more},
    )
    return list(RULE.of_run(run([one], target=target, settings=settings)))


def test_eight_warps_with_narrow_loads_cannot_keep_the_memory_busy() -> None:
    settings = {"triton.persistent_reductions": True}
    (finding,) = found(candidate(8, **SHORT), settings=settings)
    assert finding.headline == (
        "triton_per_fused_0 can use at most 40.3 % of the memory's bandwidth: "
        "registers leave 8 warps per multiprocessor"
    )
    assert finding.evidence == (
        "255 registers, 0 B shared memory",
        "1 block of 8 warps per multiprocessor (12.5 % occupancy), limited by registers",
        # 8 warps × 32 threads × 4 loads of 4 B; 3.35 TB/s × 400 ns / 132
        "at most 4,096 B in flight per multiprocessor, 10,152 B needed",
    )
    assert (finding.metric, finding.amount) == ("occupancy", 0.875)
    assert finding.severity == "warning"
    assert dict(finding.cures[0].options) == {"triton.persistent_reductions": False}


def test_shared_memory_that_limits_is_named() -> None:
    one = candidate(2, registers=40, shared_bytes=115000, global_loads={"32": 8})
    (finding,) = found(one)
    assert "shared memory leaves 4 warps" in finding.headline


@pytest.mark.parametrize(
    ("loads", "findings"), [({"128": 2}, 1), ({"128": 3}, 0), ({"128": 1, "32": 20}, 0)]
)
def test_few_warps_with_wide_loads_are_enough(loads: dict[str, int], findings: int) -> None:
    """8 warps: 8,192 B with two loads of 16 B, 12,288 B with three."""
    assert len(found(candidate(8, registers=255, global_loads=loads))) == findings


def test_one_configuration_that_does_better_is_enough() -> None:
    wide = candidate(8, registers=255, stack_bytes=4, global_loads={"128": 4})
    assert found(candidate(8, **SHORT), wide) == []


def test_registers_bound_what_can_be_in_flight() -> None:
    """However many loads there are: 8 warps of 255 registers hold 261,120 B."""
    assert found(candidate(8, registers=255, global_loads={"128": 500})) == []


def test_stores_do_not_wait() -> None:
    assert found(candidate(8, **SHORT), read=3 * 10**8, written=7 * 10**8) == []


def test_what_the_l2_holds_is_left_out() -> None:
    assert found(candidate(8, **SHORT), read=H100.l2_bytes) == []
    assert len(found(candidate(8, **SHORT), read=H100.l2_bytes + 1)) == 1


def test_a_kernel_that_does_not_fill_the_device_is_left_out() -> None:
    config = {"XBLOCK": 4}
    assert found(candidate(8, **SHORT, config=config), sizes={"x": 131 * 4, "r0_": 10**6}) == []
    assert len(found(candidate(8, **SHORT, config=config), sizes={"x": 132 * 4})) == 1
    assert found(candidate(8, **SHORT, config=config), sizes={}) == []


@pytest.mark.parametrize("kind", ["template", "user", "cpp", "other"])
def test_only_what_inductor_generates(kind: str) -> None:
    assert found(candidate(8, **SHORT), kind=kind) == []


def test_tma_and_unknown_loads_are_left_out() -> None:
    assert found(candidate(8, **SHORT, tma_loads=2)) == []
    assert found(candidate(8, **SHORT, tma_loads=None)) == []
    assert found(candidate(8, registers=255)) == []


def test_limited_by_neither_registers_nor_shared_memory() -> None:
    assert found(candidate(1, registers=16, global_loads={"16": 1})) == []


def test_what_cannot_be_launched_is_another_rule() -> None:
    assert found(candidate(8, registers=40, shared_bytes=300000, global_loads={"32": 1})) == []


def test_without_a_target_nothing_is_known() -> None:
    assert found(candidate(8, **SHORT), target=None) == []


def test_an_unknown_architecture_counts_with_the_shortest_latency() -> None:
    ada, unknown = (replace(H100, capability=c) for c in ((8, 9), (12, 0)))
    ((a,), (b,)) = (found(candidate(8, **SHORT), target=t) for t in (ada, unknown))
    assert a.evidence == b.evidence
    assert "5,456 B needed" in a.evidence[2]
