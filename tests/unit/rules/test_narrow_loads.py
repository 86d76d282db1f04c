from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, candidate, run
from handmade import kernel as made
from handmade_estimate import work
from handmade_reductions import matrix, reduction, source

from perfcli.model import Buffer, Finding, KernelFacts, MemoryAccess, Run
from perfcli.predict.step import estimate_run
from perfcli.rules.narrow_loads import RULE


def kernel(
    columns: int = 50257, rows: int = 512, stride: int | None = None, **more: Any
) -> KernelFacts:
    """Loads 4 half-precision elements per thread in a loop, one at a time."""
    whole = matrix(rows, columns, stride=(stride or columns, 1))
    given: dict[str, Any] = {"facts": source(masked=True), "widths": {"16": 4}, **more}
    return reduction("triton_red_fused_0", (whole,), {"x": rows, "r0_": columns}, **given)


SETTINGS = {"triton.persistent_reductions": True}


def found(kernel: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(run([kernel], **{"settings": SETTINGS, **more})))


def test_rows_of_an_odd_vocabulary() -> None:
    (finding,) = found(kernel())
    assert finding.severity == "warning"
    assert finding.headline == (
        "triton_red_fused_0 loads 51.5 MB 16 bits at a time: "
        "rows of 50,257 are no multiple of 16 bytes"
    )
    assert finding.evidence == (
        "LDG instructions: 4 of 16 bits",
        "in_ptr0: rows of 100,514 B, 100,514 B apart",
        "rows start at no multiple of 16 bytes",
    )
    assert finding.advice == (
        "pad rows from 50,257 to 50,304 elements, a multiple of 64 (50,264, of 8, is the least)"
    )
    assert finding.amount == 4
    assert [dict(cure.options) for cure in finding.cures] == [{"patch.loop_peeling": True}]


def test_only_a_loop_that_this_torch_can_peel_is_peeled() -> None:
    held: dict[str, Any] = {"kind": "persistent-reduction"}
    assert found(kernel(**held))[0].cures == ()
    newer = replace(ENVIRONMENT, torch="2.15.0")
    assert found(kernel(), environment=newer)[0].cures == ()
    assert found(kernel(), settings={**SETTINGS, "patch.loop_peeling": True})[0].cures == ()


def test_a_padded_stride_leaves_the_mask() -> None:
    (finding,) = found(kernel(stride=50304))
    assert finding.evidence[1:] == (
        "in_ptr0: rows of 100,514 B, 100,608 B apart",
        "rows start at multiples of 16 bytes; the mask, which ends 2 B behind one, "
        "keeps loads narrow",
    )
    assert finding.advice.startswith("pad rows from 50,257 to 50,304 elements")


def test_a_stride_that_starts_rows_anywhere() -> None:
    (finding,) = found(kernel(50304, stride=50305))
    assert finding.headline == (
        "triton_red_fused_0 loads 51.5 MB 16 bits at a time: "
        "rows 50,305 elements apart start at no multiple of 16 bytes"
    )
    assert finding.evidence[1:] == (
        "in_ptr0: rows of 100,608 B, 100,610 B apart",
        "rows start at no multiple of 16 bytes",
    )
    assert finding.advice == (
        "pad the stride from 50,305 to 50,368 elements, a multiple of 64 "
        "(50,312, of 8, is the least)"
    )


def test_rows_in_registers_are_only_worth_knowing() -> None:
    (finding,) = found(kernel(1023, 16384, kind="persistent-reduction"))
    assert finding.severity == "info"
    assert finding.advice == "pad rows from 1,023 to 1,024 elements, a multiple of 64"


def split(
    columns: int, *, chunks: int = 3, rows: int = 256, stride: int | None = None
) -> list[KernelFacts]:
    """Both stages of a reduction of split rows, the first with 4 narrow loads."""
    whole = matrix(rows, columns, stride=(stride or columns, 1))
    partial = matrix(rows, chunks, name="buf0", dtype="float32")
    first = reduction(
        "triton_red_fused_0",
        (whole, replace(partial, argument="out_ptr0", role="output")),
        {"x": rows * chunks, "r0_": -(-columns // chunks)},
        facts=source(masked=True),
        widths={"16": 4},
    )
    second = reduction(
        "triton_per_fused_1", (partial,), {"x": rows, "r0_": chunks}, kind="persistent-reduction"
    )
    return [first, second]


def test_chunks_of_a_split_row() -> None:
    (finding,) = RULE.of_run(run(split(250003)))
    assert finding.headline == (
        "triton_red_fused_0 loads 128 MB 16 bits at a time: "
        "chunks of 83,335, 3 to a row, are no multiple of 16 bytes"
    )
    assert finding.evidence == (
        "LDG instructions: 4 of 16 bits",
        "in_ptr0: rows of 500,006 B in 3 chunks of 166,670 B, 500,006 B apart",
        "chunks start at no multiple of 16 bytes",
    )
    assert finding.advice == (
        "pad rows from 250,003 to 250,176 elements, a multiple of 3 × 64 "
        "(250,008, of 3 × 8, is the least)"
    )


def test_a_padded_row_may_still_have_odd_chunks() -> None:
    (finding,) = RULE.of_run(run(split(250016)))
    assert "chunks of 83,339" in finding.headline
    assert finding.advice.startswith("pad rows from 250,016 to 250,176 elements")


@pytest.mark.parametrize(
    "harmless",
    [split(250008), split(250176), split(250003)[:1], split(4099, chunks=3, rows=4099)],
    ids=["aligned chunks", "well aligned chunks", "no second stage", "rows or columns"],
)
def test_split_rows_that_are_fine(harmless: list[KernelFacts]) -> None:
    assert list(RULE.of_run(run(harmless))) == []


def wider(count: int) -> KernelFacts:
    narrow = kernel()
    other = replace(narrow.candidates[0], global_loads={"64": count})
    return replace(narrow, candidates=(*narrow.candidates, other))


@pytest.mark.parametrize(
    "harmless",
    [
        kernel(50304),
        kernel(50304, widths={"64": 1}),
        kernel(widths={"64": 1}),
        kernel(widths={"64": 1, "16": 3}),
        wider(1),
        kernel(rows=64),
        kernel(widths={}),
        kernel(dynamic_sizes=("r0_",)),
        kernel(kind="pointwise"),
        replace(kernel(), buffers=(matrix(512, 50257, stride=(1, 512)),)),
        replace(kernel(), buffers=(matrix(512, 50257 * 8),)),
    ],
    ids=[
        "aligned",
        "aligned and wide",
        "wide all the same",
        "too few narrow ones",
        "another launch configuration is wide",
        "small",
        "widths not known",
        "dynamic",
        "flat",
        "columns",
        "gathered",
    ],
)
def test_what_is_fine(harmless: KernelFacts) -> None:
    assert found(harmless) == []


try:
    RELEASE = tuple(map(int, importlib.metadata.version("torch").split(".")[:2]))
except importlib.metadata.PackageNotFoundError:
    RELEASE = (0, 0)


@pytest.mark.torch
@pytest.mark.skipif(RELEASE < (2, 13), reason="kernels as torch 2.13 splits them")
@pytest.mark.parametrize(("columns", "codes"), [(250016, ["PC204"]), (250008, []), (250176, [])])
def test_split_rows_for_real(
    columns: int, codes: list[str], compile_run: Callable[..., Run]
) -> None:
    """The advice holds: whole chunks of 8 elements are loaded 64 bits at a time."""
    compiled = compile_run("softmax", params=(("rows", 256), ("columns", columns)))
    assert [finding.code for finding in RULE.of_run(compiled)] == codes
    if not codes:
        assert [dict(c.global_loads) for c in compiled.kernels[0].candidates] == [{"64": 1}]


@pytest.mark.torch
@pytest.mark.parametrize(("columns", "codes"), [(50257, ["PC204"]), (50304, [])])
def test_an_odd_vocabulary_for_real(
    columns: int, codes: list[str], compile_run: Callable[..., Run]
) -> None:
    compiled = compile_run("cross-entropy", params=(("rows", 512), ("columns", columns)))
    assert [finding.code for finding in RULE.of_run(compiled)] == codes


# --- pointwise kernels -----------------------------------------------------------------------


def pointwise(waste: float = 8.0, **more: Any) -> KernelFacts:
    """Threads that load their 8 neighbouring half-precision elements one by one, in 16,384 blocks
    of 1,000 requests of 16 sectors each."""
    counted = work(16384, sectors=64.0)
    counts: dict[str, Any] = {"sectors": 16000.0, "needed": 16000.0 / waste, "lines": 4000.0}
    layout: dict[str, Any] = {"apart": 16, "steps": {"x": 2}, "along": "x"}
    both: dict[str, Any] = {"touched": 2000.0, "used": 2000.0}
    loads = MemoryAccess("load", "in_ptr0", 9, 2, 1000.0, **counts, **both, **layout)
    rows = Buffer("in_ptr0", "x", "input", "bfloat16", (131072, 1047), (1047, 1), 1 << 28)
    traffic = replace(counted.traffic, requests=1000.0, lines=4000.0, load_sectors=16000.0)
    warp = replace(counted.warp, issued={"global-load": 250.0, "integer": 800.0}, rounds=2.0)
    counted = replace(counted, traffic=traffic, warp=warp, longest=warp, accesses=(loads,))
    config = candidate(blocks_per_sm=8, work=counted, global_loads={"16": 250})
    given: dict[str, Any] = {
        "read": 1 << 28, "written": 1 << 28, "candidates": (config,), "sizes": {"x": 1 << 27},
        "buffers": (rows,), **more,
    }  # fmt: skip
    return made("triton_poi_fused_cat_0", "1", **given)


def estimated(kernel: KernelFacts) -> list[Finding]:
    return list(RULE.of_run(estimate_run(run([kernel], weighed=True))))


def test_a_pointwise_kernel_that_moves_elements_one_by_one() -> None:
    (finding,) = estimated(pointwise())
    assert finding.headline == (
        "triton_poi_fused_cat_0 moves neighbouring elements 16 bits at a time: in_ptr0"
    )
    assert finding.evidence == (
        "LDG instructions: 250 of 16 bits",
        "in_ptr0 is 131072 × 1047",
    )
    assert finding.amount == 250
    assert finding.cost is not None and finding.cost.seconds > 1e-6


def test_a_pointwise_kernel_with_sizes_of_a_run() -> None:
    (finding,) = estimated(pointwise(scalars={"ks0": 1047}))
    assert finding.evidence[-1].startswith("sizes that only a run knows")


def test_wide_loads_and_reductions_are_no_matter_of_this() -> None:
    assert estimated(pointwise(waste=1.0)) == []
    assert estimated(pointwise(kind="reduction")) == []
