from __future__ import annotations

from dataclasses import replace
from typing import Any

from handmade import candidate, kernel, run

from perfcli.model import Candidate, Finding
from perfcli.predict.launchable import find_too_many_blocks
from perfcli.rules.cooperative_launch import RULE

SMS = 132
FORCED = "triton.force_cooperative_reductions"


def found(*candidates: Candidate, **settings: Any) -> list[Finding]:
    one = kernel("triton_unk_fused_0", candidates=candidates)
    return list(RULE.of_run(run([one], settings=settings)))


def asking(blocks: int | None, warps: int = 16, **more: Any) -> Candidate:
    """Return a configuration of 16 warps: 64 warps per multiprocessor hold 4 such blocks."""
    made = candidate(warps, registers=32, **more)
    assert made.blocks_per_sm == 64 // warps
    return replace(made, blocks_at_once=blocks)


def test_a_softmax_that_an_h200_refuses() -> None:
    """ "too many blocks in cooperative launch", torch 2.11.0, 2026-11-24."""
    (finding,) = found(asking(32768), **{FORCED: True})
    assert finding.severity == "error"
    assert finding.headline == (
        "triton_unk_fused_0 cannot be launched: 32,768 blocks must run at once, and 528 fit"
    )
    assert (finding.metric, finding.amount) == ("blocks_at_once", 32768)
    assert finding.evidence[0].endswith("on 132 multiprocessors")
    assert [dict(cure.options) for cure in finding.cures] == [{FORCED: False}]


def test_as_many_blocks_as_fit_are_launched() -> None:
    assert found(asking(4 * SMS)) == []
    (finding,) = found(asking(4 * SMS + 1))
    assert finding.cures == ()


def test_blocks_that_run_in_turn_may_be_many() -> None:
    assert found(asking(None)) == []


def test_one_configuration_is_enough_if_it_is_timed() -> None:
    """The autotuner launches all but those that spill over 16 words, and passes the error on."""
    fits, over = asking(100), asking(1000)
    assert len(found(fits, over)) == 1
    assert found(fits, asking(1000, stack_bytes=4 * 17)) == []


def test_the_room_is_that_of_the_target() -> None:
    one = kernel("k", candidates=(asking(500),))
    target = run([]).target
    assert target is not None
    assert find_too_many_blocks(one, target) is None
    assert find_too_many_blocks(one, replace(target, sm_count=100)) is not None
