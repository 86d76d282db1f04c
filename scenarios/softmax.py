"""Are a row's maximum and sum taken in one pass over it (online softmax)?

Plain softmax reads a long row three times: for its maximum, for the sum of exponentials, and to
write the result. Online softmax takes the first two together. Inductor loses it where it splits
the reduction, as it does for few and long rows (before torch 2.13: ``-p rows=4
-p columns=1048576``), and where the row's length is dynamic. Rows whose length is no multiple of 16
bytes are loaded element by element, also where they start at such multiples
(``-p columns=50257 -p stride=50304``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.model import Expectation, Parameter, Scenario, ScenarioProblem, Workload

from ._rows import PRESETS, TOLERANCE, matrix, parameters, row_problems


def build(params: Mapping[str, Any]) -> Workload:
    import torch

    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    x = matrix({**params, "columns": _stride(params)})
    if x.shape[-1] > params["columns"]:
        x = x.detach()[:, : params["columns"]].requires_grad_(x.requires_grad)
    return Workload(softmax, (x,), mode=params["mode"], reference=reference)


def _stride(params: Mapping[str, Any]) -> int:
    stride: int = params["stride"] or params["columns"]
    if stride < params["columns"]:
        raise PerfcliError(
            f"softmax needs a stride of {params['columns']} columns or more, not {stride}"
        )
    return stride


def reference(x: Any) -> Any:
    exponentials = (x - x.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def handwritten(params: Mapping[str, Any]) -> tuple[ScenarioProblem, ...]:
    return row_problems(params, "softmax", "softmax", row_stride=params["stride"] or None)


SCENARIO = Scenario(
    name="softmax",
    question="Are a row's maximum and sum taken in one pass?",
    parameters={
        **parameters(rows=32768, columns=50304),
        "stride": Parameter(0, "elements from one row to the next; 0: as many as columns"),
    },
    presets=PRESETS,
    build=build,
    toggles=("online_softmax", "split_reductions", "triton.persistent_reductions"),
    expects=(
        # Twice over rows that no cache holds: once for both statistics, once for the result.
        Expectation(("PC203",)),
        Expectation(("PC203",), params={"mode": "training"}),
        Expectation(("PC202", "PC203"), dynamic=True),
        Expectation(("PC203",), options={"online_softmax": False}, compared=True),
        Expectation((), preset="smoke"),
        # Rows of 1024 are held in registers, online or not.
        Expectation((), params={"columns": 1024}),
        Expectation((), params={"columns": 1024}, options={"online_softmax": False}, compared=True),
    ),
    tolerance=TOLERANCE,
    origin="https://github.com/pytorch/pytorch/pull/127011",
    handwritten=handwritten,
)
