"""Does fusing the additions of a running sum keep all of its terms in memory?

Each term is the output of a matrix product, or with ``-p terms=random`` drawn by ``torch.rand``, as
in the listing of pytorch #157563 (with ``fallback_random=true``: Inductor's own random numbers are
made inside the kernel that adds them, and need no memory). Added at once, a term can be freed at
once; fused into one kernel, the additions save reads and writes of the sum but need every term at
the same time. Inductor limits the terms (``realize_acc_reads_threshold``, 8) and, where it is told
to, their bytes (``realize_acc_reads_size_threshold``) while lowering; since torch 2.10 the
scheduler fuses again what they kept apart. Seen with torch 2.13 at the full size: one kernel reads
16 terms and 15 buffers of 256 MiB are allocated, whatever those two say; with
``max_fusion_unique_io_buffers=4`` two kernels and 8 buffers, with
``realize_acc_reads_threshold=2`` as well three kernels and 3 buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.model import Expectation, Parameter, Scenario, Workload

from ._rows import FLOATS, TOLERANCE, torch_dtype


def build(params: Mapping[str, Any]) -> Workload:
    import torch

    size, repeats = params["size"], params["repeats"]
    dtype = torch_dtype(params["dtype"])
    if params["terms"] == "random":
        return _draw(size, repeats, dtype)

    def accumulate(x: Any, weight: Any) -> Any:
        total = x
        for _ in range(repeats):
            x = x @ weight
            total = total + x
        return total

    # Products keep their terms' variance.
    inputs = (
        torch.randn(size, size, dtype=dtype),
        torch.randn(size, size, dtype=dtype) * size**-0.5,
    )
    return Workload(accumulate, inputs, reference=accumulate)


def _draw(size: int, repeats: int, dtype: Any) -> Workload:
    """Return the listing's loop; only the device comes from its input."""
    import torch

    def accumulate(like: Any) -> Any:
        total = torch.rand(size, size, dtype=dtype, device=like.device)
        for _ in range(repeats):
            x = torch.rand(size, size, dtype=dtype, device=like.device)
            total = total + x
        return total

    return Workload(accumulate, (torch.zeros(1, dtype=dtype),), reference=accumulate)


SCENARIO = Scenario(
    name="accumulate",
    question="How many terms of a running sum must be in memory at the same time?",
    parameters={
        "size": Parameter(8192, "rows and columns of each term"),
        "repeats": Parameter(16, "number of terms"),
        "dtype": Parameter("float32", "element type", FLOATS),
        "terms": Parameter("products", "where the terms come from", ("products", "random")),
    },
    presets={"smoke": {"size": 64, "repeats": 10}, "full": {}},
    build=build,
    toggles=(
        "max_fusion_unique_io_buffers=4",
        "max_fusion_size=1",
        "realize_acc_reads_size_threshold=268435456",
    ),
    expects=(
        Expectation(("PC301",)),
        Expectation((), options={"max_fusion_unique_io_buffers": 4}),
        # Too few terms for either threshold.
        Expectation((), params={"repeats": 5}),
        Expectation(
            (), params={"repeats": 5}, options={"realize_acc_reads_threshold": 16}, compared=True
        ),
        Expectation((), preset="smoke"),
    ),
    # Every term is rounded, and the error of one is carried into the next.
    tolerance={dtype: 8 * bound for dtype, bound in TOLERANCE.items()},
    origin="https://github.com/pytorch/pytorch/pull/157563",
)
