"""Takes the decisions that torch takes by looking at a device or at values, where there are
neither.

Each one is answered with an assumption, and the run carries a note that says so. Seen with torch
2.11 to 2.15.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from typing import Any

from perfcli.compile.stand_in.device import replace_attribute
from perfcli.model import Target
from perfcli.predict.padding import PaddedMatrix, PaddingForecast, predict_padding

PADDING = "padding of matrix products, timed on the device: taken as not padded (×{})"
PADDED = "padding of matrix products, timed on the device: taken as estimated (×{})"
SHORT = (
    "padding of products of a few microseconds (a device would time it, and a busy one answers "
    "either way): taken as not padded (×{})"
)
SPLITS = (
    "split sizes of mix-order reductions, timed on the device: taken as those without timing (×{})"
)
SIZES = (
    "sizes that depend on tensor values outside of a graph: taken as half (×{}); "
    "-o dynamo.capture_dynamic_output_shape_ops=true may keep what asks for them inside"
)
VALUES = "tensor values read outside of a graph: taken as 0.5, 1 or True (×{})"
FINITE = "gradients that GradScaler looks at: taken as finite, so that the optimizer steps (×{})"
ASSUMED = 0.5
"""A floating-point value that nobody knows: the middle of a probability."""
RECURRENT = "recurrent layers run by cuDNN outside of graphs: not counted (×{})"


class Assumptions:
    """Records what was assumed, and how often."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def notes(self) -> tuple[str, ...]:
        return tuple(what.format(n) for what, n in self.counts.items())


def install(mode: Any, target: Target | None, assumptions: Assumptions) -> None:
    """Answer padding decisions for a target, and reads of values from fake tensors of ``mode``.
    What is assumed from now on is added to ``assumptions``."""
    _assume_padding(assumptions, target)
    _assume_split_sizes(assumptions)
    _assume_values(assumptions, mode)


def wants_device(error: BaseException) -> bool:
    """Return whether an error says that something was to be done on the device: a CPU build has no
    kernel for it, a CUDA build finds no driver."""
    text = str(error)
    return ("Could not run" in text and "'CUDA' backend" in text) or any(
        sign in text for sign in ("NVIDIA driver", "CUDA driver", "CUDA error", "No CUDA GPUs")
    )


def _assume_padding(assumptions: Assumptions, target: Target | None) -> None:
    from torch._inductor.fx_passes import pad_mm

    original = pad_mm._should_pad

    @functools.wraps(original)
    def should_pad(*args: Any, **kwargs: Any) -> bool:
        try:
            return bool(original(*args, **kwargs))
        except RuntimeError as error:
            if not wants_device(error):
                raise
            forecast = _estimate_padding(target, args, kwargs)
            if forecast is None:
                assumptions.counts[PADDING] += 1
                return False
            assumptions.counts[SHORT if forecast.is_short else PADDED] += 1
            return forecast.pays

    replace_attribute(pad_mm, "_should_pad", should_pad)


def _estimate_padding(target: Target | None, args: Any, kwargs: Any) -> PaddingForecast | None:
    if target is None:
        return None
    try:
        return _decide_padding(target, *args, **kwargs)
    except (AttributeError, TypeError, ValueError):  # a torch that asks in another way
        return None


def _decide_padding(
    target: Target, match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None
) -> PaddingForecast | None:
    """Return what ``pad_mm._should_pad`` is expected to find on the target; None where the
    estimate does not know such products."""
    import torch

    precision = _name_precision(mat1.dtype)
    if precision is None or mat1.dtype != mat2.dtype:
        return None
    left, right = (
        _describe_operand(match, name, t) for name, t in (("mat1", mat1), ("mat2", mat2))
    )
    batch = _hint_of(mat1.shape[0]) if op is torch.ops.aten.bmm else 1
    return predict_padding(left, right, batch, precision, input is not None, target)


def _describe_operand(match: Any, name: str, matrix: Any) -> PaddedMatrix:
    from torch._inductor.fx_passes import pad_mm

    alignment = pad_mm.get_alignment_size(matrix)
    rows, columns = (_hint_of(n) for n in matrix.shape[-2:])
    more = [pad_mm.get_padded_length(n, alignment) for n in matrix.shape[-2:]]
    return PaddedMatrix(
        rows,
        columns,
        rows + more[0],
        columns + more[1],
        transposed=columns > 1 and _hint_of(matrix.stride()[-1]) != 1,
        free=pad_mm.should_exclude_padding_time(match, name),
    )


def _hint_of(size: Any) -> int:
    """Return a size, or the hint of a symbolic one."""
    return size if isinstance(size, int) else int(size.node.hint)


def _name_precision(dtype: Any) -> str | None:
    import torch

    if dtype == torch.float32:
        return "fp32" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)


def _assume_split_sizes(assumptions: Assumptions) -> None:
    """Answer how many rows one block of a mix-order reduction adds up, for which ``max_autotune``
    and ``coordinate_descent_tuning`` search by timing it: with where the search begins, which is
    what is taken otherwise."""
    import torch._inductor.config as inductor
    from torch._inductor.runtime.coordinate_descent_tuner import CoordescTuner

    if "triton.mix_order_reduction_autotune_split_size" not in inductor._config:
        return  # a torch that does not time them

    def keep(_time: Any, begin: int, *_: Any, **__: Any) -> int:
        assumptions.counts[SPLITS] += 1
        return begin

    replace_attribute(CoordescTuner, "autotune_single_field", staticmethod(keep))


def _assume_values(assumptions: Assumptions, mode: Any) -> None:
    """``.item()`` on a fake tensor, in the code that a graph break left to run as it is."""
    import torch
    from torch._subclasses import fake_impls
    from torch._subclasses.fake_tensor import DataDependentOutputException

    table = fake_impls.op_implementations_dict
    for op in (torch.ops.aten.rand.default, torch.ops.aten.rand.generator):
        table[op] = _wrap_coin(mode)
    for op in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default):
        table[op] = _wrap_value_reader(table[op], mode, assumptions, DataDependentOutputException)
    for op in (torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default):
        table[op] = _wrap_mask_reader(table[op], mode, assumptions)
    for name, dimension in _UNIQUE.items():
        for op in _overloads(name):
            table[op] = _wrap_unique(table.get(op), dimension, mode, assumptions)


# torch.unique and its like, each with the position of its argument ``dim``.
_UNIQUE = {
    "_unique": None, "_unique2": None, "unique_consecutive": 3,
    "unique_dim": 1, "unique_dim_consecutive": 1,
}  # fmt: skip


def _overloads(name: str) -> list[Any]:
    """Return the operator as the table of fake tensors knows it; none where this torch lacks it."""
    import torch

    packet = getattr(torch.ops.aten, name, None)
    return [] if packet is None else [packet.default]


def _wrap_unique(original: Any, position: int | None, mode: Any, assumptions: Assumptions) -> Any:
    """Return a ``unique`` that finds half of all values, with an index for each of all and a count
    for each of these: what ``return_inverse`` and ``return_counts`` ask for."""
    import torch
    from torch._subclasses.fake_tensor import DynamicOutputShapeException

    def unique(fake_mode: Any, func: Any, arg: Any, *rest: Any, **kwargs: Any) -> Any:
        try:
            if original is None:
                raise DynamicOutputShapeException(func)
            return original(fake_mode, func, arg, *rest, **kwargs)
        except DynamicOutputShapeException:
            if fake_mode is not mode:
                raise
            assumptions.counts[SIZES] += 1
            given = (arg, *rest)
            dim = kwargs.get("dim", given[position] if position and len(given) > position else None)
            size = [arg.numel()] if dim is None else list(arg.shape)
            along = 0 if dim is None else dim
            every = size[along]
            size[along] = chosen = (every + 1) // 2
            inverse = arg.new_empty(arg.shape if dim is None else (every,), dtype=torch.int64)
            counts = arg.new_empty((chosen,), dtype=torch.int64)
            results = (arg.new_empty(size), inverse, counts)
            return results[: len(func._schema.returns)]

    return unique


def _wrap_value_reader(original: Any, mode: Any, assumptions: Assumptions, refused: Any) -> Any:
    @functools.wraps(original)
    def read(fake_mode: Any, func: Any, arg: Any) -> Any:
        try:
            return original(fake_mode, func, arg)
        except refused:
            if fake_mode is not mode:
                raise  # Dynamo's own: it breaks the graph here, as it would on the device
            if _is_asked_by_scaler():
                assumptions.counts[FINITE] += 1
                return 0.0
            assumptions.counts[VALUES] += 1
            return assume_value(arg.dtype)

    return read


_FRAMES = 60
"""Most frames between a read of a value and whoever asked for it."""


def _is_asked_by_scaler() -> bool:
    """Return whether ``GradScaler`` asks how many gradients are infinite: it skips the optimizer's
    step where any are (seen with torch 2.11 to 2.13)."""
    frame: Any = sys._getframe()
    for _ in range(_FRAMES):
        frame = frame.f_back
        if frame is None:
            return False
        if frame.f_code.co_name == "_maybe_opt_step":
            return str(frame.f_code.co_filename).endswith("grad_scaler.py")
    return False


def _wrap_mask_reader(original: Any, mode: Any, assumptions: Assumptions) -> Any:
    """Wrap ``nonzero`` and ``masked_select``: a mask is taken to hold for half of its elements."""
    import torch
    from torch._subclasses.fake_tensor import DynamicOutputShapeException

    @functools.wraps(original)
    def select(fake_mode: Any, func: Any, arg: Any, *rest: Any) -> Any:
        try:
            return original(fake_mode, func, arg, *rest)
        except DynamicOutputShapeException:
            if fake_mode is not mode:
                raise
            assumptions.counts[SIZES] += 1
            chosen = (arg.numel() + 1) // 2
            if func is torch.ops.aten.nonzero.default:
                return arg.new_empty_strided((chosen, arg.dim()), (1, chosen), dtype=torch.int64)
            return arg.new_empty((chosen,))

    return select


def _wrap_coin(mode: Any) -> Any:
    """Wrap ``torch.rand([])`` on the CPU, a coin that models toss to drop a layer: the fake tensor
    keeps the value 0.5, so that what is computed from it (``p < 0.1``) is known, too."""
    import torch
    from torch._subclasses import fake_impls
    from torch.utils._python_dispatch import _disable_current_modes

    def rand(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        drawn = fake_impls.constructors(fake_mode, func, *args, **kwargs)
        if fake_mode is mode and drawn.numel() == 1 and drawn.device.type == "cpu":
            with _disable_current_modes():
                drawn.constant = torch.full(drawn.shape, 0.5, dtype=drawn.dtype)
        return drawn

    return rand


def assume_value(dtype: Any) -> float | int | bool:
    """Return the middle of a probability, a count that is not zero, or a condition that holds
    (masks are full): what most models meet."""
    import torch

    if dtype is torch.bool:
        return True
    return ASSUMED if dtype.is_floating_point else 1
