"""What a wrapper's call does: launches, tensors, sizes."""

from __future__ import annotations

import ast

import pytest
from wrappers import text_of

from perfcli.importing.sources.calls import Followed, Tensor, follow
from perfcli.importing.sources.wrapper import Wrapper, read_wrapper

MIX_ORDER = "triton_per_fused__fused_rms_norm__fused_rms_norm_backward_0"
CAST = "triton_poi_fused__fused_rms_norm_backward_1"


def followed(name: str) -> Followed:
    return follow(read_wrapper(text_of(name)))


def follow_body(body: str, **functions: str) -> Followed:
    """Follow statements of a call that gets ``arg0_1``, and those of other functions."""
    bodies = {"call": f"arg0_1, = args\n{body}", **functions}
    return follow(
        Wrapper(
            "", (), {}, frozenset(), {name: ast.parse(text).body for name, text in bodies.items()}
        )
    )


@pytest.mark.parametrize("version", ["2.11", "2.13"])
def test_launches_have_tensors_with_sizes(version: str) -> None:
    found = followed(f"rmsnorm_backward_{version}")
    assert found.inputs == ("primals_1", "primals_2", "rsqrt", "tangents_1")
    assert [call.name for call in found.calls] == [MIX_ORDER, CAST]
    first = found.calls[0]
    assert first.arguments[0] == Tensor(
        "primals_1", (32768, 8192), (8192, 1), "bfloat16", first="primals_1"
    )
    assert first.arguments[5] == Tensor(
        "workspace_0", (16777216,), (1,), "float32", first="workspace_0"
    )
    assert first.arguments[6:] == [32768, 8192]
    assert first.finishing == [("sum", Tensor("buf2", (8192,), (1,), "float32"))]
    assert not first.symbols


def test_symbols_take_the_values_of_the_example() -> None:
    (call,) = followed("softmax_dynamic_2.11").calls
    assert call.arguments[0].shape == (4096, 5000)
    assert call.arguments[0].stride == (5000, 1)
    assert call.arguments[0].dtype == "bfloat16"
    assert call.arguments[2:] == [5000, 4096, 5000]
    assert call.symbols == {2, 3, 4}


def test_operators_have_arguments_and_results() -> None:
    calls = {call.name: call for call in followed("convolution_backward_2.13").calls}
    backward = calls["torch.ops.aten.convolution_backward.default"]
    assert backward.arguments[3] == [64]
    assert backward.arguments[10] == [False, True, False]
    assert [each.name for each in backward.results.values()] == ["buf9"]
    assert backward.results["buf9"].shape == (64, 3, 3, 3)
    product = calls["extern_kernels.mm"]
    assert [each.name for each in product.results.values()] == ["buf1"]
    assert product.named == {}
    assert product.arguments[0].stride == (1, 10)


def test_both_branches_of_a_condition_are_followed() -> None:
    found = followed("conditional_2.13")
    assert found.branches == 1
    assert [call.name for call in found.calls] == [
        "triton_poi_fused_sin_0",
        "triton_poi_fused_add_cos_1",
    ]
    assert found.calls[0].arguments[0].name == "arg1_1"


def test_what_cuda_graphs_capture_is_followed() -> None:
    found = follow_body(
        "partition0_args = [arg0_1]\n(buf1,) = self.partitions[0](partition0_args)\n"
        "extern_kernels.mm(buf1, arg0_1, out=buf2)",
        partition_0="arg0_1, = args\n"
        "buf1 = empty_strided_cuda((8, 8), (8, 1), torch.float32)\n"
        "extern_kernels.mm(arg0_1, arg0_1, out=buf1)\nreturn (buf1,)",
    )
    assert [call.name for call in found.calls] == ["extern_kernels.mm"] * 2
    assert found.calls[1].arguments[0].shape == (8, 8)


def test_a_buffer_that_is_used_again_goes_by_its_new_name() -> None:
    found = follow_body(
        "buf0 = empty_strided_cuda((8, 4), (4, 1), torch.float32)\n"
        "buf1 = reinterpret_tensor(buf0, (4, 8), (8, 1), 0); del buf0\n"
        "extern_kernels.mm(buf1, buf1, out=buf1)"
    )
    assert found.calls[0].arguments[0] == Tensor("buf1", (4, 8), (8, 1), "float32", first="buf0")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8192*4", 32768), ("(7 + 1)//2", 4), ("max(1, 3)", 3), ("-5", -5), ("2**3", 8),
        ("2**1000000", None), ("1 << 100000", None), ("7 // 0", None), ("unheard_of", None),
        ("'a' * 10", None), ("open('/etc/passwd')", None), ("math.ceil(2.5)", 3),
    ],
)  # fmt: skip
def test_sizes_are_computed_and_nothing_else(text: str, value: int | None) -> None:
    found = follow_body(f"s0 = {text}\nextern_kernels.mm(s0)")
    assert found.calls[0].arguments == [value]


@pytest.mark.parametrize(
    "line",
    [
        "empty_strided_cuda()", "x = reinterpret_tensor()", "copy_if_misaligned()",
        "assert_size_stride()", "x = buf[9]", "x, y = 3", "x = self.partitions[9]()",
        "call(1)", "x = call(args)", "x = a.b.c[1](2)(3)", "x.copy_()", "workspace[0].sum()",
        "x = workspace[0].view().sum().to()", "x = aten.y()[2][3]", "x = " + "(" * 60 + ")" * 60,
    ],
)  # fmt: skip
def test_nonsense_is_passed_over(line: str) -> None:
    assert follow_body(f"{line}\nextern_kernels.mm(arg0_1)").calls[-1].name == "extern_kernels.mm"
