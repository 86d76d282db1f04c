"""From the shim's plain arguments, and from torch's own, to an attention call."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.backends import cuda  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from perfcli.compile import session  # noqa: E402
from perfcli.compile.stand_in.attention import backend, hooks  # noqa: E402
from perfcli.compile.stand_in.attention.backend import Backend, TensorSpec  # noqa: E402
from perfcli.compile.stand_in.attention.hooks import Chooser, _Params  # noqa: E402
from perfcli.compile.stand_in.shim import AttentionArguments, TensorArgument  # noqa: E402
from perfcli.errors import CompileFailed  # noqa: E402
from perfcli.machine import targets  # noqa: E402

pytestmark = pytest.mark.torch

FLOAT32, BOOL, BFLOAT16 = 6, 11, 15  # c10/core/ScalarType.h


def argument(*shape: int, dtype: int = BFLOAT16, grad: bool = False) -> TensorArgument:
    made = TensorArgument(
        defined=1, ndim=len(shape), dtype=dtype, requires_grad=grad, storage_offset=16
    )
    stride = 1
    for dim in reversed(range(len(shape))):
        made.sizes[dim], made.strides[dim] = shape[dim], stride
        stride *= shape[dim]
    return made


def arguments(
    dtype: int = BFLOAT16, mask: TensorArgument | None = None, causal: bool = False
) -> AttentionArguments:
    query, key, value = (argument(2, 8, 256, 64, dtype=dtype) for _ in range(3))
    return AttentionArguments(query, key, value, mask or TensorArgument(), 0.25, causal, 1)


@pytest.fixture
def chooser() -> Chooser:
    return Chooser(targets.get("h100"))


def test_every_argument_arrives(chooser: Chooser) -> None:
    mask = argument(256, 256, dtype=BOOL)
    call = chooser.call_of(arguments(mask=mask, causal=True))
    expected = TensorSpec((2, 8, 256, 64), (131072, 16384, 64, 1), "bfloat16", False, 16)
    assert call.query == call.key == call.value == expected
    assert call.mask == TensorSpec((256, 256), (256, 1), "bool", False, 16)
    assert (call.dropout_p, call.is_causal, call.enable_gqa) == (0.25, True, True)
    assert call.capability == (9, 0)
    assert call.torch_version == tuple(int(p) for p in torch.__version__.split(".")[:2])


def test_an_undefined_mask_is_none(chooser: Chooser) -> None:
    assert chooser.call_of(arguments()).mask is None


def test_a_dtype_outside_the_table_is_not_mistaken(chooser: Chooser) -> None:
    assert chooser.call_of(arguments(dtype=99)).query.dtype == "dtype 99"


def test_nested_if_any_of_the_three_is(chooser: Chooser) -> None:
    made = arguments()
    made.key.nested = 1
    assert chooser.call_of(made).is_nested


@pytest.mark.parametrize(
    ("target", "dtype", "chosen"),
    [
        ("h100", BFLOAT16, Backend.CUDNN),
        ("a100", BFLOAT16, Backend.FLASH),
        ("h100", FLOAT32, Backend.EFFICIENT),
    ],
)
def test_the_targets_choice(target: str, dtype: int, chosen: Backend) -> None:
    made = arguments(dtype, causal=True)
    made.enable_gqa, made.dropout_p = 0, 0.0
    assert Chooser(targets.get(target))(made) == chosen


def test_torchs_switches_count(chooser: Chooser) -> None:
    made = arguments(causal=True)
    with sdpa_kernel(SDPBackend.MATH):
        assert chooser.process()["enabled"] == {Backend.MATH}
        assert chooser(made) == Backend.MATH


def test_a_failure_is_kept_and_does_not_pass_for_a_choice(
    chooser: Chooser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("no rule for this")

    monkeypatch.setattr(backend, "_choose", fail)
    assert chooser(arguments()) == Backend.MATH
    with pytest.raises(CompileFailed, match="attention's backend") as raised:
        session._raise_failures((chooser,))
    assert "no rule for this" in raised.value.detail


def test_torchs_questions_are_answered_by_the_same_rules(
    chooser: Chooser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "SDPAParams",
        "can_use_flash_attention",
        "can_use_efficient_attention",
        "can_use_cudnn_attention",
        "is_flash_attention_available",
    ):
        monkeypatch.setattr(cuda, name, getattr(cuda, name))
    hooks.install(chooser)
    half = torch.empty(2, 8, 256, 64, dtype=torch.bfloat16, device="meta")
    params = cuda.SDPAParams(half, half, half, None, 0.0, True, False)
    assert isinstance(params, _Params)
    assert cuda.can_use_flash_attention(params)
    assert cuda.can_use_cudnn_attention(params)
    single = half.float()
    params = cuda.SDPAParams(single, single, single, None, 0.0, True)
    assert not cuda.can_use_flash_attention(params)
    assert not cuda.can_use_cudnn_attention(params)
    assert cuda.can_use_efficient_attention(params)
    mask = torch.empty(256, 256, dtype=torch.bool, device="meta")
    assert not cuda.can_use_flash_attention(_Params(half, half, half, mask, 0.0, False))
