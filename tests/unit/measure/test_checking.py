"""Planted wrong results are found, and nothing that is only rounding, randomness or state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from perfcli import registry
from perfcli.compile.building import Built
from perfcli.compile.captured import Capture
from perfcli.measure.checking import check
from perfcli.measure.step import Step
from perfcli.model import (
    CompileRequest,
    MeasureRequest,
    OutputCheck,
    Parameter,
    Scalar,
    Scenario,
    Variant,
    Workload,
)

pytestmark = pytest.mark.torch

NAMES = registry.names("scenarios")


def step_of(
    workload: Workload,
    compiled: Callable[..., Any] | None = None,
    tolerance: Mapping[str, float] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Step:
    """A step whose compiled code is ``compiled``; None: the model itself, eagerly."""
    compile_request = CompileRequest("planted", {}, None, Variant("v"), "cpu", None)
    scenario = Scenario(
        "planted", "", {"dtype": Parameter("")}, {}, lambda _: workload, tolerance=tolerance or {}
    )
    built = Built(scenario, dict(params or {}), workload)
    request = MeasureRequest(compile_request, "head", seed=7)
    return Step(request, built, Capture(), compiled or workload.call)


def shipped(name: str, **overrides: Scalar) -> Step:
    import torch

    torch.manual_seed(0)
    scenario = registry.scenario(name)
    params = registry.resolve_params(scenario, "smoke", overrides)
    workload = registry.build(scenario, params)
    step = step_of(workload)
    step.built = Built(scenario, params, workload)
    return step


def passes(found: OutputCheck) -> bool:
    return (
        not found.failure
        and found.error is not None
        and found.tolerance is not None
        and found.error <= found.tolerance
    )


def matrix(*size: int, **options: Any) -> Any:
    import torch

    return torch.randn(*size or (8, 32), generator=torch.Generator().manual_seed(0), **options)


def doubled(x: Any) -> Any:
    return x * 2


# --- outputs ---------------------------------------------------------------------------------


def test_equal_outputs_pass_with_an_error_of_nothing() -> None:
    found = check(step_of(Workload(doubled, (matrix(),))))
    assert found == OutputCheck(0.0, 1e-4, "the model run eagerly")


def test_an_output_one_percent_too_large_is_wrong() -> None:
    found = check(step_of(Workload(doubled, (matrix(),)), lambda x: x * 2.02))
    assert found.failure == (
        "output is off by 0.01 of its largest value, allowed are 0.0001 "
        "(against the model run eagerly in float64)"
    )
    assert found.error == pytest.approx(0.01, rel=1e-3)
    assert found.tolerance == 1e-4


def test_the_scenarios_reference_and_tolerance_decide() -> None:
    workload = Workload(doubled, (matrix(),), reference=doubled)
    found = check(step_of(workload, lambda x: x * 2.0001, {"float32": 1e-5}))
    assert found.reference == "the scenario's reference in float64"
    assert found.failure.startswith("output is off by 5e-05 of its largest value")
    assert passes(check(step_of(workload, lambda x: x * 2.0001, {"float32": 1e-4})))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), "output is NaN in 1 of 256 elements where "),
        (float("inf"), "output is not as finite in 1 of 256 elements where "),
    ],
)
def test_one_element_that_is_not_finite(value: float, told: str) -> None:
    def planted(x: Any) -> Any:
        y = x * 2
        y[3, 4] = value
        return y

    found = check(step_of(Workload(doubled, (matrix(),)), planted))
    assert found.failure.startswith(told)
