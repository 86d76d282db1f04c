"""Reductions that a cat was inlined into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, kernel, run
from handmade_estimate import work

from perfcli.model import Buffer, Finding, KernelFacts, MemoryAccess, Origin, Run
from perfcli.predict.calibration import calibration_for
from perfcli.predict.step import estimate_run
from perfcli.rules.inlined_cat import RULE

BLOCKS, PARTS = 32768, 8
MOVED = 1 << 20
OPTIONS = {"max_complex_pointwise_cat_inputs": 8, "max_pointwise_cat_inputs": 8}
CAT = (Origin("cat", "aten.cat.default", location="model.py:3", code="torch.cat(parts)"),)


def inlined(parted: float = 4000.0, **more: Any) -> KernelFacts:
    """Blocks of 10,000 instructions a warp, of which 4,000 are for seven of eight parts."""
    counted = work(BLOCKS, sectors=64.0)
    parts = {"integer": parted} if parted else {}
    warp = replace(
        counted.warp, issued={"integer": 10000.0}, parted=parts, stall_cycles=4000.0, rounds=2.0
    )
    loads = [
        MemoryAccess("load", f"in_ptr{n}", 10 + n, 2, 8.0, 64.0, 64.0, 64.0, 64.0, masked=True)
        for n in range(PARTS)
    ]
    kept = more.pop("kept", ())
    counted = replace(
        counted, warps=8, warp=warp, longest=warp, parts=PARTS, accesses=(*loads, *kept)
    )
    buffers = tuple(
        Buffer(f"in_ptr{n}", f"x{n}", "input", "bfloat16", (MOVED // 16,), (1,), MOVED // 8)
        for n in range(PARTS)
    )
    given: dict[str, Any] = {
        "kind": "reduction", "read": MOVED, "written": MOVED, "buffers": buffers,
        "candidates": (candidate(blocks_per_sm=8, work=counted),), "sizes": {"x": BLOCKS}, **more,
    }  # fmt: skip
    return replace(kernel("triton_red_fused_cat_0", "1", **given), origins=more.get("origins", CAT))


def estimated(*kernels: KernelFacts, **more: Any) -> Run:
    return estimate_run(run(kernels, **{"weighed": True, "settings": OPTIONS, **more}))


def found(*kernels: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(estimated(*kernels, **more)))


def test_a_norm_of_eight_parts() -> None:
    (finding,) = found(inlined())
    assert finding.headline == (
        "triton_red_fused_cat_0 has a cat of 8 parts inlined: each element runs through the "
        "masked loads and selects of all of them"
    )
    assert finding.evidence == (
        "4,000 of 10,000 instructions of a warp (40 %) are for all parts but the first",
        "the parts have 1.05 MB: what a kernel of its own would copy",
    )
    assert [dict(cure.options) for cure in finding.cures] == [dict.fromkeys(OPTIONS, 4)]
    assert finding.origin == CAT[0]
    assert finding.amount == 4000 * 8 * BLOCKS


def test_the_copy_is_part_of_the_cost() -> None:
    """Without the parts' instructions, and with a launch and the row written and read; only read
    where the kernel keeps the row in a buffer that it reads again."""
    bad = estimated(inlined())
    (finding,) = RULE.of_run(bad)
    base = inlined(0.0)
    counted = base.candidates[0].work
    assert counted is not None and bad.target is not None
    warp = replace(counted.warp, issued={"integer": 6000.0}, stall_cycles=2400.0)
    counted = replace(counted, warp=warp, longest=warp)
    clean = estimated(replace(base, candidates=(replace(base.candidates[0], work=counted),)))
    before, after = bad.kernels[0].step_seconds, clean.kernels[0].step_seconds
    calibration = calibration_for(bad.target)
    assert before is not None and after is not None and finding.cost is not None
    assert calibration is not None
    c = calibration.constants
    copied = 1e-6 * (c["launch"] + 2 * MOVED / c["dram"])
    assert finding.cost.seconds == pytest.approx(before - after - copied)
    row = [
        MemoryAccess(kind, "in_out_ptr0", line, 2, 8.0, 64.0, 64.0, 64.0, 64.0)  # type: ignore[arg-type]
        for kind, line in (("store", 40), ("load", 50))
    ]
    (kept,) = found(inlined(kept=tuple(row)))
    assert kept.cost is not None
    saved = 1e-6 * MOVED / c["dram"]
    assert kept.cost.seconds == pytest.approx(finding.cost.seconds + saved)


def test_what_is_no_reader_of_a_cat_is_no_finding() -> None:
    assert found(inlined(kind="pointwise")) == []
    assert found(inlined(origins=(Origin("sum", "aten.sum.dim_IntList"),))) == []


def test_what_a_copy_would_cost_more_than_is_no_finding() -> None:
    large = tuple(replace(b, bytes=1 << 31) for b in inlined().buffers)
    assert found(inlined(buffers=large)) == []


def test_only_options_that_this_torch_has_are_proposed() -> None:
    (older,) = found(inlined(), settings={"max_pointwise_cat_inputs": 8})
    assert [dict(cure.options) for cure in older.cures] == [{"max_pointwise_cat_inputs": 4}]
    assert found(inlined(), settings=dict.fromkeys(OPTIONS, 4))[0].cures == ()
