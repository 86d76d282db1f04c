"""Turns what a wrapper says into a captured graph, as the hooks on Inductor take it while the code
is generated: kernels with their buffers, launches, and calls of library operators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perfcli.compile.capture.buffers import Operands
from perfcli.compile.capture.captured import CapturedGraph, CapturedKernel
from perfcli.compile.capture.traffic import CAST, FINISHING_OPERATORS, Finishing, Use, count_whole
from perfcli.importing.sources.calls import Tensor, WrittenCall
from perfcli.importing.sources.comments import find_origins, read_origins
from perfcli.importing.sources.declared import (
    NOTHING,
    NUMEL,
    Declared,
    item_size,
    read_declared,
    read_declared_cpp,
)
from perfcli.importing.sources.operators import describe_call, name_operator
from perfcli.importing.sources.step import ReadGraph
from perfcli.model import Buffer, Launch, SourceFacts

_SIZE = re.compile(r"^ks\d+$")
"""The names of parameters with sizes of the model."""

Role = Literal["input", "output", "inplace", "workspace"]


def capture_graph(read: ReadGraph, counted: Mapping[str, SourceFacts | None]) -> CapturedGraph:
    """Return the graph with all that its wrapper's call launches. ``counted`` has, by a kernel's
    text, what stands in it."""
    wrapper, calls = read.wrapper, read.followed.calls
    graph = CapturedGraph(read.facts, calls=1, choices=dict(wrapper.choices))
    declared: dict[str, Declared] = {}
    for written in wrapper.kernels:
        definition = written.definition
        origins = read_origins(written.comment, read.listed)
        origins = origins or find_origins(read.nodes.get(written.name, ()), read.listed)
        graph.kernels[written.name] = CapturedKernel(written.name, definition, origins)
        declared[written.name] = (
            read_declared(definition)
            if definition.language == "triton"
            else read_declared_cpp(definition.source)
        )
    known = _learn_dtypes(calls, declared, wrapper.choices)
    capturing = _Capturing(graph, declared, known, frozenset(read.followed.inputs), counted)
    for call in calls:
        if call.extern:
            capturing.add_operator(call)
        else:
            capturing.add_launch(call)
    for kernel in graph.kernels.values():
        if not kernel.uses:  # its launch is missing
            kernel.uses.append(Use(Operands(sizes=dict(declared[kernel.name].numels))))
    return graph


def _learn_dtypes(
    calls: Sequence[WrittenCall],
    declared: Mapping[str, Declared],
    choices: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Return the dtypes of tensors that kernels are given, by the kernels' signatures."""
    known: dict[str, str] = {}
    for call in calls:
        name, *_ = choices.get(call.name) or (call.name,)
        types = declared.get(name, NOTHING)
        for parameter, value in zip(types.parameters, call.arguments, strict=False):
            if isinstance(value, Tensor) and types.dtypes.get(parameter):
                known[value.first or value.name] = types.dtypes[parameter]
    return known


@dataclass(frozen=True, slots=True)
class _Capturing:
    """Adds calls to a graph, with what is known of all of it."""

    graph: CapturedGraph
    declared: Mapping[str, Declared]
    known: dict[str, str]
    inputs: frozenset[str]
    counted: Mapping[str, SourceFacts | None]

    def add_operator(self, call: WrittenCall) -> None:
        name = name_operator(call.name)
        operands, described = describe_call(call, self.known)
        if described is not None:
            self.graph.called[name, operands] = described
            made = [each for each in described.buffers if each.role == "output"]
            for result, buffer in zip(call.results.values(), made, strict=True):
                self.known.setdefault(result.first or result.name, buffer.dtype)
        launch = Launch(self.graph.facts.name, name, extern=True, operands=operands)
        self.graph.launches.append(launch)

    def add_launch(self, call: WrittenCall) -> None:
        name, *_ = self.graph.choices.get(call.name) or (call.name,)
        kernel = self.graph.kernels.get(name)
        if kernel is None:  # a choice among kernels that are missing
            return
        use = self._read_use(kernel, call)
        if kernel.definition.kind == "user":
            kernel.add_user_use(use)
        else:
            kernel.uses.append(use)
        graph = self.graph.facts.name
        self.graph.launches.append(Launch(graph, name))
        self.graph.launches += [
            Launch(graph, operator, extern=True, finishing=True)
            for operator in use.finishing.operators
        ]

    def _read_use(self, kernel: CapturedKernel, call: WrittenCall) -> Use:
        """Return what a kernel works on at one of its launches."""
        declared, kind = self.declared[kernel.name], kernel.definition.kind
        given = list(zip(declared.parameters, call.arguments, strict=False))
        sizes = {} if given else dict(declared.numels)
        dynamic: list[str] = []
        for place, (parameter, value) in enumerate(given):
            size = NUMEL.match(parameter)
            if size and isinstance(value, int):
                sizes[size[1]] = value
                dynamic += [size[1]] * (place in call.symbols)
        points = math.prod(sizes.values()) if sizes else None
        tensors = [(name, value) for name, value in given if isinstance(value, Tensor)]
        facts = self.counted.get(kernel.definition.source)
        buffers = tuple(
            self._describe(name, tensor, declared, points, facts)
            for name, tensor in tensors
            if tensor.shape is not None
        )
        is_user = kind == "user"
        numbers = {n: v for n, v in given if isinstance(v, int) and (is_user or _SIZE.match(n))}
        scalars = {**declared.constants, **numbers} if is_user else numbers
        operands = Operands(buffers, sizes, tuple(dynamic), scalars)
        is_estimated = kind != "other" and kernel.definition.language == "triton"
        if not is_estimated or not given or len(buffers) < len(tensors):
            return Use(operands)
        if is_user:
            return Use(operands, count_whole(buffers))
        touched = sum(_count_touched(buffer, declared, points) for buffer in buffers)
        return Use(operands, touched, _read_finishing(call, buffers))

    def _describe(
        self,
        parameter: str,
        tensor: Tensor,
        declared: Declared,
        points: int | None,
        facts: SourceFacts | None,
    ) -> Buffer:
        dtype = (
            tensor.dtype
            or declared.dtypes.get(parameter)
            or self.known.get(tensor.first or tensor.name, "")
        )
        shape = tensor.shape or ()
        count = math.prod(shape)
        role = _name_role(parameter, facts)
        if points is not None and role != "workspace":
            count = min(count, points)
        return Buffer(
            argument=parameter,
            name=tensor.name,
            role=role,
            dtype=dtype,
            shape=shape,
            stride=tensor.stride or (),
            bytes=count * item_size(dtype),
            graph_input=tensor.name in self.inputs,
        )


def _name_role(parameter: str, facts: SourceFacts | None) -> Role:
    """Return the role that Inductor's name of a parameter says; of a name that somebody else chose,
    what the source does with it."""
    if parameter.startswith("in_out_ptr"):
        return "inplace"
    if parameter.startswith("out_ptr"):
        return "output"
    if parameter.startswith(("ws_ptr", "semaphores_ptr")):
        return "workspace"
    if parameter.startswith("in_ptr"):
        return "input"
    accesses = facts.accesses if facts else ()
    is_written = any(each.kind != "load" and each.pointer == parameter for each in accesses)
    return "inplace" if is_written else "input"


def _count_touched(buffer: Buffer, declared: Declared, points: int | None) -> int:
    """Return the bytes that Inductor's own estimate counts: all of a buffer, or of a larger one
    each slice of it that the kernel touches; what is written in place twice."""
    if buffer.role == "workspace":
        return 0
    size = buffer.bytes
    if points is not None and math.prod(buffer.shape) > points:
        size *= max(declared.places.get(buffer.argument, 1), 1)
    return size * (2 if buffer.role == "inplace" else 1)


def _read_finishing(call: WrittenCall, buffers: Sequence[Buffer]) -> Finishing:
    """Return what the wrapper calls after a launch to sum up the kernel's workspace."""
    workspace = next((each for each in buffers if each.role == "workspace"), None)
    if not call.finishing or workspace is None:
        return Finishing()
    operators: list[str] = []
    moved = workspace.bytes
    for method, made in call.finishing:
        operators.append(FINISHING_OPERATORS.get(method, f"aten.{method}"))
        row = math.prod(made.shape or (0,))
        moved += row * item_size(workspace.dtype)
        if made.dtype != workspace.dtype:
            operators.append(CAST)
            moved += row * (item_size(workspace.dtype) + item_size(made.dtype))
    return Finishing(tuple(operators), moved)
