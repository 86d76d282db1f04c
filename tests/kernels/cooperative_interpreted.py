"""What blocks of the cooperative softmax tell one another, through Triton's interpreter
(``warm.WarmProcess.interpret``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
import triton
import triton.language as tl

from perfcli.handwritten.data import arrange
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Case, Data, Problem

CODE = import_module("perfcli.kernels.softmax.code")
_KERNELS = import_module("perfcli.kernels.softmax.shared")
packed, unpacked = _KERNELS.pack, _KERNELS.unpack
FAMILY = registry.family("softmax")
H200 = targets.get("h200")
SMALL = replace(H200, sm_count=2)
"""So small that a part is several tiles even of few rows."""


@triton.jit  # type: ignore[untyped-decorator]
def there_and_back(peaks, totals, words, COUNT: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.arange(0, COUNT)
    word = packed(tl.load(peaks + place), tl.load(totals + place))
    tl.store(words + place, word)
    peak, total = unpacked(word)
    tl.store(peaks + place, peak)
    tl.store(totals + place, total)


def round_trip(pairs: list[list[float]]) -> dict[str, list[int]]:
    """Words, and bits of what came out of them."""
    peaks, totals = torch.tensor(pairs, dtype=torch.float32).T.contiguous()
    words = torch.zeros(len(pairs), dtype=torch.int64)
    there_and_back[(1,)](peaks, totals, words, len(pairs))
    bits = {"peaks": peaks, "totals": totals}
    return {"words": words.tolist(), **{n: t.view(torch.int32).tolist() for n, t in bits.items()}}


def distinct_parts(dtype: str, parts: int) -> int:
    """Of a row that repeats itself part by part: how many different parts its softmax has."""
    columns = parts * (1024 if dtype != "float32" else 512)
    problem = Problem("softmax", 2, columns, dtype)
    plan = FAMILY.plan(problem, H200, "cooperative")
    one = CODE.inputs(Problem("softmax", 2, columns // parts, dtype), "cpu", 3)["x"]
    assert plan.launches[-1].grid == (2 * parts, 1, 1)
    y = CODE.run(problem, {"x": one.repeat(1, parts)}, plan)["y"]
    return len(y[0].view(parts, -1).unique(dim=0))


def of_two_large(variant: str, dtype: str, number: float) -> list[float]:
    """What softmax gives each of two equal numbers far above all others, with multiply-adds that
    round once, as the interpreter's do not."""
    builder: Any = import_module("triton.runtime.interpreter")
    kept = builder.InterpreterBuilder.create_fma

    def rounded_once(_: Any, x: Any, y: Any, z: Any) -> Any:
        wide = [each.data.astype("float64") for each in (x, y, z)]
        return builder.TensorHandle((wide[0] * wide[1] + wide[2]).astype("float32"), tl.float32)

    builder.InterpreterBuilder.create_fma = rounded_once
    try:
        problem = Problem("softmax", 1, 2048, dtype)
        x = torch.full((1, 2048), -number, dtype=getattr(torch, dtype))
        x[:, 5] = x[:, 1900] = number
        y = CODE.run(problem, {"x": x}, FAMILY.plan(problem, H200, variant))["y"]
    finally:
        builder.InterpreterBuilder.create_fma = kept
    return [float(each) for each in y[0, [5, 1900]]]


def by_grids(operation: str, rows: int, columns: int, dtype: str, data: Data) -> dict[str, Any]:
    """Of the streamed variant, with grids from one program to one per part: whether all give the
    same bits, and the largest error over what is allowed."""
    problem = Problem(operation, rows, columns, dtype)
    plan = FAMILY.plan(problem, SMALL, "streamed")
    clear, step = plan.launches
    (name,) = FAMILY.tolerances(problem)
    tensors = arrange(Case(problem, "streamed", data), problem, CODE.inputs(problem, "cpu", 3))
    found = []
    for programs in (step.grid[0], 1, 3):
        launches = (clear, replace(step, grid=(programs, 1, 1)))
        found.append(CODE.run(problem, tensors, replace(plan, launches=launches))[name])
    expected = CODE.reference(problem, tensors)[name]
    allowed = FAMILY.tolerances(problem)[name]
    error = (found[0].double() - expected).abs()
    error /= allowed.absolute + allowed.relative * expected.abs()
    same = (found[0] == expected) | (found[0].isnan() & expected.isnan())
    return {
        "chunk": step.constants["CHUNK"],
        "equal": [
            torch.equal(each.view(torch.int16), found[0].view(torch.int16)) for each in found
        ],
        "excess": float(torch.where(same, 0.0, error.nan_to_num(nan=1e9)).max()),
    }


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **round_trip(asked["pairs"]),
        "distinct": [distinct_parts(dtype, parts) for dtype, parts in asked["rows"]],
        "streamed": [by_grids(*each) for each in asked["streamed"]],
        "large": [of_two_large(*each) for each in asked["large"]],
    }
