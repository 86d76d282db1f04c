from __future__ import annotations

from typing import Any

from handmade import candidate, kernel, run

from perfcli.model import Candidate, Finding, TimeEstimate
from perfcli.rules.launch_configuration import RULE

CONFIG = {"XBLOCK": 4, "RSPLIT_SIZE": 64}
OWN = candidate(2, registers=255, stack_bytes=368, shared_bytes=112928, config=CONFIG)


def other(warps: int = 2, registers: int = 150, **more: Any) -> Candidate:
    return candidate(warps, registers=registers, **{"config": CONFIG, **more})


def found(*alternatives: Candidate, own: Candidate = OWN, kind: str = "reduction") -> list[Finding]:
    one = kernel("triton_per_fused_0", candidates=(own,), alternatives=alternatives, kind=kind)
    return list(RULE.of_run(run([one])))


def test_more_warps_spill_nothing() -> None:
    (finding,) = found(other(8, 90))
    assert finding.headline == ("triton_per_fused_0 spills nothing with 2 → 8 warps, now 92 words")
    assert finding.evidence == (
        "Inductor's, RSPLIT_SIZE=64 XBLOCK=4 2 warps 1 stage: 255 registers, 92 spilled words, "
        "4 resident warps per multiprocessor, 112,928 B shared memory",
        "with 2 → 8 warps: 90 registers, 0 spilled words, "
        "16 resident warps per multiprocessor, 0 B shared memory",
    )
    assert finding.proven is True
    assert finding.cures == ()
    assert (finding.metric, finding.amount) == ("spilled_words", 92)


def test_it_is_about_the_configuration_that_the_time_is_about() -> None:
    """Inductor's with 4 warps spills less, and is not the one that is expected to win."""
    least = candidate(4, registers=255, stack_bytes=100, config=CONFIG)
    one = kernel(
        "triton_per_fused_0",
        candidates=(OWN, least),
        alternatives=(other(8, 90),),
        estimate=TimeEstimate(1e-5, 8e-6, 2e-5, candidate=0),
    )
    assert one.best is least
    (finding,) = RULE.of_run(run([one]))
    assert finding.headline.endswith("spills nothing with 2 → 8 warps, now 92 words")
    assert finding.amount == 92
    assert finding.evidence[0].startswith(
        "Inductor's, RSPLIT_SIZE=64 XBLOCK=4 2 warps 1 stage, expected to win: 255 registers, "
        "92 spilled words, "
    )
    assert finding.evidence[2] == (
        "of Inductor's, RSPLIT_SIZE=64 XBLOCK=4 4 warps 1 stage spills least: 25 words"
    )


def test_a_smaller_block() -> None:
    (finding,) = found(other(config={"XBLOCK": 1, "RSPLIT_SIZE": 64}))
    assert "spills nothing with XBLOCK 4 → 1" in finding.headline
    assert finding.advice.startswith("no option sets one kernel's launch configuration; ")


def test_a_handwritten_kernel_keeps_its_block() -> None:
    assert found(other(config={"XBLOCK": 1, "RSPLIT_SIZE": 64}), kind="user") == []
    (finding,) = found(other(8, 90), kind="user")
    assert finding.evidence[0].startswith("now, RSPLIT_SIZE=64 XBLOCK=4 2 warps ")
    assert finding.advice == "give the kernel a configuration with 2 → 8 warps"


def test_the_smaller_change_is_named_and_of_these_the_one_with_more_warps() -> None:
    both = other(8, 64, config={"XBLOCK": 1, "RSPLIT_SIZE": 64})
    (finding,) = found(both, other(4, 140), other(8, 90))
    assert "with 2 → 8 warps" in finding.headline


def test_a_mix_order_kernel_needs_one_row_at_a_time() -> None:
    """Measured: 4 warps on 4 rows spill nothing and take 818 µs; 2 that spill take 583 µs."""
    row = {"XBLOCK": 1, "RSPLIT_SIZE": 64}
    assert found(other(4, 242), other(8, 177), kind="mix-order-reduction") == []
    (finding,) = found(other(4, 242), other(2, 168, config=row), kind="mix-order-reduction")
    assert "with XBLOCK 4 → 1, now 92 words" in finding.headline
    narrow = candidate(2, registers=255, stack_bytes=368, config=row)
    assert len(found(other(8, 90, config=row), own=narrow, kind="mix-order-reduction")) == 1


def test_a_tenth_may_remain() -> None:
    (finding,) = found(other(4, stack_bytes=36))
    assert "spills 9 words with 2 → 4 warps" in finding.headline
    assert found(other(4, stack_bytes=40)) == []


def test_not_at_the_cost_of_resident_warps() -> None:
    assert found(other(2, 255, shared_bytes=200000)) == []
    assert found(other(4, blocks_per_sm=0)) == []


def test_a_few_spilled_words_are_no_reason() -> None:
    assert found(other(8), own=candidate(2, registers=255, stack_bytes=64)) == []


def test_low_occupancy_alone_is_no_reason() -> None:
    """Measured: 4 resident warps moved as much as 24 of another configuration."""
    assert found(other(8), own=candidate(2, registers=202, shared_bytes=112800)) == []


def test_what_failed_to_compile_shows_nothing() -> None:
    assert found(other(8, error="out of resource")) == []
    assert found(other(8, stack_bytes=None)) == []
    assert found() == []
