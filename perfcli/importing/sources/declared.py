"""Reads what a generated Triton kernel declares: its parameters, their types, the device that it
was generated for, and at how many places it touches each buffer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfcli.compile.capture.definition import Definition
from perfcli.importing.sources.wrapper import UNPARSABLE


@dataclass(frozen=True, slots=True)
class Declared:
    """Holds what one kernel declares; empty where its text does not say."""

    parameters: tuple[str, ...] = ()
    """Names of the parameters that a launch gives, in order."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Dtypes behind the parameters that are pointers."""
    device: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``DeviceProperties``: ``cc``, ``multi_processor_count`` …"""
    numels: Mapping[str, int] = field(default_factory=dict)
    """The iteration space by its prefixes, ``x`` and ``r0_``, as far as the text has it."""
    places: Mapping[str, int] = field(default_factory=dict)
    """How many different index expressions each pointer is used with."""
    constants: Mapping[str, int] = field(default_factory=dict)
    """The whole numbers that the kernel is compiled for."""


NOTHING = Declared()
NUMEL = re.compile(r"^(x|y|z|r\d_)numel$")
"""The names of the parameters that have the sizes of the iteration space."""

_DTYPES = {
    "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64", "i1": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz",
}  # fmt: skip

_CPP_POINTER = re.compile(r"(\w+)\s*\*\s*(?:__restrict__\s+)?(\w+)")
_CPP_TYPES = {
    "bfloat16": "bfloat16", "half": "float16", "float": "float32", "double": "float64",
    "bool": "bool", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "int32_t": "int32",
    "int64_t": "int64", "long": "int64",
}  # fmt: skip

_SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float4_e2m1fn_x2": 1, "bfloat16": 2, "float16": 2,
    "int16": 2, "uint16": 2, "half": 2, "float32": 4, "float": 4, "int32": 4, "uint32": 4, "int": 4,
    "float64": 8, "double": 8, "int64": 8, "uint64": 8, "long": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip


def item_size(dtype: str) -> int:
    """Return the bytes of one element; 0 for a dtype that is not known."""
    return _SIZES.get(dtype, 0)


def read_declared_cpp(source: str) -> Declared:
    """Return what a C++ kernel declares: pointers come first, sizes follow."""
    opening = source.find("kernel(")
    head = source[opening : source.find(")", opening)] if opening >= 0 else ""
    pointers = {match[2]: match[1] for match in _CPP_POINTER.finditer(head)}
    dtypes = {name: _CPP_TYPES.get(kind, "") for name, kind in pointers.items()}
    return Declared(tuple(pointers), dtypes)


def read_declared(definition: Definition) -> Declared:
    """Return what a Triton kernel declares; nothing for what can't be read."""
    try:
        module = ast.parse(definition.source)
        function = next(
            node
            for node in module.body
            if isinstance(node, ast.FunctionDef) and node.name == definition.name
        )
        meta = {
            each.arg: each.value
            for decorator in function.decorator_list
            if isinstance(decorator, ast.Call)
            for each in decorator.keywords
        }
        triton = _entries(meta.get("triton_meta"))
        more = _entries(meta.get("inductor_meta")).get("extra_launcher_args")
        return Declared(
            parameters=(
                *(each.arg for each in function.args.args if not _is_constant(each.annotation)),
                *(_texts(more) if definition.kind == "user" else ()),
            ),
            dtypes=_dtypes(triton.get("signature"), [each.arg for each in function.args.args]),
            device=_fields(triton.get("device")),
            numels=_read_numels(function),
            places=_count_places(function),
            constants={
                name: each.value
                for name, each in _entries(triton.get("constants")).items()
                if isinstance(each, ast.Constant) and isinstance(each.value, int)
            },
        )
    except (*UNPARSABLE, StopIteration):
        return NOTHING


def _is_constant(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Attribute) and annotation.attr == "constexpr"


def _entries(node: ast.expr | None) -> dict[str, ast.expr]:
    """Return the values of a dict that is written with texts as keys."""
    if not isinstance(node, ast.Dict):
        return {}
    return {
        str(key.value): value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    }


def _texts(node: ast.expr | None) -> list[str]:
    listed = node.elts if isinstance(node, ast.List) else ()
    return [str(each.value) for each in listed if isinstance(each, ast.Constant)]


def _dtypes(node: ast.expr | None, parameters: Sequence[str]) -> dict[str, str]:
    """Return the dtypes of pointers in a signature, ``{'in_ptr0': '*bf16', 'xnumel': 'i32'}``;
    torch 2.5 and earlier write numbers of parameters instead of names."""
    found: dict[str, str] = {}
    for name, each in _entries(node).items():
        kind = each.value if isinstance(each, ast.Constant) else None
        if isinstance(kind, str) and kind.startswith("*"):
            number = int(name) if name.isdecimal() and len(name) < 5 else -1
            parameter = parameters[number] if 0 <= number < len(parameters) else name
            found[parameter] = _DTYPES.get(kind[1:], "")
    return found


def _read_numels(function: ast.FunctionDef) -> dict[str, int]:
    """Return what ``xnumel = 128`` says at the beginning of the function."""
    found: dict[str, int] = {}
    for statement in function.body:
        match statement:
            case ast.Assign([ast.Name(name)], ast.Constant(int(value))):
                if size := NUMEL.match(name):
                    found[size[1]] = value
    return found


def _fields(node: ast.expr | None) -> dict[str, Any]:
    if not isinstance(node, ast.Call):
        return {}
    return {
        each.arg: each.value.value
        for each in node.keywords
        if each.arg and isinstance(each.value, ast.Constant)
    }


def _count_places(function: ast.FunctionDef) -> dict[str, int]:
    found: dict[str, set[str]] = {}
    for pointer, index in _accesses(function):
        found.setdefault(pointer, set()).add(index)
    return {pointer: len(indices) for pointer, indices in found.items()}


def _accesses(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield the pointer and the index of each ``tl.load(in_ptr0 + (x0), …)`` and its like."""
    for node in ast.walk(function):
        match node:
            case ast.Call(ast.Attribute(ast.Name("tl"), name), [address, *_]) if name in (
                "load",
                "store",
            ) or name.startswith("atomic_"):
                match address:
                    case ast.BinOp(ast.Name(pointer), ast.Add(), index):
                        yield pointer, ast.dump(index)
                    case ast.Name(pointer):
                        yield pointer, ""
