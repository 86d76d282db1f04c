"""Finds the source lines that divide indices, for every element, by numbers that are no powers of
two: a division takes 20 instructions and more where the divisor is only known when the kernel runs,
and a few where it is a constant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perfcli.facts.work.ttgir import Module, Operation

_DIVIDES = re.compile(r"arith\.(?:ceil|floor)?(?:div|rem)[su]i$")
_MOVES = re.compile(r"tt\.(?:load|store|atomic)|ttg\.async_copy")
_CONSTANT = re.compile(r"(?:dense<)?(-?\d+)>? :")


def find_divisions(module: Module) -> frozenset[int]:
    """Return the lines. Left out are lines that also load or store, of whose instructions nobody
    can tell which divide."""
    operations = [each for function in module.functions.values() for each in _walk(function.body)]
    constants = {
        each.results[0]: int(found[1])
        for each in operations
        if each.name == "arith.constant" and (found := _CONSTANT.search(each.text))
    }
    dividing = {each.line for each in operations if _divides(each, constants)}
    moving = {each.line for each in operations if _MOVES.match(each.name)}
    return frozenset(dividing - moving - {0})


def _walk(operations: Sequence[Operation]) -> Iterator[Operation]:
    for operation in operations:
        yield operation
        for region in operation.regions:
            yield from _walk(region)


def _divides(operation: Operation, constants: dict[str, int]) -> bool:
    if not _DIVIDES.match(operation.name) or operation.tensor is None:
        return False
    by = constants.get(operation.operands[1], 0) if len(operation.operands) > 1 else 0
    return by <= 0 or by & (by - 1) != 0
