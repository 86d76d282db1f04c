"""Counts the bytes that a kernel must move, as Inductor estimates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfcli.compile.capture.buffers import (
    NOTHING,
    Operands,
    correct_roles,
    read_operands,
    user_operands,
)
from perfcli.model import Buffer, SourceFacts

# By the reduction that the kernel began: the operator that a method of a tensor calls.
FINISHING_OPERATORS = {
    "sum": "aten.sum.dim_IntList",
    "max": "aten.amax.default",
    "min": "aten.amin.default",
    "prod": "aten.prod.dim_int",
}
CAST = "aten.to.dtype"


@dataclass(frozen=True, slots=True)
class Finishing:
    """The operators in the order of their calls, and the bytes that they read and write."""

    operators: tuple[str, ...] = ()
    bytes_moved: int = 0


NO_FINISHING = Finishing()


def _read_finishing(kernel: Any) -> Finishing:
    """Return what the wrapper calls after a launch of this kernel; nothing for most kernels."""
    partial = getattr(kernel, "saved_partial_accumulate", ())
    if not partial:
        return NO_FINISHING
    from torch._inductor.virtualized import V

    hint = V.graph.sizevars.optimization_hint
    row = int(hint(kernel.numels["r0_"]))
    (workspace,) = kernel.args.workspace_args
    accumulated = workspace.dtype
    operators: list[str] = []
    # All of the workspace is read once, by one operator or another.
    moved = int(hint(workspace.count)) * accumulated.itemsize
    for each in partial:
        dtype = V.graph.get_dtype(each.buffer_name)
        operators.append(
            FINISHING_OPERATORS.get(each.reduction_type, f"aten.{each.reduction_type}")
        )
        moved += row * accumulated.itemsize
        if dtype != accumulated:
            operators.append(CAST)
            moved += row * (accumulated.itemsize + dtype.itemsize)
    return Finishing(tuple(operators), moved)


@dataclass(frozen=True, slots=True)
class Use:
    """One place that launches a kernel: the same text can work on other buffers elsewhere."""

    operands: Operands = NOTHING
    touched: int | None = None
    """Bytes read and written, each buffer (or the slices of it that are touched) once. What is
    written in place counts twice, whether it is read or not; workspaces do not count."""
    finishing: Finishing = NO_FINISHING


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes that one launch moves; None where they are not known."""

    read: int | None
    written: int | None
    arguments: Mapping[str, int] = field(default_factory=dict)
    """Bytes behind each argument that the kernel reads, ``in_ptr0``."""
    finishing: int = 0
    """Bytes that the operators after the launch move to finish its results."""


UNKNOWN = _Moved(None, None)


def read_use(kernel: Any) -> Use:
    """Return what a kernel works on at the place for which Inductor has just generated it."""
    operands = read_operands(kernel)
    try:
        return Use(operands, _touched(kernel, operands.buffers), _read_finishing(kernel))
    except Exception:  # an estimate: whatever it stumbles over, the kernel itself is fine
        return Use(operands)


def read_user_use(node: Any) -> Use:
    """Return what a kernel that the user wrote works on: all of every tensor that it is given, as
    far as the worker can tell. The parent follows its accesses (``facts/work/moved.py``)."""
    operands = user_operands(node)
    if not operands.buffers:
        return Use(operands)
    return Use(operands, count_whole(operands.buffers))


def count_whole(buffers: Iterable[Buffer]) -> int:
    """Return the bytes that are moved where each tensor is read or written as a whole."""
    return sum(each.bytes * (each.is_read + each.is_written) for each in buffers)


def _touched(kernel: Any, buffers: Sequence[Buffer]) -> int | None:
    """Return ``SIMDKernel.estimate_kernel_num_bytes``, or for a combo kernel, which has no
    estimate, the bytes of its buffers; None for all others."""
    estimate = getattr(kernel, "estimate_kernel_num_bytes", None)
    if estimate is not None:
        return int(estimate()) + _overlooked(kernel, buffers)
    if hasattr(kernel, "sub_kernels"):
        return sum(b.bytes * (b.is_read + b.is_written) for b in buffers)
    return None


def _overlooked(kernel: Any, buffers: Sequence[Buffer]) -> int:
    """Return the bytes of inputs that a user's kernel wrote in place: the scheduler knows them
    under new names, so Inductor's estimate takes them for unused."""
    known = kernel.features.buf_accesses()
    return sum(b.bytes for b in buffers if b.role == "input" and b.name not in known)


def mean(uses: Sequence[Use], facts: SourceFacts | None) -> _Moved:
    """Return what one launch moves on average over the places that launch a kernel, and UNKNOWN
    where one of them does not tell. The kernel's source says which buffers it really reads."""
    each = [_moved(use, facts) for use in uses]
    if not each or any(moved.read is None or moved.written is None for moved in each):
        return UNKNOWN
    names = {name for moved in each for name in moved.arguments}
    return _Moved(
        _average([moved.read for moved in each]),
        _average([moved.written for moved in each]),
        {name: _average([m.arguments.get(name) for m in each]) for name in sorted(names)},
        _average([moved.finishing for moved in each]),
    )


def _average(values: Sequence[int | None]) -> int:
    return round(sum(value or 0 for value in values) / len(values))


def _moved(use: Use, facts: SourceFacts | None) -> _Moved:
    if use.touched is None:
        return UNKNOWN
    named, used = use.operands.buffers, correct_roles(use.operands.buffers, facts)
    written = sum(b.bytes for b in named if b.is_written)
    # Inductor counts all that is written in place as read, too.
    never_read = sum(b.bytes for b in named if b.is_read) - sum(b.bytes for b in used if b.is_read)
    read = use.touched - written - never_read
    if read < 0:
        return UNKNOWN
    arguments = {b.argument: b.bytes for b in used if b.is_read}
    for buffer in used:
        if buffer.role == "workspace":
            kinds = _accesses(facts, buffer.argument)
            if kinds - {"store"}:
                read += buffer.bytes
                arguments[buffer.argument] = buffer.bytes
            if kinds - {"load"}:
                written += buffer.bytes
    return _Moved(read, written, arguments, use.finishing.bytes_moved)


def _accesses(facts: SourceFacts | None, argument: str) -> set[str]:
    return {a.kind for a in facts.accesses if a.pointer == argument} if facts else set()
