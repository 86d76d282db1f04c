"""Answers torch's own question, which backend an attention call takes, as the target would.

``Chooser`` is what the shim calls for ``scaled_dot_product_attention``; ``install`` also answers
the Python functions with which libraries ask beforehand. Seen with torch 2.11 to 2.15.
"""

from __future__ import annotations

import importlib.metadata
import os
import traceback
from typing import Any

from perfcli.compile.stand_in.attention import backend as choice
from perfcli.compile.stand_in.attention.backend import AttentionCall, Backend, TensorSpec
from perfcli.compile.stand_in.device import replace_attribute
from perfcli.compile.stand_in.shim import MAX_DIMS, AttentionArguments, TensorArgument
from perfcli.model import Target

# c10/core/ScalarType.h
_DTYPES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    11: "bool",
    15: "bfloat16",
}


class Chooser:
    """Turns the shim's plain arguments into an ``AttentionCall`` and chooses.

    A failure must not pass for a choice (C++ cannot raise through the callback): it is kept in
    ``failure`` for the session to raise.
    """

    def __init__(self, target: Target) -> None:
        import torch

        self.target = target
        self.torch_version = tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2])
        requirements = importlib.metadata.requires("torch") or ()
        self.cudnn_version = choice._cudnn_version(self.torch_version, requirements)
        self.failure: str = ""

    def __call__(self, arguments: AttentionArguments) -> int:
        try:
            return int(choice._choose(self.call_of(arguments)))
        except Exception:
            self.failure = traceback.format_exc()
            return int(Backend.MATH)

    def call_of(self, arguments: AttentionArguments) -> AttentionCall:
        tensors = (arguments.query, arguments.key, arguments.value)
        return AttentionCall(
            query=_spec(arguments.query),
            key=_spec(arguments.key),
            value=_spec(arguments.value),
            mask=_spec(arguments.mask) if arguments.mask.defined else None,
            dropout_p=arguments.dropout_p,
            is_causal=bool(arguments.is_causal),
            enable_gqa=bool(arguments.enable_gqa),
            is_nested=any(t.nested for t in tensors),
            **self.process(),
        )

    def process(self) -> dict[str, Any]:
        """Return what the choice depends on beside the arguments: the target and torch's
        switches."""
        import torch
        from torch.backends import cuda

        switches = {
            Backend.FLASH: cuda.flash_sdp_enabled(),
            Backend.EFFICIENT: cuda.mem_efficient_sdp_enabled(),
            Backend.MATH: cuda.math_sdp_enabled(),
            Backend.CUDNN: cuda.cudnn_sdp_enabled(),
        }
        deterministic = (
            torch.are_deterministic_algorithms_enabled()
            and not torch.is_deterministic_algorithms_warn_only_enabled()
        )
        deprioritized = os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1"
        order = getattr(torch._C, "_get_sdp_priority_order", None)
        return {
            "capability": self.target.capability,
            "torch_version": self.torch_version,
            "cudnn_version": self.cudnn_version,
            "enabled": frozenset(backend for backend, on in switches.items() if on),
            "priority": tuple(order()) if order else choice.DEFAULT_ORDER,
            "deterministic": deterministic,
            "grad_enabled": torch.is_grad_enabled(),
            "cudnn_deprioritized": deprioritized,
        }


def _spec(tensor: TensorArgument) -> TensorSpec:
    dims = min(int(tensor.ndim), MAX_DIMS)
    return TensorSpec(
        shape=tuple(tensor.sizes[:dims]),
        strides=tuple(tensor.strides[:dims]),
        dtype=_DTYPES.get(int(tensor.dtype), f"dtype {tensor.dtype}"),
        requires_grad=bool(tensor.requires_grad),
        storage_offset=int(tensor.storage_offset),
    )


def install(chooser: Chooser) -> None:
    """Answer ``torch.backends.cuda.can_use_*_attention`` and their like by the same rules."""
    from torch.backends import cuda

    def answer(backend: Backend) -> Any:
        def can_use(params: Any, debug: bool = False) -> bool:
            return choice._can_use(backend, _call_of_params(params, chooser))

        return can_use

    replace_attribute(cuda, "SDPAParams", _Params)
    replace_attribute(cuda, "can_use_flash_attention", answer(Backend.FLASH))
    replace_attribute(cuda, "can_use_efficient_attention", answer(Backend.EFFICIENT))
    replace_attribute(cuda, "can_use_cudnn_attention", answer(Backend.CUDNN))
    replace_attribute(cuda, "is_flash_attention_available", lambda: True)


class _Params:
    """Stands in for ``torch.backends.cuda.SDPAParams``, which a CPU build cannot construct."""

    def __init__(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any,
        dropout: float,
        is_causal: bool,
        enable_gqa: bool = False,
    ) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def _call_of_params(params: Any, chooser: Chooser) -> AttentionCall:
    return AttentionCall(
        query=_spec_of(params.query),
        key=_spec_of(params.key),
        value=_spec_of(params.value),
        mask=_spec_of(params.attn_mask) if params.attn_mask is not None else None,
        dropout_p=params.dropout,
        is_causal=params.is_causal,
        enable_gqa=params.enable_gqa,
        **chooser.process(),
    )


def _spec_of(tensor: Any) -> TensorSpec:
    return TensorSpec(
        shape=tuple(_number(s) for s in tensor.shape),
        strides=tuple(_number(s) for s in tensor.stride()),
        dtype=str(tensor.dtype).removeprefix("torch."),
        requires_grad=tensor.requires_grad,
        storage_offset=_number(tensor.storage_offset()),
    )


def _number(size: Any) -> int:
    """Return a size, or a negative number of its own for a symbolic expression: asking a symbol for
    its value would specialise the graph being traced."""
    if isinstance(size, int):
        return size
    return -1 - abs(hash(str(size)))
