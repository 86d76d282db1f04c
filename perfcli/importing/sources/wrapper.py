"""Reads the module that Inductor writes for a graph (``output_code.py``): its kernels, and the
statements that launch them.

The module is parsed and never executed. One that is cut off or broken is read piece by piece. Seen
with torch 2.11 to 2.13.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perfcli.compile.capture.definition import Definition, parse_definition, read_definition

UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What ``ast.parse`` raises for text that is no Python, or that is nested too deeply."""

_COMPILER = "async_compile"
_LABEL = re.compile(r"^# AOT ID: \['([^']{1,80})'\]", re.MULTILINE)
_OPENING = re.compile(rf"^(\w+) = {_COMPILER}\.(\w+)\((?=[^\n]*'''\n)", re.MULTILINE)
_CLOSING = re.compile(r"^'''[^\n]*\)[ \t]*$", re.MULTILINE)
_FUNCTION = re.compile(r"^([ \t]*)def (\w+)\(([^\n]*)\)[^\n]*:[ \t]*$", re.MULTILINE)
_EXAMPLES = ("get_args", "benchmark_compiled_module")
"""Functions that make inputs like those of the compiled call: torch 2.13's, and that of 2.11."""


@dataclass(frozen=True, slots=True)
class WrittenKernel:
    """Holds one kernel as a wrapper defines it; ``name`` is what the wrapper calls it, which is its
    name on the device as well."""

    name: str
    definition: Definition
    comment: tuple[str, ...] = ()
    """The lines of comment above it, which say what it computes."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Holds what stands in one wrapper module."""

    label: str
    """Torch's name of the graph, ``0_forward``; empty where the text does not tell."""
    kernels: tuple[WrittenKernel, ...]
    choices: Mapping[str, tuple[str, ...]]
    """Kernels that are timed on the device so that the fastest is launched."""
    opaque: frozenset[str]
    """Kernels of another kind (CUTLASS, CuTe …), of which only the launches are known."""
    functions: Mapping[str, Sequence[ast.stmt]]
    """Statements by the name of their function: ``call``, and the parts that it calls."""
    examples: Sequence[ast.stmt] = ()
    """Statements that make example inputs."""
    missing: tuple[str, ...] = ()
    """What could not be read, a line each."""


@dataclass(slots=True)
class _Found:
    """Holds what has been read so far."""

    kernels: dict[str, WrittenKernel] = field(default_factory=dict)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    functions: dict[str, Sequence[ast.stmt]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def read_wrapper(text: str) -> Wrapper:
    """Return what a wrapper's text says; of a broken one, what can still be read."""
    found = _Found()
    lines = text.splitlines()
    try:
        tree = ast.parse(text)
    except UNPARSABLE as error:
        found.missing.append(_describe_break(error, len(lines)))
        _read_pieces(text, lines, found)
    else:
        _read_module(tree, lines, found)
    call = found.functions.get("call", ())
    if not call:
        found.missing.append("its function call, which launches the kernels, is missing")
    elif not found.missing and not isinstance(call[-1], ast.Return):
        found.missing.append("it is cut off: its function call returns nothing")
    label = _LABEL.search(text)
    examples = (found.functions.pop(name, ()) for name in _EXAMPLES)
    return Wrapper(
        label=label[1] if label else "",
        kernels=tuple(found.kernels.values()),
        choices=found.choices,
        opaque=frozenset(found.opaque),
        examples=[statement for each in examples for statement in each],
        functions=found.functions,
        missing=tuple(found.missing),
    )


def _describe_break(error: BaseException, lines: int) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"it is no whole Python: line {error.lineno} of {lines} ({error.msg})"
    return f"it is no Python that can be read ({type(error).__name__})"


def _read_module(tree: ast.Module, lines: Sequence[str], found: _Found) -> None:
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Call() as call):
                _read_assignment(name, call, _comment_above(lines, node.lineno), found)
            case ast.FunctionDef():
                found.functions[node.name] = node.body
            case ast.ClassDef():
                found.functions |= {
                    each.name: each.body for each in node.body if isinstance(each, ast.FunctionDef)
                }


def _read_assignment(name: str, call: ast.Call, comment: tuple[str, ...], found: _Found) -> None:
    """Read ``NAME = async_compile.triton(…)``, or a choice among kernels."""
    match call.func:
        case ast.Attribute(ast.Name(owner), "multi_kernel") if owner == _COMPILER:
            listed = call.args[1] if len(call.args) > 1 else None
            if isinstance(listed, ast.List):
                names = (each.id for each in listed.elts if isinstance(each, ast.Name))
                found.choices[name] = tuple(names)
        case ast.Attribute(ast.Name(owner), kind) if owner == _COMPILER and kind != "wait":
            definition = read_definition(call)
            if definition is None:
                found.opaque.add(name)
            else:
                found.kernels[name] = WrittenKernel(name, definition, comment)


def _comment_above(lines: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the lines of comment that end right above a line (counted from 1)."""
    end = start = number - 1
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return tuple(lines[start:end])


# --- a module that is cut off or broken ----------------------------------------------------------


def _read_pieces(text: str, lines: Sequence[str], found: _Found) -> None:
    """Read definitions and functions by where they begin and end, each for itself."""
    end = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < end:
            continue  # inside the text of a kernel
        closing = _CLOSING.search(text, opening.end())
        if closing is None:
            found.missing.append(f"the source of {opening[1]} is cut off")
            end = len(text)
            break
        end = closing.end()
        definition = parse_definition(text[opening.start(2) - len(_COMPILER) - 1 : end])
        if definition is None:
            found.missing.append(f"the source of {opening[1]} can't be read")
        else:
            above = _comment_above(lines, text.count("\n", 0, opening.start()) + 1)
            found.kernels[opening[1]] = WrittenKernel(opening[1], definition, above)
    for function in _FUNCTION.finditer(text, end):
        body = list(_body_lines(text[function.end() :].splitlines()[1:], len(function[1])))
        statements, broken = _read_lines(body)
        if statements:
            found.functions[function[2]] = statements
        if broken and function[2] not in _EXAMPLES:
            found.missing.append(f"{broken} of {len(body)} lines of {function[2]} can't be read")


def _body_lines(lines: Sequence[str], indent: int) -> Iterator[str]:
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            return
        yield line


def _read_lines(lines: Sequence[str]) -> tuple[list[ast.stmt], int]:
    """Return the statements of lines that are Python each for itself, and the number of those that
    are not. Inductor writes a statement into one line; a line that opens a block is left out."""
    statements: list[ast.stmt] = []
    broken = 0
    for line in lines:
        if line.rstrip().endswith(":") and not line.lstrip().startswith("#"):
            continue
        try:
            statements += ast.parse(line.strip()).body
        except UNPARSABLE:
            broken += 1
    return statements, broken
