"""Finds kernels of the generated modules where the running program has them.

On the CPU they are functions in the module's globals, which its ``call`` looks up on every launch
(seen with torch 2.11 and 2.13): another function under the name is called instead. On the GPU they
are Inductor's ``CachingAutotuner``, which keeps the launcher of the configuration that it took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from perfcli.compile.capture.captured import Capture, CapturedGraph, CapturedKernel
from perfcli.measure.events import KERNEL


@dataclass(frozen=True, slots=True)
class _Launcher:
    """Holds what the driver says of the kernel that the autotuner took."""

    registers: int | None = None
    shared_bytes: int | None = None
    config: str = ""


@contextmanager
def mark_kernels(capture: Capture) -> Iterator[None]:
    """Mark each call of a generated C++ kernel in the profile with its graph and name while the
    block runs. Outside of it nothing is wrapped."""
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    for graph in capture.graphs:
        names = _globals(graph)
        for name, kernel in graph.kernels.items():
            if kernel.definition.language == "cpp" and callable(names.get(name)):
                replaced.append((names, name, names[name]))
                names[name] = _mark(names[name], KERNEL + key(graph, kernel))
    try:
        yield
    finally:
        for names, name, function in replaced:
            names[name] = function


def _mark(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    # Costs 0.6 µs; ``record_function`` an order of magnitude more.
    from torch._C._profiler import _RecordFunctionFast

    mark = _RecordFunctionFast(name)

    def call(*args: Any) -> Any:
        with mark:
            return function(*args)

    return call


def key(graph: CapturedGraph, kernel: CapturedKernel) -> str:
    """Return what a kernel goes by in a profile: on the device by the name of its function, as in
    its text; on the CPU by the name that ``mark_kernels`` gives."""
    if kernel.definition.language == "triton":
        return kernel.definition.name
    return f"{graph.facts.name}/{kernel.name}"


def launcher(graph: CapturedGraph, name: str) -> _Launcher:
    """Return the launcher of a Triton kernel that has run."""
    launchers = getattr(_globals(graph).get(name), "launchers", None)
    if not launchers:
        return _Launcher()
    taken = launchers[0]
    config = getattr(taken, "config", None)
    return _Launcher(
        getattr(taken, "n_regs", None), getattr(taken, "shared", None), _config(config)
    )


def _config(config: Any) -> str:
    if config is None:
        return ""
    values = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return " ".join(f"{name}={value}" for name, value in values.items())


def _globals(graph: CapturedGraph) -> dict[str, Any]:
    return {} if graph.module is None else vars(graph.module)
