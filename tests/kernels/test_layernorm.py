"""LayerNorm through Triton's interpreter, against float64; the whole boundary set is for
``perfcli kernels check layernorm``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Problem

FAMILY = registry.family("layernorm")
HALF, SINGLE = "bfloat16", "float32"
Line = tuple[Any, ...]
FEW = ("contiguous", 2)
"""Two multiprocessors: programs have several rows each, in several launches where they start
anywhere."""
LARGE = ("contiguous", 132, True)
"""Planned as if it were large."""
ONE = ("contiguous", 1, True)
"""So, by one multiprocessor, which has no room for all rows: a program takes two of them."""

LINES: list[Line] = [
    ("layernorm", 2, 760, HALF, None, "register-tiled", "normal"),
    *(("layernorm", 2, 601, SINGLE, 609, v, "large") for v in ("full-tile", "cooperative")),
    *(("layernorm", 4, 601, HALF, None, v, "infinite") for v in ("peeled", "cooperative")),
    *(("layernorm", 4, 601, HALF, None, None, "constant", *planned) for planned in ((), LARGE)),
    ("layernorm", 37, 3097, "float16", None, None, "normal"),
    *((f"layernorm{more}", 2, 20001, SINGLE, None, None, "normal") for more in ("", "-residual")),
    ("layernorm", 67, 533, HALF, None, None, "large", *ONE),
    ("layernorm", 73, 797, HALF, 805, None, "nan", *ONE),
    ("layernorm", 37, 3097, "float16", None, None, "normal", *ONE),
    ("layernorm", 0, 192, HALF, None, None, "normal"),
    ("layernorm", 3, 1, HALF, None, None, "normal"),
    *(("layernorm-residual", 2, 603, HALF, None, v, "normal") for v in ("full-tile", "peeled")),
    *(("layernorm-backward", 5, 600, HALF, None, v, "normal") for v in ("fused", "split")),
    ("layernorm-residual-backward", 2, 1027, "float16", 1035, "fused", "normal"),
    ("layernorm-backward", 5, 600, HALF, None, "fused", "normal", *LARGE),
    *(("layernorm-backward", 9, 603, HALF, None, "fused", "nan", *way) for way in ((), LARGE)),
    ("layernorm-backward", 8, 760, SINGLE, None, "fused", "large"),
    ("layernorm-backward", 19, 2603, HALF, None, "fused", "normal", *FEW),
    ("layernorm-backward", 0, 192, HALF, None, None, "normal"),
    *(("layernorm-backward", 5, 1, SINGLE, None, v, "normal") for v in (None, "split")),
]


@pytest.fixture(scope="module")
def excesses(interpreted: Any) -> Mapping[Line, Mapping[str, float]]:
    """Of each line and output: the largest error over what is allowed."""
    found: Mapping[Line, Mapping[str, float]] = interpreted("layernorm", LINES)
    return found


@pytest.mark.torch
@pytest.mark.parametrize("line", LINES, ids=lambda line: "-".join(map(str, line)))
def test_outputs_are_those_of_float64(
    line: Line, excesses: Mapping[Line, Mapping[str, float]]
) -> None:
    backward = line[0].endswith("backward")
    expected = {"dx", "dw", "db"} if backward else {"y", "mean", "rstd"}
    assert expected <= excesses[line].keys()
    assert all(value <= 1 for value in excesses[line].values()), excesses[line]


@pytest.mark.torch
def test_the_reference_is_torchs_own_formula_and_gradient() -> None:
    import torch

    code = import_module(FAMILY.code)
    generator = torch.Generator().manual_seed(5)
    x, weight, bias, dy = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((5, 33), (33,), (33,), (5, 33))
    )
    leaves = [x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()]
    tensors = {"x": x, "weight": weight, "bias": bias, "dy": dy}
    y = torch.nn.functional.layer_norm(x, (33,), weight, bias, 1e-3)
    gradients = torch.autograd.grad(y, leaves, dy)
    settings = {"eps": 1e-3}
    forward = code.reference(Problem("layernorm", 5, 33, settings=settings), tensors)
    backward = code.reference(Problem("layernorm-backward", 5, 33, settings=settings), tensors)
    torch.testing.assert_close(forward["y"], y)
    torch.testing.assert_close(forward["mean"], x.mean(dim=1))
    for name, truth in zip(("dx", "dw", "db"), gradients, strict=True):
        torch.testing.assert_close(backward[name], truth)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["rmsnorm", "layernorm"])
def test_launches_give_kernels_their_arguments(name: str) -> None:
    """A GPU refuses any other; the interpreter does not."""
    family = registry.family(name)
    code = import_module(family.code)
    for case in family.cases:
        for step in family.plan(case.problem, targets.get("h200"), case.variant).launches:
            given = {*step.arguments, *step.constants}
            assert given == set(code.function(step.function).arg_names), step.function


def test_bytes_are_those_counted_by_hand() -> None:
    counted = FAMILY.moved_bytes(Problem("layernorm", 32768, 2048))
    assert counted == 268_439_552 + 2048 * 2 + 8 * 32768  # rmsnorm's, a bias, two statistics
    backward = FAMILY.moved_bytes(Problem("layernorm-backward", 32768, 2048))
    assert backward == 402_661_376 + 2048 * 2 + 8 * 32768


@pytest.mark.parametrize("operation", FAMILY.operations)
def test_there_is_a_plan_for_every_row_length(operation: str) -> None:
    for target in [*targets.TARGETS.values(), *targets.KERNEL_TARGETS.values()]:
        for columns in (1, 17, 1023, 8192, 14336, 50257, 262144, 1 << 20):
            for dtype in ("bfloat16", "float32"):
                made = FAMILY.plan(Problem(operation, 20000, columns, dtype), target, None)
                assert made.launches and made.why
