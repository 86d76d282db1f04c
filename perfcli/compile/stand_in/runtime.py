"""Stands in for what programs ask of ``torch.cuda`` while they run: streams, events, memory, random
states, graphs.

Nothing waits and nothing is recorded: there is no device on which anything could run at the same
time. Names that only some releases have are answered where they exist. Seen with torch 2.11 and
2.13, CPU and CUDA builds.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from contextlib import contextmanager, nullcontext
from typing import Any

from perfcli.compile.stand_in.streams import (
    StandInEvent,
    find_stream,
    make_stream_class,
    use_stream,
)
from perfcli.model import Target

_STATISTICS = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes")


def install(target: Target) -> None:
    """Answer what programs ask of ``torch.cuda`` and ``torch.accelerator`` for a target."""
    import torch
    from torch import cuda
    from torch._subclasses import fake_impls

    stream, event = make_stream_class(), StandInEvent
    default = stream()
    default.progress = None
    answers: dict[str, Any] = {
        "Stream": stream,
        "ExternalStream": stream,
        "Event": event,
        "current_stream": lambda *_: find_stream(default),
        "default_stream": lambda *_: default,
        "set_stream": _nothing,
        "stream": use_stream,
        "StreamContext": use_stream,
        "device": _use_device,
        "device_of": _use_device,
        "mem_get_info": lambda *_: (target.memory_bytes, target.memory_bytes),
        "memory_stats": lambda *_: _memory_stats(),
        "memory_summary": lambda *_, **__: "",
        "set_per_process_memory_fraction": _nothing,
        "get_per_process_memory_fraction": lambda *_: 1.0,
        "memory_snapshot": lambda *_: [],
        "ipc_collect": _nothing,
        "can_device_access_peer": lambda *_: True,
        "get_rng_state_all": lambda *_: [cuda.get_rng_state()],
        "set_rng_state_all": _nothing,
        "initial_seed": lambda *_: 0,
        "seed": _nothing,
        "seed_all": _nothing,
        "utilization": lambda *_: 0,
        "temperature": lambda *_: 0,
        "power_draw": lambda *_: 0,
        "clock_rate": lambda *_: target.clock_khz // 1000,
        "set_sync_debug_mode": _nothing,
        "get_sync_debug_mode": lambda *_: 0,
        "CUDAGraph": _Graph,
        "graph": _surround,
        "graph_pool_handle": lambda *_: (0, 0),
        "make_graphed_callables": lambda callables, *_, **__: callables,
    }
    _install_answers(cuda, answers)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(cuda.nvtx, name, lambda *_, **__: 0)
    cuda.nvtx.range = _surround
    # A tensor without memory is freed by nobody.
    fake_impls.op_implementations_dict[torch.ops.aten.record_stream.default] = _nothing
    _answer_accelerator(torch, target, default)
    _tell_dynamo(stream, event, answers)


def _install_answers(cuda: Any, answers: dict[str, Any]) -> None:
    """Put the answers into ``torch.cuda`` and into the modules that it takes the names from."""
    for name in ("memory", "max_memory", "host_memory"):
        for end in ("allocated", "reserved", "cached"):
            answers[f"{name}_{end}"] = lambda *_: 0
    for name in dir(cuda):
        if name.startswith("reset_"):
            answers[name] = _nothing
    for name, value in answers.items():
        if hasattr(cuda, name):
            setattr(cuda, name, value)
    for module in (cuda.memory, cuda.streams, cuda.random, cuda.graphs):
        for name, value in answers.items():
            if name in vars(module):
                setattr(module, name, value)


def _nothing(*_: Any, **__: Any) -> None:
    return None


class _use_device(nullcontext):  # type: ignore[type-arg]
    def __init__(self, device: Any = None) -> None:
        super().__init__(device)
        self.idx = 0


class _Graph:
    """Stands in for ``torch.cuda.CUDAGraph``: what is recorded ran as it was recorded."""

    def __init__(self, *_: Any, **__: Any) -> None:
        return None

    def pool(self) -> tuple[int, int]:
        return (0, 0)

    capture_begin = capture_end = replay = reset = enable_debug_mode = debug_dump = _nothing


@contextmanager
def _surround(*_: Any, **__: Any) -> Any:
    yield


def _memory_stats() -> OrderedDict[str, int]:
    stats: dict[str, int] = defaultdict(int)
    for name in _STATISTICS:
        for kind in ("all", "large_pool", "small_pool"):
            for what in ("current", "peak", "allocated", "freed"):
                stats[f"{name}.{kind}.{what}"] = 0
    stats |= {"num_alloc_retries": 0, "num_ooms": 0}
    return OrderedDict(stats)


def _answer_accelerator(torch: Any, target: Target, default: Any) -> None:
    device = torch.device("cuda")
    answers = {
        "current_accelerator": lambda *_, **__: device,
        "is_available": lambda: True,
        "device_count": lambda: torch.cuda.device_count(),
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": _nothing,
        "set_device_idx": _nothing,
        "current_stream": lambda *_: find_stream(default),
        "set_stream": _nothing,
        "synchronize": _nothing,
        "empty_cache": _nothing,
        "device_index": _use_device,
        "memory_stats": lambda *_: _memory_stats(),
        "memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "max_memory_reserved": lambda *_: 0,
        "reset_peak_memory_stats": _nothing,
        "reset_accumulated_memory_stats": _nothing,
        "get_memory_info": lambda *_: (target.memory_bytes, target.memory_bytes),
    }
    for name, value in answers.items():
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, value)


def _tell_dynamo(stream: type, event: type, answers: dict[str, Any]) -> None:
    """Give Dynamo's view of the device the same streams."""
    from torch._dynamo import device_interface

    interface = device_interface.get_interface_for_device("cuda")
    names = ("current_stream", "default_stream", "set_stream", "stream", "mem_get_info")
    for name, value in {"Stream": stream, "Event": event}.items():
        setattr(interface, name, value)
    for name in names:
        if hasattr(interface, name):
            setattr(interface, name, staticmethod(answers[name]))
