"""Finds memory for the runs that only check: what there is, and giving it back."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Any

from perfcli.machine.environment import available_memory

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def is_out_of_memory(error: BaseException) -> bool:
    return out_of_memory_in(error) is not None


def out_of_memory_in(error: BaseException) -> BaseException | None:
    """Return torch's error for a full device, or the CPU allocator's, which is a plain
    RuntimeError: this one, or the innermost of those that it wraps (Dynamo's, Inductor's, ours)."""
    found = [each for each in _unwrap(error) if _says_full(each)]
    return found[-1] if found else None


def _unwrap(error: BaseException) -> list[BaseException]:
    """Return the error and what it wraps, from the outside in."""
    chain: list[BaseException] = []
    inner: BaseException | None = error
    while inner is not None and inner not in chain:
        chain.append(inner)
        inner = getattr(inner, "inner_exception", None) or inner.__cause__
    return chain


def _says_full(error: BaseException) -> bool:
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    words = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(word in text for word in words)


def require(needed: int, available: int | None) -> None:
    """Check, before a run on the CPU, that there is memory: the kernel would end a process that
    takes too much, unasked. Raises MemoryError where more is needed than there is."""
    if available is not None and needed > available:
        raise MemoryError(f"{needed} bytes are needed, {available} available")


def available(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Return bytes that this process may still take, by the machine and by its control group."""
    found = (available_memory(meminfo), _of_group(cgroup))
    return min((number for number in found if number is not None), default=None)


def _of_group(cgroup: Path) -> int | None:
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return limit - int(used["anon"])
    except (OSError, KeyError, ValueError):
        return None


AMPLE_TIMES = 8
"""How many times what it has taken so far a worker's check may take: eager results, gradients, and
both of them in float64, beside those of the other side."""


def is_ample(device: str) -> bool:
    """Return whether both sides can check their results at the same time."""
    import torch

    if device != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info()
    return bool(free >= AMPLE_TIMES * torch.cuda.max_memory_reserved())


def give_back(device: Any) -> None:
    """Give back memory that is free but kept, so that peaks measured later are the step's own."""
    import torch

    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
