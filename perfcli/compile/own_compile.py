"""Notes what a model asks of ``torch.compile`` itself, which perfcli does not follow."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NAMES = ("fullgraph", "dynamic", "backend", "mode", "options", "disable")
_DEFAULTS = {"fullgraph": False, "dynamic": None, "backend": "inductor", "disable": False}
_SHOWN = 80
"""Characters of one value."""


@contextmanager
def watching_compile() -> Iterator[Counter[str]]:
    """Count the calls of ``torch.compile`` that ask for something, by what they ask for, while
    the block runs. ``nn.Module.compile`` calls it, too (seen with torch 2.13)."""
    import torch

    original = torch.compile
    asked: Counter[str] = Counter()

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        given = {n: v for n, v in kwargs.items() if n in _NAMES and v != _DEFAULTS.get(n)}
        if given:
            asked[", ".join(f"{n}={_show(v)}" for n, v in given.items())] += 1
        return original(*args, **kwargs)

    torch.compile = compile
    try:
        yield asked
    finally:
        torch.compile = original


def _show(value: Any) -> str:
    return (getattr(value, "__qualname__", "") or repr(value))[:_SHOWN]


def say_ignored(asked: Counter[str]) -> tuple[str, ...]:
    """Return one line for each thing that was asked for."""
    return tuple(
        f"the model's own torch.compile({what}) is not followed (×{number}): it is compiled as "
        "the variant says, options are given with -o"
        for what, number in asked.items()
    )
