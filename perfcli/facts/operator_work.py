"""Counts what a call of a library operator computes and moves, from the shapes that it is given.

Each count is that of the operation, not of an algorithm: a convolution's multiplications are those
of its definition, and every tensor is read or written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from perfcli.facts.collectives import count_collective, name_collective
from perfcli.model import PRECISIONS, Buffer, OperatorFamily, OperatorWork, OptionValue

Arguments = Mapping[str, OptionValue]

_ALIGNMENT = 8
"""Elements: a leading dimension that is no multiple of so many bars the fast kernels."""
_VIEWS = ("view_as_complex", "view_as_real")
"""Operators that move nothing, although the wrapper calls them."""
_WEIGHTS = ("convolution", "_convolution", "cudnn_convolution")


def count_operator_work(
    operator: str, reads: Sequence[Buffer], writes: Sequence[Buffer], arguments: Arguments
) -> OperatorWork | None:
    """Return the work of one call; None where its tensors are not known.

    ``operator`` is its name as the wrapper or torch has it: ``extern_kernels.mm``,
    ``aten.convolution_backward.default``.
    """
    if not reads and not writes:
        return None
    if collective := name_collective(operator):
        return _collective(collective, reads, writes, arguments)
    name = _base_name(operator)
    count = _COUNTS.get(name)
    try:
        found = count(name, reads, arguments) if count else None
    except (IndexError, KeyError, ValueError, TypeError, ZeroDivisionError):
        found = None  # called in a way that these counts do not know
    nothing: Counted = ("other", 0.0, {}, name)
    family, flops, sizes, variant = found or nothing
    moves = name not in _VIEWS
    read, written = float(moves * _bytes(reads)), float(moves * _bytes(writes))
    if family == "other":
        sizes = {"row": float(reads[0].shape[-1] if reads and reads[0].shape else 1)}
    precision = _precision(reads or writes, arguments)
    return OperatorWork(family, precision, flops, read, written, sizes, variant)


def _collective(
    name: str, reads: Sequence[Buffer], writes: Sequence[Buffer], arguments: Arguments
) -> OperatorWork | None:
    """Count a functional collective; None where the number of its ranks is not known."""
    ranks = 1 if name == "wait" else arguments.get("ranks")
    if not isinstance(ranks, int) or not reads:
        return None
    # In place, an all-reduce writes what it reads; the larger side is what all ranks share.
    size = max(_bytes(reads), _bytes(writes))
    if name in ("gather", "scatter"):  # the larger side is there on one rank only
        size = ranks * min(_bytes(reads), _bytes(writes))
    machines = arguments.get("machines")
    return count_collective(
        name,
        size,
        ranks,
        PRECISIONS.get(reads[0].dtype, reads[0].dtype),
        machines if isinstance(machines, int) else None,
    )


def _base_name(operator: str) -> str:
    """Return an operator's name without torch's library and the overload: ``mm``."""
    parts = operator.removeprefix("torch.ops.").split(".")
    if len(parts) > 1 and parts[0] in ("aten", "extern_kernels", "torch", "prims", "inductor"):
        return parts[1]
    return ".".join(parts[:2])


def _bytes(buffers: Sequence[Buffer]) -> int:
    return sum(each.bytes for each in buffers)


def _precision(buffers: Sequence[Buffer], arguments: Arguments) -> str:
    dtype = buffers[0].dtype
    if dtype == "float32" and arguments.get("tf32"):
        return "tf32"
    return PRECISIONS.get(dtype, dtype)


Counted = tuple[OperatorFamily, float, dict[str, float], str]
"""Family, floating-point operations, sizes and variant."""


def _product(name: str, reads: Sequence[Buffer], _arguments: Arguments) -> Counted:
    """Count ``mm(a, b)``, ``addmm(c, a, b)``, their batches, and products of 8-bit numbers."""
    *added, left, right = reads[:3] if name in ("addmm", "baddbmm") else reads[:2]
    m, k = left.shape[-2:]
    n = right.shape[-1]
    batch = math.prod(left.shape[:-2])
    if right.shape[-2] != k or min(m, n, k) < 1:
        raise ValueError("not the operands of a product")
    first, second = _layout(left), _layout(right)
    align = math.gcd(_ALIGNMENT, first[1], second[1], n)
    whole = bool(added) and math.prod(added[0].shape) == batch * m * n
    sizes = {
        "m": m, "n": n, "k": k, "batch": batch, "left": first[0], "right": second[0],
        "align": align, "batched": name.endswith("bmm"),
        "bias": name == "addmm" and not whole,
        "added": name == "baddbmm" or whole,
    }  # fmt: skip
    return "product", 2.0 * batch * m * n * k, _numbers(sizes), ""


def _grouped(_name: str, reads: Sequence[Buffer], _arguments: Arguments) -> Counted:
    """Count ``_grouped_mm(a, b, offs)``: how many rows each group has only values tell, so that all
    rows are taken to be in groups of the same size. A matrix of weights for each group is a batch;
    with two plain matrices the inner dimension is shared out."""
    left, right = reads[:2]
    k, n = left.shape[-1], right.shape[-1]
    offsets = next((each for each in reads[2:] if each.dtype == "int32"), None)
    groups = offsets.shape[0] if offsets is not None else math.prod(left.shape[:-2])
    m = math.prod(left.shape) // k
    if right.shape[-2] != k or min(m, n, k, groups) < 1:
        raise ValueError("not the operands of a product")
    flops = 2.0 * m * n * k
    if len(left.shape) == len(right.shape) == 2:
        k = -(-k // groups)
    elif len(right.shape) == 2:  # columns are shared out
        n, m = -(-n // groups), m // groups
        flops /= groups
    else:
        m = -(-m // groups)
    first, second = _layout(left), _layout(right)
    align = math.gcd(_ALIGNMENT, first[1], second[1], n)
    sizes = {
        "m": m, "n": n, "k": k, "batch": groups, "left": first[0], "right": second[0],
        "align": align, "batched": True, "bias": False, "added": False,
    }  # fmt: skip
    return "product", flops, _numbers(sizes), GROUPED


GROUPED = "grouped"
"""The variant of a product whose rows are shared out among groups by values."""


def _packed(name: str, reads: Sequence[Buffer], _arguments: Arguments) -> Counted:
    """Count a product with packed weights, whose first dimension is that of the result's columns,
    by eights where they have four bits."""
    rows, weights = reads[:2]
    columns = weights.shape[0] * (8 if "int4" in name else 1)
    return "other", 2.0 * math.prod(rows.shape) * columns, {}, name


def _layout(matrix: Buffer) -> tuple[int, int]:
    """Return whether the last but one dimension is the contiguous one, and the stride of the
    other."""
    rows, columns = matrix.stride[-2:]
    if columns == 1 or matrix.shape[-1] == 1:
        return 0, max(rows, 1)
    return int(rows == 1), max(columns, 1)


def _attention(name: str, reads: Sequence[Buffer], arguments: Arguments) -> Counted:
    variant = next(v for v in ("flash", "efficient", "cudnn") if v in name)
    backward = name.endswith("backward")
    query, key, value = reads[backward : backward + 3]
    *heads, queries, width = query.shape
    keys = key.shape[-2]
    # Flash attention of variable lengths is not known; rows are (batch, heads, length, width).
    if len(heads) != 2 or value.shape[-2] != keys:
        raise ValueError("not batches of heads")
    causal = bool(arguments.get("is_causal"))
    pairs = float(queries * keys)
    if causal:
        inside = min(queries, keys)
        pairs = inside * (inside + 1) / 2 + (queries - inside) * keys
    products = 5 if backward else 2
    mask = any(each.argument == "attn_bias" for each in reads)
    dropout = arguments.get("dropout_p") or 0.0
    sizes = {
        "heads": math.prod(heads), "queries": queries, "keys": keys, "width": width,
        "causal": causal, "mask": mask,
        "dropout": isinstance(dropout, int | float) and dropout > 0,
    }  # fmt: skip
    flops = 2.0 * products * math.prod(heads) * pairs * width
    family: OperatorFamily = "attention backward" if backward else "attention"
    return family, flops, _numbers(sizes), variant


def _encoder_layer(_name: str, reads: Sequence[Buffer], arguments: Arguments) -> Counted:
    """Count the fast path of ``nn.TransformerEncoderLayer``: the product that makes queries, keys
    and values, attention's two, the one behind it, and the two of the feed-forward part."""
    batch, tokens, width = reads[0].shape
    (inner,) = [each.shape[0] for each in reads if each.argument == "ffn_weight_1"]
    heads = arguments["num_heads"]
    if not isinstance(heads, int):
        raise TypeError("heads are no number")
    flops = 2.0 * batch * tokens * width * (3 * width + 2 * tokens + width + 2 * inner)
    sizes = {
        "batch": batch, "tokens": tokens, "width": width, "heads": heads, "inner": inner,
        "mask": any(each.argument == "mask" for each in reads),
    }  # fmt: skip
    return "encoder layer", flops, _numbers(sizes), ""


def _convolution(name: str, reads: Sequence[Buffer], arguments: Arguments) -> Counted:
    backward = name == "convolution_backward"
    image, weight = reads[backward : backward + 2]
    dims = len(weight.shape) - 2
    strides, padding, dilation = (
        _per_dimension(arguments[name], dims) for name in ("stride", "padding", "dilation")
    )
    transposed = bool(arguments.get("transposed"))
    groups = arguments.get("groups") or 1
    if not isinstance(groups, int):
        raise TypeError("groups are no number")
    taps = weight.shape[2:]
    inside = image.shape[2:]
    extra = _per_dimension(arguments.get("output_padding") or 0, dims)
    if transposed:
        outside = [
            (i - 1) * s - 2 * p + d * (t - 1) + 1 + e
            for i, s, p, d, t, e in zip(
                inside, strides, padding, dilation, taps, extra, strict=True
            )
        ]
        into = weight.shape[1] * groups
    else:
        outside = [
            (i + 2 * p - d * (t - 1) - 1) // s + 1
            for i, s, p, d, t in zip(inside, strides, padding, dilation, taps, strict=True)
        ]
        into = weight.shape[0]
    images, channels = image.shape[:2]
    pixels, made = math.prod(inside), math.prod(outside)
    each = images * channels * into // groups * math.prod(taps)
    flops = 2.0 * each * (pixels if transposed else made)
    sizes = {
        "images": images, "in": channels, "out": into, "pixels": pixels, "made": made,
        "taps": math.prod(taps), "tap": max(taps), "stride": max(strides),
        "dilation": max(dilation), "groups": groups, "transposed": transposed, "dims": dims,
        "channels_last": _channels_last(image),
    }  # fmt: skip
    if not backward:
        return "convolution", flops, _numbers(sizes), ""
    wanted = arguments.get("output_mask")
    mask = list(wanted) if isinstance(wanted, list | tuple) else [True, True]
    sizes |= {"to_input": bool(mask[0]), "to_weight": bool(mask[1])}
    return "convolution backward", flops * sum(map(bool, mask[:2])), _numbers(sizes), ""


def _per_dimension(given: OptionValue, dims: int) -> list[int]:
    """Return a number for each dimension; one alone is that of all."""
    several = given if isinstance(given, list | tuple) else [given or 0]
    numbers = [int(n) for n in several if isinstance(n, int)]
    return numbers * dims if len(numbers) == 1 else numbers


def _channels_last(image: Buffer) -> bool:
    return len(image.stride) > 2 and image.stride[1] == 1 and image.shape[1] > 1


def _numbers(sizes: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in sizes.items()}


_COUNTS: dict[str, Callable[[str, Sequence[Buffer], Arguments], Counted]] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm", "_int_mm", "_scaled_mm"), _product),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm"), _grouped),
    **dict.fromkeys(("_weight_int4pack_mm", "_weight_int8pack_mm"), _packed),
    **dict.fromkeys(_WEIGHTS, _convolution),
    "convolution_backward": _convolution,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    **{
        f"_scaled_dot_product_{which}_attention{end}": _attention
        for which in ("flash", "efficient", "cudnn")
        for end in ("", "_backward")
    },
}
