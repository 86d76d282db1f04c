"""The backward that is written out in mix-order, against autograd in float64."""

from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.model import Scalar, Scenario


def build(**overrides: Scalar) -> tuple[Scenario, Any]:
    scenario = registry.scenario("mix-order")
    return scenario, registry.build(scenario, registry.resolve_params(scenario, "smoke", overrides))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize(("reads", "sums"), [(2, 1), (5, 1), (5, 3), (5, 4)])
def test_gradients_are_autograds(reads: int, sums: int, dtype: str) -> None:
    import torch

    torch.manual_seed(0)
    scenario, workload = build(reads=reads, sums=sums, dtype=dtype)
    found = workload.call(*workload.inputs)
    expected = workload.reference(*(each.double() for each in workload.inputs))
    assert len(found) == len(expected) == 1 + sums
    assert found[0].dtype == getattr(torch, dtype)
    for result, truth in zip(found, expected, strict=True):
        assert truth.dtype == torch.float64
        error = (result.double() - truth).abs().max() / truth.abs().max()
        assert error <= scenario.tolerance[dtype]


@pytest.mark.torch
def test_every_matrix_counts() -> None:
    import torch

    torch.manual_seed(0)
    _, workload = build(reads=5, sums=2, dtype="float64")
    before = workload.call(*workload.inputs)
    matrices = [n for n, each in enumerate(workload.inputs) if tuple(each.shape) == (128, 256)]
    assert len(matrices) == 5
    for number in matrices:
        changed = list(workload.inputs)
        changed[number] = changed[number] + 1
        assert not torch.allclose(workload.call(*changed)[0], before[0])


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ({"reads": 1, "sums": 1}, "needs reads of 2 or more, not 1"),
        ({"sums": 0}, "needs sums of 1 or more, not 0"),
        ({"reads": 4, "sums": 4}, r"sums of at most reads - 1 \(3\), not 4"),
        ({"rows": 0}, "needs rows of 1 or more, not 0"),
    ],
)
def test_sizes_that_do_not_fit(override: dict[str, int], told: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(PerfcliError, match=told):
        build(**override)
