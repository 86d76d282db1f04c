"""Loops of reductions: what is peeled, what is left alone, and that results stay the same."""

from __future__ import annotations

import ast
import importlib.util

import pytest
from interpreted import generate, interpret
from warm import WarmProcess

from perfcli.compile.patches.peeled_loops import has_masked_loops, peel_loops

HAS_TRITON = importlib.util.find_spec("triton") is not None

HEAD = """
@triton_heuristics.reduction(
    size_hints={{'x': 32768, 'r0_': 65536}},
    triton_meta={{'signature': {signature}, 'constants': {{}}}},
    inductor_meta={{'num_load': 2}}
)
@triton.jit
def Placeholder.KERNEL_NAME({arguments}, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK):
    {numel}
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x0 = xindex
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
"""
LOOP = """    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        r0_1 = r0_index
{body}
"""
SUM = """        tmp0 = tl.load(in_ptr0 + (r0_1 + {row}), r0_mask & xmask, other=0.0).to(tl.float32)
        tmp4 = _tmp3 + tmp0
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)"""
STORE = "        tl.store({pointer} + (r0_1 + {row}), tmp0, r0_mask & xmask)"


def source(*bodies: str, numel: str = "r0_numel = 50257", **pointers: str) -> str:
    signature = pointers or {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}
    head = HEAD.format(signature=signature, arguments=", ".join(signature), numel=numel)
    return head + "".join(LOOP.format(body=body) for body in bodies)


def peeled(text: str) -> str:
    """The kernel, peeled; it parses once its placeholder is replaced."""
    found = peel_loops(text)
    assert found is not None
    ast.parse(found.replace("Placeholder.", ""))
    return found


def test_whole_tiles_begin_with_a_cache_line_and_the_rest_has_the_mask() -> None:
    found = peeled(source(SUM.format(row="50257*x0")))
    assert "    R0_VECTOR: tl.constexpr = 8 if R0_BLOCK > 8 else R0_BLOCK\n" in found
    assert "inductor_meta={'loop_peeling': 8, 'num_load': 2}" in found
    main, rest = found.split("    for r0_offset in tl.range(r0_full, r0_numel, R0_BLOCK):\n")
    assert main.endswith(
        """
    r0_head = (-(50257 * x0) & 63).to(tl.int32)
    r0_full = (r0_numel - 63) // R0_BLOCK * R0_BLOCK
    for r0_offset in tl.range(0, r0_full, R0_BLOCK):
        r0_index = r0_offset + r0_base + r0_head
        r0_mask = tl.full([R0_BLOCK], True, tl.int1)[None, :]
        roffset = r0_offset
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + tl.multiple_of(r0_1 + 50257 * x0, [1, R0_VECTOR]), \
r0_mask & xmask, other=0.0).to(tl.float32)
        tmp4 = _tmp3 + tmp0
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
"""
    )
    assert (
        rest.strip()
        == """
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_index = tl.where(r0_index < r0_full + r0_head, r0_index - r0_full, r0_index)
        roffset = r0_offset
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 50257 * x0), r0_mask & xmask, other=0.0).to(tl.float32)
        tmp4 = _tmp3 + tmp0
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
""".strip()
    )


@pytest.mark.parametrize("columns", [0, 1, 7, 8, 50, 64, 1023, 1027, 5000])
@pytest.mark.parametrize("start", [0, 1, 7, 50257, -3])
@pytest.mark.parametrize("tile", [64, 128, 1024])
def test_both_loops_together_read_every_element_once(columns: int, start: int, tile: int) -> None:
    """The arithmetic of the lines above, in Python."""
    head = -start & 63
    full = (max(columns, 63) - 63) // tile * tile
    seen = [at + lane + head for at in range(0, full, tile) for lane in range(tile)]
    assert all((start + index) % 64 == 0 for index in seen[::64])
    for at in range(full, columns, tile):
        rest = range(at, min(at + tile, columns))
        seen += [index - full if index < full + head else index for index in rest]
    assert sorted(seen) == list(range(columns))


def test_rows_that_begin_at_multiples_of_16_bytes_are_not_moved() -> None:
    found = peeled(source(SUM.format(row="50304*x0")))
    assert "r0_head" not in found
    assert "multiple_of" not in found
    assert "r0_full = r0_numel // R0_BLOCK * R0_BLOCK" in found


@pytest.mark.parametrize(
    ("numel", "full"),
    [
        ("r0_numel = 50257", "r0_full = (r0_numel - 63) //"),
        ("pass", "r0_full = (tl.maximum(r0_numel, 63) - 63) //"),
        ("r0_numel = 62", "r0_full = (tl.maximum(r0_numel, 63) - 63) //"),
    ],
)
def test_a_length_that_is_not_known_may_be_shorter_than_a_vector(numel: str, full: str) -> None:
    assert full in peeled(source(SUM.format(row="ks0*x0"), numel=numel))


def test_tiles_go_by_the_rows_of_most_accesses() -> None:
    """Of two 2-byte buffers that begin elsewhere the more frequent; four bytes weigh less."""
    padded, odd = SUM.format(row="50304*x0"), SUM.format(row="50257*x0")
    second = odd.replace("in_ptr0", "in_ptr1")
    types = {"in_ptr0": "*bf16", "in_ptr1": "*bf16", "out_ptr0": "*fp32"}
    store = STORE.format(pointer="out_ptr0", row="50304*x0")
    assert "r0_head" not in peeled(source(f"{padded}\n{second}\n{store}", **types))
    found = peeled(source(f"{odd}\n{second}\n{store}", **types))
    assert found.count("tl.multiple_of(r0_1 + 50257 * x0, [1, R0_VECTOR])") == 2
    assert "tl.store(out_ptr0 + (r0_1 + 50304 * x0)" in found
    two = peeled(source(padded, odd))  # each loop for itself
    assert two.count("r0_head = ") == 1


def test_what_a_loop_wrote_is_read_after_a_barrier() -> None:
    written = f"{SUM.format(row='50257*x0')}\n{STORE.format(pointer='out_ptr0', row='50257*x0')}"
    read = SUM.format(row="50257*x0").replace("in_ptr0", "out_ptr0")
    assert peeled(source(written, SUM.format(row="50257*x0"))).count("tl.debug_barrier()") == 0
    found = peeled(source(written, read))
    assert found.index("tl.debug_barrier()") > found.index("tl.range(r0_full, r0_numel")


SOFTMAX = """        tmp2 = tl.load(in_ptr0 + (r0_1 + 50257*x0), r0_mask, other=0.0).to(tl.float32)

        _tmp3_max_next, _tmp3_sum_next = triton_helpers.online_softmax_combine(
            _tmp3_max, _tmp3_sum, tmp2, False
        )

        _tmp3_max = tl.where(r0_mask, _tmp3_max_next, _tmp3_max)
        _tmp3_sum = tl.where(r0_mask, _tmp3_sum_next, _tmp3_sum)"""
STARTS = """    _tmp3_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp3_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
"""


def softmax(body: str = SOFTMAX, starts: str = STARTS) -> str:
    loop = LOOP.format(body=body)
    after = (
        "    tmp3, tmp4 = triton_helpers.online_softmax_reduce(_tmp3_max, _tmp3_sum, 1, False)\n"
    )
    return source().rstrip("\n") + "\n" + starts + loop + after


def test_neighbours_share_the_exponential_of_an_online_softmax() -> None:
    found = peeled(softmax())
    assert "_tmp3_max = tl.full([XBLOCK, R0_BLOCK // R0_VECTOR], float('-inf'), tl" in found
    assert "_tmp3_sum = tl.zeros([XBLOCK, R0_BLOCK // R0_VECTOR], tl.float32)" in found
    assert "online_softmax_combine" not in found
    assert found.count("[XBLOCK, R0_BLOCK // R0_VECTOR, R0_VECTOR])") == 2
    assert "tl.max(_tmp3_max_group, 2)" in found


@pytest.mark.parametrize(
    ("after", "function"),
    [
        ("tmp3 = tmp3[:, None]", "tl.max("),
        ("tl.store(out_ptr0 + x0, tmp3, xmask)", "triton_helpers.max2("),
        ("tmp5 = tmp3.to(tl.bfloat16)", "triton_helpers.max2("),
    ],
)
def test_a_maximum_that_is_seen_is_nan_where_an_element_is(after: str, function: str) -> None:
    assert f"{function}_tmp3_max_group, 2)" in peeled(f"{softmax()}    {after}\n")


@pytest.mark.parametrize(
    "text",
    [
        softmax(SOFTMAX + "\n        tmp9 = _tmp3_max_next"),
        softmax(
            SOFTMAX.replace("tl.where(r0_mask, _tmp3_sum_next", "tl.where(xmask, _tmp3_sum_next")
        ),
        softmax(starts=STARTS.replace("[XBLOCK, R0_BLOCK], tl", "[XBLOCK, 1], tl")),
    ],
    ids=["used elsewhere", "another mask", "another shape"],
)
def test_an_online_softmax_of_another_form_is_peeled_as_it_is(text: str) -> None:
    found = peeled(text)
    assert found.count("online_softmax_combine") == 2
    assert "R0_BLOCK // R0_VECTOR" not in found


GOOD = source(SUM.format(row="50257*x0"))
UNFIT = {
    "no contiguous access": source(SUM.format(row="x0").replace("r0_1 +", "50257*r0_1 +")),
    "a scan": GOOD.replace("tmp4 =", "tmp5 = tl.associative_scan(tmp0, 1, add)\n        tmp4 ="),
    "another range": GOOD.replace("tl.range(0, r0_numel", "tl.range(rsplit_start, rsplit_end"),
    "a loop in the loop": GOOD.replace("tmp4 =", "for i in range(3): pass\n        tmp4 ="),
    "the offset is used": GOOD.replace("tmp4 =", "tmp5 = roffset + 1\n        tmp4 ="),
    "the mask is changed": GOOD.replace("tmp4 =", "r0_mask = r0_mask & xmask\n        tmp4 ="),
    "three axes": GOOD.replace("[None, :]", "[None, None, :]"),
    "persistent": GOOD.replace("heuristics.reduction", "heuristics.persistent_reduction"),
    "block pointers": GOOD.replace("tmp4 =", "tmp5 = tl.make_block_ptr(in_ptr0)\n        tmp4 ="),
    "no Python": GOOD.replace("tmp4 =", "tmp4 = ="),
    "not ASCII": GOOD.replace("'num_load'", "'µ'"),
    "peeled before": peel_loops(GOOD) or "",
}


@pytest.mark.parametrize("text", UNFIT.values(), ids=UNFIT)
def test_what_is_not_understood_is_left_alone(text: str) -> None:
    assert peel_loops(text) is None


def test_only_masked_loops_of_reductions_are_meant() -> None:
    assert has_masked_loops(GOOD)
    assert not has_masked_loops(UNFIT["persistent"])
    assert not has_masked_loops(GOOD.replace("r0_index < r0_numel", "tl.full([R0_BLOCK], True, 1)"))


PEELED = ("softmax", "softmax-special", "softmax-padded", "softmax-dynamic", "log-softmax",
          "rmsnorm-fp32", "layernorm", "several", "argmax", "masked", "shifted", "in-place",
          "welford")  # fmt: skip
LEFT = ("cumulative", "columns")


@pytest.mark.torch
@pytest.mark.skipif(not HAS_TRITON, reason="generates and interprets Triton kernels")
def test_peeled_kernels_compute_what_eager_computes(warm_process: WarmProcess) -> None:
    """In Triton's interpreter, with tiles shorter and longer than the rows, NaN and infinities
    included. Kernels that the patch leaves alone are torch's own, byte for byte."""
    setting = "split_reductions=false,patch.loop_peeling"
    asked = [*(f"{name},{setting}=true" for name in PEELED)]
    asked += [f"{name},{setting}={value}" for name in LEFT for value in ("true", "false")]
    made = generate(warm_process, asked)
    peeled, left = made[: len(PEELED)], made[len(PEELED) :]
    assert [each["acted"] for each in peeled] == [{"patch.loop_peeling": 1}] * len(PEELED)
    for patched, plain in zip(left[::2], left[1::2], strict=True):
        assert patched["modules"] == plain["modules"]
        assert "left 1 kernel as torch has it" in patched["notes"][0]
    blocks = ("XBLOCK=2,R0_BLOCK=512", "XBLOCK=1,R0_BLOCK=4096")
    found = interpret(warm_process, peeled, blocks)
    assert [each["name"] for each in found] == [name for name in PEELED for _ in blocks]
    assert {each["name"]: max(each["errors"]) for each in found if max(each["errors"]) > 1} == {}
