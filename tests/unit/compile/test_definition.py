"""Bodies as ``define_kernel`` gets them, cut to their head and one line (torch 2.13)."""

from __future__ import annotations

import pytest

from perfcli.compile.capture.definition import (
    Definition,
    _triton_kind,
    parse_definition,
    strip_comments,
)

TRITON = """async_compile.triton('NAME', '''
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={'x': 16384},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32'}},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'FULL', 'mutated_arg_names': []},
    min_elem_per_thread=0
)
@triton.jit
def NAME(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 16384
    x0 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tl.store(out_ptr0 + (x0), tl.load(in_ptr0 + (x0), None), None)
''', device_str='cuda')
"""
CPP = """async_compile.cpp_pybinding(['const float*', 'float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(const float* in_ptr0,
                       float* out_ptr0)
{
    out_ptr0[0] = in_ptr0[0];
}
''')
"""
CHOICE = """async_compile.multi_kernel('multi_kernel_0', [
    triton_red_fused_0,
    triton_per_fused_1,
], arg_index=arg_index)
"""


def triton_body(name: str, full: str = "") -> str:
    return TRITON.replace("NAME", name).replace("FULL", full or name)


def parsed(body: str) -> Definition:
    found = parse_definition(body)
    assert found is not None
    return found


def test_a_triton_kernel() -> None:
    found = parsed(triton_body("triton_poi_fused_add_0"))
    assert (found.name, found.language, found.kind) == (
        "triton_poi_fused_add_0",
        "triton",
        "pointwise",
    )
    assert found.source.startswith("import triton\n")
    assert found.source.endswith("None), None)")


def test_a_cpp_kernel() -> None:
    found = parsed(CPP)
    assert (found.name, found.language, found.kind) == ("kernel", "cpp", "cpp")
    assert found.source.startswith("#include")
    assert found.source.endswith("}")


def test_bare_cpp_text_needs_its_declaration() -> None:
    text = 'extern "C" void kernel(float* out) { out[0] = 0; }\n'
    found = parse_definition(text, 'extern "C" void kernel(float* out);')
    assert found == Definition("kernel", "cpp", text.strip(), "cpp")
    assert parse_definition(text) is None


@pytest.mark.parametrize("body", [CHOICE, "", "3", "f('a', 'b')", "async_compile.wait(globals())"])
def test_what_is_no_kernel_of_its_own(body: str) -> None:
    assert parse_definition(body) is None


def test_the_same_code_under_two_names_is_one() -> None:
    one, two = (
        parsed(triton_body("triton_poi_fused_add_0")),
        parsed(triton_body("triton_poi_mul_7")),
    )
    assert one.source != two.source
    assert one.source_hash == two.source_hash


def test_shortened_names_hide_nothing() -> None:
    one, two = (parsed(triton_body("triton_", f"triton_poi_fused_add_{n}")) for n in (0, 1))
    assert one.name == "triton_"
    assert one.source_hash == two.source_hash


def test_other_code_under_the_same_name_is_another() -> None:
    body = triton_body("triton_poi_fused_add_0")
    other = body.replace("16384", "16385")
    assert parsed(body).source_hash != parsed(other).source_hash


@pytest.mark.parametrize(
    ("decorator", "arguments", "kind"),
    [
        ("@triton_heuristics.pointwise(size_hints={})", "x", "pointwise"),
        ("@triton_heuristics.reduction(size_hints={})", "x", "reduction"),
        ("@triton_heuristics.cooperative_reduction(size_hints={})", "x", "reduction"),
        ("@triton_heuristics.split_scan(size_hints={})", "x", "reduction"),
        ("@triton_heuristics.persistent_reduction(a=1)", "x", "persistent-reduction"),
        ("@triton_heuristics.persistent_reduction(a=1)", "x, RSPLIT_SIZE", "mix-order-reduction"),
        ("@triton_heuristics.template(num_stages=3)", "x", "template"),
        ("@triton_heuristics.foreach(num_warps=8)", "x", "combo"),
        ("@triton_heuristics.pointwise(inductor_meta={'combo_grid_meta': {}})", "x", "combo"),
        ("@triton_heuristics.user_autotune(configs=[])", "x", "user"),
        ("@triton_heuristics.from_the_future(a=1)", "x", "other"),
        ("@triton.jit", "x", "other"),
    ],
)
def test_kinds(decorator: str, arguments: str, kind: str) -> None:
    helper = "@triton.jit\ndef helper(RSPLIT_SIZE):\n    return 1\n"
    source = f"{helper}{decorator}\n@triton.jit\ndef kernel({arguments}):\n    pass\n"
    assert _triton_kind(source, "kernel") == kind


def test_a_source_that_does_not_parse_is_of_another_kind() -> None:
    assert _triton_kind("def (", "kernel") == "other"


def test_comments_are_no_part_of_the_code() -> None:
    """As with ``comment_origin``: lines of their own, and ends of lines; a string keeps its #."""
    plain = parse_definition(TRITON.replace("min_elem_per_thread=0", "note='#1'"))
    said = TRITON.replace("min_elem_per_thread=0", "note='#1'  # of relu")
    origin = "\n    # ORIGIN:\n    # relu => where\n    # END ORIGIN\n\n"
    said = said.replace("    xnumel = 16384\n", f"{origin}    xnumel = 16384\n")
    commented = parse_definition(said)
    other = parse_definition(TRITON.replace("min_elem_per_thread=0", "note='#2'"))
    assert plain is not None
    assert commented is not None
    assert other is not None
    assert plain.source != commented.source
    assert plain.source_hash == commented.source_hash != other.source_hash


def test_empty_lines_go_with_comments_but_not_out_of_texts() -> None:
    plain = "def k(a):\n\n    b = a\n  \n    return b\n"
    assert strip_comments(plain) == "def k(a):\n    b = a\n    return b"
    commented = "def k(a):\n\n    b = '#'  # why\n    # what\n    return b\n"
    assert strip_comments(commented) == "def k(a):\n    b = '#'\n    return b"
    text = 'a = """one\n\ntwo"""\n'
    assert strip_comments(text) == text.rstrip("\n")
