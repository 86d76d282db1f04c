"""Stands in for the CUDA device in torch's and triton's Python: properties, streams, driver.

Each stand-in names what it replaces, so that a torch without that name fails with the name.
Seen with torch 2.11 to 2.15 and triton 3.6 to 3.9. ``install`` changes the process for good:
only worker processes call it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from perfcli.errors import CompileFailed
from perfcli.model import Target


def replace_attribute(owner: Any, name: str, value: Any) -> None:
    """Set ``owner.name``; raise ``CompileFailed`` with the name where this torch has none."""
    if not hasattr(owner, name):
        import torch

        where = getattr(owner, "__name__", repr(owner))
        raise CompileFailed(
            f"torch {torch.__version__} has no {where}.{name}, which perfcli stands in for "
            "(tested: torch 2.11 to 2.15)"
        )
    setattr(owner, name, value)


def _device_properties(target: Target) -> SimpleNamespace:
    """Return what ``torch.cuda.get_device_properties`` gives on the target."""
    return SimpleNamespace(
        name=target.description,
        major=target.capability[0],
        minor=target.capability[1],
        total_memory=target.memory_bytes,
        multi_processor_count=target.sm_count,
        regs_per_multiprocessor=target.registers_per_sm,
        max_threads_per_multi_processor=target.max_threads_per_sm,
        max_threads_per_block=target.max_threads_per_block,
        warp_size=target.warp_size,
        shared_memory_per_block=target.shared_bytes_per_block,
        shared_memory_per_block_optin=target.shared_bytes_per_block_optin,
        shared_memory_per_multiprocessor=target.shared_bytes_per_sm,
        L2_cache_size=target.l2_bytes,
        gcnArchName="",
        is_integrated=0,
        is_multi_gpu_board=0,
    )


@contextmanager
def replace_for_block(owner: Any, **values: Any) -> Iterator[None]:
    """Give an object other attributes while the block runs."""
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)


def install(target: Target) -> None:
    """Make torch and triton believe that ``target`` is device 0."""
    properties = _device_properties(target)
    _replace_cuda_module(target, properties)
    _replace_graphs()
    _replace_device_interface(target, properties)
    _replace_autocast()
    _replace_availability()
    _replace_module_conversion()
    install_triton_driver(target)


def _replace_cuda_module(target: Target, properties: SimpleNamespace) -> None:
    import torch
    from torch import cuda

    replace_attribute(cuda, "_lazy_init", lambda: None)
    replace_attribute(cuda, "is_available", lambda: True)
    replace_attribute(cuda, "is_initialized", lambda: True)
    replace_attribute(cuda, "is_bf16_supported", lambda *_, **__: target.capability >= (8, 0))
    replace_attribute(cuda, "is_tf32_supported", lambda *_, **__: target.capability >= (8, 0))
    replace_attribute(cuda, "device_count", lambda: 1)
    replace_attribute(cuda, "current_device", lambda: 0)
    replace_attribute(cuda, "set_device", lambda *_: None)
    replace_attribute(cuda, "_exchange_device", lambda *_: 0)
    replace_attribute(cuda, "_maybe_exchange_device", lambda *_: 0)
    replace_attribute(cuda, "synchronize", lambda *_: None)
    replace_attribute(cuda, "is_current_stream_capturing", lambda: False)
    replace_attribute(torch.cuda.graphs, "is_current_stream_capturing", lambda: False)
    replace_attribute(cuda, "empty_cache", lambda: None)
    replace_attribute(cuda, "get_device_name", lambda *_: target.description)
    replace_attribute(cuda, "get_device_properties", lambda *_: properties)
    replace_attribute(cuda, "get_device_capability", lambda *_: target.capability)
    replace_attribute(cuda, "get_arch_list", lambda: [target.arch])
    replace_attribute(
        cuda, "get_rng_state", lambda *_: torch.zeros(16, dtype=torch.uint8, device="cpu")
    )
    replace_attribute(cuda, "set_rng_state", lambda *_, **__: None)
    replace_attribute(cuda, "manual_seed", lambda *_: None)
    replace_attribute(cuda, "manual_seed_all", lambda *_: None)
    # What recomputes a random operator (attention in a checkpointed block) keeps its state.
    replace_attribute(cuda, "default_generators", (_make_generator(),))
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        # Kernels that Inductor generates in order to time them import it.
        torch._C._cuda_getCurrentRawStream = lambda _device: 0
    if torch.version.cuda is None:
        torch.version.cuda = "13.0"


def _replace_graphs() -> None:
    """Answer what Inductor asks before it records CUDA graphs: the allocator is the usual one (a
    question of torch 2.13 and later)."""
    from torch._inductor import cudagraph_utils

    if hasattr(cudagraph_utils, "check_caching_allocator_for_cudagraphs"):
        cudagraph_utils.check_caching_allocator_for_cudagraphs = lambda: None


def _make_generator() -> Any:
    """Return a generator of the device, of which the states are never drawn from."""
    import torch

    class OfflineGenerator(torch.Generator):  # type: ignore[misc]
        device = torch.device("cuda", 0)

        def clone_state(self) -> Any:
            return OfflineGenerator()

        def graphsafe_get_state(self) -> Any:
            return self

        def graphsafe_set_state(self, _state: Any) -> None:
            return None

    return OfflineGenerator()


def _replace_device_interface(target: Target, properties: SimpleNamespace) -> None:
    from torch._dynamo import device_interface

    capability = target.capability_number
    base = device_interface.CudaInterface

    class Worker(base.Worker):  # type: ignore[misc, name-defined]
        set_device = staticmethod(lambda *_: None)
        current_device = staticmethod(lambda: 0)
        get_device_properties = staticmethod(lambda *_: properties)

    members = {
        "Worker": Worker,
        "is_available": staticmethod(lambda: True),
        "device_count": staticmethod(lambda: 1),
        "current_device": staticmethod(lambda: 0),
        "get_compute_capability": staticmethod(lambda *_: capability),
        "get_device_properties": staticmethod(lambda *_: properties),
        "get_raw_stream": staticmethod(lambda *_: 0),
        "synchronize": staticmethod(lambda *_: None),
        "is_bf16_supported": staticmethod(lambda *_, **__: target.capability >= (8, 0)),
        "is_triton_capable": staticmethod(lambda *_: True),
        "raise_if_triton_unavailable": staticmethod(lambda *_: None),
    }
    interface = type("OfflineCudaInterface", (base,), members)
    # The table fills itself on the first look; registering before that would be overwritten.
    list(device_interface.get_registered_device_interfaces())
    device_interface.register_interface_for_device("cuda", interface)
    device_interface.register_interface_for_device("cuda:0", interface)


def _replace_autocast() -> None:
    import torch.cuda.amp.common

    replace_attribute(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)


def _replace_availability() -> None:
    """Keep fake tensors from touching the device although ``is_available`` says yes.

    The guard that this puts in place is asked for once per mode entry: the shim's stays.
    """
    import torch
    from torch._subclasses import fake_tensor

    replace_attribute(fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda _: True))
    if hasattr(fake_tensor, "init_gpu_context"):
        fake_tensor.init_gpu_context = lambda *_: None
    replace_attribute(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)


def _replace_module_conversion() -> None:
    """Let ``Module.to`` and friends convert fake parameters: torch swaps tensors in place, which
    fake tensors refuse. They stay the same objects, as on a device: an optimizer may have them."""
    from torch import nn

    replace_attribute(nn.Module, "_apply", _convert_module)


def _convert_module(module: Any, fn: Any, recurse: bool = True) -> Any:
    """Do what ``nn.Module._apply`` does: every parameter and buffer becomes ``fn`` of itself; ties
    stay tied."""
    converted: dict[int, Any] = {}
    modules = module.modules() if recurse else [module]
    for part in modules:
        _convert_tensors(part, fn, converted)
    return module


def _convert_tensors(part: Any, fn: Any, converted: dict[int, Any]) -> None:
    for name, parameter in list(part._parameters.items()):
        if parameter is None:
            continue
        if id(parameter) not in converted:
            # Kept with the original: an id is only unique while its object lives.
            converted[id(parameter)] = (_convert_parameter(parameter, fn), parameter)
        part._parameters[name] = converted[id(parameter)][0]
    for name, buffer in list(part._buffers.items()):
        if buffer is None:
            continue
        if id(buffer) not in converted:
            converted[id(buffer)] = (fn(buffer), buffer)
        part._buffers[name] = converted[id(buffer)][0]


def _convert_parameter(parameter: Any, fn: Any) -> Any:
    """Return the parameter with what ``fn`` makes of it and of its gradient as its data, or another
    one where it can't have that: a real tensor does not become a fake one, and one that wraps
    others has no data of its own."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    with torch.no_grad():
        value, gradient = fn(parameter), parameter.grad
        if value is parameter:
            return parameter
        kinds = {type(parameter.data), type(value.data)}
        alike = torch._has_compatible_shallow_copy_type(parameter, value)
        if kinds not in ({torch.Tensor}, {FakeTensor}) or not alike:
            return torch.nn.Parameter(value.detach(), requires_grad=parameter.requires_grad)
        parameter.grad = None
        parameter.data = value
        if isinstance(value, FakeTensor):
            parameter.fake_device = value.fake_device  # which C++ knows nothing of
        if gradient is not None:
            parameter.grad = fn(gradient)
    return parameter


def install_triton_driver(target: Target) -> None:
    """Activate a triton driver that knows its target and nothing else."""
    import torch
    import torch._inductor.runtime.triton_helpers as triton_helpers
    import triton
    import triton.testing
    from triton.backends.compiler import GPUTarget

    gpu = GPUTarget("cuda", target.capability_number, target.warp_size)

    properties = {
        "max_shared_mem": target.shared_bytes_per_block_optin,
        "max_num_regs": target.registers_per_sm,
        "multiprocessor_count": target.sm_count,
        "warpSize": target.warp_size,
        "sm_clock_rate": target.clock_khz,
        "mem_clock_rate": target.memory_clock_khz,
        "mem_bus_width": target.memory_bus_bits,
    }
    # Inductor asks nvidia-smi for the highest SM clock, in MHz.
    replace_attribute(triton.testing, "nvsmi", lambda _: [target.clock_khz // 1000])

    class OfflineDriver:
        utils = SimpleNamespace(get_device_properties=lambda _device: properties)

        def get_current_target(self) -> Any:
            return gpu

        def get_active_torch_device(self) -> Any:
            return torch.device("cuda", 0)

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, _device: int) -> None:
            return None

        def get_current_stream(self, _device: int) -> int:
            return 0

        def get_device_interface(self) -> Any:
            return sys.modules["torch.cuda"]

        @staticmethod
        def is_active() -> bool:
            return True

    triton.runtime.driver.set_active(OfflineDriver())
    replace_attribute(triton_helpers, "set_driver_to_gpu", lambda: None)
