"""Keeps a process from using CUDA before it was forked: what is forked later could not use it. Then
has it begin while Python imports something."""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perfcli.compile.importing import without_collection

_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED of cuda.h


@contextmanager
def without_cuda() -> Iterator[None]:
    """Have ``torch.cuda.is_available`` ask NVML in the block: Inductor calls it while it is
    imported (torch 2.11), and to ask CUDA itself is to begin to use it."""
    before = os.environ.get(_BY_NVML)
    os.environ[_BY_NVML] = "1"
    try:
        yield
    finally:
        os.environ.pop(_BY_NVML)
        if before is not None:
            os.environ[_BY_NVML] = before


def has_begun(maps: Path = Path("/proc/self/maps")) -> bool:
    """Return whether this process has begun to use CUDA, or may have."""
    try:
        if "/libcuda.so" not in maps.read_text(encoding="utf-8", errors="replace"):
            return False
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    found: int = driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
    return found != _NOT_INITIALIZED


_WANTED_SOON = (
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.serialized_patterns._sfdp_pattern_1",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.pallas",
    "torch._inductor.cudagraph_trees",
    "torch._dynamo.backends.inductor",
    "torch._dynamo.repro.after_dynamo",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.fx.experimental.validator",
    "sympy.physics.units",
    "sympy.tensor.tensor",
)
"""What Inductor imports while it generates code (torch 2.11)."""


def begin(device: int) -> None:
    """Have CUDA make this process's context of a device, which takes a fifth of a second without
    Python's lock, and import what will be used. What fails is left to torch to say."""
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")  # as torch does

    def make_context() -> None:
        with suppress(OSError):
            driver = ctypes.CDLL("libcuda.so.1")
            found, context = ctypes.c_int(), ctypes.c_void_p()
            if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(found), device):
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), found)

    beginning = threading.Thread(target=make_context)
    beginning.start()
    with without_collection():
        for name in _WANTED_SOON:
            with suppress(Exception):  # of another release
                importlib.import_module(name)
    beginning.join()
