"""The choice against the real chooser, which picks without running a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from perfcli.compile.stand_in.attention.backend import AttentionCall, TensorSpec, _choose

pytestmark = [pytest.mark.gpu, pytest.mark.torch]

# name: query shape, and what differs from key = value = query, bfloat16, inference.
CALLS: dict[str, dict[str, Any]] = {
    "causal": {"is_causal": True},
    "causal float16": {"is_causal": True, "dtype": "float16"},
    "float32": {"dtype": "float32"},
    "float64": {"dtype": "float64"},
    "head dimension 256": {"dim": 256},
    "head dimension 256 training": {"dim": 256, "grad": True},
    "head dimension 192 training": {"dim": 192, "grad": True},
    "head dimensions 192 and 128": {"dim": 192, "value_dim": 128, "grad": True},
    "head dimension 512": {"dim": 512},
    "head dimension 72": {"dim": 72},
    "head dimension 76": {"dim": 76},
    "head dimension 66 float32": {"dim": 66, "dtype": "float32"},
    "dropout 0.1": {"dropout": 0.1, "grad": True},
    "dropout 0.125": {"dropout": 0.125, "grad": True},
    "decoding": {"queries": 1, "keys": 64},
    "decoding with dropout": {"queries": 1, "keys": 64, "dropout": 0.5},
    "one key": {"keys": 1},
    "no key": {"keys": 0},
    "causal, not square": {"is_causal": True, "keys": 512},
    "grouped queries": {"kv_heads": 2, "gqa": True},
    "grouped queries float32": {"kv_heads": 2, "gqa": True, "dtype": "float32"},
    "one key head": {"kv_heads": 1},
    "heads do not divide": {"kv_heads": 3, "gqa": True},
    "mask": {"mask": (256, 256)},
    "boolean mask": {"mask": (1, 1, 256, 256), "mask_dtype": "bool"},
    "mask that broadcasts": {"mask": (2, 1, 1, 256)},
    "3-dimensional mask": {"mask": (8, 256, 256)},
    "mask with gradient": {"mask": (256, 256), "mask_grad": True},
    "mask of one column expanded": {"mask": (256, 1), "mask_expanded": (256, 256)},
    "transposed layout": {"transposed": True, "is_causal": True},
    "head dimension not contiguous": {"turned": True},
    "odd storage offset, float32": {"offset": 1, "dtype": "float32"},
    "batch beyond a grid": {"batch": 65536, "heads": 1, "queries": 16},
    "no batch dimension": {"batch": None},
}


def _tensor(shape: tuple[int, ...], case: dict[str, Any], torch: Any) -> Any:
    dtype = getattr(torch, case.get("dtype", "bfloat16"))
    offset = case.get("offset", 0)
    size = max(1, int(torch.Size(shape).numel()))
    if case.get("transposed"):
        shape = (shape[0], shape[2], shape[1], shape[3])
    if case.get("turned"):
        shape = (*shape[:-2], shape[-1], shape[-2])
    flat = torch.zeros(size + offset, dtype=dtype, device="cuda")
    out = flat[offset : offset + int(torch.Size(shape).numel())].view(shape)
    if case.get("transposed"):
        out = out.transpose(1, 2)
    if case.get("turned"):
        out = out.transpose(-1, -2)
    return out.requires_grad_(case.get("grad", False))


def _arguments(case: dict[str, Any], torch: Any) -> tuple[Any, Any, Any, Any]:
    heads, queries, dim = case.get("heads", 8), case.get("queries", 256), case.get("dim", 64)
    kv_heads, keys = case.get("kv_heads", heads), case.get("keys", queries)
    batch = () if case.get("batch", 2) is None else (case.get("batch", 2),)
    query = _tensor((*batch, heads, queries, dim), case, torch)
    key = _tensor((*batch, kv_heads, keys, dim), case, torch)
    value = _tensor((*batch, kv_heads, keys, case.get("value_dim", dim)), case, torch)
    mask = None
    if "mask" in case:
        dtype = getattr(torch, case.get("mask_dtype", "bfloat16"))
        mask = torch.zeros(case["mask"], dtype=dtype, device="cuda")
        mask = mask.expand(case.get("mask_expanded", case["mask"]))
        mask = mask.requires_grad_(case.get("mask_grad", False))
    return query, key, value, mask


def _spec(tensor: Any) -> TensorSpec:
    return TensorSpec(
        tuple(tensor.shape),
        tuple(tensor.stride()),
        str(tensor.dtype).removeprefix("torch."),
        tensor.requires_grad,
        tensor.storage_offset(),
    )


@pytest.mark.parametrize("name", CALLS)
def test_real_device_chooses_the_same(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    if not torch.cuda.is_available() or torch.version.cuda is None:
        pytest.skip("no CUDA device")
    case = CALLS[name]
    query, key, value, mask = _arguments(case, torch)
    dropout, causal, gqa = case.get("dropout", 0.0), case.get("is_causal", False), "gqa" in case
    real = torch._fused_sdp_choice(query, key, value, mask, dropout, causal, enable_gqa=gqa)
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:3])
    call = AttentionCall(
        query=_spec(query),
        key=_spec(key),
        value=_spec(value),
        mask=None if mask is None else _spec(mask),
        dropout_p=dropout,
        is_causal=causal,
        enable_gqa=gqa,
        capability=torch.cuda.get_device_capability(),
        torch_version=version,
        cudnn_version=torch.backends.cudnn.version(),
    )
    assert int(_choose(call)) == real
