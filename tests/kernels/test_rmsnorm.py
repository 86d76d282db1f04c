"""RMSNorm through Triton's interpreter, every variant against float64; the whole boundary set is
for ``perfcli kernels check rmsnorm``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytestmark = pytest.mark.torch

HALF, SINGLE = "bfloat16", "float32"
NAMED = ("two-read", "full-tile", "register-tiled", "cooperative", "split")
"""By default short rows are launched just as by full-tile."""
FORWARD = (None, *NAMED)
Line = tuple[Any, ...]
FEW = ("contiguous", 2)
"""Two multiprocessors: programs have several rows each."""
LARGE = ("contiguous", 132, True)
"""Planned as if it were large."""
ONE = ("contiguous", 1, True)
"""So, by one multiprocessor, which has no room for all rows: a program takes two of them."""

LINES: list[Line] = [
    *(("rmsnorm", 3, 760, HALF, None, v, "normal") for v in (*NAMED, "tma")),
    *(("rmsnorm", 3, 1023, SINGLE, 1031, v, "normal") for v in NAMED),
    *(("rmsnorm", 2, 4097, "float16", None, v, "normal") for v in (*FORWARD, "peeled")),
    ("rmsnorm", 2, 4097, "float16", None, None, "normal", *LARGE),
    *(("rmsnorm", 8, 600, HALF, None, v, "nan") for v in NAMED),
    *(("rmsnorm", 8, 601, HALF, None, v, "infinite") for v in (*NAMED, "peeled")),
    ("rmsnorm", 67, 533, HALF, None, None, "nan", *ONE),
    *(("rmsnorm-residual", 3, 1023, HALF, None, v, "normal") for v in (*FORWARD, "peeled")),
    ("rmsnorm-residual", 3, 1023, HALF, None, None, "normal", *LARGE),
    ("rmsnorm-residual", 3, 760, HALF, None, "tma", "normal"),
    ("rmsnorm", 2, 24603, HALF, None, None, "normal"),
    ("rmsnorm-residual", 2, 24603, HALF, None, None, "nan"),
    ("rmsnorm", 1, 131072, HALF, None, None, "normal"),
    ("rmsnorm", 1, 192, HALF, None, None, "signed-zero"),
    ("rmsnorm", 37, 192, HALF, None, None, "large"),
    ("rmsnorm", 0, 192, HALF, None, None, "normal"),
    ("rmsnorm", 3, 1, HALF, None, None, "normal"),
    *(
        (operation, rows, columns, dtype, None, variant, "normal")
        for operation in ("rmsnorm-backward", "rmsnorm-residual-backward")
        for variant in ("fused", "ring", "split")
        for rows, columns, dtype in ((9, 1192, HALF), (3, 1023, SINGLE))
    ),
    ("rmsnorm-backward", 19, 2603, HALF, None, "fused", "normal", *FEW),
    ("rmsnorm-backward", 37, 2600, HALF, None, "fused", "normal", *FEW),
    ("rmsnorm-backward", 19, 1028, SINGLE, None, "fused", "normal", *FEW),
    ("rmsnorm-residual-backward", 9, 2600, HALF, None, "fused", "normal", *FEW),
    ("rmsnorm-backward", 2, 8200, HALF, None, None, "normal"),
    ("rmsnorm-backward", 0, 192, HALF, None, None, "normal"),
    *(("rmsnorm-backward", 3, 1, HALF, None, v, "normal") for v in (None, "split")),
    *(("rmsnorm-backward", 8, 600, SINGLE, 608, v, "infinite") for v in ("fused", "split")),
    *(("rmsnorm-backward", 19, 603, HALF, 611, v, "nan") for v in ("fused", "split")),
    ("rmsnorm-backward", 19, 603, HALF, 611, "fused", "nan", *LARGE),
]


@pytest.fixture(scope="module")
def excesses(interpreted: Any) -> Mapping[Line, Mapping[str, float]]:
    """Of each line and output: the largest error over what is allowed."""
    found: Mapping[Line, Mapping[str, float]] = interpreted("rmsnorm", LINES)
    return found


@pytest.mark.parametrize("line", LINES, ids=lambda line: "-".join(map(str, line)))
def test_outputs_are_those_of_float64(
    line: Line, excesses: Mapping[Line, Mapping[str, float]]
) -> None:
    assert excesses[line]
    assert all(value <= 1 for value in excesses[line].values()), excesses[line]


def _double(*shape: int) -> Any:
    import torch

    generator = torch.Generator().manual_seed(5)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_the_reference_is_torchs_own_formula_and_gradient() -> None:
    import torch

    from perfcli.loading import registry
    from perfcli.model import Problem

    code = __import__("importlib").import_module(registry.family("rmsnorm").code)
    x, weight, dy = _double(5, 33), _double(33), _double(5, 33)
    tensors = {"x": x.requires_grad_(), "weight": weight.requires_grad_(), "dy": dy}
    y = torch.nn.functional.rms_norm(x, (33,), weight, 1e-3)
    dx, dw = torch.autograd.grad(y, (x, weight), dy)
    settings = {"eps": 1e-3}
    forward = code.reference(Problem("rmsnorm", 5, 33, settings=settings), tensors)
    backward = code.reference(Problem("rmsnorm-backward", 5, 33, settings=settings), tensors)
    torch.testing.assert_close(forward["y"], y)
    torch.testing.assert_close(backward["dx"], dx)
    torch.testing.assert_close(backward["dw"], dw)


def test_strides_that_the_plan_does_not_know_are_refused() -> None:
    from importlib import import_module

    from perfcli.errors import PerfcliError
    from perfcli.loading import registry
    from perfcli.machine import targets
    from perfcli.model import Problem

    family = registry.family("rmsnorm")
    code = import_module(family.code)
    problem = Problem("rmsnorm", 8, 64)
    tensors = code.inputs(problem, "cpu", 0)
    tensors["x"] = tensors["x"].t().contiguous().t()
    plan = family.plan(problem, targets.get("h200"), None)
    with pytest.raises(PerfcliError, match=r"strides \[1, 8\], the problem says"):
        code.run(problem, tensors, plan)
