"""float32 to bfloat16 as a GPU does it: to the nearest, ties to even; and reductions by halves."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perfcli
from perfcli.handwritten.interpreter import _convert

pytestmark = pytest.mark.torch


def bits(values: list[float]) -> list[int]:
    import numpy as np

    return [int(b) for b in _convert(np.array(values, dtype=np.float32), "fp32", "bf16")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 0x3F80),
        (1.0 + 2**-7, 0x3F81),
        (1.0 + 2**-8, 0x3F80),  # a tie, to the even 1.0
        (1.0 + 3 * 2**-8, 0x3F82),  # a tie, up to the even one
        (1.0 + 2**-8 + 2**-20, 0x3F81),
        (1.99999, 0x4000),  # carries into the exponent
        (-1.0078, 0xBF81),
        (3.4e38, 0x7F80),  # beyond the largest: infinite
        (math.inf, 0x7F80),
        (-0.0, 0x8000),
        (2.0**-133, 0x0001),  # the least subnormal
    ],
)
def test_values_are_rounded_to_the_nearest(value: float, expected: int) -> None:
    assert bits([value]) == [expected]


def test_nan_stays_nan_and_bits_widen_exactly() -> None:
    import numpy as np

    (nan,) = bits([math.nan])
    assert nan & 0x7F80 == 0x7F80
    assert nan & 0x7F
    wide: Any = _convert(np.array([[0x3F81, 0x8000]], dtype=np.uint16), "bf16", "fp32")
    assert wide.dtype == np.float32
    assert wide.tolist() == [[1.0078125, -0.0]]
    assert _convert(wide, "fp32", "fp16") is None


KERNEL = """
import torch, triton, triton.language as tl
from perfcli.handwritten.interpreter import prepare

prepare()
prepare()

@triton.jit
def narrow(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, tl.load(x + at).to(tl.bfloat16))

@triton.jit
def both(low, high, other_low, other_high):
    return tl.minimum(low, other_low), tl.maximum(high, other_high)

@triton.jit
def range_of(x, axis: tl.constexpr, keep: tl.constexpr):
    return tl.reduce((x, x), axis, both, keep_dims=keep)

@triton.jit
def ranges(x, y, n: tl.constexpr, m: tl.constexpr):
    row, column = tl.arange(0, n), tl.arange(0, m)
    tile = tl.load(x + row[:, None] * m + column[None, :])
    low, high = range_of(tile, 0, False)
    tl.store(y + column, high - low)
    low, high = range_of(tile, 1, True)
    tl.store(y + m + row[:, None], high - low)
    low, high = range_of(tile, None, False)
    tl.store(y + m + n, high - low)
    tl.store(y + m + n + 1, tl.sum(tl.sum(tile, axis=0), axis=0))

x = torch.randn(64)
y = torch.empty(64, dtype=torch.bfloat16)
narrow[(1,)](x, y, 64)
assert torch.equal(y, x.to(torch.bfloat16))
given = torch.arange(32).roll(5).view(4, 8)
found = torch.zeros(14, dtype=torch.int64)
ranges[(1,)](given, found, 4, 8)
right = [given.amax(d) - given.amin(d) for d in (0, 1)]
assert torch.equal(found, torch.cat([*right, torch.tensor([31, 31 * 16])])), found
print("equal")
"""


def test_a_kernel_in_the_interpreter_computes_what_torch_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(perfcli.__file__).parents[1]))
    file = tmp_path / "narrow.py"
    file.write_text(KERNEL)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
