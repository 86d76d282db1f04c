from __future__ import annotations

from typing import Any

import pytest
from handmade import candidate, kernel, run

from perfcli.model import Finding, KernelFacts, LineCounts
from perfcli.rules.register_spills import RULE

LINES = {
    "9": LineCounts(local_stores=1),
    "12": LineCounts(local_stores=40, local_loads=30, text="tmp4 = tl.exp(tmp3)"),
    "30": LineCounts(local_loads=50, text="tmp9 = tmp4 + tmp8"),
    "31": LineCounts(local_loads=12, text="tmp10 = tmp9 * tmp4"),
    "40": LineCounts(global_loads=8),
}


def spilling(stack: int = 368, **more: Any) -> KernelFacts:
    given: dict[str, Any] = {"local_stores": 41, "local_loads": 92, "lines": LINES, **more}
    one = candidate(2, registers=255, stack_bytes=stack, **given)
    return kernel("triton_per_fused_sum_0", "sum", candidates=(one,), kind="mix-order-reduction")


def found(one: KernelFacts, **settings: Any) -> list[Finding]:
    return list(RULE.of_run(run([one], settings=settings)))


def test_ninety_two_words_and_the_lines_that_spill_them() -> None:
    (finding,) = found(spilling())
    assert finding.headline == "triton_per_fused_sum_0 spills 92 words per thread"
    assert finding.severity == "warning"
    assert finding.evidence == (
        "255 registers, 368 B stack, 41 STL, 92 LDL",
        "line 12: 40 STL, 30 LDL",
        "line 30: 0 STL, 50 LDL",
        "line 31: 0 STL, 12 LDL",
    )
    assert finding.source_lines == {
        "12": "tmp4 = tl.exp(tmp3)",
        "30": "tmp9 = tmp4 + tmp8",
        "31": "tmp10 = tmp9 * tmp4",
    }
    assert (finding.metric, finding.amount, finding.kernels) == ("spilled_words", 92, (0,))
    assert finding.origin is not None
    assert finding.origin.node == "sum"


@pytest.mark.parametrize(("stack", "severity"), [(8, "info"), (64, "info"), (72, "warning")])
def test_sixteen_words_are_the_limit_of_a_warning(stack: int, severity: str) -> None:
    (finding,) = found(spilling(stack))
    assert finding.severity == severity
    assert finding.amount == stack / 4


def test_the_array_of_a_sine_is_no_spill() -> None:
    assert found(spilling(32, local_array_bytes=28)) == []
    (finding,) = found(spilling(32 + 80, local_array_bytes=28))
    assert finding.amount == 20


def test_a_stack_that_no_instruction_touches_costs_nothing() -> None:
    assert found(spilling(local_stores=0, local_loads=0)) == []


def test_what_is_not_known_is_not_counted() -> None:
    assert found(kernel("k", candidates=(candidate(registers=None),))) == []
    assert found(kernel("k", candidates=(candidate(stack_bytes=None),))) == []


def test_a_configuration_that_does_not_spill_is_enough() -> None:
    both = (candidate(2, registers=255, stack_bytes=400), candidate(8, registers=90))
    assert found(kernel("k", candidates=both)) == []


def test_cures_only_where_the_option_exists_and_matters() -> None:
    on = {"triton.mix_order_reduction": True}
    assert [dict(c.options) for c in found(spilling(), **on)[0].cures] == [
        {"triton.mix_order_reduction": False}
    ]
    assert found(spilling())[0].cures == ()
    assert found(spilling(64), **on)[0].cures == ()


def test_a_persistent_reduction_can_be_made_a_loop() -> None:
    one = candidate(1, registers=255, stack_bytes=400)
    given = kernel("k", candidates=(one,), kind="persistent-reduction")
    (finding,) = found(given, **{"triton.persistent_reductions": True})
    assert dict(finding.cures[0].options) == {"triton.persistent_reductions": False}
    assert found(given, **{"triton.persistent_reductions": False})[0].cures == ()
