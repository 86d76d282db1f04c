"""Captures what Inductor would build in C++: ``cpp_wrapper``, and AOTInductor's packages.

Where Inductor generates C++ for a GPU, it runs kernels while it does so, to tune them, and builds a
library. The kernels and the order in which they are launched are those of the Python wrapper, which
some releases generate first for that reason; here only that one is generated. Seen with torch 2.11
and 2.13.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.errors import CompileFailed

_MARK = "perfcli-graph-"


def generate_in_python(lowering: Any) -> Any:
    """Generate the Python wrapper of a ``GraphLowering`` that is meant for C++, and return it."""
    import torch._inductor.config as inductor

    # Kernels are tuned when the wrapper is generated, or not at all: there is no device.
    lowering.cpp_wrapper = False
    ahead, lowering.aot_mode = lowering.aot_mode, False
    try:
        with inductor.patch({"triton.autotune_at_compile_time": False, "cpp_wrapper": False}):
            generated, *_ = lowering.codegen()
    finally:
        lowering.cpp_wrapper, lowering.aot_mode = True, ahead
    return generated


def hook_cpp(capture: Capture, original: Any, finish: Callable[[Any, Any], Any]) -> Any:
    """Wrap ``GraphLowering.codegen_with_cpp_wrapper``, which AOTInductor calls for the code of a
    graph. ``finish(lowering, generated)`` returns what has its ``call``. Whoever calls it later, a
    step has it once."""

    @functools.wraps(original)
    def codegen(self: Any) -> Any:
        from torch._inductor.utils import ValueWithLineMap

        if "cuda" not in self.device_types:
            return original(self)
        module = finish(self, generate_in_python(self))
        graph = capture.graph_of(self)
        graph.calls += 1
        capture.call_order.append(graph)
        capture.exported.append(_Exported(module.call, capture, graph))
        return ValueWithLineMap("", []), ValueWithLineMap("", [])

    return codegen


class _Exported:
    """Holds a graph that was compiled ahead of time, until it is loaded."""

    def __init__(self, call: Any, capture: Capture, graph: CapturedGraph) -> None:
        import torch._inductor.config as inductor
        from torch.utils import _pytree

        self._call, self._capture, self._graph = call, capture, graph
        self._called = False
        spec = inductor.aot_inductor.serialized_out_spec
        self._out = _pytree.treespec_loads(spec) if spec else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from torch.utils import _pytree

        if not self._called:  # the one that was counted when it was compiled
            self._called = True
            self._graph.calls -= 1
            self._capture.call_order.remove(self._graph)
        results = list(self._call(_pytree.tree_leaves((args, kwargs))))
        return results if self._out is None else _pytree.tree_unflatten(results, self._out)


def hook_export(_capture: Capture, original: Any) -> Any:
    """Wrap ``compile_fx_aot``. A program without a device makes fake tensors, and ``torch.export``
    others of its own: what is compiled has to be of one kind."""

    @functools.wraps(original)
    def compile_fx_aot(model: Any, *args: Any, **options: Any) -> Any:
        import torch
        from torch._guards import detect_fake_mode
        from torch.utils._python_dispatch import _disable_current_modes

        values = [n.meta.get("val") for n in model.graph.nodes if n.op == "placeholder"]
        with _disable_current_modes():
            mode = detect_fake_mode([v for v in values if isinstance(v, torch.Tensor)])
            if mode is not None:
                for part in model.modules():
                    for tensors in (part._parameters, part._buffers):
                        tensors.update({n: _remake(t, mode) for n, t in tensors.items()})
            return original(model, *args, **options)

    return compile_fx_aot


def _remake(tensor: Any, mode: Any) -> Any:
    """Return a fake tensor as one of another mode; anything else as it is."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if not isinstance(tensor, FakeTensor) or tensor.fake_mode is mode:
        return tensor
    with mode:
        made = torch.empty_strided(
            tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made


def hook_library(capture: Capture, original: Any) -> Any:
    """Stand in for ``AotCodeCompiler.compile``, which builds the library of a graph: a file that
    only says which graph it is for."""

    def compile(_cls: Any, graph: Any, *args: Any, **options: Any) -> Any:
        import torch._inductor.config as inductor
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        if "cuda" not in graph.device_types:
            return original.__func__(_cls, graph, *args, **options)
        number = len(capture.exported) - 1
        path = str(inductor.aot_inductor.output_path or "")
        if not path.endswith(".so"):
            path = str(Path(path or cache_dir()) / f"graph{number}.wrapper.so")
        if not os.path.isabs(path):
            path = str(Path(cache_dir()) / path)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(f"{_MARK}{number}. No library: it was compiled without a device.\n")
        return [path] if inductor.aot_inductor.package else path

    return classmethod(compile)


def hook_loading(capture: Capture, _original: Any) -> Any:
    """Stand in for ``load_package``: the graph of the script's own package."""

    def load(path: Any, *_: Any, **__: Any) -> Any:
        content = path.getvalue() if hasattr(path, "getvalue") else Path(path).read_bytes()
        found = re.search(rf"{_MARK}(\d+)".encode(), content)
        if found is None or int(found[1]) >= len(capture.exported):
            raise CompileFailed(
                f"{path} was not compiled by this program, and there is no device to load it for: "
                "compile it in the same program"
            )
        return capture.exported[int(found[1])]

    return load
