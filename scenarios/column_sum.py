"""Are the columns of several inputs summed in one pass over all of them?

An outer reduction: rows are added up, columns stay. Neighbouring threads read neighbouring columns,
and a long reduction has to be split over blocks to keep the device busy. The gradients of biases
and of norm weights are such sums. nvFuser moves the tiles by TMA, and has to fit those of all
inputs into shared memory (NVIDIA/Fuser #6036).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.model import Expectation, Parameter, Problem, Scenario, ScenarioProblem, Workload

from ._rows import FLOATS, TOLERANCE, matrix


def build(params: Mapping[str, Any]) -> Workload:
    if params["inputs"] < 1:
        raise PerfcliError(f"column-sum needs inputs of 1 or more, not {params['inputs']}")

    def column_sum(*inputs: Any) -> Any:
        total = inputs[0]
        for x in inputs[1:]:
            total = total + x
        return total.sum(0)

    inputs = tuple(matrix({**params, "mode": "forward"}) for _ in range(params["inputs"]))
    return Workload(column_sum, inputs, reference=column_sum)


def handwritten(params: Mapping[str, Any]) -> tuple[ScenarioProblem, ...]:
    settings = {"inputs": params["inputs"]}
    size = (params["rows"], params["columns"], params["dtype"], None, settings)
    return (ScenarioProblem("column-sum", Problem("column-sum", *size)),)


SCENARIO = Scenario(
    name="column-sum",
    question="Are the columns of several inputs summed in one pass?",
    parameters={
        "rows": Parameter(65536, "rows of each input"),
        "columns": Parameter(4096, "elements of one row"),
        "inputs": Parameter(5, "arrays that are added up"),
        "dtype": Parameter("bfloat16", "element type", FLOATS),
    },
    presets={"smoke": {"rows": 512, "columns": 256, "inputs": 2}, "full": {}},
    build=build,
    toggles=("split_reductions", "triton.cooperative_reductions"),
    expects=(Expectation(()), Expectation((), preset="smoke")),
    # The sum of many positive and negative values is small beside what rounding leaves of each.
    tolerance={dtype: 8 * bound for dtype, bound in TOLERANCE.items()},
    origin="https://github.com/NVIDIA/Fuser/pull/6036",
    handwritten=handwritten,
)
