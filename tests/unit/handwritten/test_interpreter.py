"""float32 to bfloat16 as a GPU does it: to the nearest, ties to even."""

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
from perfcli.handwritten.interpreter import round_to_nearest

round_to_nearest()
round_to_nearest()

@triton.jit
def narrow(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, tl.load(x + at).to(tl.bfloat16))

x = torch.randn(64)
y = torch.empty(64, dtype=torch.bfloat16)
narrow[(1,)](x, y, 64)
assert torch.equal(y, x.to(torch.bfloat16))
print("equal")
"""


def test_a_kernel_in_the_interpreter_rounds_as_torch_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(perfcli.__file__).parents[1]))
    file = tmp_path / "narrow.py"
    file.write_text(KERNEL)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
