from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handmade import run
from handmade_reductions import matrix, reduction, source

from perfcli.model import Finding, KernelFacts, Run
from perfcli.rules.narrow_loads import RULE


def kernel(
    columns: int = 50257, rows: int = 512, stride: int | None = None, **more: Any
) -> KernelFacts:
    """Loads 4 half-precision elements per thread in a loop, one at a time."""
    whole = matrix(rows, columns, stride=(stride or columns, 1))
    given: dict[str, Any] = {"facts": source(masked=True), "widths": {"16": 4}, **more}
    return reduction("triton_red_fused_0", (whole,), {"x": rows, "r0_": columns}, **given)


def found(kernel: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(run([kernel], **more)))


def test_rows_of_an_odd_vocabulary() -> None:
    (finding,) = found(kernel())
    assert finding.severity == "warning"
    assert finding.headline == (
        "triton_red_fused_0 loads 51.5 MB 16 bits at a time: "
        "rows of 50,257 are no multiple of 16 bytes"
    )
    assert finding.evidence == (
        "LDG instructions: 4 of 16 bits",
        "in_ptr0: rows of 100,514 B, 100,514 B apart: 2 more than a multiple of 16",
    )
    assert finding.advice == "pad rows from 50,257 to 50,264 or 50,304 elements"
    assert finding.amount == 4


def test_a_padded_stride_leaves_the_mask() -> None:
    (finding,) = found(kernel(stride=50304))
    assert "100,608 B apart" in finding.evidence[1]


def test_a_stride_that_starts_rows_anywhere() -> None:
    (finding,) = found(kernel(50304, stride=50305))
    assert finding.headline == (
        "triton_red_fused_0 loads 51.5 MB 16 bits at a time: "
        "rows 50,305 elements apart start at no multiple of 16 bytes"
    )
    assert finding.evidence[1] == (
        "in_ptr0: rows of 100,608 B, 100,610 B apart: 2 more than a multiple of 16"
    )
    assert finding.advice == "pad the stride from 50,305 to 50,312 or 50,368 elements"


def test_rows_in_registers_are_only_worth_knowing() -> None:
    (finding,) = found(kernel(1023, 16384, kind="persistent-reduction"))
    assert finding.severity == "info"
    assert finding.advice == "pad rows from 1,023 to 1,024 elements"


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


@pytest.mark.torch
@pytest.mark.parametrize(("columns", "codes"), [(50257, ["PC204"]), (50304, [])])
def test_an_odd_vocabulary_for_real(
    columns: int, codes: list[str], compile_run: Callable[..., Run]
) -> None:
    compiled = compile_run("cross-entropy", params=(("rows", 512), ("columns", columns)))
    assert [finding.code for finding in RULE.of_run(compiled)] == codes
