"""A small compiled function on the CPU: its launches, their times and its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._functorch import config as functorch_config  # noqa: E402
from torch._inductor import config as inductor_config  # noqa: E402

from perfcli.compile.capture.capture import hook_inductor  # noqa: E402
from perfcli.compile.capture.captured import Capture  # noqa: E402
from perfcli.measure import clocks, loaded_kernels, memory  # noqa: E402
from perfcli.measure.profiling import StepProfiler, _operator_key  # noqa: E402

pytestmark = pytest.mark.torch

SIDE = 128
FLOATS = SIDE * SIDE * 4
"""Bytes of one of the tensors."""
PAUSE = 0.02


@dataclass
class SmallStep:
    """As ``perfcli.measure.step.Step``, for a function of tensors."""

    built: Any
    capture: Capture
    compiled: Callable[..., Any]
    device: str = "cpu"

    def launch(self) -> Any:
        with torch.no_grad():
            return self.compiled(*self.built.workload.inputs)

    run = launch

    def wait(self) -> None:
        pass


def compiled_step(function: Callable[..., Any], *inputs: Any) -> SmallStep:
    workload = SimpleNamespace(call=function, inputs=inputs, kwargs={}, mode="forward")
    capture = Capture()
    torch._dynamo.reset()
    step = SmallStep(SimpleNamespace(workload=workload), capture, torch.compile(function))
    caches = functorch_config.patch(enable_autograd_cache=False)
    with inductor_config.patch(fx_graph_cache=False), caches, hook_inductor(capture, finish=None):
        step.launch()
    step.launch()
    return step


def two_products(x: Any, w: Any) -> Any:
    return torch.relu(torch.relu(x @ w) @ w) + 1


@pytest.fixture(scope="module")
def step() -> Iterator[SmallStep]:
    x, w = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    yield compiled_step(two_products, x, w)
    torch._dynamo.reset()


def test_every_launch_has_its_place(step: SmallStep) -> None:
    profiler = StepProfiler(step)  # type: ignore[arg-type]
    launches, times = profiler.launches, profiler.times(3)
    generated = [launch for launch in launches if launch.generated]
    assert [launch.name if not launch.generated else "kernel" for launch in launches] == [
        "aten::mm",
        "kernel",
        "aten::mm",
        "kernel",
    ]
    (graph,) = step.capture.graphs
    assert [g.source_hash for g in generated] == [
        graph.kernels[g.name].definition.source_hash for g in generated
    ]
    assert {launch.graph for launch in launches} == {graph.facts.name}
    assert len(times) == 3
    assert all(len(t) == 4 and min(t) > 0 for t in times)


def test_all_generated_kernels_are_joined(step: SmallStep) -> None:
    profiler = StepProfiler(step)  # type: ignore[arg-type]
    assert profiler.joined == (2, 2)
    assert profiler.kernel_count == 4
    assert profiler.notes == ()


def test_a_pause_planted_in_one_kernel_is_found_there(step: SmallStep) -> None:
    profiler = StepProfiler(step)  # type: ignore[arg-type]
    (graph,) = step.capture.graphs
    slot = next(i for i, launch in enumerate(profiler.launches) if launch.generated)
    name = profiler.launches[slot].name
    kernel = getattr(graph.module, name)

    def slow(*args: Any) -> None:
        kernel(*args)
        until = time.perf_counter() + PAUSE
        while time.perf_counter() < until:
            pass

    setattr(graph.module, name, slow)
    try:
        (times,) = profiler.times(1)
    finally:
        setattr(graph.module, name, kernel)
    assert times[slot] >= PAUSE


def test_nothing_is_wrapped_while_no_profile_is_taken(step: SmallStep) -> None:
    (graph,) = step.capture.graphs
    before = {name: getattr(graph.module, name) for name in graph.kernels}
    with loaded_kernels.mark_kernels(step.capture):
        assert all(getattr(graph.module, n) is not k for n, k in before.items())
    assert {name: getattr(graph.module, name) for name in graph.kernels} == before


def test_a_kernel_that_the_module_lacks_is_said(step: SmallStep) -> None:
    """As with the C++ wrapper, which calls its kernels by itself."""
    (graph,) = step.capture.graphs
    module, graph.module = graph.module, None
    try:
        profiler = StepProfiler(step)  # type: ignore[arg-type]
    finally:
        graph.module = module
    assert profiler.joined == (0, 2)
    assert "2 launches of generated kernels were not seen" in profiler.notes[0]


def test_peak_memory_is_what_was_counted_by_hand() -> None:
    x = torch.randn(SIDE, SIDE)
    step = compiled_step(lambda x: torch.relu(x) + 1, x)
    use = memory.measure_memory(step)  # type: ignore[arg-type]
    assert use.peak_allocated_bytes == 2 * FLOATS  # the input and the output
    assert use.timeline[0] == (0.0, FLOATS)
    assert max(held for _, held in use.timeline) == 2 * FLOATS
    assert use.method.startswith("allocator")


def test_a_temporary_is_at_the_peak_and_gone_at_the_end(step: SmallStep) -> None:
    use = memory.measure_memory(step)  # type: ignore[arg-type]
    # Two inputs; one product is worked on in place while the other is made.
    assert use.peak_allocated_bytes == 4 * FLOATS
    assert use.timeline[-1][1] == 3 * FLOATS


def test_the_resident_set_where_the_allocator_says_nothing(
    step: SmallStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_profiled_changes", lambda step: None)
    use = memory.measure_memory(step)  # type: ignore[arg-type]
    assert use.method == "resident set of the process"
    assert use.peak_allocated_bytes is not None and use.peak_allocated_bytes > 4 * FLOATS
    assert use.timeline == ()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("aten.mm.out", "aten::mm"),
        ("extern_kernels.addmm", "aten::addmm"),
        ("torch.ops.mylib.op.default", "mylib::op"),
        ("FallbackKernel", "FallbackKernel"),
    ],
)
def test_operators_by_the_profilers_name(name: str, key: str) -> None:
    assert _operator_key(name) == key


def test_the_bandwidth_of_a_copy_counts_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clocks.COPY_BYTES, "cpu", 1000)
    seconds = iter([9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    monkeypatch.setattr(clocks, "_copy_seconds", lambda *_: next(seconds))
    assert clocks.copy_bandwidth("cpu") == 2 * 1000 / 4.0


def test_a_copy_that_does_not_fit_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clocks.COPY_BYTES, "cpu", 1 << 60)
    assert clocks.copy_bandwidth("cpu") is None
