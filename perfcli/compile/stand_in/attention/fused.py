"""Tells why flash or memory-efficient attention would refuse a call: the rules of torch 2.11 to
2.15.

Each check is one of the filters in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp or
../sdp_utils_cpp.h and carries its name. It answers with the reason, or "" where it passes.
What differs between releases is the data below. It was read from the headers, symbols and
constants of the released CUDA 13 builds; 2.12.1 and 2.14.1 do not differ from the .0 releases.
Not modelled: nested tensors, FlashAttention 3 and 4 (off unless a package activates them),
builds for CUDA 12, cuDNN 8.
"""

from __future__ import annotations

from collections.abc import Callable

from perfcli.compile.stand_in.attention.call import AttentionCall

Check = Callable[[AttentionCall], str]

EFFICIENT_OFFSET_ALIGNMENT = (2, 13)  # check_data_ptr_alignment_mem_efficient
EFFICIENT_GQA = (2, 14)  # pytorch#191085
SINGLE_KEY_VALUE_HEAD = (2, 14)  # supports_mqa, pytorch#191085
FLASH_GRID_LIMIT = (2, 15)  # check_flash_attention_grid_size

GRID_LIMIT = 65535
HALF = frozenset({"float16", "bfloat16"})


def _at_most(size: int, limit: int) -> bool:
    """Return whether a size respects the limit; a symbolic (negative) size respects every one."""
    return size <= limit


def _divisible(size: int, by: int) -> bool:
    """Return whether a size is divisible; a symbolic size is divisible as required."""
    return size < 0 or by < 0 or (by > 0 and size % by == 0)


# --- rules of all three ----------------------------------------------------------------------


def _check_tensor_shapes(call: AttentionCall) -> str:
    ranks = [len(t.shape) for t in call.tensors]
    return "" if ranks == [4, 4, 4] else f"query, key and value have {ranks} dimensions, not 4"


def _check_nonzero_sequence_lengths(call: AttentionCall) -> str:
    empty = 0 in (call.query.shape[2], call.key.shape[2])
    return "a sequence length is 0" if empty else ""


def _check_dtypes_low_precision(call: AttentionCall) -> str:
    return _check_tensor_dtype(call, HALF if call.capability >= (8, 0) else frozenset({"float16"}))


def _check_tensor_dtype(call: AttentionCall, allowed: frozenset[str]) -> str:
    dtypes = {t.dtype for t in call.tensors}
    if len(dtypes) == 1 and dtypes <= allowed:
        return ""
    return f"dtype {', '.join(sorted(dtypes))} is not one of {', '.join(sorted(allowed))}"


def _check_sm_version(call: AttentionCall, lowest: tuple[int, int]) -> str:
    if lowest <= call.capability <= (12, 1):
        return ""
    return f"compute capability {call.capability[0]}.{call.capability[1]} is not supported"


def _check_stride_of_last_dim(call: AttentionCall, ignore_singleton: bool) -> str:
    """Repeat check_last_dim_stride_equals_1_dense."""
    unit = all(t.strides[-1] == 1 for t in call.tensors)
    if not unit and not (ignore_singleton and call.query.shape[-1] == 1):
        return "the head dimension of query, key or value is not contiguous"
    if call.mask is not None and call.mask.strides[-1] != 1:
        return "the last dimension of the mask is not contiguous"
    return ""


def _check_last_stride(call: AttentionCall) -> str:
    return _check_stride_of_last_dim(call, ignore_singleton=True)


def _check_batch_and_num_heads(call: AttentionCall, gqa: bool, same_kv_heads: bool = True) -> str:
    """Repeat check_batch_size_and_num_heads_dense and check_grouped_query_attention."""
    if len({t.shape[0] for t in call.tensors}) != 1:
        return "query, key and value differ in batch size"
    query, key, value = (t.shape[1] for t in call.tensors)
    if call.enable_gqa and gqa:
        if same_kv_heads and key != value:
            return "key and value differ in their number of heads"
        if _divisible(query, key) and (same_kv_heads or _divisible(query, value)):
            return ""
        return "the heads of key and value do not divide those of query"
    if query == key == value:
        return ""
    if call.since(SINGLE_KEY_VALUE_HEAD) and query != 0 and key == value == 1:
        return ""
    return "query, key and value differ in their number of heads"


def _check_grid_size(call: AttentionCall) -> str:
    if all(_at_most(size, GRID_LIMIT) for size in call.query.shape[:2]):
        return ""
    return f"batch size or number of heads exceeds {GRID_LIMIT}"


# --- flash -----------------------------------------------------------------------------------


def _check_for_attn_mask(call: AttentionCall) -> str:
    return "" if call.mask is None else "flash attention takes no mask"


def _check_head_dim_size_flash(call: AttentionCall) -> str:
    dims = [t.shape[-1] for t in call.tensors]
    if len(set(dims)) == 1 and _at_most(dims[0], 256):
        return ""
    return f"head dimensions {dims} are not equal and at most 256"


def _check_flash_attention_hardware_support(call: AttentionCall) -> str:
    return _check_sm_version(call, (8, 0))


def _check_flash_training_head_dim(call: AttentionCall) -> str:
    """Repeat check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120."""
    limited = (8, 6) <= call.capability <= (8, 9) or (12, 0) <= call.capability <= (12, 1)
    size = call.query.shape[-1]
    refused = 192 < size <= 224 or (size > 224 and call.dropout_p > 0)
    if not (limited and refused and call.needs_grad):
        return ""
    return f"head dimension {size} cannot be trained on this compute capability"


def _check_flash_causal_non_square_seqlens(call: AttentionCall) -> str:
    if call.is_causal and call.query.shape[-2] != call.key.shape[-2]:
        return "is_causal with sequences of different lengths"
    return ""


def _check_flash_batch_and_heads(call: AttentionCall) -> str:
    return _check_batch_and_num_heads(call, gqa=True)


def _check_flash_attention_grid_size(call: AttentionCall) -> str:
    return _check_grid_size(call) if call.since(FLASH_GRID_LIMIT) else ""


# --- memory-efficient ------------------------------------------------------------------------


def _check_mem_efficient_hardware_support(call: AttentionCall) -> str:
    return _check_sm_version(call, (5, 0))


def _gemm_alignment(call: AttentionCall) -> int:
    """Return minimum_gemm_alignment, in elements: 16 bytes where the tensor cores take the
    dtype."""
    half = call.query.dtype in HALF
    if call.capability >= (8, 0) or (call.capability >= (7, 0) and half):
        return 8 if half else 4
    return 1


def _check_head_dim_size_mem_efficient(call: AttentionCall) -> str:
    query, key, value = (t.shape[-1] for t in call.tensors)
    alignment = _gemm_alignment(call)
    aligned = all(size != 0 and _divisible(size, alignment) for size in (query, value))
    if query == key and aligned:
        return ""
    return f"head dimensions {query}, {key}, {value} are not multiples of {alignment}"


def _check_data_ptr_alignment_mem_efficient(call: AttentionCall) -> str:
    if not call.since(EFFICIENT_OFFSET_ALIGNMENT) or call.capability < (8, 0):
        return ""
    alignment = _gemm_alignment(call)
    if all(0 in t.shape or _divisible(t.storage_offset, alignment) for t in call.tensors):
        return ""
    return f"a storage offset is not a multiple of {alignment} elements"


def _check_efficient_last_stride(call: AttentionCall) -> str:
    return _check_stride_of_last_dim(call, ignore_singleton=False)


def _check_efficient_batch_and_heads(call: AttentionCall) -> str:
    return _check_batch_and_num_heads(call, gqa=call.since(EFFICIENT_GQA))


def _check_dtypes_mem_efficient(call: AttentionCall) -> str:
    bfloat16 = {"bfloat16"} if call.capability >= (8, 0) else set()
    return _check_tensor_dtype(call, frozenset({"float16", "float32"} | bfloat16))
