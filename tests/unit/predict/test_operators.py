"""Estimates of library operators, against measured times and hand-made bounds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from perfcli.machine import targets
from perfcli.model import OperatorWork
from perfcli.predict import operators

H200 = targets.get("h200")


def product(m: int, n: int, k: int, precision: str = "bf16", **sizes: float) -> OperatorWork:
    each = {"batch": 1.0, "left": 0.0, "right": 1.0, "align": 8.0, "batched": 0.0, "bias": 0.0}
    known = {"m": m, "n": n, "k": k, **each, "added": 0.0, **sizes}
    batch = known["batch"]
    return OperatorWork("product", precision, 2.0 * batch * m * n * k, 0.0, 0.0, known)


def attention(family: Any = "attention", variant: str = "cudnn", **sizes: float) -> OperatorWork:
    known = {"heads": 96, "queries": 1024, "keys": 1024, "width": 64}
    flags = {"causal": 0, "mask": 0, "dropout": 0}
    return OperatorWork(family, "bf16", 0.0, 0.0, 0.0, {**known, **flags, **sizes}, variant)


def convolution(
    family: Any = "convolution", precision: str = "bf16", **sizes: float
) -> OperatorWork:
    known = {
        "images": 16, "in": 256, "out": 256, "pixels": 784, "made": 784, "taps": 9, "tap": 3,
        "stride": 1, "dilation": 1, "groups": 1, "transposed": 0, "dims": 2, "channels_last": 1,
        "to_input": 1, "to_weight": 1,
    }  # fmt: skip
    return OperatorWork(family, precision, 0.0, 0.0, 0.0, {**known, **sizes})


def micros(work: OperatorWork, target: Any = H200) -> float:
    found = operators.estimate_call(work, target)
    assert found is not None
    assert found.low < found.seconds < found.high
    return found.seconds * 1e6


def test_a_large_product_runs_near_what_the_matrix_units_were_seen_to_do() -> None:
    flops = 2 * 8192**3
    assert 600e6 < flops / micros(product(8192, 8192, 8192)) < 850e6, "TFLOP/s of this GPU"


def test_a_product_of_one_row_takes_as_long_as_its_weights_to_read() -> None:
    read = 2 * 8192 * 8192
    seconds = micros(product(1, 8192, 8192)) * 1e-6
    assert 0.5 * H200.bandwidth < read / seconds < H200.bandwidth


def test_a_small_product_takes_a_launch() -> None:
    assert 1.5 < micros(product(16, 64, 64)) < 5


def test_odd_rows_take_the_slow_kernels() -> None:
    aligned = micros(product(4096, 50264, 768))
    odd = micros(product(4096, 50257, 768, align=1))
    assert odd > 1.5 * aligned


def test_products_in_float32_are_slower_than_in_tf32_than_in_bf16() -> None:
    times = [micros(product(4096, 4096, 4096, precision)) for precision in ("bf16", "tf32", "fp32")]
    assert times[0] * 1.5 < times[1] < times[2] / 3


def test_causal_attention_of_long_sequences_takes_about_half() -> None:
    whole = micros(attention(queries=8192, keys=8192))
    assert 0.45 < micros(attention(queries=8192, keys=8192, causal=1)) / whole < 0.7


def test_backward_attention_takes_two_to_four_times_as_long() -> None:
    assert 2 < micros(attention("attention backward")) / micros(attention()) < 4


def test_both_gradients_of_a_convolution_add_up() -> None:
    both = micros(convolution("convolution backward"))
    alone = [
        micros(convolution("convolution backward", to_input=1, to_weight=0)),
        micros(convolution("convolution backward", to_input=0, to_weight=1)),
    ]
    assert both == pytest.approx(sum(alone))


def test_channels_that_are_not_last_are_copied() -> None:
    work = convolution(pixels=3136, made=3136, images=32)
    first = micros(replace(work, sizes={**work.sizes, "channels_last": 0}))
    moved = 2 * 2 * 32 * 3136 * 256 * 2  # both tensors, read and written
    assert first > micros(work) + moved / H200.bandwidth * 1e6


def test_convolutions_that_were_never_measured_have_no_estimate() -> None:
    assert operators.estimate_call(convolution(precision="fp32"), H200) is None
    assert operators.estimate_call(product(64, 64, 64, "float64"), H200) is None


def test_bytes_say_nothing_of_operators_that_compute() -> None:
    work = OperatorWork("other", "bf16", 0.0, 1e6, 1e6, {"row": 64.0}, "_grouped_mm")
    assert operators.estimate_call(work, H200) is None


def test_an_operator_of_which_only_bytes_are_known_has_a_wide_interval() -> None:
    work = OperatorWork("other", "bf16", 0.0, 1e9, 1e9, {"row": 64.0}, "mylib.scan")
    found = operators.estimate_call(work, H200)
    assert found is not None
    assert found.high / found.low > 10
    assert found.doubts == ("only its bytes are known",)


def test_sizes_far_from_all_that_were_measured_have_a_wider_interval_and_say_so() -> None:
    near = operators.estimate_call(product(4096, 3072, 768), H200)
    far = operators.estimate_call(product(2, 3, 10**7), H200)
    assert near is not None
    assert far is not None
    assert far.high / far.low > near.high / near.low
    assert not near.doubts
    assert far.doubts == ("no call of such sizes was measured",)


def test_another_gpu_is_scaled_by_its_data_sheet_with_a_wider_interval() -> None:
    h100 = targets.get("h100")
    own, other = (operators.estimate_call(product(1, 8192, 8192), t) for t in (H200, h100))
    assert own is not None
    assert other is not None
    bandwidth = H200.bandwidth / h100.bandwidth
    assert other.seconds / own.seconds == pytest.approx(bandwidth, rel=0.15)
    assert math.log(other.high / other.low) > 1.3 * math.log(own.high / own.low)


def test_a_target_of_another_vendor_has_no_estimate() -> None:
    amd = replace(H200, name="mi300x", vendor="amd")
    assert operators.estimate_call(product(64, 64, 64), amd) is None
    assert operators.estimate_host(10, [], amd) is None


def test_the_host_pays_for_each_launch() -> None:
    few, many = (operators.estimate_host(n, [("aten.mm.out", n)], H200) for n in (10, 1010))
    assert few is not None
    assert many is not None
    assert 10e-6 < (many - few) / 2000 < 40e-6


def test_half_of_the_measured_products_are_within_a_tenth() -> None:
    """The shipped table, through the estimate that everything uses. (It has seen these calls;
    bench/operator_fit.py says how good it is for those that it has not.)"""
    data = json.loads((operators._SHIPPED / "h200.json").read_bytes())
    given = data["classes"]["product half 8"]
    errors = []
    for row in given["rows"][::40]:
        work = operators._work_of_row(given, row)
        errors.append(abs(math.log(micros(work) / row[-2])))
    assert sorted(errors)[len(errors) // 2] < math.log(1.1)
