"""Are mean and variance taken in one pass (Welford), forward and backward?

LayerNorm needs two statistics of each row and, in training, two sums along columns (the
weight's and the bias's gradients) beside the reduction along rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.model import Expectation, Scenario, ScenarioProblem, Workload

from ._rows import PRESETS, TOLERANCE, matrix, parameters, row_problems, vector

EPSILON = 1e-5


def build(params: Mapping[str, Any]) -> Workload:
    import torch.nn.functional as F

    def layernorm(x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, (x.size(-1),), weight, bias, EPSILON)

    inputs = (matrix(params), vector(params, 1.0), vector(params, 0.0))
    return Workload(layernorm, inputs, mode=params["mode"], reference=reference)


def reference(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred * (variance + EPSILON).rsqrt() * weight + bias


def handwritten(params: Mapping[str, Any]) -> tuple[ScenarioProblem, ...]:
    return row_problems(params, "layernorm", "layernorm", {"eps": EPSILON})


SCENARIO = Scenario(
    name="layernorm",
    question="Are both statistics of a row taken in one pass over it?",
    parameters=parameters(rows=32768, columns=4096),
    presets=PRESETS,
    build=build,
    toggles=("triton.mix_order_reduction", "split_reductions", "triton.multi_kernel=1"),
    expects=(
        Expectation(()),
        Expectation((), params={"mode": "training"}),
        Expectation(
            ("PC205", "PC210", "PC501"),
            params={"rows": 8, "columns": 1048576},
            options={"split_reductions": False},
            compared=True,
        ),
        Expectation((), preset="smoke"),
    ),
    tolerance=TOLERANCE,
    handwritten=handwritten,
)
