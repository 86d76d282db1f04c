"""Describes what launches of hand-written kernels are given, and the text of what they run; nothing
runs.

A family's own ``run`` says which tensor is which argument: it is called with tensors that have no
memory, and what it would launch is written down instead.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator, Mapping, Set
from importlib import import_module
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.model import LaunchPlan, Problem
from perfcli.model.kernel_work import DescribedLaunch, DescribeRequest, Operand

NEEDED = ("inputs", "reference", "run", "eager", "function")


def load_code(module: str, reference: str = "") -> Any:
    """Return the module that a family names, a ``FamilyCode``. ``reference``: the family's own file
    where it is a user's, whose folder the module is looked for in. Raises PerfcliError where there
    is no such module, or a function of it is missing."""
    if reference.endswith(".py"):
        folder = str(Path(reference).resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise PerfcliError(
            f"there is no module {module}, which the kernel family names as its code"
        ) from error
    missing = [name for name in NEEDED if not callable(getattr(found, name, None))]
    if missing:
        raise PerfcliError(f"{module} lacks {' and '.join(missing)}, which a kernel family needs")
    return found


LAUNCHING = "perfcli.kernels._launching"
_HEADER = "import triton\nimport triton.language as tl\n"
_GLUON_HEADER = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
"""


def describe(request: DescribeRequest) -> tuple[DescribedLaunch, ...]:
    """Describe each launch of the plan, in order. Raises PerfcliError where the family's code is
    not there, or does not launch what the plan says."""
    own = load_code(registry.family(request.family).code, request.family)
    given = _record_operands(own, request.problem, request.plan)
    if len(given) != len(request.plan.launches):
        raise PerfcliError(
            f"{request.family} plans {len(request.plan.launches)} launches and makes {len(given)}"
        )
    launches = zip(request.plan.launches, given, strict=True)
    return tuple(
        _describe_launch(own.function(launch.function), operands) for launch, operands in launches
    )


def _describe_launch(function: Any, operands: tuple[Operand, ...]) -> DescribedLaunch:
    return DescribedLaunch(_source_of(function), operands, is_gluon(function))


def is_gluon(function: Any) -> bool:
    return bool(getattr(function, "is_gluon", bool)())


def _record_operands(code: Any, problem: Problem, plan: LaunchPlan) -> list[tuple[Operand, ...]]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fakes = code.inputs(problem, "cpu", 0)
    tensors = {
        name: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        for name, t in fakes.items()
    }
    with import_module(LAUNCHING).record_launches() as launches:
        code.run(problem, tensors, plan)
    names = {id(tensor): name for name, tensor in tensors.items()}
    inputs = frozenset(names)
    return [tuple(_operands(step.arguments, values, names, inputs)) for step, values in launches]


def _operands(
    arguments: Mapping[str, str], values: Mapping[str, Any], names: dict[int, str], inputs: Set[int]
) -> Iterator[Operand]:
    """Yield the operands of a launch. ``names`` goes by identity: one name for one tensor, whatever
    launches call it."""
    for name in arguments:
        tensor = getattr(values[name], "base", None)  # of a tensor descriptor
        tensor = values[name] if tensor is None else tensor
        if hasattr(tensor, "element_size"):
            yield Operand(
                argument=name,
                name=names.setdefault(id(tensor), f"buf{len(names) - len(inputs)}"),
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=tuple(tensor.shape),
                stride=tuple(tensor.stride()),
                bytes=tensor.numel() * tensor.element_size(),
                is_input=id(tensor) in inputs,
            )


def _source_of(function: Any) -> str:
    """Return the text of a ``@triton.jit`` function and of all that it calls, as one module. Raises
    PerfcliError where two functions of one name are called, from two files."""
    found: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    _collect(function, found, constants)
    in_gluon = is_gluon(function)
    header = _HEADER + _GLUON_HEADER if in_gluon else _HEADER
    lines = [header, *(f"{n} = tl.constexpr({v!r})" for n, v in constants.items()), ""]
    decorator = "@gluon.jit" if in_gluon else "@triton.jit"
    texts = [f"{decorator}\n{_text(each)}\n" for each in reversed(found.values())]
    return "\n".join([*lines, *texts])


def _text(function: Any) -> str:
    return textwrap.dedent(function.src)


def _collect(function: Any, found: dict[str, Any], constants: dict[str, Any]) -> None:
    from triton import language as tl

    name = function.__name__
    if found.setdefault(name, function) is not function:
        raise PerfcliError(f"two functions {name} are called by one kernel: rename one of them")
    for node in ast.walk(ast.parse(_text(function))):
        if not isinstance(node, ast.Name) or node.id == name:
            continue
        value = function.__globals__.get(node.id)
        if isinstance(value, tl.constexpr):
            constants[node.id] = value.value
        elif hasattr(value, "src") and found.get(node.id) is not value:
            _collect(value, found, constants)
