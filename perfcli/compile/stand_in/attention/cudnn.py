"""Tells why cuDNN attention would refuse a call, and where it comes first: torch 2.11 to 2.15.

The rules of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, in the manner of
``fused``.
"""

from __future__ import annotations

from perfcli.compile.stand_in.attention.call import AttentionCall
from perfcli.compile.stand_in.attention.fused import (
    _at_most,
    _check_batch_and_num_heads,
    _check_grid_size,
    _check_sm_version,
    _divisible,
)

DROPOUT_IN_SIXTEENTHS = (2, 12)  # check_cudnn_dropout, pytorch#174245
GRID_LIMIT = (2, 13)  # check_cudnn_tensor_shapes
PREFERRED_ON_EVERY_MINOR = (2, 13)  # check_prefer_cudnn_attention, in builds for CUDA 13
HEAD_DIM_256_ON_BLACKWELL = (2, 14)  # check_cudnn_tensor_shapes
BACKWARD_HEAD_DIMS = (2, 14)  # check_cudnn_d256_bprop_head_dim
DECODE_GUARD = (2, 14)  # is_cudnn_attention_decode_disabled, pytorch#194927
SM90_GRADIENT_GUARD = (2, 15)  # check_cudnn_tensor_shapes


def _prefers_cudnn(call: AttentionCall) -> bool:
    """Return whether a fresh process tries cuDNN before flash (check_prefer_cudnn_attention)."""
    major, minor = call.capability
    every_minor = call.since(PREFERRED_ON_EVERY_MINOR)
    return (
        not call.cudnn_deprioritized
        and call.cudnn_version > 91500
        and major in (9, 10)
        and (every_minor or minor in (0, 3))
    )


def _check_cudnn_dropout(call: AttentionCall) -> str:
    if call.dropout_p > 0 and 91100 < call.cudnn_version < 91400:
        return "cuDNN 9.11 to 9.13 has no dropout"
    if call.since(DROPOUT_IN_SIXTEENTHS) and not (call.dropout_p * 16).is_integer():
        return f"dropout {call.dropout_p} is not a multiple of 1/16"
    return ""


def _check_cudnn_deterministic(call: AttentionCall) -> str:
    return "deterministic algorithms are demanded" if call.deterministic else ""


def _check_attn_mask_shape(call: AttentionCall) -> str:
    mask = call.mask
    if mask is None:
        return ""
    if mask.requires_grad:
        return "the mask requires a gradient"
    batch, heads, queries, _ = call.query.shape
    wanted = (batch, heads, queries, call.key.shape[2])[-len(mask.shape) :]
    if len(mask.shape) in (2, 4) and all(
        have in (1, want) for have, want in zip(mask.shape, wanted, strict=True)
    ):
        return ""
    return f"a mask of shape {mask.shape} is not 2- or 4-dimensional and broadcastable"


def _check_cudnn_hardware_support(call: AttentionCall) -> str:
    return _check_sm_version(call, (8, 0))


def _check_cudnn_batch_and_heads(call: AttentionCall) -> str:
    return _check_batch_and_num_heads(call, gqa=True, same_kv_heads=False)


def _check_cudnn_grid_size(call: AttentionCall) -> str:
    return _check_grid_size(call) if call.since(GRID_LIMIT) else ""


def _check_cudnn_head_dims(call: AttentionCall) -> str:
    dims = (call.query.shape[3], call.value.shape[3])
    limit = _head_dim_limit(call)
    if not all(_at_most(size, limit) for size in dims):
        return f"head dimensions {dims} exceed {limit}"
    if not all(_divisible(size, 8) for size in dims):
        return f"head dimensions {dims} are not multiples of 8"
    return ""


def _head_dim_limit(call: AttentionCall) -> int:
    deepseek = (call.query.shape[3], call.value.shape[3]) == (192, 128)
    hopper, blackwell = call.capability == (9, 0), call.capability[0] == 10
    if call.since(HEAD_DIM_256_ON_BLACKWELL):
        if _has_head_dim_256(call):
            return 256
        return 192 if (hopper or blackwell) and deepseek and call.cudnn_version >= 91100 else 128
    if hopper and call.cudnn_version >= 91000:
        return 256
    return 192 if blackwell and deepseek and call.cudnn_version >= 91100 else 128


def _has_head_dim_256(call: AttentionCall) -> bool:
    """Return the condition that 2.14 and later share between forward and backward."""
    if call.capability == (10, 7):
        return call.cudnn_version > 92500
    datacenter = call.capability == (9, 0) or call.capability[0] == 10
    return datacenter and call.cudnn_version > 92200


def _check_cudnn_backward_head_dims(call: AttentionCall) -> str:
    """Repeat check_cudnn_d256_bprop_head_dim."""
    if not (call.since(BACKWARD_HEAD_DIMS) and call.needs_grad and _has_head_dim_256(call)):
        return ""
    dims = (call.query.shape[3], call.value.shape[3])
    if all(_at_most(size, 128) for size in dims) or dims in ((192, 128), (256, 256)):
        return ""
    return f"head dimensions {dims} have no backward"


def _check_cudnn_sequence_lengths(call: AttentionCall) -> str:
    queries, keys = call.query.shape[2], call.key.shape[2]
    if keys == 1:
        return "keys and values of sequence length 1"
    if queries == 1 and call.dropout_p != 0:
        return "dropout with one query"
    return ""


def _check_cudnn_decode(call: AttentionCall) -> str:
    """Refuse single queries on versions that compute them wrongly:
    is_cudnn_attention_decode_disabled."""
    if not call.since(DECODE_GUARD) or call.query.shape[2] != 1:
        return ""
    faulty = 91900 <= call.cudnn_version <= 92500 and call.cudnn_version not in range(92401, 92500)
    if faulty and call.capability[0] in (10, 11):
        return f"decoding is disabled for cuDNN {call.cudnn_version}"
    return ""


def _check_cudnn_sm90_gradient(call: AttentionCall) -> str:
    """Refuse what has gradients that are not finite before cuDNN 9.26. The grad mode is not asked
    for."""
    guarded = call.since(SM90_GRADIENT_GUARD) and call.cudnn_version < 92600
    if not guarded or call.capability != (9, 0) or call.is_causal or not call.query.requires_grad:
        return ""
    keys = call.key.shape[2]
    return "key length is 64 modulo 128" if keys >= 0 and keys % 128 == 64 else ""
