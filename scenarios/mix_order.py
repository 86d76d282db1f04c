"""From how many reads on does fusing more into a mix-order reduction stop to pay?

The backward of RMSNorm in the middle of a residual stream, written out: the gradient of the norm is
added to those of other readers of the stream, and every learned scale has a gradient summed over
all rows. With mix-order reductions one kernel does all of it and reads each of ``reads`` matrices
once. Its rows, 4 at a time for 512 columns, are spread over 2 warps: every further matrix costs
registers, and what does not fit is spilled in each iteration of its loop (pytorch #179494). Without
them one kernel sums rows and another columns, and most is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.model import Expectation, Parameter, Scenario, Workload

from ._rows import FLOATS, TOLERANCE, torch_dtype


def build(params: Mapping[str, Any]) -> Workload:
    import torch

    reads, sums, rows, columns = _check(params)
    stored = torch_dtype(params["dtype"])
    wide = torch.promote_types(stored, torch.float32)

    def backward(y_grad: Any, x: Any, scale: Any, weights: Any, *others: Any) -> tuple[Any, ...]:
        y_grad, x, *grads = (matrix.to(scale.dtype) for matrix in (y_grad, x, *others))
        normalized = x * scale
        weighted = y_grad * weights[0]
        mean = (weighted * normalized).mean(-1, keepdim=True)
        x_grad = (weighted - normalized * mean) * scale
        weight_grads = [(y_grad * normalized).sum(0)]
        for weight, grad in zip(weights[1:], grads, strict=False):
            weight_grads.append((grad * x).sum(0))
            x_grad = x_grad + grad * weight
        for grad in grads[sums - 1 :]:
            x_grad = x_grad + grad
        return x_grad.to(stored), *weight_grads

    matrices = [torch.randn(rows, columns, dtype=stored) for _ in range(reads)]
    x = matrices[1].to(wide)
    scale = x.square().mean(-1, keepdim=True).rsqrt()
    weights = torch.randn(sums, columns, dtype=wide)
    inputs = (*matrices[:2], scale, weights, *matrices[2:])
    return Workload(backward, inputs, reference=reference)


def reference(y_grad: Any, x: Any, _scale: Any, weights: Any, *others: Any) -> tuple[Any, ...]:
    """Let autograd find the gradients of what reads the stream: a norm, and products with weights
    or without."""
    import torch

    with torch.enable_grad():
        x = x.detach().to(weights.dtype).requires_grad_()
        leaves = [weight.detach().requires_grad_() for weight in weights]
        total = (x * x.square().mean(-1, keepdim=True).rsqrt() * leaves[0] * y_grad).sum()
        for number, grad in enumerate(others, start=1):
            weighted = x * leaves[number] if number < len(leaves) else x
            total = total + (weighted * grad).sum()
        x_grad, *weight_grads = torch.autograd.grad(total, [x, *leaves])
    return x_grad, *weight_grads


def _check(params: Mapping[str, Any]) -> tuple[int, int, int, int]:
    reads, sums, rows, columns = (params[n] for n in ("reads", "sums", "rows", "columns"))
    for name, least in (("reads", 2), ("sums", 1), ("rows", 1), ("columns", 1)):
        if params[name] < least:
            raise PerfcliError(f"mix-order needs {name} of {least} or more, not {params[name]}")
    if sums > reads - 1:
        raise PerfcliError(
            f"mix-order needs sums of at most reads - 1 ({reads - 1}), not {sums}: one is the "
            "norm's, each further one has a matrix of its own"
        )
    return reads, sums, rows, columns


SCENARIO = Scenario(
    name="mix-order",
    question="From how many reads on does fusing more into a mix-order reduction stop to pay?",
    parameters={
        "reads": Parameter(11, "matrices that the backward reads"),
        "sums": Parameter(1, "sums over all rows: the norm's, and of further learned scales"),
        "rows": Parameter(98304, "rows of a matrix"),
        "columns": Parameter(512, "elements of one row"),
        "dtype": Parameter("bfloat16", "element type", FLOATS),
    },
    presets={"smoke": {"reads": 4, "sums": 2, "rows": 128, "columns": 256}, "full": {}},
    build=build,
    toggles=("triton.mix_order_reduction",),
    expects=(Expectation((), preset="smoke"),),
    tolerance=TOLERANCE,
    origin="https://github.com/pytorch/pytorch/pull/179494",
)
