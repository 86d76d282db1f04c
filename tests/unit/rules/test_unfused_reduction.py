from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, origins, run
from handmade_reductions import matrix, reduction

from perfcli.model import Buffer, Finding, KernelFacts, Launch, Run
from perfcli.rules.unfused_reduction import RULE

OFF = {"triton.mix_order_reduction": False, "triton.mix_order_reduction_max_reads": 10}


def read(rows: int, columns: int) -> tuple[Buffer, ...]:
    names = ("primals_1", "tangents_1")
    return tuple(matrix(rows, columns, argument=f"in_{n}", name=n) for n in names)


def written(name: str, rows: int, columns: int) -> Buffer:
    return matrix(rows, columns, argument="out_ptr0", name=name, role="output")


def along_rows(rows: int = 32768, columns: int = 2048, *more: Buffer) -> KernelFacts:
    """The input's gradient: reads two matrices, writes one."""
    out = written("buf3", rows, columns)
    return reduction(
        "triton_red_fused_rms_norm_backward_2",
        (*read(rows, columns), *more, out),
        {"x": rows, "r0_": columns},
        origins=origins("sum_1"),
        read=2 * out.bytes,
        written=out.bytes,
    )


def along_columns(rows: int = 32768, columns: int = 2048, chunks: int = 64) -> KernelFacts:
    """The first stage of the weight's gradient: reads the same two."""
    return reduction(
        "triton_red_fused_rms_norm_backward_0",
        (*read(rows, columns), written("buf1", columns, chunks)),
        {"x": columns * chunks, "r0_": rows // chunks},
        origins=origins("sum_2"),
        read=2 * rows * columns * 2,
        written=columns * chunks * 4,
    )


def found(*kernels: KernelFacts, settings: dict[str, Any] | None = None, **m: Any) -> list[Finding]:
    return list(RULE.of_run(run(kernels, settings=OFF if settings is None else settings, **m)))


def test_rows_and_columns_of_the_same_matrices() -> None:
    (finding,) = found(along_columns(), along_rows())
    assert finding.headline == (
        "triton_red_fused_rms_norm_backward_2 and triton_red_fused_rms_norm_backward_0 "
        "both read 268 MB: one kernel could read it once"
    )
    assert finding.evidence == (
        "read by both: primals_1, tangents_1",
        "40 % of the 672 MB that they move",
        "triton.mix_order_reduction is False",
    )
    assert [dict(cure.options) for cure in finding.cures] == [{"triton.mix_order_reduction": True}]
    assert finding.amount == 2 * 32768 * 2048 * 2


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(4032, 2016), (4096, 1024), (32768, 32768), (8192, 8192)],
    ids=["few rows", "few points", "long rows", "square"],
)
def test_shapes_that_inductor_would_not_mix(rows: int, columns: int) -> None:
    assert found(along_columns(rows, columns), along_rows(rows, columns)) == []


def test_the_ratio_of_rows_to_columns_is_free_since_2_15() -> None:
    newer = replace(ENVIRONMENT, torch="2.15.0")
    kernels = (along_columns(16384, 12288), along_rows(16384, 12288))
    assert found(*kernels) == []
    assert len(found(*kernels, environment=newer)) == 1


def test_no_finding_where_mix_order_is_on_or_does_not_exist() -> None:
    kernels = (along_columns(), along_rows())
    assert found(*kernels, settings={"triton.mix_order_reduction": True}) == []
    assert found(*kernels, settings={}) == []


def test_no_finding_over_the_read_limit() -> None:
    more = [matrix(1, 2048, argument=f"in_ptr{n}", name=f"buf{n}") for n in range(10, 19)]
    assert len(found(along_columns(), along_rows(32768, 2048, *more[:8]))) == 1
    assert found(along_columns(), along_rows(32768, 2048, *more)) == []


def test_no_finding_where_one_needs_the_other() -> None:
    direct = matrix(2048, 64, argument="in_ptr2", name="buf1")
    assert found(along_columns(), along_rows(32768, 2048, direct)) == []
    needs = matrix(1, 2048, argument="in_ptr2", name="buf2")
    second = reduction(
        "triton_per_fused_1",
        (direct, written("buf2", 1, 2048)),
        {"x": 2048, "r0_": 64},
        kind="persistent-reduction",
    )
    assert found(along_columns(), second, along_rows(32768, 2048, needs)) == []
    assert len(found(along_columns(), second, along_rows())) == 1


def test_no_finding_across_a_library_operator_or_graphs() -> None:
    kernels = (along_columns(), along_rows())
    graph = kernels[0].graph
    product = Launch(graph, "extern_kernels.mm", extern=True)
    launches = (Launch(graph, kernels[0].name), product, Launch(graph, kernels[1].name))
    assert found(*kernels, launches=launches) == []
    assert found(kernels[0], replace(kernels[1], graph="inference 1")) == []


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        ({"max_fusion_size": 1}, {"max_fusion_size": 64}),
        ({"max_fusion_size": 2}, None),  # one node each
        ({"max_fusion_unique_io_buffers": 3}, {"max_fusion_unique_io_buffers": None}),
        ({"max_fusion_unique_io_buffers": 4}, None),
        ({"max_fusion_size": 64, "max_fusion_unique_io_buffers": None}, None),
    ],
)
def test_two_reductions_of_the_same_rows(
    settings: dict[str, Any], cure: dict[str, Any] | None
) -> None:
    other = replace(
        along_rows(),
        name="triton_red_fused_amax_0",
        buffers=(*read(32768, 2048), written("b", 1, 1)),
    )
    cures = [
        dict(c.options) for f in found(other, along_rows(), settings=settings) for c in f.cures
    ]
    assert cures == ([cure] if cure else [])


@pytest.mark.torch
@pytest.mark.parametrize("mix_order", [True, False])
def test_the_backward_of_a_norm_for_real(mix_order: bool, compile_run: Callable[..., Run]) -> None:
    compiled = compile_run(
        "rmsnorm",
        params=(("rows", 8192), ("columns", 1024), ("mode", "training")),
        options=(("triton.mix_order_reduction", mix_order),),
    )
    assert [f.code for f in RULE.of_run(compiled)] == ([] if mix_order else ["PC206"])
