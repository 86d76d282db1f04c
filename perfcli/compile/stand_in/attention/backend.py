"""Tells which backend ``scaled_dot_product_attention`` takes on a GPU that is not there.

The choice of ``select_sdp_backend`` (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp) in the
CUDA builds of torch 2.11 to 2.15; an older or newer torch gets the rules of the nearest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfcli.compile.stand_in.attention import cudnn
from perfcli.compile.stand_in.attention import fused as rules
from perfcli.compile.stand_in.attention.call import (
    ALL_BACKENDS,
    DEFAULT_ORDER,
    AttentionCall,
    Backend,
    TensorSpec,
)

__all__ = ["DEFAULT_ORDER", "AttentionCall", "Backend", "TensorSpec"]

UNBATCHED_INPUT = (2, 14)
"""First version whose chooser adds a missing batch dimension (normalize_unbatched_input)."""

CUDNN_FIRST = (Backend.CUDNN, Backend.FLASH, Backend.EFFICIENT, Backend.MATH, Backend.OVERRIDEABLE)

CUDNN_OF_TORCH: Mapping[tuple[int, int], int] = {
    (2, 11): 91900,
    (2, 12): 92000,
    (2, 13): 92000,
    (2, 14): 92400,
    (2, 15): 92600,
}
"""The pin on nvidia-cudnn-cu13 in the metadata of torch's default Linux wheels."""

CHECKS: Mapping[Backend, tuple[rules.Check, ...]] = {
    Backend.FLASH: (
        rules._check_for_attn_mask,
        rules._check_head_dim_size_flash,
        rules._check_flash_attention_hardware_support,
        rules._check_flash_training_head_dim,
        rules._check_flash_causal_non_square_seqlens,
        rules._check_dtypes_low_precision,
        rules._check_flash_attention_grid_size,
        rules._check_flash_batch_and_heads,
        rules._check_nonzero_sequence_lengths,
        rules._check_last_stride,
    ),
    Backend.EFFICIENT: (
        rules._check_mem_efficient_hardware_support,
        rules._check_head_dim_size_mem_efficient,
        rules._check_data_ptr_alignment_mem_efficient,
        rules._check_nonzero_sequence_lengths,
        rules._check_efficient_last_stride,
        rules._check_efficient_batch_and_heads,
        rules._check_dtypes_mem_efficient,
    ),
    Backend.CUDNN: (
        cudnn._check_cudnn_dropout,
        cudnn._check_cudnn_deterministic,
        rules._check_dtypes_low_precision,
        cudnn._check_attn_mask_shape,
        cudnn._check_cudnn_hardware_support,
        rules._check_nonzero_sequence_lengths,
        rules._check_last_stride,
        cudnn._check_cudnn_batch_and_heads,
        cudnn._check_cudnn_grid_size,
        cudnn._check_cudnn_sm90_gradient,
        cudnn._check_cudnn_decode,
        cudnn._check_cudnn_head_dims,
        cudnn._check_cudnn_sequence_lengths,
        cudnn._check_cudnn_backward_head_dims,
    ),
}


def _choose(call: AttentionCall) -> Backend:
    """Return the backend that the target takes, or ``ERROR`` where torch raises "No available
    kernel"."""
    if not call.enabled & ALL_BACKENDS:
        return Backend.ERROR
    call = _add_batch(call)
    return next((b for b in _order(call) if _can_use(b, call)), Backend.ERROR)


def _can_use(backend: Backend, call: AttentionCall) -> bool:
    """Return what ``torch.backends.cuda.can_use_*_attention`` answers on the target."""
    return not _reasons(call, backend)


def _reasons(call: AttentionCall, backend: Backend) -> tuple[str, ...]:
    """Return why a backend does not take the call; empty where it does."""
    if backend not in ALL_BACKENDS:
        return ("not a backend of CUDA",)
    found = () if backend in call.enabled else ("disabled",)
    if backend is Backend.MATH:
        return found
    # The other checks read the dimensions by number.
    if shape := "nested tensors" if call.is_nested else rules._check_tensor_shapes(call):
        return (*found, shape)
    return (*found, *(reason for check in CHECKS[backend] if (reason := check(call))))


def _order(call: AttentionCall) -> tuple[Backend, ...]:
    """Return the order in which backends are tried.

    On a real GPU the first call replaces the default order by the device's; an order that is not
    the default was set by the user, and is taken to have been set after that.
    """
    if call.priority == DEFAULT_ORDER and cudnn._prefers_cudnn(call):
        return CUDNN_FIRST
    return tuple(Backend(b) for b in call.priority)


def _cudnn_version(torch_version: tuple[int, ...], requirements: Iterable[str] = ()) -> int:
    """Return the cuDNN that a build of torch runs with, as 91900 for 9.19.0.

    ``requirements`` is the build's metadata (``importlib.metadata.requires("torch")``); a build
    without a pin, such as one for the CPU, gets what the CUDA build of its version pins.
    """
    for requirement in requirements:
        if pin := re.match(r"nvidia-cudnn-cu\d+==(\d+)\.(\d+)\.(\d+)", requirement):
            major, minor, patch = map(int, pin.groups())
            return major * 10000 + minor * 100 + patch
    known = [v for v in CUDNN_OF_TORCH if v <= torch_version]
    return CUDNN_OF_TORCH[max(known, default=min(CUDNN_OF_TORCH))]


def _add_batch(call: AttentionCall) -> AttentionCall:
    unbatched = all(len(t.shape) == 3 for t in call.tensors)
    if not unbatched or call.is_nested or not call.since(UNBATCHED_INPUT):
        return call
    mask = call.mask
    while mask is not None and len(mask.shape) < 4:
        mask = mask.unsqueezed()
    query, key, value = (t.unsqueezed() for t in call.tensors)
    return replace(call, query=query, key=key, value=value, mask=mask)
