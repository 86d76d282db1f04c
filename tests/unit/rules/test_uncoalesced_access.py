"""Kernels whose threads read or write with gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, kernel, run
from handmade_estimate import MICRO, work

from perfcli.model import Buffer, Finding, KernelFacts, LaunchWork, MemoryAccess, Origin, Run
from perfcli.predict.step import estimate_run
from perfcli.rules.uncoalesced_access import RULE

BLOCKS = 8192
ANALYSIS, TILES = "triton.coalesce_tiling_analysis", "triton.prefer_nd_tiling"
TILED = "triton.tile_reductions"
SETTINGS: dict[str, Any] = {ANALYSIS: True, TILES: False, TILED: False}
TRANSPOSED = Buffer(
    "in_ptr0", "primals_1", "input", "bfloat16", (4096, 8192), (8192, 1), 1 << 26, graph_input=True
)


def gather(**more: Any) -> MemoryAccess:
    """32 threads that read 2 bytes of a row each: 32 sectors for each of 128 requests, where 2
    would do; the block uses all of them."""
    given: dict[str, Any] = {
        "sectors": 4096.0, "needed": 256.0, "touched": 4096.0, "used": 256.0, "apart": 16384,
        "steps": {"x": 16384, "r0_": 2}, "along": "x", "lines": 4096.0, **more,
    }  # fmt: skip
    return MemoryAccess("load", "in_ptr0", 23, 2, 128.0, **given)


def asking(*accesses: MemoryAccess) -> LaunchWork:
    counted = work(BLOCKS)
    loads = [a for a in accesses if a.kind == "load"]
    traffic = replace(
        counted.traffic,
        requests=sum(a.requests for a in loads),
        lines=sum(a.lines for a in loads),
        load_sectors=sum(a.sectors for a in loads),
        new_sectors=sum(a.touched for a in loads),
        touched={"in_ptr0": sum(a.touched for a in loads)},
    )
    warp = replace(counted.warp, issued={"float": 200.0}, stall_cycles=200.0, rounds=4.0)
    return replace(counted, traffic=traffic, accesses=accesses, warp=warp, longest=warp)


def wasting(*accesses: MemoryAccess, buffer: Buffer = TRANSPOSED, **more: Any) -> KernelFacts:
    config = candidate(blocks_per_sm=8, work=asking(*accesses), config={"XBLOCK": 32})
    given: dict[str, Any] = {
        "read": buffer.bytes, "written": 1 << 20, "candidates": (config,), "buffers": (buffer,),
        "sizes": {"x": 4096 * 8192}, "kind": "persistent-reduction", **more,
    }  # fmt: skip
    return kernel("triton_per_fused_amax_0", "1", **given)


def estimated(*kernels: KernelFacts, **more: Any) -> Run:
    return estimate_run(run(kernels, **{"weighed": True, "settings": SETTINGS, **more}))


def found(*kernels: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(estimated(*kernels, **more)))


def test_a_split_scan_is_not_tiled_by_more_axes() -> None:
    """Tried with torch 2.13: "AssertionError: Unexpected tiling" of triton_split_scan.py."""
    scan = replace(wasting(gather(), kind="reduction"), name="triton_spl_fused_cumsum_0")
    (finding,) = found(scan)
    assert finding.cures == ()
    assert found(replace(scan, name="triton_red_fused_cumsum_0"))[0].cures != ()


def test_a_transposed_tensor() -> None:
    (finding,) = found(wasting(gather()))
    assert (finding.code, finding.severity) == ("PC207", "warning")
    assert finding.headline == (
        "triton_per_fused_amax_0 reads in_ptr0 with gaps between threads: 32 sectors for each "
        "load of a warp where 2 would do"
    )
    assert finding.evidence == (
        "in_ptr0, line 23: each load of a warp moves 32 sectors and needs 2, 16 × as much",
        "along x, neighbouring threads are 8,192 elements apart in in_ptr0 (16,384 B): its "
        "dimension 0; along r0_ they would be side by side",
        "in_ptr0 is bfloat16 4096 × 8192 with strides 8192 × 1, an input of the graph (primals_1)",
    )
    assert finding.amount == (4096 - 256) * BLOCKS
    assert [dict(cure.options) for cure in finding.cures] == [{TILES: True, TILED: True}]


def test_it_costs_what_the_same_kernel_takes_less_without_gaps() -> None:
    straight = gather(sectors=256.0, touched=256.0, lines=64.0)
    bad, good = estimated(wasting(gather())), estimated(wasting(straight))
    (finding,) = RULE.of_run(bad)
    assert not list(RULE.of_run(good))
    before, after = bad.kernels[0].step_seconds, good.kernels[0].step_seconds
    assert before is not None and after is not None and finding.cost is not None
    assert finding.cost.seconds == pytest.approx(before - after)
    assert finding.cost.seconds > 10 * MICRO


def test_the_options_that_are_not_set_are_proposed() -> None:
    off = {ANALYSIS: False, TILES: True, TILED: True}
    (finding,) = found(wasting(gather()), settings=off)
    assert [dict(cure.options) for cure in finding.cures] == [{ANALYSIS: True}]
    (pointwise,) = found(wasting(gather(), kind="pointwise"))
    assert [dict(cure.options) for cure in pointwise.cures] == [{TILES: True}]
    (lacking,) = found(wasting(gather()), settings={})
    assert lacking.cures == ()


def test_where_the_buffer_comes_from() -> None:
    place = (Origin("t", "aten.t.default", location="model.py:7", code="y = f(x)"),)
    made = replace(TRANSPOSED, graph_input=False, name="buf0")
    writer = kernel("triton_poi_fused_f_1", "2", buffers=(replace(made, role="output"),))
    (finding,) = found(wasting(gather(), buffer=made), replace(writer, origins=place))
    assert finding.evidence[-1].endswith("written by triton_poi_fused_f_1 (model.py:7  y = f(x))")


def test_every_sixteenth_element_is_no_matter_of_tiles() -> None:
    """Of 16 columns one is read: the others come with it whatever the order."""
    columns = Buffer(
        "in_ptr0", "x", "input", "bfloat16", (1 << 25, 16), (16, 1), 1 << 26, graph_input=True
    )
    (finding,) = found(wasting(gather(steps={"x": 32}, apart=32), buffer=columns))
    assert finding.cures == ()
    assert "in a tensor of their own" in finding.advice
    assert "16 elements apart in in_ptr0 (32 B): its dimension 0" in finding.evidence[1]


@pytest.mark.parametrize(
    "access", [gather(indirect=True), gather(known=False), gather(needed=2049.0)]
)
def test_what_is_unknown_or_hardly_wasteful_is_no_finding(access: MemoryAccess) -> None:
    assert found(wasting(access)) == []


def test_what_the_step_hardly_notices_is_no_finding() -> None:
    """A kernel of 100 times its bytes beside it: less than 1 % of the step."""
    large = kernel(
        "triton_poi_fused_b_1", "2", read=1 << 36, written=1 << 36, launches=10,
        candidates=(candidate(blocks_per_sm=8, work=work(1 << 24)),), sizes={"x": 1 << 24},
    )  # fmt: skip
    assert found(wasting(gather()), large) == []


def test_without_an_estimate_there_is_no_finding() -> None:
    assert list(RULE.of_run(run([wasting(gather())], settings=SETTINGS))) == []
