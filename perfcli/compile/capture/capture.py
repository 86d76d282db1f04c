"""Takes every generated kernel, launch and extern call out of Inductor while it generates code.

The hooks stand at the points that all of Inductor's code generation passes (seen with torch 2.11
to 2.15): a kernel's definition in the wrapper, a kernel's call, an extern call, and the end of a
graph. Nothing is changed about what is generated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from perfcli.compile.capture import (
    ahead_of_time,
    cuda_graphs,
    kernel_hooks,
    launch_hooks,
    memory,
    selections,
)
from perfcli.compile.capture.captured import Capture, CapturedGraph, is_subgraph
from perfcli.compile.capture.fusion_refusals import listen_to_scheduler
from perfcli.compile.stand_in.device import replace_for_block
from perfcli.errors import CompileFailed


@contextmanager
def hook_inductor(
    capture: Capture, finish: Callable[[Any, CapturedGraph], Any] | None
) -> Iterator[None]:
    """Hook Inductor while the block runs.

    ``finish(lowering, graph)`` stands in for building the generated module and returns what has
    its ``call``; None leaves the real module to be built and run (on a real device).
    """
    from torch._inductor import codecache, compile_fx, ir, output_code, package, select_algorithm
    from torch._inductor.codegen import cpp, multi_kernel, triton, wrapper
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import Scheduler

    hooks: list[tuple[Any, str, Any]] = [
        (wrapper.PythonWrapperCodegen, "define_kernel", kernel_hooks.hook_definition),
        (wrapper.PythonWrapperCodegen, "generate_kernel_call", launch_hooks.hook_call),
        (multi_kernel.MultiKernelState, "define_kernel", kernel_hooks.hook_choice),
        (triton.TritonScheduling, "define_kernel", kernel_hooks.hook_scheduled),
        (cpp.CppScheduling, "define_kernel", kernel_hooks.hook_scheduled),
        (Scheduler, "codegen_extern_call", launch_hooks.hook_extern),
        (Scheduler, "codegen", _hook_schedule),
        (GraphLowering, "run", _hook_lowering),
        (GraphLowering, "_compile_to_module", functools.partial(_hook_module, finish=finish)),
        (compile_fx._InProcessFxCompile, "codegen_and_compile", _hook_inputs),
    ]
    choosing, templates = select_algorithm.AlgorithmSelectorCache, ir.MultiTemplateBuffer
    hooks += [
        (choosing, "__call__", selections.hook_choosing),
        (choosing, "do_autotuning", selections.hook_autotuning),
        (templates, "choice_timings", selections.hook_timings),
        (templates, "finalize_as_triton_caller", selections.hook_finalizing),
        (Scheduler, "finalize_multi_template_buffers", selections.hook_leftovers),
    ]
    if finish is not None:
        hooks += [
            (output_code, "cudagraph_post_compile", _record_nothing),
            (output_code, "cudagraph_partition_post_compile", _record_nothing),
            (GraphLowering, "codegen_with_cpp_wrapper", functools.partial(_hook_cpp, finish)),
            (compile_fx, "compile_fx_aot", ahead_of_time.hook_export),
            (codecache.AotCodeCompiler, "compile", ahead_of_time.hook_library),
            (package, "load_package", ahead_of_time.hook_loading),
        ]
    with ExitStack() as stack:
        for owner, name, make in hooks:
            if name not in vars(owner):
                raise CompileFailed(
                    f"this torch's {owner.__name__} has no {name}, which perfcli reads kernels "
                    "from (tested: torch 2.11 to 2.15)"
                )
            hooked = make(capture, vars(owner)[name])
            stack.enter_context(replace_for_block(owner, **{name: hooked}))
        stack.enter_context(listen_to_scheduler(capture))
        yield


def _hook_schedule(capture: Capture, original: Any) -> Any:
    """Hook ``Scheduler.codegen``, where the schedule is final and it is known which buffers live
    inside kernels, so that its peak memory can be estimated."""

    @functools.wraps(original)
    def codegen(self: Any) -> Any:
        from torch._inductor.virtualized import V

        generated = original(self)
        graph = capture.current_graph()
        # A subgraph's own peak is none of its parent's.
        inner = is_subgraph(V.graph)
        estimate = None if inner else memory.estimate_memory(self, graph.workspaces)
        if estimate is not None:
            peak, live = estimate
            graph.facts = replace(graph.facts, peak_memory_bytes=peak, live_bytes=live)
        return generated

    return codegen


def _hook_inputs(capture: Capture, original: Any) -> Any:
    """Hook where it is known which inputs of a graph always have the same address."""

    @functools.wraps(original)
    def codegen_and_compile(self: Any, gm: Any, inputs: Any, to_check: Any, kwargs: Any) -> Any:
        capture.static_inputs = frozenset(kwargs.get("static_input_idxs") or ())
        return original(self, gm, inputs, to_check, kwargs)

    return codegen_and_compile


def _record_nothing(_capture: Capture, _original: Any) -> Any:
    """Leave a graph as it is where Inductor would record it as a CUDA graph: there is no device,
    and what would be recorded is the same code."""
    return lambda *_args, **_kwargs: None


def _hook_lowering(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def run(self: Any, *args: Any) -> Any:
        if not is_subgraph(self):
            capture.lowering = self
        return original(self, *args)

    return run


def _hook_module(
    capture: Capture, original: Any, finish: Callable[[Any, CapturedGraph], Any] | None
) -> Any:
    @functools.wraps(original)
    def compile_to_module(self: Any) -> Any:
        if finish is None:
            module = original(self)
            graph = capture.graph_of(self)
            _find_obstacles(capture, self, graph)
            return _count_calls(module, capture, graph)
        if self.cpp_wrapper and "cuda" in self.device_types:
            return _finish(capture, self, ahead_of_time.generate_in_python(self), finish)
        generated, *_ = self.codegen()
        return _finish(capture, self, generated, finish)

    return compile_to_module


def _finish(
    capture: Capture, lowering: Any, generated: Any, finish: Callable[[Any, CapturedGraph], Any]
) -> Any:
    graph = capture.graph_of(lowering)
    capture.on_code()
    graph.text = str(getattr(generated, "value", generated))
    capture.without_cpp |= bool(lowering.cpp_wrapper)
    _find_obstacles(capture, lowering, graph)
    return finish(lowering, graph)


def _hook_cpp(finish: Callable[[Any, CapturedGraph], Any], capture: Capture, original: Any) -> Any:
    """Hook what is compiled ahead of time."""
    return ahead_of_time.hook_cpp(
        capture, original, lambda lowering, made: _finish(capture, lowering, made, finish)
    )


def _find_obstacles(capture: Capture, lowering: Any, graph: CapturedGraph) -> None:
    graph.dynamic = cuda_graphs.is_dynamic(lowering)
    if not capture.finds_obstacles:
        return
    try:
        graph.obstacles = cuda_graphs.list_obstacles(
            lowering, graph.facts.name, capture.static_inputs
        )
        graph.recorded = cuda_graphs.describe_recording(
            lowering, graph.facts, capture.static_inputs, graph.obstacles
        )
    except (ImportError, AttributeError, TypeError, LookupError, NotImplementedError):
        # Another torch asks these questions in another way: then it is not known.
        capture.finds_obstacles = False


def _count_calls(module: Any, capture: Capture, graph: CapturedGraph) -> Any:
    """Return the real module, with a ``call`` that also counts."""
    call = module.call
    graph.module = module

    @functools.wraps(call)
    def counted(args: Any) -> Any:
        graph.calls += 1
        capture.call_order.append(graph)
        return call(args)

    module.call = counted
    return module
