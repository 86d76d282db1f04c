from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, kernel, run

from perfcli.model import Candidate, Finding
from perfcli.rules.held_copies import RULE

NARROW = {"32": 4}


def found(
    one: Candidate,
    *copies: str,
    columns: int | None = 4096,
    read: int = 10**9,
    kind: Any = "persistent-reduction",
    **more: Any,
) -> list[Finding]:
    made = kernel("triton_per_fused_0", candidates=(one,), read=read, written=0)
    assert made.source_facts is not None
    facts = replace(made.source_facts, held_copies=copies)
    sizes = {"x": 10**6} | ({"r0_": columns} if columns else {})
    made = replace(made, kind=kind, source_facts=facts, sizes=sizes)
    return list(RULE.of_run(run([made], **more)))


def own(registers: int, warps: int = 4, **more: Any) -> Candidate:
    return candidate(warps, registers=registers, **{"config": {"XBLOCK": 1}, **more})


def test_a_kernel_that_spills_for_its_copies() -> None:
    (finding,) = found(own(255, stack_bytes=400), "in_ptr0", "in_ptr1")
    assert finding.headline == (
        "triton_per_fused_0 holds 2 inputs as float32 copies and spills 100 words"
    )
    assert finding.severity == "warning"
    # 4096 columns over 128 threads: 32 elements of each, half a register each too many
    assert finding.evidence == (
        "held across the reduction: in_ptr0, in_ptr1",
        "about 32 registers of 255 per thread would be free if they stayed half precision",
        "2 blocks of 4 warps per multiprocessor (12.5 % occupancy), limited by registers",
    )
    assert (finding.metric, finding.amount) == ("registers", 32)
    assert finding.cures == ()
    had = {"triton.persistent_reductions": True}
    (finding,) = found(own(255, stack_bytes=400), "in_ptr0", "in_ptr1", settings=had)
    assert [dict(cure.options) for cure in finding.cures] == [{"patch.recompute_half_inputs": True}]


def test_another_block_would_fit_where_the_memory_idles() -> None:
    (finding,) = found(own(200, global_loads=NARROW), "in_ptr0", "in_ptr1", "in_ptr2")
    assert finding.headline == (
        "triton_per_fused_0 holds 3 inputs as float32 copies "
        "and fits 2 blocks per multiprocessor, not 3"
    )
    assert finding.severity == "info"
    assert (finding.metric, finding.amount) == ("registers", 48)


def test_copies_that_cost_no_bandwidth_are_no_finding() -> None:
    """Measured: 95 registers and 20 warps move as much as 32 registers and 64 warps."""
    wide = own(95, warps=1, config={"XBLOCK": 2}, global_loads={"128": 14})
    assert found(wide, "in_ptr1", "in_ptr4", columns=512) == []


def test_a_block_too_few_to_matter() -> None:
    assert found(own(200, global_loads=NARROW), "in_ptr0", columns=512) == []


def test_shared_memory_limits_not_registers() -> None:
    one = own(100, shared_bytes=115000, global_loads=NARROW)
    assert one.occupancy_limit == "shared memory"
    assert found(one, "in_ptr0", "in_ptr1") == []


def test_no_copies_or_no_known_row() -> None:
    assert found(own(255, stack_bytes=400)) == []
    assert found(own(255, stack_bytes=400), "in_ptr0", columns=None) == []


def test_a_small_kernel_waits_for_its_launch() -> None:
    assert found(own(200, global_loads=NARROW), "in_ptr0", "in_ptr1", read=10**6) == []


@pytest.mark.parametrize("kind", ["mix-order-reduction", "reduction", "user"])
def test_only_persistent_reductions(kind: str) -> None:
    assert found(own(255, stack_bytes=400), "in_ptr0", kind=kind) == []
