"""Describes where a worker runs, as far as it decides times."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from perfcli.compile.binaries.assembler import version_for
from perfcli.machine.environment import read_cpu_name, relevant_variables
from perfcli.measure.nvml import Nvml
from perfcli.model import Machine
from perfcli.model.values import Scalar

_ADDR_NO_RANDOMIZE = 0x0040000
_GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"


def describe(
    device: str, *, threads: int | None = None, cpus: Sequence[int] = (), flush_l2: bool = False
) -> Machine:
    """Return this process's machine, and the GPU that is current where ``device`` is ``cuda``.
    ``flush_l2``: whether steps there are timed with nothing of theirs in L2."""
    import torch

    triton = importlib.util.find_spec("triton") is not None
    common = {
        "torch": torch.__version__,
        "triton": importlib.import_module("triton").__version__ if triton else None,
        "python": platform.python_version(),
        "cpus": tuple(cpus),
        "variables": relevant_variables(os.environ),
    }
    facts = _host_facts(cpus)
    if device != "cuda":
        taken = threads if threads is not None else torch.get_num_threads()
        return Machine(device=read_cpu_name(), threads=taken, facts=facts, **common)
    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    uuid = gpu_uuid(index)
    gpu = find_gpu(uuid)
    return Machine(
        device=properties.name,
        ptxas=version_for(properties.major * 10 + properties.minor) if triton else None,
        driver=gpu.driver() if gpu else None,
        device_index=index,
        uuid=uuid,
        threads=threads,
        facts={
            **facts,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda or "",
            **({"flush_l2": True} if flush_l2 else {}),
            **(gpu.facts() if gpu else {}),
        },
        **common,
    )


def gpu_uuid(index: int) -> str | None:
    """Return the UUID as NVIDIA's tools write it, or None where torch doesn't tell."""
    import torch

    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    return None if uuid is None else f"GPU-{str(uuid).removeprefix('GPU-')}"


def find_gpu(uuid: str | None) -> Nvml | None:
    """Return what asks about a GPU; None where nothing can."""
    try:
        return Nvml(uuid) if uuid else None
    except (OSError, AttributeError):  # no library, an unknown one, or no such device
        return None


def _host_facts(cpus: Sequence[int]) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {
        "cores": os.cpu_count() or 0,
        "cpu": read_cpu_name(_read("/proc/cpuinfo")),
    }
    governor = _read(_GOVERNOR.format(min(cpus, default=0))).strip()
    if governor:
        facts["governor"] = governor
    personality = _read("/proc/self/personality").strip()
    if personality:
        facts["fixed_layout"] = bool(int(personality, 16) & _ADDR_NO_RANDOMIZE)
    return facts


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
