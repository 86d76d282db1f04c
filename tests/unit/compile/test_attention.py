"""Each row names the rule of torch's C++ chooser that decides it."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import pytest

from perfcli.compile.stand_in.attention.backend import (
    DEFAULT_ORDER,
    AttentionCall,
    Backend,
    TensorSpec,
    _can_use,
    _choose,
    _cudnn_version,
    _order,
    _reasons,
)

A100, L40S, H200, B200, B300 = (8, 0), (8, 9), (9, 0), (10, 0), (10, 3)
MATH, FLASH, EFFICIENT, CUDNN, ERROR = (
    Backend.MATH,
    Backend.FLASH,
    Backend.EFFICIENT,
    Backend.CUDNN,
    Backend.ERROR,
)
VERSIONS = [(2, 11, 0), (2, 12, 1), (2, 13, 0), (2, 14, 1), (2, 15, 0)]


def tensor(*shape: int, dtype: str = "bfloat16", grad: bool = False, offset: int = 0) -> TensorSpec:
    strides = tuple(abs(prod(shape[i + 1 :])) for i in range(len(shape)))
    return TensorSpec(shape, strides, dtype, grad, offset)


def attention(
    *,
    batch: int = 2,
    heads: int = 8,
    kv_heads: int | None = None,
    queries: int = 256,
    keys: int | None = None,
    dim: int = 64,
    value_dim: int | None = None,
    dtype: str = "bfloat16",
    grad: bool = False,
    version: tuple[int, ...] = (2, 11, 0),
    **rest: Any,
) -> AttentionCall:
    keys = queries if keys is None else keys
    kv_heads = heads if kv_heads is None else kv_heads
    return AttentionCall(
        query=tensor(batch, heads, queries, dim, dtype=dtype, grad=grad),
        key=tensor(batch, kv_heads, keys, dim, dtype=dtype, grad=grad),
        value=tensor(batch, kv_heads, keys, value_dim or dim, dtype=dtype, grad=grad),
        torch_version=version,
        cudnn_version=rest.pop("cudnn", _cudnn_version(version)),
        **rest,
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("capability", "expected"),
    [(A100, FLASH), (L40S, FLASH), (H200, CUDNN), (B200, CUDNN), (B300, CUDNN), ((12, 0), FLASH)],
)
def test_check_prefer_cudnn_attention(
    version: tuple[int, ...], capability: tuple[int, int], expected: Backend
) -> None:
    call = attention(version=version, capability=capability, is_causal=True)
    assert _choose(call) is expected


def test_other_minors_of_blackwell_prefer_cudnn_since_2_13() -> None:
    assert _choose(attention(capability=(10, 1), version=(2, 12, 1))) is FLASH
    assert _choose(attention(capability=(10, 1), version=(2, 13, 0))) is CUDNN


H200_2_11 = [
    ("check_dtypes_low_precision: half", {"dtype": "float16"}, CUDNN),
    ("greater_than_or_equal_sm80_mem_efficient_dtypes", {"dtype": "float32"}, EFFICIENT),
    ("no kernel takes double", {"dtype": "float64"}, MATH),
    ("check_cudnn_tensor_shapes: 256 on sm90", {"dim": 256}, CUDNN),
    ("check_cudnn_tensor_shapes: 256 on sm90, training", {"dim": 256, "grad": True}, CUDNN),
    ("check_cudnn_tensor_shapes: 192 on sm90", {"dim": 192, "grad": True}, CUDNN),
    ("beyond 256 only memory-efficient", {"dim": 512}, EFFICIENT),
    ("multiple of 8: 80", {"dim": 80}, CUDNN),
    ("multiple of 8: 72", {"dim": 72}, CUDNN),
    ("not a multiple of 8: flash pads", {"dim": 76}, FLASH),
    ("not a multiple of 8, not equal", {"dim": 76, "value_dim": 64}, MATH),
    ("value_dim for cuDNN", {"dim": 192, "value_dim": 128}, CUDNN),
    ("float32 alignment 4", {"dim": 68, "dtype": "float32"}, EFFICIENT),
    ("float32 alignment 4 missed", {"dim": 66, "dtype": "float32"}, MATH),
    ("check_cudnn_dropout is not there yet", {"dropout_p": 0.1}, CUDNN),
    ("one query with dropout", {"dropout_p": 0.5, "queries": 1, "keys": 64}, FLASH),
    ("one query", {"queries": 1, "keys": 64}, CUDNN),
    ("one key", {"keys": 1}, FLASH),
    ("check_nonzero_sequence_lengths_dense: q", {"queries": 0, "keys": 8}, MATH),
    ("check_nonzero_sequence_lengths_dense: k", {"keys": 0}, MATH),
    ("causal, not square", {"is_causal": True, "keys": 512}, CUDNN),
    ("check_cudnn_deterministic", {"deterministic": True}, FLASH),
    (
        "check_flash_causal_non_square_seqlens",
        {"is_causal": True, "keys": 512, "deterministic": True},
        EFFICIENT,
    ),
    ("grouped queries", {"kv_heads": 2, "enable_gqa": True}, CUDNN),
    ("heads do not divide", {"kv_heads": 3, "enable_gqa": True}, MATH),
    ("grouped queries unasked", {"kv_heads": 2}, MATH),
    ("one key/value head unasked", {"kv_heads": 1}, MATH),
    ("cuDNN 9.15.0 is too old to come first", {"cudnn": 91500}, FLASH),
    ("TORCH_CUDNN_SDPA_DEPRIORITIZED", {"cudnn_deprioritized": True}, FLASH),
    ("batch beyond a grid", {"batch": 65536}, CUDNN),
]


@pytest.mark.parametrize(
    ("change", "expected"), [row[1:] for row in H200_2_11], ids=[row[0] for row in H200_2_11]
)
def test_h200_with_torch_2_11(change: dict[str, Any], expected: Backend) -> None:
    assert _choose(attention(**change)) is expected


DEVICES = [
    ("flash: 256", A100, {"dim": 256, "grad": True}, FLASH),
    ("sm89 trains up to 192", L40S, {"dim": 192, "grad": True}, FLASH),
    ("sm89 does not train 200", L40S, {"dim": 200, "grad": True}, EFFICIENT),
    ("sm89 runs 200", L40S, {"dim": 200}, FLASH),
    ("grad mode off", L40S, {"dim": 200, "grad": True, "grad_enabled": False}, FLASH),
    ("sm89 trains 256", L40S, {"dim": 256, "grad": True}, FLASH),
    ("… without dropout", L40S, {"dim": 256, "grad": True, "dropout_p": 0.1}, EFFICIENT),
    ("sm80 trains 256 with dropout", A100, {"dim": 256, "grad": True, "dropout_p": 0.1}, FLASH),
    ("sm80 causal, not square", A100, {"is_causal": True, "keys": 512}, EFFICIENT),
    ("sm80 grouped queries", A100, {"kv_heads": 2, "enable_gqa": True}, FLASH),
    ("no GQA in memory-efficient", A100, {"kv_heads": 2, "enable_gqa": True, "dim": 512}, MATH),
    ("sm100 d=192 is not for cuDNN", B200, {"dim": 192}, FLASH),
    ("sm100 d=256 is not for cuDNN", B200, {"dim": 256}, FLASH),
    ("sm100 192/128", B200, {"dim": 192, "value_dim": 128}, CUDNN),
    ("sm80 192/128", A100, {"dim": 192, "value_dim": 128}, EFFICIENT),
    ("bfloat16 before sm80", (7, 5), {}, MATH),
    ("half before sm80", (7, 5), {"dtype": "float16"}, EFFICIENT),
    ("beyond sm121", (13, 0), {}, MATH),
]


@pytest.mark.parametrize(
    ("capability", "change", "expected"), [r[1:] for r in DEVICES], ids=[r[0] for r in DEVICES]
)
def test_devices_with_torch_2_11(
    capability: tuple[int, int], change: dict[str, Any], expected: Backend
) -> None:
    assert _choose(attention(capability=capability, **change)) is expected


# What 2.11, 2.12, 2.13, 2.14 and 2.15 choose, each with its own cuDNN.
C, F, E, M = CUDNN, FLASH, EFFICIENT, MATH
RELEASES = [
    ("check_cudnn_dropout", H200, {"dropout_p": 0.1}, [C, F, F, F, F]),
    ("check_cudnn_dropout: 1/8", H200, {"dropout_p": 0.125}, [C, C, C, C, C]),
    ("grid limits", H200, {"batch": 65536}, [C, C, F, F, E]),
    ("grid limit of flash", A100, {"heads": 65536}, [F, F, F, F, E]),
    ("cuDNN d=256 forward", H200, {"dim": 256}, [C, C, C, C, C]),
    ("cuDNN d=256 forward", B200, {"dim": 256}, [F, F, F, C, C]),
    ("check_cudnn_d256_bprop: 256", B200, {"dim": 256, "grad": True}, [F, F, F, C, C]),
    ("check_cudnn_d256_bprop: 192", H200, {"dim": 192, "grad": True}, [C, C, C, F, F]),
    (
        "check_cudnn_d256_bprop: 192/128",
        H200,
        {"dim": 192, "value_dim": 128, "grad": True},
        [C, C, C, C, C],
    ),
    ("decode guard", B200, {"queries": 1, "keys": 64}, [C, C, C, F, C]),
    ("decode guard", H200, {"queries": 1, "keys": 64}, [C, C, C, C, C]),
    (
        "memory-efficient GQA",
        A100,
        {"kv_heads": 2, "enable_gqa": True, "dtype": "float32"},
        [M, M, M, E, E],
    ),
    ("supports_mqa", H200, {"kv_heads": 1}, [M, M, M, C, C]),
    ("supports_mqa, flash", A100, {"kv_heads": 1}, [M, M, M, F, F]),
    ("not one head", H200, {"kv_heads": 2}, [M, M, M, M, M]),
]


@pytest.mark.parametrize(
    ("capability", "change", "expected"), [r[1:] for r in RELEASES], ids=[r[0] for r in RELEASES]
)
def test_releases_differ(
    capability: tuple[int, int], change: dict[str, Any], expected: list[Backend]
) -> None:
    chosen = [_choose(attention(capability=capability, version=v, **change)) for v in VERSIONS]
    assert chosen == expected


def test_sm90_gradient_guard_of_2_15_ends_with_cudnn_9_26() -> None:
    change: dict[str, Any] = {"keys": 192, "grad": True, "version": (2, 15, 0)}
    assert _choose(attention(**change)) is CUDNN
    assert _choose(attention(**change, cudnn=92500)) is FLASH
    assert _choose(attention(**change, cudnn=92500, grad_enabled=False)) is FLASH
    assert _choose(attention(**change, cudnn=92500, capability=B200)) is CUDNN
    assert _choose(attention(**change | {"keys": 256}, cudnn=92500)) is CUDNN


@pytest.mark.parametrize(
    ("cudnn", "usable"), [(91100, True), (91101, False), (91399, False), (91400, True)]
)
def test_cudnn_9_11_to_9_13_has_no_dropout(cudnn: int, usable: bool) -> None:
    assert _can_use(CUDNN, attention(dropout_p=0.5, cudnn=cudnn)) is usable


MASKS = [
    ("2-d", tensor(256, 256), CUDNN, EFFICIENT),
    ("4-d", tensor(2, 8, 256, 256), CUDNN, EFFICIENT),
    ("broadcast", tensor(1, 1, 1, 256), CUDNN, EFFICIENT),
    ("bool", tensor(256, 256, dtype="bool"), CUDNN, EFFICIENT),
    ("check_attn_mask_shape: 3-d", tensor(8, 256, 256), EFFICIENT, EFFICIENT),
    ("check_attn_mask_shape: gradient", tensor(256, 256, grad=True), EFFICIENT, EFFICIENT),
    (
        "check_last_dim_stride_equals_1_dense",
        TensorSpec((256, 256), (1, 256), "bfloat16"),
        MATH,
        MATH,
    ),
    ("expanded last dimension", TensorSpec((256, 256), (1, 0), "bfloat16"), MATH, MATH),
]


@pytest.mark.parametrize(
    ("mask", "h200", "a100"), [row[1:] for row in MASKS], ids=[row[0] for row in MASKS]
)
def test_masks(mask: TensorSpec, h200: Backend, a100: Backend) -> None:
    assert _choose(attention(mask=mask)) is h200
    assert _choose(attention(mask=mask, capability=A100)) is a100


def test_a_head_dimension_that_is_not_contiguous_leaves_math() -> None:
    call = attention()
    turned = TensorSpec(call.query.shape, (131072, 16384, 1, 256), "bfloat16")
    assert _choose(replace(call, query=turned)) is MATH


def test_batches_do_not_broadcast() -> None:
    call = attention()
    assert _choose(replace(call, key=tensor(1, 8, 256, 64), value=tensor(1, 8, 256, 64))) is MATH


def test_cudnn_lets_key_and_value_heads_differ() -> None:
    call = replace(attention(enable_gqa=True), key=tensor(2, 4, 256, 64))
    assert _choose(call) is CUDNN
    assert not _can_use(FLASH, call)


def test_dtypes_must_agree() -> None:
    assert _choose(replace(attention(), key=tensor(2, 8, 256, 64, dtype="float16"))) is MATH


def test_storage_offset_matters_to_memory_efficient_since_2_13() -> None:
    for version, usable in [((2, 12, 1), True), ((2, 13, 0), False)]:
        call = attention(version=version)
        aligned = replace(call, key=tensor(2, 8, 256, 64, offset=8))
        crooked = replace(call, key=tensor(2, 8, 256, 64, offset=4))
        assert _can_use(EFFICIENT, aligned)
        assert _can_use(EFFICIENT, crooked) is usable


def test_a_missing_batch_dimension_is_added_since_2_14() -> None:
    one = tensor(8, 256, 64)
    old = AttentionCall(one, one, one, torch_version=(2, 13, 0))
    new = AttentionCall(one, one, one, torch_version=(2, 14, 0), cudnn_version=92400)
    assert [_choose(old), _choose(new)] == [MATH, CUDNN]
    assert _choose(replace(new, mask=tensor(8, 256, 256))) is CUDNN
    assert not _can_use(CUDNN, new)


SYMBOLIC = [
    ("batch and length", {"batch": -1, "queries": -2, "is_causal": True}, H200, CUDNN),
    ("same expression", {"queries": -2, "is_causal": True}, A100, FLASH),
    ("other expression", {"queries": -2, "keys": -3, "is_causal": True}, A100, EFFICIENT),
    ("against a constant", {"queries": -2, "keys": 64, "is_causal": True}, A100, EFFICIENT),
    ("mask of the same length", {"queries": -2, "mask": tensor(1, 1, -2, -2)}, H200, CUDNN),
    ("mask of another length", {"queries": -2, "mask": tensor(1, 1, -2, -3)}, H200, EFFICIENT),
]


@pytest.mark.parametrize(
    ("change", "capability", "expected"), [r[1:] for r in SYMBOLIC], ids=[r[0] for r in SYMBOLIC]
)
def test_symbolic_sizes(
    change: dict[str, Any], capability: tuple[int, int], expected: Backend
) -> None:
    assert _choose(attention(capability=capability, **change)) is expected


def test_nested_tensors_leave_math() -> None:
    assert _choose(attention(is_nested=True)) is MATH


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        ({MATH}, MATH),
        ({FLASH, MATH}, FLASH),
        ({EFFICIENT}, EFFICIENT),
        ({CUDNN}, CUDNN),
        (set(), ERROR),
        ({Backend.OVERRIDEABLE}, ERROR),
    ],
)
def test_disabled_backends(enabled: set[Backend], expected: Backend) -> None:
    assert _choose(attention(enabled=frozenset(enabled))) is expected


def test_no_available_kernel() -> None:
    assert _choose(attention(enabled=frozenset({FLASH}), dtype="float32")) is ERROR


def test_cudnn_comes_after_math_where_it_is_not_preferred() -> None:
    cudnn_or_math = attention(enabled=frozenset({CUDNN, MATH}), capability=A100)
    assert _choose(cudnn_or_math) is MATH
    assert _choose(attention(enabled=frozenset({CUDNN}), capability=A100)) is CUDNN


def test_an_order_that_the_user_set_is_kept() -> None:
    call = attention(priority=(2, 1, 0, 3, 4))
    assert _order(call)[:2] == (EFFICIENT, FLASH)
    assert _choose(call) is EFFICIENT


def test_reasons() -> None:
    call = attention(dim=66, keys=1, enabled=frozenset({FLASH, MATH}), mask=tensor(256, 1))
    assert _reasons(call, MATH) == ()
    assert _reasons(call, FLASH) == ("flash attention takes no mask",)
    assert _reasons(call, CUDNN) == (
        "disabled",
        "head dimensions (66, 66) are not multiples of 8",
        "keys and values of sequence length 1",
    )
    assert _reasons(call, Backend.OVERRIDEABLE) == ("not a backend of CUDA",)


@pytest.mark.parametrize(
    ("version", "requirements", "expected"),
    [
        ((2, 11, 0), (), 91900),
        (
            (2, 13, 0),
            ["filelock", 'nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"'],
            91002,
        ),
        ((2, 14, 1), ["nvidia-cudnn-cu13==9.24.0.43"], 92400),
        ((2, 16, 0), (), 92600),
        ((2, 10, 0), (), 91900),
    ],
)
def test_cudnn_version(version: tuple[int, ...], requirements: list[str], expected: int) -> None:
    assert _cudnn_version(version, requirements) == expected


@pytest.mark.torch
def test_values_are_those_of_torch() -> None:
    import torch
    from torch.nn.attention import SDPBackend

    names = {b.name.removesuffix("_ATTENTION"): int(b) for b in SDPBackend.__members__.values()}
    assert {b.name: int(b) for b in Backend} == names
    assert tuple(torch._C._get_sdp_priority_order()) == DEFAULT_ORDER
