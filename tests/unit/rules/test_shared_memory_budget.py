from __future__ import annotations

from typing import Any

import pytest
from handmade import candidate, kernel, run

from perfcli.model import Candidate, Finding
from perfcli.rules.shared_memory_budget import RULE

LIMIT = 232448
STAGES = "triton.mix_order_reduction_allow_multi_stages"
RETRIES = "triton.dynamic_disable_pipelining"


def found(*candidates: Candidate, **more: Any) -> list[Finding]:
    settings = more.pop("settings", {})
    one = kernel("triton_per_fused_0", candidates=candidates, **more)
    return list(RULE.of_run(run([one], settings=settings)))


def test_a_block_that_no_multiprocessor_can_hold() -> None:
    # 7 fp32 inputs of 64 × 128 and 8,192 B of workspace: nvFuser's smallest overrun
    over = candidate(16, shared_bytes=7 * 64 * 128 * 4 + 8192)
    assert over.blocks_per_sm == 0
    (finding,) = found(over, kind="mix-order-reduction", settings={STAGES: True})
    assert finding.headline == (
        "triton_per_fused_0 cannot be launched: a block can have 232,448 B of shared memory "
        "and needs 237,568 B"
    )
    assert finding.severity == "error"
    assert finding.evidence == ("1 launch configuration, none fits",)
    assert (finding.metric, finding.amount) == ("shared_bytes", 237568)
    assert dict(finding.cures[0].options) == {STAGES: False}


def test_no_cure_where_the_option_is_missing_or_off() -> None:
    over = candidate(16, shared_bytes=LIMIT + 1)
    for settings in ({}, {STAGES: False}):
        (finding,) = found(over, kind="mix-order-reduction", settings=settings)
        assert finding.cures == ()
    assert found(over, settings={STAGES: True})[0].cures == ()


def test_a_pipeline_is_dropped_since_torch_2_13() -> None:
    """An L40S in miniature: the over-fused kernel of gqa-transformer needs 112,928 B."""
    config = {"XBLOCK": 4, "RSPLIT_SIZE": 64, "NUM_STAGES": 3}
    over = candidate(2, registers=255, shared_bytes=300000, config=config)
    single = candidate(2, registers=255, stack_bytes=408, config={**config, "NUM_STAGES": 1})
    given: dict[str, Any] = {"kind": "mix-order-reduction"}
    settings = {STAGES: True, RETRIES: True}
    (finding,) = found(over, single, settings=settings, **given)
    assert finding.severity == "warning"
    assert "is compiled again without its pipeline" in finding.headline
    assert "needs 300,000 B" in finding.headline
    assert finding.evidence == (
        "1 launch configuration, none fits",
        "without: 255 registers, 102 spilled words, 0 B shared memory",
    )
    assert finding.cures == ()


def test_what_does_not_fit_without_its_pipeline_either() -> None:
    config = {"XBLOCK": 4, "NUM_STAGES": 3}
    over = candidate(2, shared_bytes=300000, config=config)
    single = candidate(2, shared_bytes=250000, config={**config, "NUM_STAGES": 1})
    for settings in ({RETRIES: True}, {RETRIES: False}, {}):
        assert found(over, settings=settings)[0].severity == "error"
    (finding,) = found(over, single, settings={RETRIES: True})
    assert finding.severity == "error"
    assert "cannot be launched" in finding.headline


def test_one_of_several_is_dropped_without_a_second_try() -> None:
    """Only what has the tile of one that does not fit, and where no pipeline fits, was retried."""
    over = candidate(2, shared_bytes=300000, config={"XBLOCK": 4, "NUM_STAGES": 3})
    other_tile = candidate(2, config={"XBLOCK": 2, "NUM_STAGES": 1})
    pipelined = candidate(2, config={"XBLOCK": 2, "NUM_STAGES": 3})
    same_tile = candidate(2, config={"XBLOCK": 4, "NUM_STAGES": 1})
    settings = {RETRIES: True}
    assert found(over, other_tile, settings=settings) == []
    assert found(over, pipelined, same_tile, settings=settings) == []
    assert found(over, same_tile, settings={RETRIES: False}) == []
    assert len(found(over, same_tile, settings=settings)) == 1


def test_the_least_of_those_that_do_not_fit() -> None:
    (finding,) = found(candidate(shared_bytes=300000), candidate(shared_bytes=250000))
    assert finding.amount == 250000


def test_one_of_several_that_does_not_fit_is_dropped() -> None:
    assert found(candidate(shared_bytes=300000), candidate(shared_bytes=90000)) == []


def test_what_the_compiler_gave_up() -> None:
    error = "OutOfResources: out of resource: shared memory, Required: 262144\nHardware limit"
    (finding,) = found(candidate(registers=None, shared_bytes=None, error=error))
    assert finding.evidence[1] == "OutOfResources: out of resource: shared memory, Required: 262144"
    assert finding.amount is None


@pytest.mark.parametrize("error", ["PTXASError: internal", "out of resource: registers"])
def test_other_errors_are_not_shared_memory(error: str) -> None:
    assert found(candidate(registers=None, shared_bytes=None, error=error)) == []


def test_too_many_registers_for_one_block_is_not_shared_memory() -> None:
    assert found(candidate(32, registers=255, shared_bytes=1000, blocks_per_sm=0)) == []


@pytest.mark.parametrize(
    ("shared", "findings"), [(LIMIT, 1), (225475, 1), (225474, 0), (112928, 0)]
)
def test_nearly_is_within_three_percent(shared: int, findings: int) -> None:
    assert len(found(candidate(8, shared_bytes=shared))) == findings


def test_only_just() -> None:
    (finding,) = found(candidate(8, shared_bytes=229376))
    assert finding.headline == ("triton_per_fused_0 has 3,072 B of shared memory left of 232,448 B")
    assert finding.severity == "info"
    assert finding.evidence[0] == "229,376 B, 98.7 % of what a block can have"
    assert (finding.metric, finding.amount) == ("shared_bytes", 229376)


def test_another_form_of_a_kernel_that_is_not_launched() -> None:
    assert found(candidate(shared_bytes=LIMIT + 1), launches=0) == []


def test_without_target_or_candidates_nothing_is_known() -> None:
    assert found() == []
    given = run([kernel("k", candidates=(candidate(shared_bytes=LIMIT + 1),))], target=None)
    assert list(RULE.of_run(given)) == []
