"""What kernels are called in a baseline: Inductor numbers them through the graph, so that one
kernel more renames all behind it. A label is the name without its number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perfcli.model import KernelFacts
from perfcli.names import stem


def labels(kernels: Sequence[KernelFacts]) -> list[str]:
    """A label for each, unique among them: ``triton_red_fused_add``, ``triton_red_fused_add#2``."""
    seen: Counter[str] = Counter()
    found = []
    for kernel in kernels:
        name = stem(kernel.name)
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found


def in_order(kernels: Sequence[KernelFacts]) -> list[int]:
    """Indices in the order of the file: by graph, name, size, layer; then by code."""

    def place(index: int) -> tuple[object, ...]:
        kernel = kernels[index]
        direction, _, number = kernel.graph.partition(" ")
        # forward before backward, as they run
        graph = (direction == "backward", int(number) if number.isdigit() else 0, kernel.graph)
        sizes = sorted(kernel.sizes.items())
        modules = sorted({_natural(origin.module) for origin in kernel.origins})
        name = stem(kernel.name)
        return (graph, name, sizes, kernel.launches, modules, kernel.source_hash, index)

    return sorted(range(len(kernels)), key=place)


def _natural(module: str) -> tuple[tuple[int, str], ...]:
    """``blocks.10`` behind ``blocks.9``."""
    parts = module.split(".")
    return tuple((int(part) if part.isdecimal() else -1, part) for part in parts)
