"""Planted wrong results are found, and nothing that is only rounding, randomness or state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess, make_request

from perfcli.compile.building import Built
from perfcli.compile.capture.captured import Capture
from perfcli.loading import registry
from perfcli.measure import judging
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

FIXTURES = Path(__file__).parents[2] / "fixtures"
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
    step.built = Built(scenario, dict(params), workload)
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
        "output is off by 1 % of its largest value, allowed: 0.01 % "
        "(against the model run eagerly in float64)"
    )
    assert found.error == pytest.approx(0.01, rel=1e-3)
    assert found.tolerance == 1e-4


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        (2.0 * 1.99, "output is off by 99 % of its largest value, allowed: 0.01 % "),
        (2.0 * 2.5, "output is off by 150 % of its largest value, "),
        (2.0 * 15, "output is off by 14 times its largest value, "),
        (2.0 * 1235, "output is off by 1,200 times its largest value, "),
    ],
)
def test_large_errors_are_told_in_plain_words(factor: float, told: str) -> None:
    found = check(step_of(Workload(doubled, (matrix(),)), lambda x: x * factor))
    assert found.failure.startswith(told)


def test_what_should_be_zero() -> None:
    found = check(step_of(Workload(lambda x: x * 0, (matrix(),)), doubled))
    assert found.failure == (
        "output is not zero everywhere, that of the model run eagerly in float64 is"
    )


def test_the_scenarios_reference_and_tolerance_decide() -> None:
    workload = Workload(doubled, (matrix(),), reference=doubled)
    found = check(step_of(workload, lambda x: x * 2.0001, {"float32": 1e-5}))
    assert found.reference == "the scenario's reference in float64"
    assert found.failure.startswith(
        "output is off by 0.005 % of its largest value, allowed: 0.001 %"
    )
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


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda x: (x * 2)[:, :-1], "output has shape (8, 31), not (8, 32)"),
        (lambda x: (x * 2).long(), "output is integer (torch.int64), not floating point"),
        (lambda x: (x * 2, x), "output is missing, or no tensor"),
        (lambda _: None, "output is missing, or no tensor"),
    ],
)
def test_another_form(wrong: Callable[..., Any], told: str) -> None:
    found = check(step_of(Workload(doubled, (matrix(),)), wrong))
    assert found.failure == told


def test_integers_of_integers_are_exact() -> None:
    import torch

    workload = Workload(lambda x: x + 1, (torch.arange(1000),))
    assert passes(check(step_of(workload)))

    def off(x: Any) -> Any:
        return torch.where(x == 7, 0, x + 1)

    failure = check(step_of(workload, off)).failure
    assert failure.startswith("output differs in 0.10% of its elements")


def test_an_argmax_may_follow_from_rounding_but_not_everywhere() -> None:
    def largest(x: Any) -> Any:
        return x.argmax(-1)

    workload = Workload(largest, (matrix(200, 50),))

    def one_other(x: Any) -> Any:
        found = x.argmax(-1)
        found[3] += 1
        return found

    assert passes(check(step_of(workload, one_other)))
    assert "99.50% of its elements" not in check(step_of(workload, one_other)).failure
    failure = check(step_of(workload, lambda x: x.argmin(-1))).failure
    assert "of its elements from the model run eagerly in float64" in failure


def test_names_of_outputs_in_mappings_and_tuples() -> None:
    workload = Workload(lambda x: {"loss": x.sum(), "rest": (x, x * 3)}, (matrix(),))
    wrong = step_of(workload, lambda x: {"loss": x.sum(), "rest": (x, x * 4)})
    assert check(wrong).failure.startswith("output rest 1 is off by ")


def test_no_tensor_among_the_outputs_cannot_be_compared() -> None:
    found = check(step_of(Workload(lambda x: x.shape[0], (matrix(),))))
    assert found == OutputCheck(None, None, "not compared: no tensor among the outputs")


def test_a_reference_that_gives_something_else_is_left_aside() -> None:
    workload = Workload(doubled, (matrix(),), reference=lambda x: x.sum())
    assert check(step_of(workload)).reference == "the model run eagerly"


def test_a_reference_that_fails_is_named() -> None:
    def broken(_: Any) -> Any:
        raise ValueError("no such thing")

    found = check(step_of(Workload(doubled, (matrix(),), reference=broken)))
    assert passes(found)
    assert "ValueError: no such thing" in found.reference


# --- rounding is no failure --------------------------------------------------------------------


def test_a_deep_model_in_bfloat16_is_judged_by_eagers_own_error() -> None:
    """100 rounded steps: eager is far beyond the tolerance, and a float32 kernel is nearer."""
    import torch

    def eager(x: Any) -> Any:
        for _ in range(100):
            x = x + 0.001 * x
        return x

    def fused(x: Any) -> Any:
        return eager(x.float()).bfloat16()

    workload = Workload(eager, (matrix().to(torch.bfloat16),))
    x = workload.inputs[0]
    apart = (fused(x).float() - eager(x).float()).abs().max() / eager(x).float().abs().max()
    assert apart > 0.02
    assert passes(check(step_of(workload, fused)))
    assert check(step_of(workload, lambda x: fused(x) * 1.5)).failure


def test_what_overflows_eagerly_is_not_the_variants_fault() -> None:
    import torch

    workload = Workload(lambda x: x.exp(), (torch.full((4, 4), 20.0, dtype=torch.float16),))
    assert check(step_of(workload)).failure == ""


# --- gradients ---------------------------------------------------------------------------------


class Scaled:
    """``x * w`` whose gradient of ``w`` is multiplied by ``factor``."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any, w: Any) -> Any:
        product = x * w
        return product + (self.factor - 1) * x * (w - w.detach())


def training(dtype: str = "float32") -> Workload:
    import torch

    kind = getattr(torch, dtype)
    x = matrix(64, 16).to(kind).requires_grad_()
    w = torch.ones(16, dtype=kind, requires_grad=True)
    return Workload(Scaled(1.0), (x, w), mode="training")


def test_a_gradient_twice_too_large_is_wrong() -> None:
    found = check(step_of(training("bfloat16"), Scaled(2.0)))
    assert found.failure.startswith("the gradient of input 1 is off by 100 % of its norm")


def test_a_gradient_of_nan_is_wrong() -> None:
    found = check(step_of(training(), Scaled(float("nan"))))
    assert "is NaN in" in found.failure


def test_right_gradients_pass_and_none_is_left() -> None:
    workload = training()
    assert passes(check(step_of(workload)))
    assert [x.grad for x in workload.inputs] == [None, None]


def test_a_gradient_that_is_missing() -> None:
    found = check(step_of(training(), lambda x, w: x * w.detach()))
    assert found.failure == "the gradient of input 1 is missing"


def test_a_gradient_that_cancels_on_paper_is_only_rounding() -> None:
    """The bias before a batch norm: its gradient is 0 but for rounding, 100 % different."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16))

    def other_rounding(x: Any) -> Any:
        hidden = model[0](x)
        return model[1](hidden + hidden * 1e-7)

    found = check(step_of(Workload(model, (matrix(64, 16),), mode="training"), other_rounding))
    assert passes(found)


# --- randomness and state ------------------------------------------------------------------------


def test_dropout_is_not_compared_but_nan_is_found() -> None:
    import torch

    def dropped(x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5)

    workload = Workload(dropped, (matrix(),))
    found = check(step_of(workload, lambda x: x * (torch.rand_like(x) > 0.5) * 2))
    assert (found.error, found.failure) == (None, "")
    assert "random" in found.reference
    assert "NaN" in check(step_of(workload, lambda x: dropped(x) * float("nan"))).failure


def test_the_random_generator_goes_on_where_it_was() -> None:
    import torch

    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    check(step_of(Workload(doubled, (matrix(),))))
    assert torch.equal(torch.rand(3), expected)


def test_batch_norms_statistics_are_compared_and_put_back() -> None:
    import torch

    model = torch.nn.BatchNorm1d(32)
    workload = Workload(model, (matrix(),))
    address = model.running_mean.data_ptr()
    assert passes(check(step_of(workload)))
    assert model.num_batches_tracked == 0
    assert torch.equal(model.running_mean, torch.zeros(32))
    assert model.running_mean.data_ptr() == address

    def forgets(x: Any) -> Any:
        y = model(x)
        model.running_mean.zero_()
        return y

    assert check(step_of(workload, forgets)).failure.startswith("running_mean ")


def test_an_input_changed_in_place_is_put_back() -> None:
    x = matrix()
    before = x.clone()

    def add(x: Any) -> Any:
        x.add_(1)
        return x.sum()

    assert passes(check(step_of(Workload(add, (x,)))))
    assert bool((x == before).all())


def test_a_model_that_is_not_the_same_twice_is_not_compared() -> None:
    state = {"calls": 0}

    def counting(x: Any) -> Any:
        state["calls"] += 1
        return x * state["calls"]

    found = check(step_of(Workload(counting, (matrix(),))))
    assert (found.error, found.failure) == (None, "")
    assert found.reference == "not compared: run eagerly twice, output differs"


def test_modules_are_back_in_their_dtype_after_float64() -> None:
    import torch

    model = torch.nn.Linear(32, 4)
    weight = model.weight
    found = check(step_of(Workload(model, (matrix(),)), lambda x: model(x) * 1.5))
    assert "in float64" in found.failure
    assert model.weight is weight
    assert model.weight.dtype == torch.float32


# --- memory --------------------------------------------------------------------------------------


def test_a_reference_in_float64_that_does_not_fit() -> None:
    import torch

    def full(x: Any) -> Any:
        if x.dtype == torch.float64:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return x * 2

    found = check(step_of(Workload(full, (matrix(),), reference=full)))
    assert passes(found)
    assert found.reference == (
        "the model run eagerly (the scenario's reference in float64 does not fit into memory)"
    )


def test_nothing_fits() -> None:
    def full(_: Any) -> Any:
        raise MemoryError

    found = check(step_of(Workload(full, (matrix(),), reference=full), doubled))
    assert found.error is None
    assert found.reference == "not compared: the model run eagerly does not fit into memory"


# --- shipped -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["forward", "training"])
@pytest.mark.parametrize("name", NAMES)
def test_shipped_scenarios_pass(name: str, mode: str) -> None:
    has_mode = "mode" in registry.scenario(name).parameters
    found = check(shipped(name, **({"mode": mode} if has_mode else {})))
    assert passes(found)
    assert found.reference.startswith("the scenario's reference in float64")


@pytest.mark.parametrize("name", ["softmax", "rmsnorm"])
def test_compiled_scenarios_pass(
    name: str, warm_process: WarmProcess, cache_of_the_run: Path
) -> None:
    request = make_request(cache_of_the_run, "cpu")
    found = warm_process.call(request, FIXTURES / "compiled_scenario.py", name)
    assert passes(OutputCheck(**found))


# --- whole training steps ----------------------------------------------------------------------


def train(rate: float, scale: float = 1.0) -> tuple[Workload, Any, Callable[..., Any]]:
    """A step that trains a weight, its optimizer, and the same with another learning rate."""
    import torch

    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def wrong(x: Any) -> Any:
        optimizer.param_groups[0]["lr"] = rate * scale
        try:
            return step(x)
        finally:
            optimizer.param_groups[0]["lr"] = rate

    return Workload(step, (matrix(),), mode="step"), optimizer, wrong


def test_a_whole_step_is_compared_and_put_back() -> None:
    workload, optimizer, _ = train(0.1)
    workload.call(*workload.inputs)  # makes the state
    (weight, *_) = optimizer.param_groups[0]["params"]
    average = optimizer.state[weight]["exp_avg"]
    before = weight.detach().clone(), average.clone()
    assert passes(check(step_of(workload)))
    assert weight.equal(before[0])
    assert average.equal(before[1])
    assert optimizer.state[weight]["step"].item() == 1


def test_a_whole_step_with_another_learning_rate_is_wrong() -> None:
    workload, _, wrong = train(0.1, scale=2.0)
    workload.call(*workload.inputs)
    assert "is off by" in check(step_of(workload, wrong)).failure


def test_gradients_that_an_optimizer_is_given_are_kept() -> None:
    import torch

    weight = torch.nn.Parameter(matrix())
    weight.grad = matrix() * 2
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
    optimizer.step()
    given, value = weight.grad, weight.detach().clone()
    found = check(step_of(Workload(optimizer.step, (), mode="step")))
    assert passes(found), found
    assert weight.grad is given
    assert weight.grad.equal(matrix() * 2)
    assert weight.equal(value)


# --- dtypes of ranks -------------------------------------------------------------------------


def conditional(x: Any) -> Any:
    import torch

    return torch.cond(x.sum() > 0, lambda t: t.half() + 1, lambda t: t.half() - 1, (x,))


def attention(x: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    each = x.half()[None, None]
    return flex_attention(each, each, each).float()


@pytest.mark.parametrize("call", [lambda x: x.half().float(), conditional, attention])
def test_dtypes_are_noted_of_all_that_runs(call: Callable[..., Any]) -> None:
    """Of operators that take functions as well, which torch runs under few modes."""
    names: set[str] = set()
    given = matrix(16, 16)
    found = judging.note_dtypes(call, names)(given)
    assert (found == call(given)).all()
    assert "float16" in names
