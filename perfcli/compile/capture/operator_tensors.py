"""Lists the tensors that an operator is called with, and those of them that it writes into."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def list_tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors of a value, in lists within lists as well."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from list_tensors(each)


def list_written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the tensors that an operator writes into."""
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[number] if number < len(args) else kwargs.get(argument.name)
            yield from list_tensors(given)


def count_asked_elements(args: Sequence[Any]) -> int:
    """Return how many elements a factory is asked for: ``empty([8, 128])``, ``arange(1000)``."""
    for value in args:
        if isinstance(value, list | tuple) and all(isinstance(n, int) for n in value):
            return math.prod(value)
    return max((n for n in args if isinstance(n, int) and not isinstance(n, bool)), default=0)
