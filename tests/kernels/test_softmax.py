"""Softmax through Triton's interpreter, every variant against float64; the whole boundary set is
for ``perfcli kernels check softmax``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.handwritten.compiling import compile_launch
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Problem
from perfcli.model.kernel_work import LaunchToCompile

pytestmark = pytest.mark.torch

HALF, SINGLE = "bfloat16", "float32"
LOOPED = ("three-pass", "online", "peeled", "split")
NOT_STREAMED = (*LOOPED, "cached", "tiled", "cooperative")
FORWARD = (*NOT_STREAMED, "streamed")
BACKWARD = ("online", "peeled", "split", "cached", "tiled", "streamed")
Line = tuple[str, int, int, str, int | None, str | None, str, str, int, bool]


def line(
    operation: str,
    rows: int,
    columns: int,
    dtype: str = HALF,
    variant: str | None = None,
    data: str = "normal",
    stride: int | None = None,
    layout: str = "contiguous",
    large: bool = False,
) -> Line:
    """``large``: planned as if it were."""
    return operation, rows, columns, dtype, stride, variant, data, layout, 132, large


LINES: list[Line] = [
    *(line("softmax", 3, 760, HALF, v) for v in FORWARD),
    *(line("softmax", 2, 4097, "float16", v) for v in NOT_STREAMED),
    *(line("log-softmax", 2, 17001, SINGLE, v) for v in LOOPED),
    *(line("cross-entropy", 5, 1023, HALF, v) for v in (*LOOPED, "cached", "tiled")),
    *(line("softmax", 4, 1128, HALF, v, "minus-infinity-masked") for v in FORWARD),
    *(line("log-softmax", 4, 1023, SINGLE, v, "nan") for v in NOT_STREAMED),
    *(line("softmax", 4, 4099, HALF, v, "infinite") for v in NOT_STREAMED),
    *(line("cross-entropy", 4, 601, HALF, v, "infinite") for v in (*LOOPED, "cached", "tiled")),
    *(line("cross-entropy", 4, 601, HALF, v, "minus-infinity-masked") for v in LOOPED),
    *(line("softmax", 4, 4096, SINGLE, v, "large", 4112) for v in NOT_STREAMED),
    *(line("softmax", 3, 4099, HALF, v, layout="misaligned") for v in NOT_STREAMED),
    line("softmax", 3, 4096, HALF, "streamed", layout="misaligned"),
    # 18 parts, the last not whole, the second row not aligned.
    line("log-softmax", 2, 9001, SINGLE, "streamed"),
    line("log-softmax", 2, 17000, "float16", "streamed", "minus-infinity-masked", 17008),
    # A warp keeps a row: several rows in a block, the last one not whole.
    line("log-softmax", 7, 646, "float16", "tiled"),
    line("cross-entropy", 7, 646, "float16", "tiled"),
    line("softmax-backward", 6, 515, SINGLE, "tiled"),
    *(line("cross-entropy-backward", 7, 513, "float16", "tiled", large=n) for n in (False, True)),
    # Every column is some row's target.
    *(line("cross-entropy-backward", 200, 21, dtype, "tiled") for dtype in (SINGLE, HALF)),
    line("cross-entropy-backward", 200, 21, HALF, "tiled", large=True),
    *(
        line("cross-entropy-backward", 3, 9001, SINGLE, "tiled", "nan", large=n)
        for n in (False, True)
    ),
    line("cross-entropy-backward", 7, 600, HALF, "tiled", "infinite", large=True),
    line("cross-entropy-backward", 7, 600, HALF, "tiled", "infinite"),
    line("softmax", 4, 1501, HALF, "tiled", "lowest-masked"),
    line("log-softmax", 5, 9001, "float16", "streamed", "lowest-masked"),
    line("cross-entropy", 3, 9001, SINGLE, "split", "minus-infinity-masked"),
    line("cross-entropy", 4, 17001, HALF, "split", "large"),
    # By default these are for clusters, which the interpreter does not have.
    *(line("softmax", 2, 50257, HALF, v) for v in (None, "split")),
    line("softmax", 1, 131072, HALF, "split"),
    line("softmax", 37, 192, HALF, None, "signed-zero"),
    line("softmax", 0, 192),
    line("softmax", 3, 0),
    line("softmax", 5, 1),
    *(
        line(f"{operation}-backward", rows, columns, dtype, variant)
        for operation in ("softmax", "log-softmax")
        for variant in BACKWARD
        for rows, columns, dtype in ((7, 192, HALF), (3, 1023, SINGLE), (2, 4097, "float16"))
    ),
    *(line("cross-entropy-backward", 9, 4097, HALF, v) for v in ("online", "peeled", "split")),
    *(line("softmax-backward", 3, 4099, HALF, v, layout="misaligned") for v in BACKWARD),
    line("cross-entropy-backward", 5, 4098, SINGLE, "split", "nan", 4100),
    line("softmax-backward", 2, 50257, HALF, "split"),
]


@pytest.fixture(scope="module")
def excesses(interpreted: Any) -> Mapping[Line, Mapping[str, float]]:
    """Of each line and output: the largest error over what is allowed."""
    found: Mapping[Line, Mapping[str, float]] = interpreted("softmax", LINES)
    return found


@pytest.mark.parametrize("asked", LINES, ids=lambda asked: "-".join(map(str, asked)))
def test_outputs_are_those_of_float64(
    asked: Line, excesses: Mapping[Line, Mapping[str, float]]
) -> None:
    assert excesses[asked]
    assert all(value <= 1 for value in excesses[asked].values()), excesses[asked]


def _double(*shape: int) -> Any:
    import torch

    generator = torch.Generator().manual_seed(5)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("operation", ["softmax", "log-softmax"])
def test_the_references_are_torchs_function_and_gradient(operation: str) -> None:
    import torch

    code = import_module(registry.family("softmax").code)
    x, dy = _double(5, 33).requires_grad_(), _double(5, 33)
    y = {"softmax": torch.softmax, "log-softmax": torch.log_softmax}[operation](x, -1)
    (dx,) = torch.autograd.grad(y, x, dy)
    forward = code.reference(Problem(operation, 5, 33), {"x": x.detach()})
    saved = {"y": y.detach(), "dy": dy}
    backward = code.reference(Problem(f"{operation}-backward", 5, 33), saved)
    torch.testing.assert_close(forward["y"], y.detach())
    torch.testing.assert_close(backward["dx"], dx)


def test_the_reference_of_cross_entropy_is_torchs_with_ignored_targets() -> None:
    import torch

    code = import_module(registry.family("softmax").code)
    x, dloss = _double(4, 9).requires_grad_(), _double(4)
    target = torch.tensor([3, -100, 0, 8])
    loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
    (dx,) = torch.autograd.grad(loss, x, dloss)
    tensors = {"x": x.detach(), "target": target}
    forward = code.reference(Problem("cross-entropy", 4, 9), tensors)
    saved = {**tensors, "lse": torch.logsumexp(x.detach(), -1), "dloss": dloss}
    backward = code.reference(Problem("cross-entropy-backward", 4, 9), saved)
    torch.testing.assert_close(forward["loss"], loss.detach())
    torch.testing.assert_close(backward["dx"], dx)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.t().contiguous().t(), r"with strides \(64, 1\), found \(1, 8\)"),
        (lambda x: x.float(), r"\(8, 64\) bfloat16 for x, found \(8, 64\) float32"),
        (lambda x: x[:, :32], r"found \(8, 32\) bfloat16"),
    ],
)
def test_tensors_that_the_plan_does_not_know_are_refused(change: Any, message: str) -> None:
    family = registry.family("softmax")
    code = import_module(family.code)
    problem = Problem("softmax", 8, 64)
    tensors = {"x": change(code.inputs(problem, "cpu", 0)["x"])}
    with pytest.raises(PerfcliError, match=message):
        code.run(problem, tensors, family.plan(problem, targets.get("h200"), None))


@pytest.mark.parametrize("columns", [579, 3202])
def test_rows_of_cross_entropy_spill_none(columns: int, tmp_path: Path) -> None:
    """What a thread reads of its local memory comes behind the row that it has asked for."""
    family, target = registry.family("softmax"), targets.get("h200")
    problem = Problem("cross-entropy", 2**27 // columns, columns)
    (step,) = family.plan(problem, target, None).launches
    made = compile_launch(LaunchToCompile(family.code, step, target), family.name, tmp_path)
    assert (made.spilled_words, made.error) == (0, "")
