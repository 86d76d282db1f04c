"""What was measured, for programs: seconds, bytes and ratios as plain numbers."""

from __future__ import annotations

from typing import Any

from perfcli.model import (
    DeviceState,
    GroupTiming,
    Machine,
    MemoryUse,
    OutputCheck,
    Prepared,
    TimeChange,
    Timing,
)


def timing_document(timing: Timing) -> dict[str, Any]:
    """The statistics; raw values stay in the measurement's file."""
    return {
        "measurement": timing.measurement or None,
        "verdict": timing.step.verdict,
        "step": _change(timing.step),
        "wall": _change(timing.wall) if timing.wall else None,
        "kernels": _change(timing.kernels_total) if timing.kernels_total else None,
        "floor": {
            "relative": timing.floor.relative,
            "kernel": timing.floor.kernel,
            "source": timing.floor.source,
            "margin": timing.floor.margin,
        },
        "groups": [_group(group) for group in timing.groups],
        "unexplained_seconds": timing.unexplained,
        "joined": {"known": timing.joined[0], "launches": timing.joined[1]},
        "sides": {side.side: _side(side) for side in timing.prepared},
        "states": {side: _state(state) for side, state in timing.states.items()},
        "seconds": timing.seconds,
        "seed": timing.seed,
        "method": timing.method,
        "stopped": timing.stopped,
        "notes": list(timing.notes),
    }


def _change(change: TimeChange) -> dict[str, Any]:
    return {
        "base": change.base,
        "head": change.head,
        "delta": change.delta,
        "ratio": change.ratio,
        "low": change.low,
        "high": change.high,
        "p": change.p,
        "verdict": change.verdict,
        "rounds": change.rounds,
        "why": change.why or None,
    }


def _group(group: GroupTiming) -> dict[str, Any]:
    return {
        "group": group.group,
        "name": group.name,
        "control": group.control,
        **_change(group.change),
        "delta": group.delta,
        "share_of_step": group.share_of_step,
        "share_of_change": group.share_of_change,
        "base_bandwidth": group.base_bandwidth,
        "head_bandwidth": group.head_bandwidth,
        "peak_share": group.peak_share,
        "copy_share": group.copy_share,
    }


def _side(side: Prepared) -> dict[str, Any]:
    return {
        "machine": _machine(side.machine),
        "launches": side.launch_count,
        "compile_seconds": side.compile_seconds,
        "memory": _memory(side.memory) if side.memory else None,
        "check": _check(side.check) if side.check else None,
        "copy_bandwidth": side.copy_bandwidth,
        "notes": list(side.notes),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "device": machine.device,
        "device_index": machine.device_index,
        "uuid": machine.uuid,
        "driver": machine.driver,
        "torch": machine.torch,
        "triton": machine.triton,
        "ptxas": machine.ptxas,
        "python": machine.python,
        "threads": machine.threads,
        "cpus": list(machine.cpus),
        "facts": dict(machine.facts),
        "variables": dict(machine.variables),
    }


def _memory(memory: MemoryUse) -> dict[str, Any]:
    return {
        "peak_allocated_bytes": memory.peak_allocated_bytes,
        "peak_reserved_bytes": memory.peak_reserved_bytes,
        "method": memory.method,
        "timeline": [list(point) for point in memory.timeline],
    }


def _check(check: OutputCheck) -> dict[str, Any]:
    return {
        "error": check.error,
        "tolerance": check.tolerance,
        "reference": check.reference,
        "failure": check.failure or None,
    }


def _state(state: DeviceState) -> dict[str, Any]:
    return {
        "sm_clock_mhz": state.sm_clock_mhz,
        "memory_clock_mhz": state.memory_clock_mhz,
        "power_watts": state.power_watts,
        "temperature_celsius": state.temperature_celsius,
        "throttle": list(state.throttle),
        "others_utilisation": state.others_utilisation,
    }
