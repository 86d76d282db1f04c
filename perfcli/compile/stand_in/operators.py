"""Registers operators that a CUDA build has kernels for and a CPU build has not, where that changes
the graph: with a CUDA kernel they stay whole in the autograd trace, without one they decompose.

The list is every aten operator with both a CUDA and a CompositeImplicitAutograd kernel, read off
the dispatchers of the CUDA builds 2.11.0+cu130 and 2.15.0+cu132 (the same three).

Refuses what the device's kernels refuse and fake tensors let through: products and convolutions
of different types (torch 2.11 all of them, 2.13 ``mm`` and ``addmm``).
"""

from __future__ import annotations

from typing import Any

from perfcli.compile.stand_in.decisions import RECURRENT, Assumptions
from perfcli.compile.stand_in.device import replace_attribute
from perfcli.errors import CompileFailed

OPERATORS = ("_fused_rms_norm", "mish_backward", "silu_backward")

_library: Any = None


def register_missing() -> tuple[str, ...]:
    """Give each of ``OPERATORS`` a CUDA kernel where this torch has none, and return which.

    The kernel is never run: under fake tensors the meta function answers. The registration
    alone makes the dispatcher prefer the operator's own autograd formula.
    """
    global _library
    import torch

    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    missing = [
        name
        for name in OPERATORS
        if hasattr(torch.ops.aten, name) and not has_kernel(f"aten::{name}", "CUDA")
    ]
    for name in missing:
        _library.impl(name, _unreachable(name), "CUDA")
    return tuple(missing)


def _unreachable(name: str) -> Any:
    def kernel(*_: Any, **__: Any) -> Any:
        raise CompileFailed(f"aten::{name} was called with real values, and there is no device")

    return kernel


def install() -> None:
    import torch
    from torch._subclasses import fake_impls

    replace_attribute(torch._C, "_get_cudnn_batch_norm_reserve_space_size", lambda *_: 0)
    for name, shape in _SHAPES.items():
        if (packet := getattr(torch.ops.aten, name, None)) is not None:
            fake_impls.op_implementations_dict[packet.default] = shape
    _choose_convolution_layouts()
    _refuse_mixed_types()


def _choose_convolution_layouts() -> None:
    """Answer as cuDNN would in which memory format a convolution and its gradients come out. Torch
    asks the libraries that it finds, and without a device it finds none for bfloat16, in a CPU
    build for no type at all (seen with torch 2.11 to 2.15)."""
    import torch
    from torch._prims_common import suggest_memory_format

    ask = torch._C._conv_determine_backend_memory_format

    def choose(image: Any, weight: Any, library: Any) -> Any:
        if image.device.type != "cuda":
            return ask(image, weight, library)
        if torch.float64 in (image.dtype, weight.dtype) or not torch.backends.cudnn.enabled:
            return torch.contiguous_format
        last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.ndim)
        is_last = last in map(suggest_memory_format, (image, weight))
        return last if is_last else torch.contiguous_format

    replace_attribute(torch._C, "_conv_determine_backend_memory_format", choose)


def _shape_like_source(_mode: Any, _operator: Any, source: Any, *_: Any, **__: Any) -> Any:
    import torch

    return torch.empty_like(source, memory_format=torch.contiguous_format)


def _shape_attention(
    _mode: Any,
    _operator: Any,
    query: Any,
    key: Any,
    _value: Any,
    _width: int,
    heads: int,
    *more: Any,
) -> Any:
    # Behind weights and biases of both projections, and the mask.
    needs_weights, averages = (*more[5:7], True, True)[:2]
    batch, rows, columns = query.shape[0], query.shape[1], key.shape[1]
    size = (batch, rows, columns) if averages else (batch, heads, rows, columns)
    return query.new_empty(query.shape), query.new_empty(size) if needs_weights else None


_SHAPES = {
    "_transformer_encoder_layer_fwd": _shape_like_source,
    "_native_multi_head_attention": _shape_attention,
}
"""The fast paths of ``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` in ``eval()``: to
learn the shapes of their results torch (2.11, 2.13) runs them on the device."""


_MIXED = {
    "mm": (0, "expected mat1 and mat2 to have the same dtype, but got: {} != {}"),
    "addmm": (1, "expected mat1 and mat2 to have the same dtype, but got: {} != {}"),
    "bmm": (0, "expected scalar type {} but found {}"),
    "baddbmm": (1, "expected scalar type {} but found {}"),
    "convolution": (0, "Input type ({}) and weight type ({}) should be the same"),
}
"""Operators with the position of the first of two operands, and what the device says of them."""


def _refuse_mixed_types() -> None:
    import torch
    from torch._subclasses import fake_impls

    table = fake_impls.op_implementations_dict
    for name, (position, message) in _MIXED.items():
        operator = getattr(torch.ops.aten, name).default
        table[operator] = _check_types(position, message, table.get(operator))


def _check_types(position: int, message: str, original: Any) -> Any:
    """Return an implementation for fake tensors that refuses two types, and else leaves the call to
    the one that there is, or to the meta function."""

    def check(mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        first, second = args[position : position + 2]
        if first.dtype != second.dtype and first.device.type == "cuda":
            raise RuntimeError(message.format(first.dtype, second.dtype))
        return NotImplemented if original is None else original(mode, func, *args, **kwargs)

    return check


def install_recurrent(assumptions: Assumptions) -> None:
    import torch
    import torch._dynamo

    for name, states in (("lstm", 2), ("gru", 1), ("rnn_tanh", 1), ("rnn_relu", 1)):
        # Run eagerly, as cuDNN's is: Dynamo must not make kernels of the stand-in.
        replace_attribute(torch._VF, name, torch._dynamo.disable(_layer(states, assumptions)))


def _layer(states: int, assumptions: Assumptions) -> Any:
    """Return a stand-in with the arguments of ``torch._VF.lstm`` and its like, padded or packed."""

    def run(*args: Any) -> Any:
        import torch

        assumptions.counts[RECURRENT] += 1
        if isinstance(args[3], bool):
            data, hidden, weights = args[0], args[1], args[2]
            bidirectional = args[7]
        else:  # packed: data, batch_sizes, hidden, weights, …
            data, hidden, weights = args[0], args[2], args[3]
            bidirectional = args[8]
        first = hidden[0] if isinstance(hidden, tuple | list) else hidden
        features = first.shape[-1] * (2 if bidirectional else 1)
        # Every input takes part, so that gradients flow where they would.
        history = data.sum() + sum(w.sum() for w in weights) + first.sum()
        # Its layout, batch first or not, is that of the input.
        output = history.to(data.dtype) + torch.zeros(
            (*data.shape[:-1], features), dtype=data.dtype, device=data.device
        )
        final = tuple(state + history for state in _as_tuple(hidden)[:states])
        return (output, *final)

    return run


def _as_tuple(hidden: Any) -> tuple[Any, ...]:
    return tuple(hidden) if isinstance(hidden, tuple | list) else (hidden,)
