"""Says what a library operator is called with, from how a wrapper writes the call.

A wrapper gives arguments by place. Their names are known here of those operators whose work perfcli
counts; of others only the tensors are told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from perfcli.facts.operator_work import count_operator_work
from perfcli.importing.sources.calls import Tensor, Value, WrittenCall
from perfcli.importing.sources.declared import item_size
from perfcli.model import Buffer, OperatorCall, OptionValue

_OUT = ("mm", "bmm", "addmm", "baddbmm", "_int_mm", "_scaled_mm")
"""Operators of ``extern_kernels`` that torch knows as ``aten.mm.out``."""

_CONVOLUTION = (
    "input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding",
    "groups",
)  # fmt: skip
_SCHEMAS: Mapping[str, Sequence[str]] = {
    "aten.convolution.default": _CONVOLUTION,
    "aten.convolution_backward.default": (
        "grad_output", "input", "weight", "bias_sizes", *_CONVOLUTION[3:], "output_mask",
    ),
    "aten._scaled_dot_product_flash_attention.default": (
        "query", "key", "value", "dropout_p", "is_causal", "return_debug_mask",
    ),
    "aten._scaled_dot_product_flash_attention_backward.default": (
        "grad_out", "query", "key", "value", "out", "logsumexp", "cum_seq_q", "cum_seq_k", "max_q",
        "max_k", "dropout_p", "is_causal", "philox_seed", "philox_offset",
    ),
    "aten._scaled_dot_product_efficient_attention.default": (
        "query", "key", "value", "attn_bias", "compute_log_sumexp", "dropout_p", "is_causal",
    ),
    "aten._scaled_dot_product_efficient_attention_backward.default": (
        "grad_out_", "query", "key", "value", "attn_bias", "out", "logsumexp", "philox_seed",
        "philox_offset", "dropout_p", "grad_input_mask", "is_causal",
    ),
    "aten._scaled_dot_product_cudnn_attention.default": (
        "query", "key", "value", "attn_bias", "compute_log_sumexp", "dropout_p", "is_causal",
        "return_debug_mask",
    ),
    "aten._scaled_dot_product_cudnn_attention_backward.default": (
        "grad_out", "query", "key", "value", "out", "logsumexp", "philox_seed", "philox_offset",
        "attn_bias", "cum_seq_q", "cum_seq_k", "max_q", "max_k", "dropout_p", "is_causal",
    ),
}  # fmt: skip


def name_operator(path: str) -> str:
    """Return torch's name of what a wrapper calls: ``aten.mm.out`` for ``extern_kernels.mm``."""
    library, _, name = path.partition(".")
    if library == "extern_kernels":
        if name == "convolution":
            return "aten.convolution.default"
        return f"aten.{name}.out" if name in _OUT else path
    path = path.removeprefix("torch.ops.")
    return f"{path}.default" if path.startswith("aten.") and path.count(".") == 1 else path


def describe_call(
    call: WrittenCall, known: Mapping[str, str]
) -> tuple[tuple[str, ...], OperatorCall | None]:
    """Return the names of what a call reads and writes, and the call; nothing where a tensor's size
    is not known. ``known`` has dtypes by name that the wrapper tells elsewhere."""
    operator = name_operator(call.name)
    # Library kernels that the wrapper writes into a tensor take tensors first, without names.
    names = () if call.name.startswith("extern_kernels.") else _SCHEMAS.get(operator, ())
    named = [
        *((names[n] if n < len(names) else "", value) for n, value in enumerate(call.arguments)),
        *call.named.items(),
    ]
    read = [(name, each) for name, value in named for each in _tensors(value)]
    usual = next((known.get(each.first or each.name) or each.dtype for _, each in read), "")
    reads = [_buffer(name, each, "input", known, usual) for name, each in read]
    writes = [
        _buffer("", each, "output", known, _result_dtype(operator, place, each, usual))
        for place, each in enumerate(call.results.values())
    ]
    if not reads and not writes:
        return (), None
    if not all(buffer.dtype and buffer.bytes >= 0 for buffer in (*reads, *writes)):
        return (), None
    plain = {
        name: value for name, given in named if name and (value := _plain(given)) is not None
    } | _precision(operator, reads)
    buffers = (*reads, *writes)
    work = count_operator_work(operator, reads, writes, plain)
    operands = (*(each.name for _, each in read), *(each.name for each in call.results.values()))
    return operands, OperatorCall(buffers, plain, work)


def _tensors(value: Value) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _tensors(each)


def _buffer(
    argument: str,
    tensor: Tensor,
    role: Literal["input", "output"],
    known: Mapping[str, str],
    usual: str,
) -> Buffer:
    """Return a tensor without its name, which equal calls do not share; negative bytes where its
    size is not known."""
    dtype = tensor.dtype or known.get(tensor.first or tensor.name) or usual
    if tensor.shape is None:
        return Buffer(argument, "", role, dtype, (), (), -1)
    size = math.prod(tensor.shape) * item_size(dtype)
    stride = tensor.stride or ()
    return Buffer(argument, "", role, dtype, tensor.shape, stride, size)


def _result_dtype(operator: str, place: int, tensor: Tensor, usual: str) -> str:
    """Return the dtype that a result has unless the wrapper tells it. What follows the output of
    attention is for its backward."""
    if "attention" in operator and "backward" not in operator and place:
        return "float32" if tensor.shape else "int64"
    return usual


def _plain(value: Value) -> OptionValue:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) and all(isinstance(each, bool | int | float) for each in value):
        return list(value)
    return None


def _precision(operator: str, reads: Sequence[Buffer]) -> dict[str, OptionValue]:
    """Return whether an operator on float32 computes in TF32, by torch's defaults: a wrapper does
    not tell what the process had set."""
    if not reads or reads[0].dtype != "float32":
        return {}
    return {"tf32": "convolution" in operator}
