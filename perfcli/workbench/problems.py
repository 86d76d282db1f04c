"""Chooses the problems of a family: its own, or those that ``-p`` makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.loading.parameters import NEEDS, WORDS
from perfcli.model import KernelFamily, Problem, Scalar
from perfcli.names import internal, public, suggestion

_SIZES = ("rows", "columns", "row_stride")
_TEXTS = ("operation", "dtype")
_SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half": "float16"}


def _list_problems(family: KernelFamily, params: Sequence[str]) -> list[Problem]:
    """Return the family's benchmark problems with what ``NAME=VALUE`` sets; each once. Several
    values, separated by commas, make several problems. Raises PerfcliError for an unknown name,
    operation or value."""
    given = dict(_split(family, text) for text in params)
    found: dict[Any, Problem] = {}
    for values in itertools.product(*given.values()):
        changes = dict(zip(given, values, strict=True))
        for base in _list_bases(family, changes.get("operation")):
            problem = _change(base, changes)
            found.setdefault(_key(problem), problem)
    return list(found.values())


def _find_variant(family: KernelFamily, name: str | None) -> str | None:
    """Return the variant that is meant. Raises PerfcliError where the family has none like it."""
    known = {public(variant.name): variant.name for variant in family.variants}
    if name is None or public(name) in known:
        return name and known[public(name)]
    raise PerfcliError(f"{family.name} has no variant {name!r}: {suggestion(name, known)}")


def write_problem(problem: Problem) -> str:
    """Return ``softmax 32768 × 2048 bfloat16``, with what else is set."""
    parts = [problem.operation, f"{problem.rows} × {problem.columns}", problem.dtype]
    if problem.row_stride not in (None, problem.columns):
        parts.append(f"row-stride={problem.row_stride}")
    parts += [f"{public(name)}={units.parameter(v)}" for name, v in problem.settings.items()]
    return " ".join(parts)


def _list_bases(family: KernelFamily, operation: Scalar) -> list[Problem]:
    every = [*family.benchmarks, *(case.problem for case in family.cases)]
    if operation is None:
        return list(family.benchmarks) or every[:1]
    own = [p for p in family.benchmarks if p.operation == operation]
    like = [p for p in every if p.operation == operation][:1]
    return own or like or [Problem(str(operation), 4096, 4096)]


def _change(problem: Problem, changes: Mapping[str, Scalar]) -> Problem:
    fields: dict[str, Any] = {n: v for n, v in changes.items() if n in (*_SIZES, *_TEXTS)}
    if "columns" in fields:
        fields.setdefault("row_stride", None)
    settings = {n: v for n, v in changes.items() if n not in fields}
    changed = replace(problem, **fields, settings={**problem.settings, **settings})
    if changed.stride < changed.columns:
        raise PerfcliError(
            f"a row stride of {changed.stride} is less than a row of {changed.columns} columns"
        )
    return changed


def _key(problem: Problem) -> tuple[object, ...]:
    return (
        problem.operation,
        problem.rows,
        problem.columns,
        problem.dtype,
        problem.stride,
        *sorted(problem.settings.items()),
    )


def _split(family: KernelFamily, text: str) -> tuple[str, list[Scalar]]:
    typed, equals, value = text.partition("=")
    name = internal(typed)
    if not equals or not name or not value.strip():
        raise PerfcliError(
            f"a parameter is written NAME=VALUE, for example rows=4096; got {text!r}"
        )
    settings = _list_settings(family)
    if name not in (*_SIZES, *_TEXTS, *settings):
        known = [public(each) for each in (*_SIZES, *_TEXTS, *settings)]
        raise PerfcliError(f"{family.name} has no parameter {typed!r}: {suggestion(typed, known)}")
    values = [part.strip() for part in value.split(",") if part.strip()]
    return name, [_parse_value(family, name, part, settings) for part in values]


def _parse_value(
    family: KernelFamily, name: str, text: str, settings: Mapping[str, Scalar]
) -> Scalar:
    if name in _SIZES:
        return _parse_size(name, text)
    if name == "operation":
        known = {public(operation): operation for operation in family.operations}
        if public(text) not in known:
            raise PerfcliError(
                f"{family.name} has no operation {text!r}: {suggestion(text, known)}"
            )
        return known[public(text)]
    if name == "dtype":
        return _SHORT.get(text, text.removeprefix("torch."))
    kind: Any = type(settings[name])
    try:
        if kind is bool:
            return WORDS[text.lower()]
        return text if kind is str or settings[name] is None else kind(text)
    except (KeyError, ValueError):
        raise PerfcliError(
            f"parameter {public(name)} needs {NEEDS.get(kind, kind.__name__)}, not {text!r}"
        ) from None


def _parse_size(name: str, text: str) -> int:
    digits = text.replace("_", "")
    if not digits.isdecimal():
        raise PerfcliError(f"parameter {public(name)} needs a whole number from 0 on, not {text!r}")
    return int(digits)


def _list_settings(family: KernelFamily) -> dict[str, Scalar]:
    """Return every setting that the family's own problems have, with one of its values."""
    found: dict[str, Scalar] = {}
    for problem in (*family.benchmarks, *(case.problem for case in family.cases)):
        for name, value in problem.settings.items():
            if found.get(name) is None:
                found[name] = value
    return found
