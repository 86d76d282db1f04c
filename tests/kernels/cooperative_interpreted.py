"""What blocks of the cooperative softmax tell one another, through Triton's interpreter; started by
test_softmax_cooperative.py in a process of its own. Prints one line of JSON."""

from __future__ import annotations

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from importlib import import_module

import torch
import triton
import triton.language as tl

from perfcli import registry, targets
from perfcli.model import Problem

CODE = import_module("perfcli.kernels._softmax")
_KERNELS = import_module("perfcli.kernels._softmax_cooperative")
packed, unpacked = _KERNELS.packed, _KERNELS.unpacked
H200 = targets.get("h200")


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
    plan = registry.family("softmax").plan(problem, H200, "cooperative")
    one = CODE.inputs(Problem("softmax", 2, columns // parts, dtype), "cpu", 3)["x"]
    assert plan.launches[0].grid == (2 * parts, 1, 1)
    y = CODE.run(problem, {"x": one.repeat(1, parts)}, plan)["y"]
    return len(y[0].view(parts, -1).unique(dim=0))


asked = json.load(sys.stdin)
found = round_trip(asked["pairs"])
found["distinct"] = [distinct_parts(dtype, parts) for dtype, parts in asked["rows"]]
sys.stdout.write(json.dumps(found) + "\n")
