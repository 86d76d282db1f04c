"""Hand-made events of the shapes that Kineto gave on a CPU and on an H200."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from perfcli.measure.events import KERNEL, STEP, _Event, read, split_steps


def step(start: int, end: int) -> _Event:
    return _Event(STEP, start, end, "host", mark=True)


def on_device(name: str, start: int, end: int, correlation: int, linked: int = 0) -> _Event:
    return _Event(name, start, end, "device", 7, correlation, linked)


def is_triton(name: str) -> bool:
    return name.startswith("triton_")


def test_outermost_operators_and_marked_kernels_on_the_host() -> None:
    events = [
        step(0, 1000),
        _Event("CompiledFunction", 10, 900, "host"),
        _Event(f"{KERNEL}forward 0/cpp_fused_0", 20, 120, "host", mark=True),
        _Event("aten::mm", 200, 500, "host"),
        _Event("aten::resolve_conj", 210, 220, "host"),
        _Event("aten::empty", 600, 610, "host"),
        _Event("aten::detach", 700, 710, "host"),
        _Event("autograd::engine::evaluate_function: X", 800, 890, "host"),
        _Event("aten::copy_", 810, 880, "host"),
        _Event("aten::mm", 1001, 1500, "host"),  # after the step
    ]
    (seen,) = split_steps(events, False, is_triton)
    assert [(s.key, s.generated, round(s.seconds * 1e9)) for s in seen] == [
        ("forward 0/cpp_fused_0", True, 100),
        ("aten::mm", False, 300),
        ("aten::copy_", False, 70),
    ]


def test_operators_of_two_threads_are_not_within_each_other() -> None:
    events = [
        step(0, 1000),
        _Event("aten::mm", 10, 500, "host", thread=1),
        _Event("aten::bmm", 20, 400, "host", thread=2),
    ]
    (seen,) = split_steps(events, False, is_triton)
    assert [s.key for s in seen] == ["aten::mm", "aten::bmm"]


def device_events() -> list[_Event]:
    """A generated kernel, a product in two parts on the device, an eager operator's inner one."""
    return [
        step(0, 1000),
        _Event(STEP, 50, 900, "device", mark=True),
        _Event("triton_poi_fused_0", 10, 40, "host", correlation=1),
        _Event("cuLaunchKernel", 20, 30, "launch", correlation=901, linked=1),
        on_device("triton_poi_fused_0", 50, 150, 901, 1),
        _Event("aten::addmm", 60, 120, "host", correlation=2),
        # The driver's numbers are not those of the host's events: this one is 1 as well.
        _Event("cudaMemsetAsync", 70, 75, "launch", correlation=1, linked=2),
        _Event("cuLaunchKernelEx", 80, 90, "launch", correlation=903, linked=2),
        on_device("Memset (Device)", 151, 152, 1, 2),
        on_device("nvjet_sm90", 160, 360, 903, 2),
        _Event("aten::ones_like", 130, 190, "host", correlation=3),
        _Event("aten::fill_", 140, 180, "host", correlation=4),
        _Event("cudaLaunchKernel", 150, 170, "launch", correlation=904, linked=4),
        on_device("vectorized_elementwise", 361, 371, 904, 4),
    ]


def test_kernels_of_one_operator_are_one_launch() -> None:
    (seen,) = split_steps(device_events(), True, is_triton)
    assert [(s.key, s.generated, s.kernels, round(s.seconds * 1e9)) for s in seen] == [
        ("triton_poi_fused_0", True, ("triton_poi_fused_0",), 100),
        ("aten::addmm", False, ("Memset (Device)", "nvjet_sm90"), 201),
        ("aten::ones_like", False, ("vectorized_elementwise",), 10),
    ]


def test_two_calls_of_one_operator_stay_two() -> None:
    events = [step(0, 1000)]
    for n in (1, 2):
        events += [
            _Event("aten::mm", 100 * n, 100 * n + 50, "host", correlation=n),
            _Event("cuLaunchKernelEx", 100 * n + 5, 100 * n + 9, "launch", 0, 900 + n, n),
            on_device("gemm", 300 + 100 * n, 390 + 100 * n, 900 + n, n),
        ]
    (seen,) = split_steps(events, True, is_triton)
    assert [s.key for s in seen] == ["aten::mm", "aten::mm"]


def test_kernels_stand_in_the_order_of_their_launches_and_in_the_step_that_launched_them() -> None:
    """A kernel can start after the mark of the next step; streams can overtake each other."""
    events = [
        step(0, 100),
        step(100, 200),
        _Event("cuLaunchKernel", 10, 12, "launch", correlation=1),
        _Event("cuLaunchKernel", 20, 22, "launch", correlation=2),
        _Event("cuLaunchKernel", 110, 112, "launch", correlation=3),
        on_device("triton_a", 80, 90, 1),
        on_device("triton_b", 40, 150, 2),
        on_device("triton_c", 160, 170, 3),
    ]
    first, second = split_steps(events, True, is_triton)
    assert [s.key for s in first] == ["triton_a", "triton_b"]
    assert [s.key for s in second] == ["triton_c"]


def test_a_replayed_graph_has_one_launch_and_no_operators() -> None:
    events = [
        step(0, 1000),
        _Event("cudaGraphLaunch", 10, 400, "launch", correlation=9),
        on_device("triton_a", 500, 510, 9),
        on_device("gemm", 520, 600, 9),
    ]
    (seen,) = split_steps(events, True, is_triton)
    assert [s.key for s in seen] == ["triton_a", "gemm"]


def kineto(name: str, device: str, metadata: str = "", mark: bool = False) -> Any:
    values = {
        "name": name,
        "start_ns": 5,
        "duration_ns": 7,
        "start_thread_id": 1,
        "correlation_id": 11,
        "linked_correlation_id": 12,
        "is_user_annotation": mark,
        "metadata_json": metadata,
        "device_type": SimpleNamespace(name=device),
    }
    return SimpleNamespace(**{key: lambda value=value: value for key, value in values.items()})


def test_reading_kinetos_events() -> None:
    metadata = '"registers per thread": 64, "grid": [4096, 1, 1], "shared memory": 16'
    kernel, launch, operator, mark = read(
        [
            kineto("triton_poi_fused_0", "CUDA", metadata),
            kineto("cuLaunchKernelEx", "CPU"),
            kineto("custom::op", "CPU"),
            kineto(f"{KERNEL}forward 0/cpp_fused_0", "CPU"),
        ]
    )
    assert kernel.where == "device" and (kernel.start, kernel.end) == (5, 12)
    assert kernel.facts == {
        "registers per thread": 64,
        "grid": [4096, 1, 1],
        "shared memory": 16,
    }
    assert [e.where for e in (launch, operator, mark)] == ["launch", "host", "host"]
    assert mark.mark and not operator.mark


def test_metadata_that_is_no_json_is_no_fact() -> None:
    (kernel,) = read([kineto("k", "CUDA", '"Context": "a"b"')])
    assert kernel.facts == {}
