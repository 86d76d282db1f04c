from __future__ import annotations

import pytest
from handmade import kernel, run

from perfcli.model import Origin
from perfcli.rules._evidence.words import _is_reduction, number_kernels, origin_of


@pytest.mark.parametrize(
    ("op", "reduces"),
    [
        ("aten.sum.dim_IntList", True),
        ("aten._log_softmax.default", True),
        ("aten.var_mean.correction", True),
        ("aten._fused_rms_norm.default", True),
        ("prims.prepare_softmax_online.default", True),
        ("aten.maximum.default", False),
        ("aten.clamp_max.default", False),
        ("aten.cumsum.default", False),
        ("aten.add.Tensor", False),
    ],
)
def test_operators_that_reduce(op: str, reduces: bool) -> None:
    assert _is_reduction(op) is reduces


def test_what_is_never_launched_or_not_compiled_is_left_out() -> None:
    given = [kernel("other form", launches=0), kernel("unknown", registers=None), kernel("k")]
    assert [(number, each.name) for number, each, _ in number_kernels(run(given))] == [(2, "k")]


def test_a_kernel_is_known_by_its_largest_reduction_in_the_model() -> None:
    origins = (
        Origin("maximum", "aten.maximum.default", shape=(512, 512), location="model.py:3"),
        Origin("sum_1", "aten.sum.dim_IntList", shape=(512,), location="model.py:4"),
        Origin("sum_2", "aten.sum.dim_IntList", shape=(1024,)),
    )
    found = origin_of(kernel("k", origins=origins))
    assert found is not None
    assert found.node == "sum_1"
