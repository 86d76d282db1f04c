"""Estimates of templates against what an H200 measured (torch 2.11.0, 2026-11-23)."""

from __future__ import annotations

import pytest

from perfcli.machine import targets
from perfcli.model import Buffer, Candidate
from perfcli.predict.templates import describe_template, estimate_template

H200 = targets.get("h200")
HOST = 8e-6
"""What is taken for the host's part in a measured time."""


def tensor(*shape: int, dtype: str = "bfloat16", stride: tuple[int, ...] = ()) -> Buffer:
    plain, expected = [], 1
    for size in reversed(shape):
        plain.append(expected)
        expected *= size
    size = {"bfloat16": 2, "float16": 2, "float32": 4, "int16": 2, "int64": 8}.get(dtype, 1)
    return Buffer("", "", "input", dtype, shape, stride or tuple(reversed(plain)), expected * size)


def compiled(warps: int, stages: int, blocks_per_sm: int, stack: int = 0) -> Candidate:
    return Candidate({}, warps, stages, 128, stack, blocks_per_sm=blocks_per_sm)


def config(m: int, n: int, k: int) -> dict[str, int]:
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}


SQUARE = (4096, 4096), (4096, 4096)
WIDE = (2048, 3072), (3072, 768)


MEASURED = [
    (SQUARE, (128, 128, 64), (4, 3, 2), 190.8),
    (SQUARE, (128, 128, 64), (8, 5, 1), 202.8),
    (SQUARE, (128, 128, 32), (4, 3, 3), 220.7),
    (SQUARE, (64, 128, 128), (4, 4, 1), 239.6),
    (SQUARE, (64, 128, 64), (4, 3, 3), 261.1),
    (WIDE, (128, 128, 64), (8, 5, 1), 22.1),
    (WIDE, (64, 128, 128), (4, 4, 1), 26.8),
    (WIDE, (64, 128, 64), (4, 3, 3), 27.4),
    (WIDE, (64, 64, 64), (8, 3, 4), 27.4),
    (WIDE, (128, 128, 64), (4, 3, 2), 28.9),
]
"""Of lists that the constants were not fitted to: operands, blocks, launch, microseconds."""


def test_measured_products_lie_within_their_intervals() -> None:
    """Of all that were timed nine of ten; of these eight: the small product is estimated too
    slow."""
    outside = []
    for number, ((left, right), blocks, launch, micros) in enumerate(MEASURED):
        result = tensor(left[0], right[1])
        work = describe_template("mm", [tensor(*left), tensor(*right)], result, config(*blocks))
        assert work is not None
        found = estimate_template(work, compiled(*launch), H200)
        assert found is not None
        if not found.low < micros * 1e-6 - HOST < found.high:
            outside.append(number)
    assert outside == [5, 8]


def test_what_is_added_is_no_factor() -> None:
    """A bias that is expanded is read once, and the product is that of the last two operands."""
    bias = tensor(64, 256, stride=(0, 1))
    operands = [bias, tensor(64, 128), tensor(128, 256)]
    work = describe_template("addmm", operands, tensor(64, 256), config(64, 64, 32))
    assert work is not None
    assert (work.blocks, work.steps) == (4, 4)
    assert work.moved == 2 * (256 + 64 * 128 + 128 * 256 + 64 * 256)


@pytest.mark.parametrize(("dtype", "size"), [("int64", 8), ("int16", 2), ("float8_e5m2", 1)])
def test_elements_are_as_wide_as_their_tensors_say(dtype: str, size: int) -> None:
    operands = [tensor(64, 128, dtype=dtype), tensor(128, 256, dtype=dtype)]
    result = tensor(64, 256, dtype=dtype)
    work = describe_template("mm", operands, result, config(64, 64, 32))
    assert work is not None
    assert (work.step_bytes, work.tile_bytes) == (2 * 64 * 32 * size, 64 * 64 * size)
    assert work.moved == size * (64 * 128 + 128 * 256 + 64 * 256)


def test_products_of_eight_bits_have_an_estimate() -> None:
    """Hopper multiplies them twice as fast as bfloat16."""
    times = []
    for dtype in ("bfloat16", "float8_e4m3fn", "int8"):
        left = tensor(8192, 8192, dtype=dtype)
        right = tensor(8192, 8192, dtype=dtype, stride=(1, 8192))
        work = describe_template("mm", [left, right], tensor(8192, 8192), config(128, 128, 64))
        found = work and estimate_template(work, compiled(4, 3, 2), H200)
        assert found
        times.append(found.seconds)
    assert times[1] == times[2]
    assert times[0] / 2.1 < times[1] < times[0] / 1.5


def test_convolutions_are_products_of_pixels_and_taps() -> None:
    image = tensor(2, 64, 56, 56, dtype="float16", stride=(200704, 1, 3584, 64))
    weight = tensor(128, 64, 3, 3, dtype="float16", stride=(576, 1, 192, 64))
    result = tensor(2, 128, 56, 56, dtype="float16")
    work = describe_template("convolution", [image, weight], result, config(64, 64, 32))
    assert work is not None
    assert (work.blocks, work.steps) == (98 * 2, 9 * 2)


def test_what_does_not_fit_or_is_not_known_has_no_estimate() -> None:
    operands = [tensor(64, 64), tensor(64, 64)]
    work = describe_template("mm", operands, tensor(64, 64), config(64, 64, 64))
    assert work is not None
    assert estimate_template(work, compiled(4, 3, 0), H200) is None
    assert estimate_template(work, None, H200) is None
    assert describe_template("sort", operands, tensor(64, 64), config(64, 64, 64)) is None
    assert describe_template("mm", operands, tensor(64, 64), {}) is None


def test_a_second_wave_takes_as_long_as_the_first() -> None:
    """132 multiprocessors, a block each: one tile more needs another turn."""

    def estimate(down: int, across: int) -> float:
        operands = [tensor(64 * down, 4096), tensor(4096, 64 * across)]
        result = tensor(64 * down, 64 * across)
        work = describe_template("mm", operands, result, config(64, 64, 64))
        assert work is not None
        found = estimate_template(work, compiled(4, 3, 1), H200)
        assert found is not None
        return found.seconds - 5e-6

    assert estimate(7, 19) == pytest.approx(2 * estimate(11, 12), rel=0.02)
