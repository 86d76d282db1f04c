"""Kernels that compute nothing: what they cost, for whom they copy, and what would do without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from handmade_fusion import BLOCKS, POINTS, passing, step, tensor

from perfcli.model import (
    ExternCall,
    Finding,
    KernelFacts,
    Launch,
    MemoryAccess,
    OperatorCall,
    OptionValue,
    Origin,
)
from perfcli.rules.copy_kernels import RULE


def copy(op: str = "aten.clone.default", **more: Any) -> KernelFacts:
    """Transposes what a kernel wrote for the one that follows."""
    node = op.split(".")[1]
    given: dict[str, Any] = {
        "operations": 0,
        "origins": (Origin(node, op, location="model.py:3", code="y = x.t().contiguous()"),),
        "buffers": [tensor("buf0", "input"), tensor("buf1", "output", stride=(1, BLOCKS))],
    }
    return passing("triton_poi_fused_clone_1", reads=[], writes=[], **{**given, **more})


def in_order(kernel: KernelFacts, step: int = 4) -> KernelFacts:
    """A kernel whose neighbouring threads move elements that are so many bytes apart."""
    (config,) = kernel.candidates
    assert config.work is not None
    counts = (32.0, 128.0, 128.0, 128.0, 128.0)
    found = (
        MemoryAccess("load", "in_ptr_buf0", 1, 4, *counts, steps={"x": step}, along="x"),
        MemoryAccess("store", "out_ptr_buf1", 2, 4, *counts, steps={"x": step}, along="x"),
    )
    work = replace(config.work, accesses=found)
    return replace(kernel, candidates=(replace(config, work=work),))


SAME = [tensor("buf0", "input", shape=(64, 64, 1024), stride=(65536, 1024, 1)),
        tensor("buf1", "output")]  # fmt: skip
BEFORE = passing("triton_poi_fused_add_0", "add", reads=["arg0_1"], writes=["buf0"])
AFTER = passing("triton_poi_fused_mul_2", "mul", reads=["buf1"], writes=["result"])


def found(*kernels: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(step(*kernels, **more)))


def test_a_copy_costs_all_of_its_time() -> None:
    (finding,) = found(BEFORE, copy(), AFTER)
    made = step(BEFORE, copy(), AFTER).kernels
    assert finding.kernels == (1,)
    assert finding.headline == (
        "triton_poi_fused_clone_1 only copies 33.6 MB for triton_poi_fused_mul_2: another layout "
        "of the same elements"
    )
    assert finding.amount == 8 * POINTS
    assert finding.cost is not None
    assert finding.cost.seconds == pytest.approx(made[1].step_seconds, rel=1e-6)
    total = sum(kernel.step_seconds or 0.0 for kernel in made)
    assert finding.cost.share == pytest.approx(finding.cost.seconds / total)
    assert finding.origin is not None and finding.origin.location == "model.py:3"


def test_copies_of_one_sort_are_one_finding() -> None:
    more = [replace(copy(), name=f"triton_poi_fused_clone_{n}") for n in (3, 4)]
    (finding,) = found(BEFORE, copy(), *more, AFTER)
    assert finding.kernels == (1, 2, 3)
    assert "and 2 other kernels only copy 101 MB" in finding.headline


@pytest.mark.parametrize(
    "kernel",
    [
        copy(operations=POINTS),
        copy(operations=None),
        copy("aten.embedding.default"),
        copy("aten.masked_fill.Scalar"),
        copy(buffers=[tensor("buf1", "output")]),
        copy(buffers=[tensor("buf0", "input"), tensor("arg3_1", "output")]),
        copy(buffers=[tensor("arg2_1", "input"), tensor("result", "output", stride=(1, BLOCKS))]),
        copy(launches=0),
    ],
    ids=["computes", "not known", "gathers", "picks", "fills", "updates an input",
         "input to output", "never launched"],
)  # fmt: skip
def test_what_is_no_copy_or_has_to_be_one(kernel: KernelFacts) -> None:
    assert found(BEFORE, kernel, AFTER) == []


def test_a_small_part_of_the_step_is_none() -> None:
    assert found(replace(BEFORE, launches=100), copy(), AFTER) == []


def test_a_copy_that_is_returned_must_cost_more() -> None:
    """Three hundredths of the step: enough between kernels, too little for what is returned."""
    rest = replace(BEFORE, launches=30)
    assert len(found(rest, copy(), AFTER)) == 1
    result = tensor("result", "output", stride=(1, BLOCKS))
    returned = copy(buffers=[tensor("buf0", "input"), result])
    assert found(rest, returned) == []
    assert len(found(BEFORE, returned)) == 1


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"shape_padding": True, "force_shape_pad": False}, []),
        ({"shape_padding": True, "force_shape_pad": True}, [{"force_shape_pad": False}]),
        ({"shape_padding": False, "force_shape_pad": False}, []),
    ],
)
def test_padding_for_a_product(
    settings: Mapping[str, OptionValue], options: list[dict[str, OptionValue]]
) -> None:
    """Inductor's own node goes by the product's name."""
    node = Origin("constant_pad_nd_default", "aten.mm.default")
    padded = copy("aten.mm.default", origins=(node,))
    call = OperatorCall((tensor("", "input"), tensor("", "output")))
    made = {
        "externs": (ExternCall("aten.mm.out", "forward 0", 1, (call,)),),
        "launches": (
            Launch("forward 0", BEFORE.name),
            Launch("forward 0", padded.name),
            Launch("forward 0", "aten.mm.out", extern=True, operands=("buf1", "buf2"), call=0),
        ),
    }
    (finding,) = found(BEFORE, padded, settings=settings, **made)
    assert "for aten.mm.out: they pad" in finding.headline
    assert [dict(cure.options) for cure in finding.cures] == options


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        (copy("aten.slice_scatter.default"), "torch.cat instead of assigning them slice by slice"),
        (copy("aten.cat.default"), "one tensor that is allocated once"),
        (copy("aten._to_copy.default", buffers=[
            tensor("buf0", "input"), tensor("buf1", "output", dtype="bfloat16", bytes=2 * POINTS)]),
         "keep it in bfloat16 instead of casting it in each step"),
        (in_order(copy(buffers=SAME, dynamic_sizes=("x",))), "keep sizes static"),
        (in_order(copy(buffers=SAME)), "a view instead of a copy"),
        (in_order(copy(buffers=SAME), step=4096), "make it in the layout"),
        (copy(buffers=SAME), "make it in the layout"),
    ],
    ids=["slices", "cat", "cast", "dynamic", "same", "transposed", "not known"],
)  # fmt: skip
def test_what_would_do_without(kernel: KernelFacts, advice: str) -> None:
    (finding,) = found(BEFORE, kernel, AFTER)
    assert advice in finding.advice
    assert not finding.cures


def test_a_cat_that_a_kernel_reads_can_be_inlined() -> None:
    (finding,) = found(
        BEFORE, copy("aten.cat.default"), AFTER, settings={"force_pointwise_cat": False}
    )
    assert [dict(cure.options) for cure in finding.cures] == [{"force_pointwise_cat": True}]
