"""Are rows normalised in one pass over them, forward and backward?

RMSNorm moves one row in and one row out. A row that fits into a block's registers is read once
(a persistent reduction); a longer one is read again to be scaled. In training, the backward
reduces along rows (the input's gradient) and along columns (the weight's): with mix-order
reductions one kernel does both, in one pass over the same data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.model import Expectation, Scenario, ScenarioProblem, Workload

from ._rows import PRESETS, TOLERANCE, matrix, parameters, row_problems, vector

EPSILON = 1e-6


def build(params: Mapping[str, Any]) -> Workload:
    import torch.nn.functional as F

    def rmsnorm(x: Any, weight: Any) -> Any:
        return F.rms_norm(x, (x.size(-1),), weight, EPSILON)

    inputs = (matrix(params), vector(params, 1.0))
    return Workload(rmsnorm, inputs, mode=params["mode"], reference=reference)


def reference(x: Any, weight: Any) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * weight


def handwritten(params: Mapping[str, Any]) -> tuple[ScenarioProblem, ...]:
    return row_problems(params, "rmsnorm", "rmsnorm", {"eps": EPSILON})


SCENARIO = Scenario(
    name="rmsnorm",
    question="Is each row read once, and its gradients reduced in one pass?",
    parameters=parameters(rows=32768, columns=8192),
    presets=PRESETS,
    build=build,
    toggles=("triton.mix_order_reduction", "triton.multi_kernel=1"),
    expects=(
        Expectation(()),
        Expectation((), params={"mode": "training"}),
        # The kernel that was left of the unmixed sum shares one cast with another: a guess (PC901).
        Expectation(
            ("PC206", "PC501", "PC901"),
            params={"mode": "training"},
            options={"triton.mix_order_reduction": False},
            compared=True,
        ),
        # Fewer rows than Inductor mixes: the option changes nothing.
        Expectation(
            (),
            params={"mode": "training", "rows": 4095, "columns": 768},
            options={"triton.mix_order_reduction": False},
            compared=True,
        ),
        Expectation((), preset="smoke"),
    ),
    tolerance=TOLERANCE,
    origin="https://github.com/pytorch/pytorch/issues/179711",
    handwritten=handwritten,
)
