"""Shipped scenarios in eager mode on the CPU: they build, run, have gradients, and are right."""

import math
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.model import Scalar, Scenario, Workload
from perfcli.options.releases import versions_having

pytestmark = pytest.mark.torch

NAMES = registry.names("scenarios")
SINGLE = [n for n in NAMES if n not in ("gqa-transformer", "mix-order")]
"""Those with one output that is a tensor, and no parameters."""
WITH_MODE = [n for n in NAMES if "mode" in registry.scenario(n).parameters]


def smoke(name: str, **overrides: Scalar) -> tuple[Scenario, Any]:
    scenario = registry.scenario(name)
    params = registry.resolve_params(scenario, "smoke", overrides)
    return scenario, registry.build(scenario, params)


def run(call: Any, workload: Workload, inputs: Any) -> list[Any]:
    """Output and gradients of the floating-point inputs, for some fixed gradient of the output."""
    import torch

    output = call(*inputs)
    if workload.mode == "training":
        generator = torch.Generator().manual_seed(1)
        gradient = torch.randn(output.shape, dtype=torch.float32, generator=generator)
        output.backward(gradient.to(output.dtype))
    return [output.detach(), *(x.grad for x in inputs if x.grad is not None)]


def in_double(inputs: Any) -> list[Any]:
    return [
        x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x
        for x in inputs
    ]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", SINGLE)
def test_forward_matches_the_reference_in_float64(name: str, dtype: str) -> None:
    import torch

    torch.manual_seed(0)
    scenario, workload = smoke(name, dtype=dtype)
    output = workload.call(*workload.inputs)
    assert output.dtype == getattr(torch, dtype)
    expected = workload.reference(*in_double(workload.inputs))
    assert expected.dtype == torch.float64
    error = (output.double() - expected).abs().max() / expected.abs().max()
    assert error <= scenario.tolerance[dtype]


@pytest.mark.parametrize("name", [n for n in WITH_MODE if n != "gqa-transformer"])
def test_training_matches_the_reference_in_float64(name: str) -> None:
    import torch

    torch.manual_seed(0)
    scenario, workload = smoke(name, dtype="float32", mode="training")
    results = run(workload.call, workload, workload.inputs)
    expected = run(workload.reference, workload, in_double(workload.inputs))
    floating = [x for x in workload.inputs if x.is_floating_point()]
    assert len(results) == len(expected) == 1 + len(floating)
    for result, truth in zip(results, expected, strict=True):
        error = (result.double() - truth).abs().max() / truth.abs().max()
        assert error <= scenario.tolerance["float32"]


@pytest.mark.parametrize("name", WITH_MODE)
def test_forward_needs_no_gradient_of_the_inputs(name: str) -> None:
    _, workload = smoke(name, mode="forward")
    assert workload.mode == "forward"
    assert not any(x.requires_grad for x in workload.inputs)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("learned", [False, True])
def test_the_transformers_loss_matches_the_reference(learned: bool, dtype: str) -> None:
    import torch

    torch.manual_seed(0)
    scenario, workload = smoke("gqa-transformer", learned=learned, dtype=dtype)
    with torch.autocast("cpu", enabled=dtype == "bfloat16", dtype=torch.bfloat16):
        loss = workload.call(*workload.inputs)
        loss.backward()
    expected = workload.reference(*workload.inputs)
    assert expected.dtype == torch.float64
    assert abs(loss.double() - expected) / expected <= scenario.tolerance[dtype]
    assert expected.item() == pytest.approx(math.log(256), rel=0.1)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in workload.call.parameters())


@pytest.mark.parametrize("mode", ["forward", "training"])
def test_rows_of_a_softmax_can_be_further_apart(mode: str) -> None:
    """Row n starts at element 2056·n, and nothing behind the 2048 columns is looked at."""
    scenario, workload = smoke("softmax", stride=2056, mode=mode, dtype="float32")
    (x,) = workload.inputs
    assert (x.shape, x.stride()) == ((128, 2048), (2056, 1))
    assert x.requires_grad == (mode == "training")
    (output, *_) = run(workload.call, workload, workload.inputs)
    expected = workload.reference(*in_double([x.detach()]))
    error = (output.double() - expected).abs().max() / expected.abs().max()
    assert error <= scenario.tolerance["float32"]
    with pytest.raises(PerfcliError, match="stride of 2048 columns or more, not 2047"):
        smoke("softmax", stride=2047)


def test_random_terms_are_those_of_the_listing() -> None:
    import torch

    _, workload = smoke("accumulate", terms="random")
    torch.manual_seed(3)
    total = workload.call(*workload.inputs)
    torch.manual_seed(3)
    drawn = [torch.rand(64, 64) for _ in range(11)]  # ten terms, added to a first
    assert torch.equal(total, sum(drawn[1:], drawn[0]))


def test_columns_are_summed_over_all_inputs() -> None:
    import torch

    _, workload = smoke("column-sum", inputs=3, dtype="float64")
    assert len(workload.inputs) == 3
    expected = torch.stack(workload.inputs).sum((0, 1))
    assert torch.allclose(workload.call(*workload.inputs), expected, rtol=0, atol=1e-10)
    with pytest.raises(PerfcliError, match="inputs of 1 or more, not 0"):
        smoke("column-sum", inputs=0)


def test_building_leaves_the_default_dtype() -> None:
    import torch

    smoke("gqa-transformer", dtype="float16")
    assert torch.get_default_dtype() == torch.float32
    with pytest.raises(Exception, match="heads"):
        smoke("gqa-transformer", dim="65")
    assert torch.get_default_dtype() == torch.float32


def test_inputs_land_on_the_default_device() -> None:
    import torch

    for name in NAMES:
        with torch.device("meta"):
            _, workload = smoke(name)
        tensors = [*workload.inputs, *getattr(workload.call, "parameters", list)()]
        assert all(t.device.type == "meta" for t in tensors)


@pytest.mark.parametrize("name", NAMES)
def test_toggles_are_options_of_the_default_torch(name: str) -> None:
    for toggle in registry.scenario(name).toggles:
        assert "2.13.0" in versions_having(toggle.partition("=")[0])
