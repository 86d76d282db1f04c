"""Asks the CUDA driver through ctypes what a device says about itself, without torch."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perfcli.errors import PerfcliError

# CUdevice_attribute in cuda.h.
ATTRIBUTES = {
    "max_threads_per_block": 1,
    "shared_bytes_per_block": 8,
    "warp_size": 10,
    "clock_khz": 13,
    "sm_count": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "max_threads_per_sm": 39,
    "capability_major": 75,
    "capability_minor": 76,
    "shared_bytes_per_sm": 81,
    "registers_per_sm": 82,
    "shared_bytes_per_block_optin": 97,
    "max_blocks_per_sm": 106,
    "reserved_shared_bytes_per_block": 111,
}


@dataclass(frozen=True, slots=True)
class Device:
    """Describes the first visible GPU. ``memory_bytes`` is what the driver lets programs use, which
    is less than what nvidia-smi prints; attributes are named after the keys of ``ATTRIBUTES``."""

    name: str
    memory_bytes: int
    attributes: Mapping[str, int]


def device_count() -> int:
    """Return number of visible NVIDIA GPUs, or 0 where there is no driver or none that works."""
    library = _library()
    count = ctypes.c_int()
    if library is None or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def first_device() -> Device:
    """Read GPU 0 (``CUDA_VISIBLE_DEVICES`` counts). Raises PerfcliError where there is no GPU, or
    the driver refused a question."""
    library = _library()
    if library is None or device_count() == 0:
        raise PerfcliError(
            "no NVIDIA GPU found here: name a device to compile for, for example --target h100"
        )
    handle = ctypes.c_int()
    _check(library.cuDeviceGet(ctypes.byref(handle), 0), "cuDeviceGet")
    memory = ctypes.c_size_t()
    _check(library.cuDeviceTotalMem_v2(ctypes.byref(memory), handle), "cuDeviceTotalMem")
    attributes = {key: _attribute(library, number, handle) for key, number in ATTRIBUTES.items()}
    return Device(_name(library, handle), memory.value, attributes)


def device_name(index: int) -> str:
    """Return what a visible GPU is called. Raises as ``first_device``."""
    library = _library()
    if library is None:
        raise PerfcliError("no NVIDIA GPU found here")
    handle = ctypes.c_int()
    _check(library.cuDeviceGet(ctypes.byref(handle), index), "cuDeviceGet")
    return _name(library, handle)


def driver_version(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the kernel driver's release, ``580.159.04``, or None where it can't be read."""
    try:
        found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", path.read_text())
    except OSError:
        return None
    return found[1] if found else None


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return libcuda, initialised, or None where it is missing, a stub, or older than its kernel
    module."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if library.cuInit(0) == 0 else None


def _name(library: ctypes.CDLL, handle: ctypes.c_int) -> str:
    name = ctypes.create_string_buffer(256)
    _check(library.cuDeviceGetName(name, len(name), handle), "cuDeviceGetName")
    return name.value.decode()


def _attribute(library: ctypes.CDLL, number: int, handle: ctypes.c_int) -> int:
    value = ctypes.c_int()
    status = library.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
    _check(status, f"cuDeviceGetAttribute({number})")
    return value.value


def _check(status: int, call: str) -> None:
    if status != 0:
        raise PerfcliError(
            f"the CUDA driver answered {call} with error {status}: run nvidia-smi to see whether "
            "the GPU works, or name a device with --target"
        )
