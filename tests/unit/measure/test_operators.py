"""Calls of library operators: what they are, and that their times come back with them. Without a
device, tensors lie on the CPU and the profiler's events are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.calibrate.operator_cases import _list_operator_cases
from perfcli.measure import operators
from perfcli.model.kernel_work import OperatorCase
from perfcli.predict.operator_formulas import parts_of
from perfcli.predict.operators import shipped_table_for

pytestmark = pytest.mark.torch

SMALL = {
    "product": {"m": 64, "n": 48, "k": 32, "b": 2},
    "attention": {"b": 1, "h": 2, "s": 64, "kv": 64},
    "convolution": {"n": 1, "hw": 32},
    "other": {"rows": 64, "width": 96},
}


class Device:
    """Runs on the CPU what is meant for the device, and keeps what a profiler would see of it: two
    kernels of 1.5 µs for each call, 400 µs for what flushes the cache."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        self.events: list[tuple[str, int]] = []
        self.calls = 0
        self.loses_events = False
        made = {name: getattr(torch, name) for name in ("randn", "empty", "randint", "zeros")}

        def on_cpu(make: Callable[..., Any]) -> Callable[..., Any]:
            def call(*sizes: Any, device: str = "", **more: Any) -> Any:
                return make(*sizes, **more)

            return call

        for name, make in made.items():
            monkeypatch.setattr(torch, name, on_cpu(make))
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: self.see("spin_kernel(long)", 1))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.autograd.profiler, "profile", self.profile)
        monkeypatch.setattr(operators, "_warm_up", lambda: None)
        monkeypatch.setattr(operators, "_FLUSHED", 64)

    def see(self, name: str, nanoseconds: int) -> None:
        self.events.append((name, nanoseconds))

    @contextmanager
    def profile(self, *, use_cpu: bool, use_device: str, use_kineto: bool) -> Iterator[Any]:
        # torch 2.11 refuses events of the device alone without Kineto.
        assert (use_cpu, use_device, use_kineto) == (False, "cuda", True)
        self.events.clear()
        yield SimpleNamespace(kineto_results=SimpleNamespace(events=self.read))

    def read(self) -> list[Any]:
        import torch

        kind = torch.autograd.DeviceType.CUDA
        at = 0
        found = []
        for name, duration in self.events[3:] if self.loses_events else self.events:
            found.append(
                SimpleNamespace(
                    name=lambda name=name: name,
                    device_type=lambda: kind,
                    start_ns=lambda at=at: at,
                    duration_ns=lambda duration=duration: duration,
                )
            )
            at += duration + 10
        return found[::-1]  # in no order


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


def shrink(case: OperatorCase) -> OperatorCase:
    sizes = {**case.settings, **SMALL[case.family]}
    return OperatorCase(case.family, sizes)


def count_calls(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels for each call that is not there to warm up."""
    run = operators._Segments.run

    def seen(self: Any, label: Any, call: Callable[[], Any], cold: bool) -> None:
        def twice() -> None:
            call()
            device.see("gemm", 1500)
            device.see("reduce", 1500)

        if cold:
            device.see("max", 400_000)
        run(self, label, twice, cold)

    monkeypatch.setattr(operators._Segments, "run", seen)


def test_each_kind_of_call_is_timed_and_known_by_its_class(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_calls(device, monkeypatch)
    from perfcli.machine import targets

    table = shipped_table_for(targets.get("h200"))
    assert table is not None
    every = [case for case in _list_operator_cases() if case.family != "attention"]
    narrow = [c for c in every if all(int(c.settings.get(n, 0)) < 200 for n in ("ci", "co"))]
    few = [shrink(case) for case in narrow]
    cases = [*few[:40], *(shrink(c) for c in every if c.family == "other")][:70]
    found = [each for batch in operators.time_operators(cases) for each in batch]
    assert [number for number, _ in found] == list(range(len(cases)))
    names = set()
    for number, timed in found:
        gradients = 3 if cases[number].family == "convolution" else 1
        assert len(timed) == gradients, cases[number]
        for each in timed:
            (part,) = parts_of(each.work) or ()
            names.add(part.name)
            assert each.times == ((3.0,) * 5, (3.0,) * 5)
    assert names <= table.given.keys()
    assert len([name for name in names if name.startswith("other ")]) == 10


def test_a_call_that_the_library_refuses_has_no_times(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU there is no flash attention in half precision, or it raises something else."""
    count_calls(device, monkeypatch)
    product = OperatorCase(
        "product", {"op": "mm", "dtype": "fp32", "b": 1, "m": 8, "n": 8, "k": 8, "ta": 0, "tb": 0}
    )
    refused = OperatorCase("product", {**product.settings, "op": "bmm", "b": 2, "k": -1})
    (batch,) = operators.time_operators([refused, product])
    assert [(number, len(timed)) for number, timed in batch] == [(0, 0), (1, 1)]


def test_times_that_were_lost_are_no_times(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    count_calls(device, monkeypatch)
    product = OperatorCase(
        "product", {"op": "mm", "dtype": "fp32", "b": 1, "m": 8, "n": 8, "k": 8, "ta": 0, "tb": 0}
    )
    device.loses_events = True
    assert list(operators.time_operators([product])) == [[]]


def test_a_lost_device_ends_it(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(case: OperatorCase) -> Iterator[Any]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(operators, "_make_calls", fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        list(operators.time_operators([OperatorCase("product", {})]))


def test_attention_reads_its_mask_and_its_gradient(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.nn import attention

    @contextmanager
    def any_backend(backend: Any) -> Iterator[None]:
        yield

    monkeypatch.setattr(attention, "sdpa_kernel", any_backend)
    settings: dict[str, int | float | str] = {
        "library": "efficient",
        "dtype": "fp32",
        "d": 32,
        "causal": 0,
        "mask": 1,
        "drop": 0.0,
        "bshd": 1,
        **SMALL["attention"],
    }
    forward, backward = operators._make_calls(OperatorCase("attention", settings))
    works = [operators._count(call) for call in (forward, backward)]
    assert [work.family for work in works] == ["attention", "attention backward"]
    assert all(work.variant == "efficient" and work.sizes["mask"] == 1 for work in works)
    assert works[0].sizes["queries"] == 64 and works[0].sizes["heads"] == 2
    assert len(backward.run()) == 3
