"""Wrappers that Inductor wrote, of torch 2.11 and 2.13, whole and broken."""

from __future__ import annotations

import pytest
from wrappers import text_of

from perfcli.importing.sources.wrapper import read_wrapper

MIX_ORDER = "triton_per_fused__fused_rms_norm__fused_rms_norm_backward_0"
CAST = "triton_poi_fused__fused_rms_norm_backward_1"


@pytest.mark.parametrize("version", ["2.11", "2.13"])
def test_it_finds_kernels_functions_and_examples(version: str) -> None:
    wrapper = read_wrapper(text_of(f"rmsnorm_backward_{version}"))
    assert wrapper.label == "0_backward"
    assert [kernel.name for kernel in wrapper.kernels] == [MIX_ORDER, CAST]
    kinds = [kernel.definition.kind for kernel in wrapper.kernels]
    assert kinds == ["mix-order-reduction", "pointwise"]
    assert "call" in wrapper.functions
    assert wrapper.examples
    assert wrapper.missing == ()


def test_a_kernel_has_its_text_name_and_comment() -> None:
    kernel = read_wrapper(text_of("user_kernel_2.13")).kernels[1]
    assert kernel.name == "my_kernel_0"
    assert kernel.definition.name == "my_kernel"
    assert kernel.definition.kind == "user"
    assert kernel.definition.source.startswith("import triton\n")
    assert kernel.comment == ("# Original path: /home/user/model.py:9",)


def test_cpp_kernels_are_found() -> None:
    wrapper = read_wrapper(text_of("layernorm_cpu_2.13"))
    assert [k.definition.language for k in wrapper.kernels] == ["cpp"]
    assert wrapper.kernels[0].name == "cpp_fused_gelu_native_layer_norm_0"


def test_a_text_that_is_cut_off_in_the_call_keeps_its_kernels_and_launches() -> None:
    text = text_of("rmsnorm_backward_2.13")
    cut = text[: text.index("triton_poi_fused__fused_rms_norm_backward_1.run(buf2") + 54]
    wrapper = read_wrapper(cut)
    assert [kernel.name for kernel in wrapper.kernels] == [MIX_ORDER, CAST]
    lines = cut[cut.index("def call") :].splitlines()
    whole, *rest = wrapper.missing
    assert whole.startswith("it is no whole Python: line ")
    assert rest == [f"1 of {len(lines) - 1} lines of call can't be read"]


def test_a_text_that_is_cut_off_between_two_lines_is_told() -> None:
    text = text_of("rmsnorm_backward_2.13")
    wrapper = read_wrapper(text[: text.index("            del workspace_0")])
    assert wrapper.missing == ("it is cut off: its function call returns nothing",)


def test_a_text_that_is_cut_off_in_a_kernel_keeps_those_before_it() -> None:
    text = text_of("rmsnorm_backward_2.13")
    wrapper = read_wrapper(text[: text.index("def triton_poi_fused") + 40])
    assert [kernel.name for kernel in wrapper.kernels] == [MIX_ORDER]
    assert f"the source of {CAST} is cut off" in wrapper.missing
    assert "its function call, which launches the kernels, is missing" in wrapper.missing


def test_a_broken_line_takes_nothing_else_with_it() -> None:
    text = text_of("rmsnorm_backward_2.13").replace("del workspace_0", "del del workspace_0")
    wrapper = read_wrapper(text)
    assert len(wrapper.kernels) == 2
    assert wrapper.label == "0_backward"
    assert sum("lines of call can't be read" in each for each in wrapper.missing) == 1


@pytest.mark.parametrize(
    "text", ["", "\0\0", "\x7fELF\x00", "(" * 10_000, "call(", "a = " + "-" * 50_000 + "1"]
)
def test_what_is_no_wrapper_has_nothing_and_says_so(text: str) -> None:
    wrapper = read_wrapper(text)
    assert wrapper.kernels == ()
    assert wrapper.missing
