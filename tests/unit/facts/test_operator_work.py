"""Counts of library operators, against counts by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perfcli.facts.operator_work import _base_name, count_operator_work
from perfcli.model import Buffer, OperatorWork

SIZES = {
    "bfloat16": 2, "float16": 2, "float32": 4, "int64": 8, "int32": 4, "int8": 1,
    "float8_e4m3fn": 1, "complex64": 8,
}  # fmt: skip


def tensor(
    *shape: int, dtype: str = "bfloat16", stride: tuple[int, ...] = (), name: str = ""
) -> Buffer:
    dense, step = [0] * len(shape), 1
    for dimension in reversed(range(len(shape))):
        dense[dimension] = step
        step *= shape[dimension]
    size = math.prod(shape) * SIZES[dtype]
    return Buffer(name, "", "input", dtype, shape, stride or tuple(dense), size)


def count(name: str, reads: list[Buffer], writes: list[Buffer], **arguments: Any) -> OperatorWork:
    found = count_operator_work(name, reads, writes, arguments)
    assert found is not None
    return found


def test_a_product_multiplies_and_adds_for_each_of_its_elements() -> None:
    left, right = tensor(1024, 768), tensor(768, 3072, stride=(1, 768))
    found = count("aten.mm.out", [left, right], [tensor(1024, 3072)])
    assert found.family == "product"
    assert found.precision == "bf16"
    assert found.flops == 2 * 1024 * 768 * 3072 == 4_831_838_208
    assert found.read == 2 * (1024 * 768 + 768 * 3072) == 6_291_456
    assert found.written == 2 * 1024 * 3072 == 6_291_456
    assert found.sizes == {
        "m": 1024, "n": 3072, "k": 768, "batch": 1, "left": 0, "right": 1, "align": 8,
        "batched": 0, "bias": 0, "added": 0,
    }  # fmt: skip


def test_a_gradient_of_weights_reads_its_left_side_by_columns() -> None:
    left, right = tensor(768, 4096, stride=(1, 768)), tensor(4096, 50257)
    found = count("extern_kernels.mm", [left, right], [tensor(768, 50257)])
    assert (found.sizes["left"], found.sizes["right"]) == (1, 0)
    assert found.sizes["align"] == 1, "rows of 50257 elements begin anywhere"


def test_the_bias_of_addmm_is_read_and_a_whole_matrix_is_added() -> None:
    operands = [tensor(32, 64), tensor(64, 16)]
    bias = count("aten.addmm.out", [tensor(16), *operands], [tensor(32, 16)])
    assert (bias.sizes["bias"], bias.sizes["added"]) == (1, 0)
    assert bias.read == 2 * (16 + 32 * 64 + 64 * 16)
    whole = count("addmm", [tensor(32, 16), *operands], [tensor(32, 16)])
    assert (whole.sizes["bias"], whole.sizes["added"]) == (0, 1)


def test_products_of_a_batch_count_each() -> None:
    found = count("bmm", [tensor(12, 64, 32), tensor(12, 32, 48)], [tensor(12, 64, 48)])
    assert found.flops == 2 * 12 * 64 * 32 * 48
    assert (found.sizes["batch"], found.sizes["batched"]) == (12, 1)


@pytest.mark.parametrize(("allowed", "precision"), [(True, "tf32"), (False, "fp32")])
def test_products_of_float32_say_whether_they_may_round(allowed: bool, precision: str) -> None:
    operands = [tensor(8, 8, dtype="float32"), tensor(8, 8, dtype="float32")]
    assert count("mm", operands, operands[:1], tf32=allowed).precision == precision


def test_attention_multiplies_twice_forward_and_five_times_backward() -> None:
    query, key = tensor(2, 12, 1024, 64), tensor(2, 12, 512, 64)
    forward = count("aten._scaled_dot_product_flash_attention.default", [query, key, key], [query])
    pairs = 2 * 12 * 1024 * 512
    assert forward.flops == 2 * 2 * pairs * 64 == 3_221_225_472
    assert (forward.family, forward.variant) == ("attention", "flash")
    backward = count(
        "aten._scaled_dot_product_cudnn_attention_backward.default",
        [query, query, key, key],
        [query, key, key],
    )
    assert backward.flops == 2.5 * forward.flops
    assert (backward.family, backward.variant) == ("attention backward", "cudnn")


def test_causal_attention_leaves_out_what_the_mask_does() -> None:
    query = tensor(1, 1, 4, 8)
    found = count("_scaled_dot_product_flash_attention", [query] * 3, [query], is_causal=True)
    assert found.flops == 2 * 2 * (1 + 2 + 3 + 4) * 8


def test_an_encoder_layer_is_its_products_and_its_attention() -> None:
    """12 rows of 32 elements, 6 in a sequence, whose inside is 64 wide; 4 heads of 8."""
    names = ("qkv", "proj", "ffn_1", "ffn_2")
    shapes = ((96, 32), (32, 32), (64, 32), (32, 64))
    weights = [
        each
        for name, shape in zip(names, shapes, strict=True)
        for part, numbered in (("weight", shape), ("bias", shape[:1]))
        for each in [tensor(*numbered, name=name.replace("_", f"_{part}_"))]
    ]
    source = tensor(2, 6, 32, name="src")
    operator = "aten._transformer_encoder_layer_fwd.default"
    found = count(operator, [source, *weights], [source], num_heads=4)
    rows = [12 * 32 * 96, 12 * 32 * 32, 12 * 32 * 64, 12 * 64 * 32]
    heads = [2 * 4 * 6 * 8 * 6, 2 * 4 * 6 * 6 * 8]
    assert found.flops == 2 * sum(rows + heads) == 205_824
    assert found.family == "encoder layer"
    assert found.sizes == {
        "batch": 2, "tokens": 6, "width": 32, "heads": 4, "inner": 64, "mask": 0
    }  # fmt: skip
    mask = tensor(2, 6, dtype="int8", name="mask")
    assert count(operator, [source, *weights, mask], [source], num_heads=4).sizes["mask"] == 1


def test_a_convolution_counts_the_pixels_that_it_makes() -> None:
    image = tensor(8, 64, 56, 56, stride=(64 * 56 * 56, 1, 64 * 56, 64))
    made = tensor(8, 128, 28, 28)
    given = {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "groups": 1}
    found = count("aten.convolution.default", [image, tensor(128, 64, 3, 3)], [made], **given)
    assert found.flops == 2 * (8 * 28 * 28 * 128) * (64 * 3 * 3)
    assert found.sizes["channels_last"] == 1
    assert (found.sizes["pixels"], found.sizes["made"]) == (56 * 56, 28 * 28)


def test_groups_divide_the_products_of_a_convolution() -> None:
    image = tensor(1, 32, 8, 8)
    given = {"stride": [1], "padding": [1], "dilation": [1], "groups": 32}
    found = count("aten.convolution.default", [image, tensor(32, 1, 3, 3)], [image], **given)
    assert found.flops == 2 * 8 * 8 * 32 * 9


def test_a_transposed_convolution_counts_the_pixels_that_it_reads() -> None:
    image, weight = tensor(1, 16, 8, 8), tensor(16, 4, 2, 2)
    given = {"stride": [2, 2], "padding": [0, 0], "dilation": [1, 1], "groups": 1}
    found = count(
        "aten.convolution.default",
        [image, weight],
        [tensor(1, 4, 16, 16)],
        transposed=True,
        **given,
    )
    assert found.flops == 2 * 8 * 8 * 16 * 4 * 4
    assert (found.sizes["out"], found.sizes["made"]) == (4, 16 * 16)


@pytest.mark.parametrize(("wanted", "times"), [([True, True, False], 2), ([False, True, False], 1)])
def test_gradients_of_a_convolution_count_each(wanted: list[bool], times: int) -> None:
    image, weight = tensor(2, 8, 6, 6), tensor(8, 8, 3, 3)
    given = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}
    found = count(
        "aten.convolution_backward.default",
        [image, image, weight],
        [image],
        output_mask=wanted,
        **given,
    )
    assert found.flops == times * 2 * (2 * 6 * 6 * 8) * (8 * 9)
    assert found.sizes["to_input"] == (times == 2)


def test_an_operator_that_is_not_known_has_its_bytes() -> None:
    found = count(
        "aten.sort.stable", [tensor(4, 100)], [tensor(4, 100), tensor(4, 100, dtype="int64")]
    )
    assert (found.family, found.variant, found.flops) == ("other", "sort", 0)
    assert (found.read, found.written) == (800, 800 + 3200)


def test_a_product_that_is_called_in_another_way_has_its_bytes() -> None:
    assert count("aten.mm.default", [tensor(4, 4)], [tensor(4, 4)]).family == "other"


def test_without_tensors_there_is_no_work() -> None:
    assert count_operator_work("aten.mm.default", [], [], {}) is None


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("aten.mm.out", "mm"),
        ("extern_kernels.addmm", "addmm"),
        ("torch.ops.aten.sort.stable", "sort"),
        ("mylib.scan.default", "mylib.scan"),
    ],
)
def test_names_lose_their_library_and_overload(name: str, base: str) -> None:
    assert _base_name(name) == base


def test_products_of_8_bit_numbers_count_like_others() -> None:
    x, w = tensor(256, 512, dtype="int8"), tensor(512, 1024, dtype="int8", stride=(1, 512))
    found = count("aten._int_mm.out", [x, w], [tensor(256, 1024, dtype="int32")])
    assert (found.family, found.precision) == ("product", "int8")
    assert found.flops == 2 * 256 * 512 * 1024
    assert (found.read, found.written) == (256 * 512 + 512 * 1024, 4 * 256 * 1024)


def test_a_scaled_product_reads_its_scales() -> None:
    x = tensor(256, 512, dtype="float8_e4m3fn")
    w = tensor(512, 1024, dtype="float8_e4m3fn", stride=(1, 512))
    scales = [tensor(256, 1, dtype="float32"), tensor(1, 1024, dtype="float32")]
    found = count("aten._scaled_mm.out", [x, w, *scales], [tensor(256, 1024)])
    assert (found.family, found.precision) == ("product", "fp8")
    assert found.read == 256 * 512 + 512 * 1024 + 4 * 256 + 4 * 1024


def test_groups_share_rows_evenly() -> None:
    """256 rows, 4 matrices of weights: each row is multiplied with one of them."""
    x, w, ends = tensor(256, 64), tensor(4, 64, 128), tensor(4, dtype="int32")
    found = count("aten._grouped_mm.default", [x, w, ends], [tensor(256, 128)])
    assert (found.family, found.variant) == ("product", "grouped")
    assert found.flops == 2 * 256 * 64 * 128
    assert [found.sizes[name] for name in ("m", "k", "n", "batch")] == [64, 64, 128, 4]
    assert found.read == 2 * (256 * 64 + 4 * 64 * 128) + 4 * 4


def test_gradients_of_grouped_weights_share_the_rows_that_they_sum_over() -> None:
    x, g, ends = tensor(64, 256, stride=(1, 64)), tensor(256, 128), tensor(4, dtype="int32")
    found = count("aten._grouped_mm.default", [x, g, ends], [tensor(4, 64, 128)])
    assert found.flops == 2 * 256 * 64 * 128
    assert [found.sizes[name] for name in ("m", "k", "n", "batch")] == [64, 64, 128, 4]


def test_packed_weights_have_two_numbers_in_a_byte() -> None:
    w = tensor(128, 4, 32, 4, dtype="int32")
    found = count("aten._weight_int4pack_mm.default", [tensor(256, 512), w], [tensor(256, 1024)])
    assert found.flops == 2 * 256 * 512 * 1024
    assert found.read == 2 * 256 * 512 + 512 * 1024 / 2


def test_a_view_moves_nothing() -> None:
    pairs, complex_ = tensor(64, 2, dtype="float32"), tensor(64, dtype="complex64")
    found = count("aten.view_as_complex.default", [pairs], [complex_])
    assert (found.read, found.written) == (0, 0)
