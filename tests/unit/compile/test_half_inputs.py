"""Rows of half precision in persistent reductions: what is kept, converted again, left alone."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from interpreted import generate, interpret
from warm import WarmProcess

from perfcli.compile.patches.half_inputs import holds_rows, keep_halves
from perfcli.compile.patches.recompute import _next_power
from perfcli.facts.source.triton import triton_facts

HAS_TRITON = importlib.util.find_spec("triton") is not None
KERNELS = Path(__file__).parents[2] / "fixtures" / "kernels"

SOURCE = """import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics

@triton_heuristics.persistent_reduction(
    size_hints={{'x': 32768, 'r0_': 4096}},
    triton_meta={{'signature': {{'in_ptr0': '{kind}', 'in_ptr1': '*bf16', 'out_ptr0': '*bf16'}}, \
'device': DeviceProperties(type='cuda', index=0)}},
    inductor_meta={{'num_load': 2}}
)
@triton.jit
def kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    r0_numel = 4096
    R0_BLOCK: tl.constexpr = 4096
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 4096*x0), None).to(tl.float32)
    tmp12 = tl.load(in_ptr1 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
{middle}
    tmp13 = tmp12.to(tl.float32)
    tmp14 = tmp11 * tmp13
    tl.store(out_ptr0 + (r0_1 + 4096*x0), tmp14, None)
"""
RMS = """    tmp2 = tmp1 * tmp1
    tmp5 = tl.sum(tmp2, 1)[:, None].to(tl.float32)
    tmp11 = tmp1 * tmp5"""
VARIANCE = """    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp5 = tl.sum(tmp2, 1)[:, None].to(tl.float32)
    tmp6 = tmp2 - tmp5
    tmp7 = tl.sum(tmp6 * tmp6, 1)[:, None].to(tl.float32)
    tmp8 = tmp1 - tmp5
    tmp11 = tmp8 * tmp7"""
SOFTMAX = """    tmp5 = triton_helpers.max2(tmp1, 1)[:, None].to(tl.float32)
    tmp6 = tmp1 - tmp5
    tmp7 = libdevice.exp(tmp6)
    tmp8 = tl.sum(tmp7, 1)[:, None].to(tl.float32)
    tmp9 = tmp1 - tmp5
    tmp10 = libdevice.exp(tmp9)
    tmp11 = tmp10 * tmp8"""


def source(middle: str = RMS, kind: str = "*bf16") -> str:
    return SOURCE.format(middle=middle, kind=kind)


def rewritten(text: str) -> str:
    found = keep_halves(text, 1024)
    assert found is not None
    return found


def test_what_was_loaded_is_kept_and_converted_again_behind_the_reduction() -> None:
    found = rewritten(source())
    assert found.split("    x0 = xindex\n")[1] == (
        """    tmp0_half = tl.load(in_ptr0 + (r0_1 + 4096 * x0), None)
    tmp0 = tmp0_half.to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tmp1 * tmp1
    tmp5 = tl.sum(tmp2, 1)[:, None].to(tl.float32)
    tmp0_again1 = tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [tmp0_half], \
dtype=tl.bfloat16, is_pure=False, pack=2).to(tl.float32)
    tmp11 = tmp0_again1 * tmp5
    tmp12 = tl.load(in_ptr1 + r0_1, None, eviction_policy='evict_last').to(tl.float32)
    tmp13 = tmp12.to(tl.float32)
    tmp14 = tmp11 * tmp13
    tl.store(out_ptr0 + (r0_1 + 4096*x0), tmp14, None)
"""
    )
    assert "inductor_meta={'recompute_half_inputs': (8, 16, 32), 'num_load': 2}" in found
    assert "dtype=tl.float16" in rewritten(source(kind="*fp16"))


def test_the_facts_agree_that_no_copy_is_held() -> None:
    assert triton_facts(source(), "kernel").held_copies == ("in_ptr0",)
    assert triton_facts(rewritten(source()), "kernel").held_copies == ()


def test_behind_each_reduction_the_row_is_converted_anew() -> None:
    found = rewritten(source(VARIANCE))
    assert "tmp6 = tmp0_again1 - tmp5" in found
    assert "tmp8 = tmp0_again2 - tmp5" in found
    assert found.index("tmp0_again2 =") > found.index("tmp7 =")


def test_functions_are_not_computed_twice() -> None:
    """Of values that are converted anew, an exponential would be as well."""
    found = rewritten(source(SOFTMAX))
    assert "tmp6 = tmp0_again1 - tmp5" in found
    assert "tmp9 = tmp0_again1 - tmp5" in found
    assert "again2" not in found


@pytest.mark.parametrize(
    ("name", "held"), [("rms_norm_persistent", 1), ("rms_norm_backward", 0), ("mix_order", 0)]
)
def test_inductors_code(name: str, held: int) -> None:
    """What rms_norm's backward sums is a product of two rows: keeping them as halves takes as many
    registers as keeping the product."""
    text = (KERNELS / f"{name}.py.txt").read_text()
    found = keep_halves(text, 1 << 20)
    assert (found or "").count("inline_asm_elementwise") == held
    if found:
        kernel = re.findall(r"^def (triton_\w+)", text, re.M)[-1]
        assert triton_facts(found, kernel).held_copies == ()


UNFIT = {
    "float32": source(kind="*fp32"),
    "used in front only": source(RMS.replace("tmp1 * tmp5", "tmp5 + 1.0")),
    "a loop": source(f"    for i in range(3): pass\n{RMS}"),
    "no reduction": source(RMS.replace("tl.sum(tmp2, 1)[:, None].to(tl.float32)", "tmp2 + 1.0")),
    "of all rows": source().replace("in_ptr0 + (r0_1 + 4096*x0)", "in_ptr0 + (r0_1)"),
    "no Python": source().replace("tmp14 =", "tmp14 = ="),
}


@pytest.mark.parametrize("text", UNFIT.values(), ids=UNFIT)
def test_what_keeps_no_copy_is_left_alone(text: str) -> None:
    assert keep_halves(text, 4096) is None


def test_long_rows_without_copies_get_their_launch_configurations() -> None:
    found = keep_halves(UNFIT["used in front only"], 1024)
    assert found is not None
    assert "inline_asm" not in found
    assert "'recompute_half_inputs': (8, 16, 32)" in found


def test_only_half_precision_on_nvidia_is_meant() -> None:
    assert holds_rows(source())
    assert not holds_rows(source().replace("*bf16", "*fp32"))
    assert not holds_rows(source().replace("type='cuda'", "type='hip'"))
    assert not holds_rows(source().replace("persistent_reduction(", "reduction("))


def test_weights_that_are_written_stay_where_they_are() -> None:
    found = rewritten(source().replace("tl.store(out_ptr0", "tl.store(in_ptr1"))
    assert found.index("tmp12 = tl.load") < found.index("tmp5 = tl.sum")


@pytest.mark.parametrize(("size", "power"), [(1, 1), (1025, 2048), (2048, 2048), (6144, 8192)])
def test_rows_fill_a_power_of_two(size: int, power: int) -> None:
    assert _next_power(size) == power


HELD = ("held-rmsnorm", "held-rmsnorm-fp16", "held-rmsnorm-masked", "held-rmsnorm-short",
        "held-layernorm", "held-softmax", "held-several", "held-residual")  # fmt: skip
LEFT = ("fp32", "too-long", "too-empty")


@pytest.mark.torch
@pytest.mark.skipif(not HAS_TRITON, reason="generates and interprets Triton kernels")
def test_rewritten_kernels_compute_what_eager_computes(warm_process: WarmProcess) -> None:
    """In Triton's interpreter, NaN and infinities included; kernels that the patch leaves alone are
    torch's own, byte for byte."""
    setting = "split_reductions=false,patch.recompute_half_inputs"
    asked = [*(f"{name},{setting}=true" for name in HELD)]
    asked += [f"{name},{setting}={value}" for name in LEFT for value in ("true", "false")]
    made = generate(warm_process, asked)
    assert [each["acted"] for each in made[: len(HELD)]] == [
        {"patch.recompute_half_inputs": 1}
    ] * len(HELD)
    for patched, plain in zip(made[len(HELD) :: 2], made[len(HELD) + 1 :: 2], strict=True):
        assert patched["modules"] == plain["modules"]
    blocks = ("XBLOCK=1", "XBLOCK=2")
    found = interpret(warm_process, made[: len(HELD)], blocks)
    assert [each["name"] for each in found] == [name for name in HELD for _ in blocks]
    assert {each["name"]: max(each["errors"]) for each in found if max(each["errors"]) > 1} == {}
    # Of several reductions in one kernel each has a use of the row behind it; the residual's sum is
    # no copy of a row.
    again = {each["name"]: str(each["modules"]).count("inline_asm_elementwise") for each in made}
    assert [again[name] for name in HELD] == [1, 1, 1, 1, 2, 1, 3, 0]
