"""Operations of kernels, against numbers counted by hand."""

from __future__ import annotations

import pytest
from handmade_html import source

from perfcli.facts.source.operations import count_operations

SIZES = {"x": 10, "r0_": 100}
LOOPED = """
@triton.jit
def triton_red_fused_0(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK, R0_BLOCK):
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    x0 = xindex
    _tmp6 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_1 = r0_index
        tmp2 = tl.load(in_ptr0 + (r0_1 + 512*x0), r0_mask, other=0.0).to(tl.float32)
        tmp4 = tmp2 * tmp2
        tmp5 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
        tmp7 = _tmp6 + tmp5
        _tmp6 = tl.where(r0_mask, tmp7, _tmp6)
    tmp6 = tl.sum(_tmp6, 1)[:, None]
    tmp8 = tl.full([1, 1], 512.0, tl.float32)
    tmp9 = (tmp6 / tmp8)
    tmp12 = libdevice.rsqrt(tmp9)
    tl.store(out_ptr0 + (x0), tmp12, None)
"""
MIX_ORDER = """
@triton.jit
def triton_per_fused_1(in_ptr0, in_ptr1, ws_ptr, xnumel, r0_numel, XBLOCK, RSPLIT_SIZE):
    accum0 = tl.full([R0_BLOCK], 0, tl.float32)[None, :]
    for _ in tl.range(0, split_size, XBLOCK, num_stages=NUM_STAGES):
        x0 = xindex
        xindex += XBLOCK
        tmp0 = tl.load(in_ptr0 + (r0_1 + 512*x0), None)
        tmp1 = tl.load(in_ptr1 + (x0), None)
        tmp2 = tmp1 + tmp1
        tmp3 = tmp0 * tmp2
        tmp4 = tl.sum(tmp3, 0)
        tmp5 = accum0 + tmp4
        accum0 = tmp5
    tl.store(ws_ptr + (r0_index), accum0, r0_mask)
"""
WITHOUT_X_BLOCK = """
@triton.jit
def triton_per_fused_2(in_ptr0, out_ptr0, xnumel, r0_numel):
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 64*x0), None)
    tmp1 = tl.broadcast_to(tmp0, [R0_BLOCK])
    tmp2 = triton_helpers.promote_to_tensor(triton_helpers.max2(tmp1, 0))
    tmp3 = tl_math.exp(tmp2)
    tl.store(out_ptr0 + (x0), tmp3, None)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # squared, added up, summed over the row; divided and its root taken once a row
        (LOOPED, 3 * 10 * 100 + 2 * 10),
        # doubled once a row; times each value; summed over the rows; added once a column
        (MIX_ORDER, 10 + 10 * 100 + 10 * 100 + 100),
        (WITHOUT_X_BLOCK, 10 * 100 + 10),
    ],
)
def test_operations_are_counted_once_for_each_value(text: str, expected: int) -> None:
    assert count_operations(text, SIZES) == expected


def test_what_a_loop_leaves_over_is_no_further_work() -> None:
    """A peeled loop's rest has the same statements, for elements that are counted already."""
    start = LOOPED.index("    for r0_offset")
    end = LOOPED.index("    tmp6 = tl.sum")
    loop = LOOPED[start:end]
    main = loop.replace("(0, r0_numel,", "(0, r0_full,")
    peeled = LOOPED[:start] + main + loop.replace("(0, r0", "(r0_full, r0") + LOOPED[end:]
    assert count_operations(peeled, SIZES) == count_operations(LOOPED, SIZES)


def test_a_pointwise_kernel_counts_its_operators() -> None:
    assert count_operations(source("triton_poi_fused_add_0", 5), {"x": 1000}) == 5 * 1000


@pytest.mark.parametrize(
    "text", ["", "not python (", "def f(x): pass", LOOPED.replace("_tmp6 + tmp5", "tl.dot(a, b)")]
)
def test_what_cannot_be_counted_is_not_known(text: str) -> None:
    assert count_operations(text, SIZES) is None
    assert count_operations(LOOPED, {}) is None
