"""Which rows a persistent reduction holds as float32: read off real and hand-made sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfcli.facts.source.triton import triton_facts

KERNELS = Path(__file__).parents[2] / "fixtures" / "kernels"

BODY = """
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 512*x0), None).to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tmp1 * tmp1
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp4 = tl.sum(tmp3, 1)[:, None].to(tl.float32)
    tmp5 = tmp1 * tmp4
    tl.store(out_ptr0 + (r0_1 + 512*x0), tmp5, None)
"""


def held(body: str, kind: str = "*bf16", heuristic: str = "persistent_reduction") -> object:
    types = {"in_ptr0": kind, "in_ptr1": "*fp16", "out_ptr0": "*bf16"}
    source = (
        "import triton\nimport triton.language as tl\n"
        "from torch._inductor.runtime import triton_helpers, triton_heuristics\n"
        f"@triton_heuristics.{heuristic}(triton_meta={{'signature': {types!r}}})\n"
        f"@triton.jit\ndef kernel({', '.join(types)}, XBLOCK: tl.constexpr):\n{body}\n"
    )
    return triton_facts(source, "kernel").held_copies


# By hand: rms_norm scales the row that it squared; its backward subtracts from the product that it
# summed; the weights are no rows, layer_norm's and softmax's loops read their rows again.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rms_norm_persistent", ("in_ptr0",)),
        ("rms_norm_backward", ("in_ptr0", "in_ptr2")),
        ("mix_order", ()),  # float32
        ("layer_norm", ()),
        ("softmax_online", ()),
        ("pointwise", ()),
    ],
)
def test_inductors_code(name: str, expected: tuple[str, ...]) -> None:
    source = (KERNELS / f"{name}.py.txt").read_text()
    kernel = re.findall(r"^def (triton_\w+)", source, re.M)[-1]
    assert triton_facts(source, kernel).held_copies == expected


def test_a_row_that_is_reduced_and_scaled() -> None:
    assert held(BODY) == ("in_ptr0",)
    assert held(BODY, kind="*fp16") == ("in_ptr0",)


def test_what_is_computed_from_it_counts() -> None:
    assert held(BODY.replace("tmp5 = tmp1 * tmp4", "tmp5 = tl.where(xmask, tmp2, 0.0) - tmp4"))


def test_a_maximum_is_a_reduction() -> None:
    assert held(BODY.replace("tl.sum(tmp3", "triton_helpers.max2(tmp3"))


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("not used again", "tmp5 = tmp1 * tmp4", "tmp5 = tmp4"),
        ("loaded again", "tmp5 = tmp1 *", "tmp5 = tl.load(in_ptr0 + (r0_1 + 512*x0), None) *"),
        ("not reduced", "tmp2 = tmp1 * tmp1", "tmp2 = x0"),
        ("another row", "tmp5 = tmp1 *", "tmp5 = tl.load(in_ptr1 + (r0_1 + 512*x0), None) *"),
        ("used before the result only", "tmp5 = tmp1 * tmp4", "tmp5 = tmp1 * 2.0"),
        ("a weight", "in_ptr0 + (r0_1 + 512*x0)", "in_ptr0 + (r0_1)"),
        ("one value for each row", "in_ptr0 + (r0_1 + 512*x0)", "in_ptr0 + (x0)"),
        ("rounded", "tmp1 = tmp0.to(tl.float32)", "tmp1 = tmp0.to(tl.bfloat16)"),
        ("never float32", ".to(tl.float32)", ""),
    ],
)
def test_what_is_not_held(what: str, before: str, after: str) -> None:
    assert before in BODY, what
    assert held(BODY.replace(before, after)) == (), what


@pytest.mark.parametrize(
    ("conversion", "expected"),
    [
        ("dtype=tl.float32", ("in_ptr0",)),
        ("dtype=tl.float32, bitcast=False", ("in_ptr0",)),
        ("dtype=tl.bfloat16", ()),
        ("", ()),
    ],
)
def test_a_conversion_that_names_its_argument(conversion: str, expected: object) -> None:
    body = BODY.replace("tmp1 = tmp0.to(tl.float32)", f"tmp1 = tmp0.to({conversion})")
    assert body != BODY
    assert held(body) == expected


def test_rows_of_float32_are_no_copies() -> None:
    assert held(BODY, kind="*fp32") == ()


def test_a_looped_reduction_reads_its_row_again() -> None:
    assert held(BODY, heuristic="reduction") == ()
