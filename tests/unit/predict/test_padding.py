"""Padding decisions, against what Inductor's own benchmark measured on an NVIDIA H200.

torch 2.11.0, 2026-11-22, ``pad_mm.pad_mm`` and the product as it is, in microseconds.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcli.machine import targets
from perfcli.predict.padding import PaddedMatrix, _estimate, predict_padding

H200 = targets.get("h200")


def matrix(rows: int, columns: int, lane: int, transposed: int, free: bool) -> PaddedMatrix:
    padded = [n if n == 1 else -(-n // lane) * lane for n in (rows, columns)]
    return PaddedMatrix(rows, columns, padded[0], padded[1], bool(transposed), free)


# precision, m, n, k, left and right transposed, made by other kernels; as it is, padded.
MEASURED = [
    ("bf16", 1024, 1280, 50257, 0, 0, (0, 0), 970, 434),
    ("bf16", 1024, 1280, 50257, 0, 0, (1, 1), 970, 181),
    ("bf16", 1000, 50257, 2048, 0, 1, (0, 0), 1947, 1060),
    ("fp16", 1024, 50257, 771, 0, 1, (0, 0), 659, 448),
    ("fp16", 30523, 384, 8192, 1, 0, (0, 0), 1257, 2032),
    ("bf16", 30523, 512, 3072, 1, 0, (0, 0), 823, 821),
    ("bf16", 4096, 3001, 1280, 0, 1, (0, 0), 333, 82),
    ("bf16", 30523, 301, 4096, 1, 0, (0, 0), 762, 1030),
    ("fp32", 1024, 1280, 777, 0, 0, (0, 0), 60, 78),
    ("fp32", 3072, 384, 127, 0, 0, (0, 0), 43, 126),
]


@pytest.mark.parametrize("measured", MEASURED)
def test_decisions_are_those_of_the_device(measured: tuple[object, ...]) -> None:
    precision, m, n, k, left, right, free, before, after = measured
    lane = 4 if precision == "fp32" else 8
    operands = (
        matrix(m, k, lane, left, bool(free[0])),  # type: ignore[index,arg-type]
        matrix(k, n, lane, right, bool(free[1])),  # type: ignore[index,arg-type]
    )
    found = predict_padding(*operands, 1, str(precision), False, H200)
    assert found is not None
    assert found.pays == (before > 1.1 * after)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("m", "n", "k", "bias", "before", "after"),
    [
        (3072, 510, 2040, False, 46, 77),  # one operand is padded
        (20544, 333, 96, False, 32, 83),
        (3072, 510, 510, False, 24, 108),  # both
        (3072, 2040, 510, True, 41, 102),
        (3072, 510, 2040, True, 48, 133),  # one, and what is added
        (8000, 29, 512, True, 29, 135),
    ],
)
def test_short_products_wait_for_the_host(
    m: int, n: int, k: int, bias: bool, before: int, after: int
) -> None:
    """Decisions of models that were compiled on the device (bench/padding.py), in microseconds. By
    the device's time alone, padding would pay in each of them."""
    assert not before > 1.1 * after
    operands = matrix(m, k, 8, 0, False), matrix(k, n, 8, 1, False)
    found = predict_padding(*operands, 1, "bf16", bias, H200)
    assert found is not None and not found.pays
    device = [_estimate(*operands, 1, "bf16", bias, H200, padded=p) for p in (False, True)]
    assert device[0] is not None and device[1] is not None
    assert device[0] > 1.1 * device[1]


def test_the_head_of_gpt2_is_padded_forward_and_backward() -> None:
    tokens, width, words = 4096, 768, 50257
    forward = matrix(tokens, width, 8, 0, True), matrix(width, words, 8, 1, False)
    to_input = matrix(tokens, words, 8, 0, True), matrix(words, width, 8, 0, False)
    to_weight = matrix(words, tokens, 8, 1, False), matrix(tokens, width, 8, 0, True)
    for operands in (forward, to_input, to_weight):
        found = predict_padding(*operands, 1, "bf16", False, H200)
        assert found is not None and found.pays and not found.is_short


@pytest.mark.parametrize(
    ("m", "n", "k", "left", "right", "free", "bias"),
    [
        (512, 256, 4, 0, 0, (1, 0), False),  # padded in 4 of 7 training steps
        (512, 4, 256, 0, 1, (1, 0), False),  # in 1 of 8
        (256, 128, 260, 1, 0, (0, 1), False),  # in 1 of 2, as the next three
        (260, 128, 256, 0, 0, (1, 1), False),
        (1000, 128, 4, 1, 0, (0, 1), False),
        (512, 18, 128, 0, 1, (1, 0), False),
        (260, 256, 128, 0, 1, (1, 0), True),  # in 1 of 3
    ],
)
def test_what_the_device_decides_either_way_is_short(
    m: int, n: int, k: int, left: int, right: int, free: tuple[int, int], bias: bool
) -> None:
    """The same product in bfloat16, asked about in several steps of one session (H200, torch 2.11
    and 2.13, bench/padding_decisions.jsonl), was padded in some of them."""
    operands = matrix(m, k, 8, left, bool(free[0])), matrix(k, n, 8, right, bool(free[1]))
    found = predict_padding(*operands, 1, "bf16", bias, H200)
    assert found is not None and found.is_short and not found.pays


def test_products_whose_time_is_not_known_are_not_decided() -> None:
    operands = matrix(64, 63, 8, 0, False), matrix(63, 64, 8, 0, False)
    amd = replace(H200, vendor="amd", name="mi300x")
    assert predict_padding(*operands, 1, "bf16", False, amd) is None
