"""Keeps a process from using CUDA before it was forked: what is forked later could not use it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
