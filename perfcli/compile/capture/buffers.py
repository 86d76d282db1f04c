"""Reads what a kernel's pointer arguments address and how large its iteration space is, as Inductor
knows it where the kernel is defined. Seen with torch 2.11 to 2.15."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from perfcli.model import Buffer, SourceFacts


@dataclass(frozen=True, slots=True)
class Operands:
    """Holds a kernel's buffers and sizes; empty where Inductor says nothing about the kernel."""

    buffers: tuple[Buffer, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    dynamic_sizes: tuple[str, ...] = ()
    scalars: Mapping[str, int] = field(default_factory=dict)
    unknown_sizes: tuple[str, ...] = ()


NOTHING = Operands()


def read_operands(kernel: Any) -> Operands:
    """Return what a generated kernel (or a C++ kernel's arguments alone, which is what its backend
    hands on) works on, once its text is final."""
    try:
        numels = _numels(kernel)
        return Operands(
            tuple(_buffers(kernel)),
            {prefix: _hint(numel) for prefix, numel in numels.items()},
            tuple(prefix for prefix, numel in numels.items() if not _is_constant(numel)),
            dict(_scalars(kernel)),
            tuple(_list_unknown(kernel)),
        )
    except Exception:  # facts about a kernel: whatever they stumble over, the kernel is fine
        return NOTHING


def user_operands(node: Any) -> Operands:
    """Return the operands of a call of a kernel that the user wrote
    (``ir.UserDefinedTritonKernel``). What it writes counts as in place: Inductor hands it a buffer
    that exists. Its whole-number arguments are its scalars, and so is its grid, by the names that
    the launcher has for it."""
    try:
        written = {buffer.get_name() for buffer in node.mutable_args}
        tensors = {k: v for k, v in node.kwargs.items() if hasattr(v, "get_stride")}
        return Operands(
            tuple(
                _buffer(
                    argument,
                    t.get_name(),
                    "inplace" if t.get_name() in written else "input",
                    t,
                    _hint(_product(t.get_size())),
                )
                for argument, t in tensors.items()
            ),
            scalars=dict(_user_scalars(node)),
        )
    except Exception:  # as above
        return NOTHING


def _user_scalars(node: Any) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers among the arguments of a user's kernel, and what the launcher gets
    besides: the grid (``_grid_0``) or, where each configuration has a grid of its own, the sizes
    that these depend on (``_launcher_s0``)."""
    for name, value in node.kwargs.items():
        if isinstance(value, int) or getattr(value, "is_integer", False) is True:
            yield name, _hint(value)
    if len(node.grid) == 1:
        yield from ((f"_grid_{place}", _hint(size)) for place, size in enumerate(node.grid[0]))
        return
    symbols: dict[Any, None] = {}
    for size in (size for grid in node.grid for size in grid):
        symbols |= dict.fromkeys(sorted(getattr(size, "free_symbols", ()), key=str))
    yield from ((f"_launcher_s{number}", _hint(each)) for number, each in enumerate(symbols))


def correct_roles(buffers: tuple[Buffer, ...], facts: SourceFacts | None) -> tuple[Buffer, ...]:
    """Return the buffers with the role corrected of those that are never loaded: Inductor also
    calls a buffer in place when a kernel overwrites what it made itself, and when a user's kernel
    only stores to it."""
    if facts is None or any(not access.pointer for access in facts.accesses):
        return buffers
    loaded = {access.pointer for access in facts.accesses if access.kind != "store"}
    return tuple(
        replace(buffer, role="output")
        if buffer.role == "inplace" and buffer.argument not in loaded
        else buffer
        for buffer in buffers
    )


def _numels(kernel: Any) -> dict[str, Any]:
    """Return the sizes without the reduction dimension of size 1 that pointwise kernels carry
    along."""
    reduces = getattr(kernel, "inside_reduction", False)
    numels = getattr(kernel, "numels", {}) or {}
    return {k: v for k, v in numels.items() if reduces or not k.startswith("r") or v != 1}


def _scalars(kernel: Any) -> Iterator[tuple[str, int]]:
    """Yield name and value of the sizes that the kernel gets as arguments."""
    for size, argument in getattr(kernel, "args", kernel).sizevars.items():
        yield argument, _hint(size)


def _list_unknown(kernel: Any) -> Iterator[str]:
    """Yield the sizes that depend on values of tensors, those of a combo kernel's parts included:
    torch makes up a number for them."""
    for part in (kernel, *getattr(kernel, "sub_kernels", ())):
        yield from (prefix for prefix, numel in _numels(part).items() if _depends_on_values(numel))


def _depends_on_values(size: Any) -> bool:
    """Return whether a size is one that only the values of a tensor tell, such as how many of them
    are not zero."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return not isinstance(size, int) and bool(free_unbacked_symbols(size))


def _points(kernel: Any, name: str) -> int | None:
    """Return the points of the iteration space; for a combo kernel, of those parts that work on the
    buffer of this name. None for a kernel of another kind."""
    parts = getattr(kernel, "sub_kernels", None)
    if parts is not None:
        return sum(_points(p, name) or 0 for p in parts if name in p.features.buf_accesses())
    numels = _numels(kernel)
    return _hint(_product(numels.values())) if numels else None


def _buffers(kernel: Any) -> Iterator[Buffer]:
    from torch._inductor.virtualized import V

    args = getattr(kernel, "args", kernel)
    for argument, name, role in _list_arguments(args):
        node = V.graph.try_get_buffer(name)
        yield _buffer(argument, name, role, node, _points(kernel, name))
    for workspace in args.workspace_args:
        count = _hint(workspace.count)
        yield Buffer(
            argument=workspace.inner_name,
            name=workspace.outer_name,
            role="workspace",
            dtype=_dtype(workspace.dtype),
            shape=(count,),
            stride=(1,),
            bytes=count * workspace.dtype.itemsize,
        )


Role = Literal["input", "output", "inplace"]


def _list_arguments(args: Any) -> Iterator[tuple[str, str, Role]]:
    """Yield argument, Inductor's name and role of what was not removed, in the order of the
    signature (``KernelArgs.python_argdefs``). A buffer that is overwritten goes by its last name,
    under which the kernels that follow read it."""
    inplace = {id(b): b for b in args.inplace_buffers.values() if hasattr(b, "other_names")}
    for buffer in inplace.values():
        yield buffer.inner_name, buffer.other_names[-1], "inplace"
    overwritten = {name for buffer in inplace.values() for name in buffer.other_names}
    roles: Iterable[tuple[Role, Mapping[str, Any]]] = (
        ("input", args.input_buffers),
        ("output", args.output_buffers),
    )
    for role, named in roles:
        for name, argument in named.items():
            if isinstance(argument, str) and name not in overwritten:
                yield argument, name, role


def _buffer(argument: str, name: str, role: Role, node: Any, points: int | None = None) -> Buffer:
    from torch._inductor.virtualized import V

    dtype = V.graph.get_dtype(name)
    numel = _hint(V.graph.get_numel(name))
    return Buffer(
        argument=argument,
        name=name,
        role=role,
        dtype=_dtype(dtype),
        shape=tuple(map(_hint, node.get_size())),
        stride=tuple(map(_hint, node.get_stride())),
        bytes=(numel if points is None else min(numel, points)) * dtype.itemsize,
        graph_input=name in V.graph.graph_inputs or name in V.graph.constants,
        graph_output=_is_output(name),
        part_of=_whole_of(node),
    )


def _is_output(name: str) -> bool | None:
    from torch._inductor.virtualized import V

    try:
        return name in V.graph.get_output_names()
    except (AttributeError, TypeError):  # another torch keeps its outputs in another way
        return None


def _whole_of(node: Any) -> str:
    """Return the name of the buffer that a ``cat`` puts together and this one is a part of."""
    view = getattr(getattr(node, "layout", None), "view", None)
    return str(view.get_name()) if view is not None and hasattr(view, "get_name") else ""


def _dtype(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _hint(size: Any) -> int:
    from torch._inductor.virtualized import V

    return int(V.graph.sizevars.optimization_hint(size))


def _is_constant(size: Any) -> bool:
    return isinstance(size, int) or bool(size.is_number)


def _product(values: Iterable[Any]) -> Any:
    result: Any = 1
    for value in values:
        result = result * value
    return result
