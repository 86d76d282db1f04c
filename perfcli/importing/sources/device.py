"""Tells which GPU kernels were generated for, and puts another one into their text.

Inductor writes the properties of the device into each kernel, and its launch configurations follow
from them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perfcli.machine import targets
from perfcli.model import Target

USUAL = "h100"
_PROPERTIES = re.compile(r"DeviceProperties\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Holds the target that kernels are compiled for, and what has to be said about the choice."""

    target: Target | None
    note: str = ""


def choose_target(
    devices: Iterable[Mapping[str, Any]], asked: Target | None, names: Collection[str] = ()
) -> Chosen:
    """Return the target: the one asked for, else the one that the kernels name. ``devices`` has the
    properties in each kernel, and is empty where all kernels are for the CPU; ``names`` are GPUs
    that were there."""
    counted = Counter(tuple(sorted(device.items())) for device in devices if device)
    if not counted:
        return Chosen(asked)
    device = dict(counted.most_common(1)[0][0])
    fitting = [each for each in targets.TARGETS.values() if _fits(device, each)]
    if asked is not None:
        fits = _fits(device, asked)
        return Chosen(asked, "" if fits else f"{_describe(device)}, compiled for {asked.name}")
    fitting = [each for each in fitting if each.description in names] or fitting
    if len(fitting) == 1:
        return Chosen(fitting[0])
    if fitting:
        names = " and ".join(each.name for each in fitting)
        return Chosen(
            fitting[0],
            f"the sources fit {names}: compiled for {fitting[0].name}, unless --target says "
            "otherwise",
        )
    same = (t for t in targets.TARGETS.values() if _capability(device) == t.capability)
    target = next(same, targets.get(USUAL))
    note = f"{_describe(device)}, which perfcli has no table of: compiled for {target.name}"
    return Chosen(target, note)


def is_nvidia(device: Mapping[str, Any]) -> bool:
    return bool(device.get("type", "cuda") == "cuda")


def _fits(device: Mapping[str, Any], target: Target) -> bool:
    return is_nvidia(device) and all(
        device.get(name, value) == value for name, value in _fields(target).items()
    )


def _fields(target: Target) -> dict[str, int]:
    major, minor = target.capability
    return {
        "multi_processor_count": target.sm_count,
        "cc": 10 * major + minor,
        "major": major,
        "regs_per_multiprocessor": target.registers_per_sm,
        "max_threads_per_multi_processor": target.max_threads_per_sm,
        "max_threads_per_block": target.max_threads_per_block,
        "warp_size": target.warp_size,
    }


def _capability(device: Mapping[str, Any]) -> tuple[int, int] | None:
    number = device.get("cc")
    return divmod(number, 10) if isinstance(number, int) else None


def _describe(device: Mapping[str, Any]) -> str:
    capability = _capability(device)
    kind = f"compute capability {capability[0]}.{capability[1]}" if capability else "another kind"
    count = device.get("multi_processor_count", "an unknown number of")
    return f"the sources were generated for a GPU of {kind} with {count} multiprocessors"


def retarget(source: str, target: Target) -> str:
    """Return a kernel's text as Inductor writes it for ``target``: the same but for the fields of
    the device that stand in it."""
    fields = _fields(target)

    def write(found: re.Match[str]) -> str:
        inside = found[1]
        for name, value in fields.items():
            inside = re.sub(rf"\b{name}=\d+", f"{name}={value}", inside)
        return f"DeviceProperties({inside})"

    return _PROPERTIES.sub(write, source)
