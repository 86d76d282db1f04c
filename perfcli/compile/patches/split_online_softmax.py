"""Finds maximum and sum of a softmax in one sweep also where Inductor splits the reduction, for
torch 2.11 and 2.12.

Online softmax finds the maximum of a row and the sum of its exponentials in one sweep. Where a few
long rows would leave most of the GPU idle, Inductor splits each row among blocks, and up to 2.12 it
then falls back to a maximum in two steps and a sum in two steps: five kernels with the one that
divides, and one more read of the input (#153241). torch 2.13 splits the sweep itself (#184069).

So does this: one reduction leaves a maximum and a sum for each part of a row. What combines the two
is written as a maximum and a sum over parts, which Inductor fuses into one small kernel: three in
all (more where a row has over 8,192 parts, and the combination is split in turn).

Parts are of 1,024 elements where rows are contiguous, shorter than those of torch 2.13: then
Inductor holds a part in registers and takes one exponential for each element, where its loop over
longer parts takes two and is bound by them, not by memory.

Read against torch 2.11.0 and 2.13.0; compiled with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfcli.compile.patches.patching import Patching

_KIND = "online_softmax_reduce"
_HELD = 1024
"""The longest contiguous part that Inductor holds in registers
(``InductorChoices.should_use_persistent_reduction``)."""
_PARTS = 8192
"""As many parts as one block combines in little time. Inductor splits longer contiguous reductions
(``InductorChoices.reduction_split_factor``)."""
_TINY = 512
"""As many parts as a kernel over columns takes in one step
(``Reduction._multilayer_second_step_hint``)."""


def apply(patching: Patching, _value: bool) -> None:
    """Split online softmax wherever Inductor splits the reduction."""
    from torch._inductor import inductor_prims, ir, lowering

    primitive = patching.find(inductor_prims, "prepare_softmax_online")
    lowerings = patching.find(lowering, "lowerings")
    original = patching.find_entry(lowerings, primitive, "lowering of prepare_softmax_online")
    describe = patching.find(lowering, "_make_reduction_inner")
    for owner, name in (
        (ir.Reduction, "num_splits"),
        (ir.OnlineSoftmaxReduction, "create"),
        (ir.View, "dynamic_reshape_indexer"),
        (lowering, "reduce_amax"),
        (lowering, "sum_"),
        (lowering, "to_dtype"),
    ):
        patching.find(owner, name)

    def prepare_softmax_online(x: Any, dim: Any) -> Any:
        reduction = describe(x, axis=dim, keepdims=True, dtype=None, override_return_dtype=None)
        hint, parts, size = _choose_parts(reduction)
        if parts == 1:
            return original(x, dim)
        patching.count()
        return _split(reduction, hint, parts, size)

    for key in [key for key, value in lowerings.items() if value is original]:
        patching.put(lowerings, key, prepare_softmax_online)


def _choose_parts(reduction: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return Inductor's hint, how many parts a row has, and how long they are."""
    from torch._inductor import ir
    from torch.utils._sympy.functions import FloorDiv

    length = _length(reduction)
    hint, parts = ir.Reduction.num_splits(**reduction, reduction_type=_KIND, reduction_numel=length)
    if parts > 1 and hint == ir.ReductionHint.INNER:
        return hint, FloorDiv(length + (_HELD - 1), _HELD), _HELD
    return hint, parts, FloorDiv(length + (parts - 1), parts)


def _length(reduction: dict[str, Any]) -> Any:
    from torch._inductor.utils import sympy_product
    from torch._inductor.virtualized import V

    return V.graph.sizevars.simplify(sympy_product(reduction["reduction_ranges"]))


def _split(reduction: dict[str, Any], hint: Any, parts: Any, size: Any) -> tuple[Any, Any]:
    """Return the maximum of each row and the sum of its exponentials, by parts of this size."""
    import torch
    from torch._inductor import ir, lowering

    wanted = reduction["dst_dtype"]
    maxima, sums = ir.OnlineSoftmaxReduction.create(
        device=reduction["device"],
        dst_dtype=torch.float32 if wanted in (torch.float16, torch.bfloat16) else wanted,
        src_dtype=reduction["src_dtype"],
        inner_fn=_load_parts(reduction, size),
        ranges=[*reduction["ranges"], parts],
        reduction_ranges=[size],
        num_output=2,
        reduction_hint=hint,
    )
    if _length(reduction).is_number and parts > _PARTS:
        maximum = lowering.reduce_amax(maxima, [-1])
        total = lowering.sum_(_rescale(maxima, sums, maximum), [-1])
    else:
        few = hint == ir.ReductionHint.OUTER and parts <= _TINY
        hint = ir.ReductionHint.OUTER_TINY if few else hint
        maximum = _reduce("max", maxima, hint)
        total = _reduce("sum", _rescale(maxima, sums, maximum), hint)
    return lowering.to_dtype(maximum, wanted), lowering.to_dtype(total, wanted)


def _reduce(kind: str, values: Any, hint: Any) -> Any:
    """Reduce the last dimension without splitting it again."""
    from torch._inductor import ir

    load, (*ranges, parts) = values.make_loader(), values.get_size()
    reduced = ir.TensorBox.create(
        ir.Reduction(
            device=values.get_device(),
            dtype=values.get_dtype(),
            inner_fn=lambda row, part: load([*row, *part]),
            ranges=ranges,
            reduction_ranges=[parts],
            reduction_type=kind,
            src_dtype=values.get_dtype(),
            reduction_hint=hint,
        )
    )
    reduced.realize()
    return reduced


def _load_parts(reduction: dict[str, Any], size: Any) -> Any:
    """Return what loads an element of a part, and beyond the end of the row -inf, which adds
    nothing to the maximum or the sum."""
    from torch._inductor import ir
    from torch._inductor.utils import dtype_from_size
    from torch._inductor.virtualized import V, ops

    length, load = _length(reduction), reduction["inner_fn"]
    unflatten = ir.View.dynamic_reshape_indexer(reduction["reduction_ranges"], [length])
    is_even = V.graph.sizevars.statically_known_multiple_of(length, size)
    dtype = dtype_from_size(length)

    def load_part(index: Sequence[Any], inside: Sequence[Any]) -> Any:
        *row, part = index
        place = size * part + inside[0]

        def element() -> Any:
            return load(row, unflatten([place]))

        if is_even:
            return element()
        mask = ops.lt(ops.index_expr(place, dtype), ops.index_expr(length, dtype))
        return ops.masked(mask, element, float("-inf"))

    return load_part


def _rescale(maxima: Any, sums: Any, maximum: Any) -> Any:
    """Return the sums of parts relative to the row's maximum M: each times exp(m - M), m being the
    maximum that it was taken relative to.

    A part of nothing but -inf has a sum without a meaning, perhaps NaN, and counts as 0. Where the
    whole row is such, or has a NaN, the result is NaN, as it is of a row that is not split.
    """
    from torch._inductor import ir
    from torch._inductor.virtualized import ops

    dtype = maxima.get_dtype()
    load_maximum, load_sum, load_row = (t.make_loader() for t in (maxima, sums, maximum))

    def weigh(index: Sequence[Any]) -> Any:
        own, row = load_maximum(index), load_row(index[:-1])
        nothing = ops.constant(float("-inf"), dtype)
        empty = ops.logical_and(ops.eq(own, nothing), ops.gt(row, nothing))
        scaled = ops.mul(load_sum(index), ops.exp(ops.sub(own, row)))
        return ops.where(empty, ops.constant(0.0, dtype), scaled)

    return ir.Pointwise.create(
        device=maxima.get_device(), dtype=dtype, inner_fn=weigh, ranges=maxima.get_size()
    )
