"""Reads what an extern operator is called with, as Inductor's node of the schedule knows it.

Seen with torch 2.11 to 2.13.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from perfcli.compile.capture.buffers import _depends_on_values, _dtype, _hint, _product
from perfcli.facts.collectives import name_collective
from perfcli.facts.operator_work import count_operator_work
from perfcli.model import RANKS_PER_MACHINE, Buffer, OperatorCall, OptionValue

_FLOAT32 = "float32"


def _read_call(operator: str, node: Any) -> tuple[tuple[str, ...], OperatorCall | None]:
    """Return the names of what a call reads and writes, and the call; nothing where its node does
    not say."""
    try:
        named = _arguments(node)
        reads = [_tensor(name, t, "input") for name, value in named for t in _tensors(value)]
        written = [*_results(node), *_list_mutated(node, named)]
        writes = [_tensor("", each, "output") for each in written]
        plain = {name: value for name, given in named if (value := _plain(given)) is not None}
        plain |= _precision(operator, reads)
        if name_collective(operator):
            plain |= _find_ranks(node, plain)
        tensors = [t for _, value in named for t in _tensors(value)] + _results(node)
        unknown = any(_depends_on_values(n) for each in tensors for n in each.get_size())
        work = None if unknown else count_operator_work(operator, reads, writes, plain)
    except Exception:  # facts about a call: whatever they stumble over, the call is fine
        return (), None
    buffers = (*reads, *writes)
    names = tuple(each.name for each in buffers)
    return names, OperatorCall(tuple(replace(each, name="") for each in buffers), plain, work)


def _arguments(node: Any) -> list[tuple[str, Any]]:
    """Return the arguments by the names of the operator's schema. A node that has no schema at
    hand has tensors first, in order, and then others by name."""
    unflatten = getattr(node, "unflatten_args", None)
    inner = _find_inner_operator(node)
    schema = getattr(inner or getattr(node, "op_overload", None), "_schema", None)
    if unflatten is None or schema is None:
        return [*(("", each) for each in node.inputs), *node.kwargs.items()]
    given, named = unflatten(node.inputs, node.constant_args)
    if inner is not None:  # its own arguments follow it
        given = given[next(n for n, each in enumerate(given) if each is inner) + 1 :]
    names = [argument.name for argument in schema.arguments]
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    found = dict(zip(names, given, strict=False)) | dict(named) | dict(node.kwargs)
    return [(name, found.get(name, defaults.get(name))) for name in names]


def _find_inner_operator(node: Any) -> Any:
    """Return the operator that an operator like ``graphsafe_run_with_rng_state`` runs with a
    random state of its own (torch 2.11 and 2.13); None for all others."""
    from torch._ops import HigherOrderOperator, OpOverload

    if not isinstance(getattr(node, "op_overload", None), HigherOrderOperator):
        return None
    arguments = getattr(node, "constant_args", ())
    return next((each for each in arguments if isinstance(each, OpOverload)), None)


def find_group(arguments: Iterable[Any]) -> Any:
    """Return the process group that one of a collective's arguments names; None where none does."""
    from torch.distributed.distributed_c10d import _resolve_process_group

    for each in arguments:
        if isinstance(each, str):
            with contextlib.suppress(Exception):  # another string: which sum is meant
                return _resolve_process_group(each)
    return None


def count_ranks(group: Any) -> dict[str, int]:
    """Return how many ranks a process group has, and on how many machines they are: torchrun gives
    each machine the next ones of all."""
    from torch.distributed import get_process_group_ranks

    ranks = get_process_group_ranks(group)
    return {"ranks": len(ranks), "machines": len({rank // RANKS_PER_MACHINE for rank in ranks})}


def _find_ranks(node: Any, plain: Mapping[str, OptionValue]) -> Mapping[str, int]:
    """Return how many ranks take part in a collective: those of the group that it names."""
    group = find_group((*plain.values(), *getattr(node, "constant_args", ())))
    if group is not None:
        return count_ranks(group)
    size = plain.get("group_size")
    return {"ranks": size} if isinstance(size, int) else {}


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif hasattr(value, "get_size") and hasattr(value, "get_stride"):
        yield value


def _list_mutated(node: Any, named: list[tuple[str, Any]]) -> Iterator[Any]:
    """Yield the tensors that an operator of the user's own overwrites, by its schema. Those of
    torch (``index_put_``) write a part of them, and nobody knows which."""
    overload = getattr(node, "op_overload", None)
    schema = getattr(overload, "_schema", None)
    if schema is None or str(overload).startswith(("aten.", "prims.", "inductor.")):
        return
    mutated = {a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write}
    for name, value in named:
        if name in mutated:
            yield from _tensors(value)


def _results(node: Any) -> list[Any]:
    """Return what a node writes: its own buffer, or each of several results. What changes its
    inputs in place, as some collectives do, has results without a layout."""
    from torch._inductor import ir

    several = getattr(node, "outputs", None) or [node]
    return [each for each in several if isinstance(getattr(each, "layout", None), ir.Layout)]


def _tensor(argument: str, tensor: Any, role: Any) -> Buffer:
    shape = tuple(map(_hint, tensor.get_size()))
    dtype = tensor.get_dtype()
    return Buffer(
        argument=argument,
        name=tensor.get_name(),
        role=role,
        dtype=_dtype(dtype),
        shape=shape,
        stride=tuple(map(_hint, tensor.get_stride())),
        bytes=_product(shape) * dtype.itemsize,
    )


def read_tensor(node: Any) -> Buffer:
    """Return what is known of a tensor by Inductor's node for it."""
    return _tensor("", node, "input")


def _plain(value: Any) -> OptionValue:
    """Return an argument as plain data, with hints where sizes are dynamic; None for tensors, and
    for what is no data."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        plain = [_plain(each) for each in value]
        return None if None in plain else plain
    return _hint(value) if hasattr(value, "free_symbols") else None


def _precision(operator: str, reads: list[Buffer]) -> Mapping[str, bool]:
    """Return whether an operator on float32 may compute in TF32: options of the process, of which
    convolutions and products each have their own."""
    import torch

    if not reads or reads[0].dtype != _FLOAT32:
        return {}
    if "convolution" in operator:
        return {"tf32": bool(torch.backends.cudnn.allow_tf32)}
    return {"tf32": torch.get_float32_matmul_precision() != "highest"}
