"""JSON for programs: the whole comparison, without sources.

``format`` grows by one when a field changes its meaning or goes; new fields come without that.
Numbers are plain: bytes, seconds, counts; ``null`` means not known. Kernels are named by their
index in the run (``number``), which is what inspect-kernel takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from perfcli.model import (
    Beside,
    Candidate,
    Change,
    CollectiveTime,
    Comparison,
    EstimatedChange,
    Finding,
    GroupTiming,
    HostEstimate,
    KernelFacts,
    KernelGroup,
    Machine,
    MemoryUse,
    OutputCheck,
    Prepared,
    Report,
    Run,
    Selection,
    StepEstimate,
    TimeChange,
    TimeEstimate,
    Timing,
    Trial,
)


def _take(of: Any, *names: str) -> dict[str, Any]:
    """Return these fields of an object by their names; all of them where none is named."""
    found = {name: getattr(of, name) for name in names or [each.name for each in fields(of)]}
    return {n: dict(v) if isinstance(v, Mapping) else v for n, v in found.items()}


def _describe_beside(comparison: Comparison, beside: Beside) -> dict[str, Any]:
    """Return the hand-written kernels' part; ``explained_by`` are codes, the findings themselves
    are the comparison's."""
    found = [finding.code for finding in beside.list_explaining(comparison.findings)]
    return {
        **_take(beside, "kernels", "why"),
        "inductor": _take(beside.inductor),
        "hand_written": _take(beside.ours),
        "explained_by": list(dict.fromkeys(found)),
        "left_out": list(beside.left_out),
        "times": [
            {
                **_take(race, "problem", "inductor"),
                "hand_written": race.ours,
                **_take(race, "copy", "rounds"),
            }
            for race in beside.raced
        ],
        "untimed": beside.untimed or None,
    }


def _describe_timing(timing: Timing) -> dict[str, Any]:
    """Return the statistics; raw values stay in the measurement's file."""
    return {
        "measurement": timing.measurement or None,
        "verdict": timing.deciding.verdict,
        **_take(timing, "clock", "clocks"),
        "device": _describe_time_change(timing.device) if timing.device else None,
        "device_clock": timing.device_clock or None,
        "device_floor": timing.device_floor.relative if timing.device_floor else None,
        "no_graph": timing.no_graph or None,
        "waiting": timing.waiting,
        "step": _describe_time_change(timing.step),
        "wall": _describe_time_change(timing.wall) if timing.wall else None,
        "kernels": _describe_time_change(timing.kernels_total) if timing.kernels_total else None,
        "floor": {**_take(timing.floor, "relative", "kernel", "source", "margin")},
        "groups": [_describe_group_timing(group) for group in timing.groups],
        "unexplained_seconds": timing.unexplained,
        "joined": {"known": timing.joined[0], "launches": timing.joined[1]},
        "sides": {side.side: _describe_side(side) for side in timing.prepared},
        "states": {side: _take(state) for side, state in timing.states.items()},
        **_take(timing, "seconds", "seed", "method", "stopped", "notes"),
    }


def _describe_estimates(estimate: EstimatedChange) -> dict[str, Any]:
    """Return both steps, and what they say together; times of kernels stand beside their facts."""
    return {
        **_take(estimate, "verdict", "ratio", "low", "high"),
        "base": _describe_step_estimate(estimate.base),
        "head": _describe_step_estimate(estimate.head),
        "groups": [
            {"group": group.group, "base": group.base, "head": group.head}
            for group in estimate.groups
        ],
        "missing": list(estimate.missing),
    }


def _describe_step_estimate(step: StepEstimate) -> dict[str, Any]:
    return {
        **_take(step, "seconds", "low", "high", "alone_seconds"),
        "host_seconds": step.host.seconds if step.host else None,
        "host": _describe_host(step.host) if step.host else None,
        **({"collectives": _describe_collectives(step.collectives)} if step.collectives else {}),
        "externs": None not in step.externs,
        "missing": list(step.missing),
        "calibration": step.calibration or None,
        "derived": step.derived or None,
        "constants": step.constants or None,
    }


def _describe_collectives(time: CollectiveTime) -> dict[str, Any]:
    return _take(time, "seconds", "hidden", "exposed")


def _describe_host(host: HostEstimate) -> dict[str, Any]:
    return _take(host, "seconds", "low", "high", "launches", "replayed")


def _describe_estimate(estimate: TimeEstimate) -> dict[str, Any]:
    return _take(estimate, "seconds", "low", "high", "bounds", "candidate", "doubts")


def _describe_time_change(change: TimeChange) -> dict[str, Any]:
    return {
        **_take(change, "base", "head", "delta", "ratio", "low", "high", "p", "verdict", "rounds"),
        "why": change.why or None,
    }


def _describe_group_timing(group: GroupTiming) -> dict[str, Any]:
    return {
        **_take(group, "group", "name", "control"),
        **_describe_time_change(group.change),
        **_take(
            group,
            "delta",
            "share_of_step",
            "share_of_change",
            "base_bandwidth",
            "head_bandwidth",
            "peak_share",
            "copy_share",
        ),
    }


def _describe_side(side: Prepared) -> dict[str, Any]:
    return {
        "machine": _describe_machine(side.machine),
        "launches": side.launch_count,
        "compile_seconds": side.compile_seconds,
        "memory": _describe_memory(side.memory) if side.memory else None,
        "check": _describe_check(side.check) if side.check else None,
        **_take(side, "copy_bandwidth", "notes"),
    }


def _describe_machine(machine: Machine) -> dict[str, Any]:
    return _take(
        machine,
        "device",
        "device_index",
        "uuid",
        "driver",
        "torch",
        "triton",
        "ptxas",
        "python",
        "threads",
        "cpus",
        "facts",
        "variables",
    )


def _describe_memory(memory: MemoryUse) -> dict[str, Any]:
    return {
        **_take(memory, "peak_allocated_bytes", "peak_reserved_bytes", "method"),
        "timeline": [list(point) for point in memory.timeline],
    }


def _describe_check(check: OutputCheck) -> dict[str, Any]:
    return {**_take(check, "error", "tolerance", "reference"), "failure": check.failure or None}


# History of the schema.
# 1  first version
# 2  a finding's "patch" became "cures", several changes to try
FORMAT = 2


def render(comparison: Comparison) -> str:
    document = {
        "perfcli": "comparison",
        "format": FORMAT,
        **_take(comparison, "outcome", "reason"),
        "base": _describe_run(comparison.base),
        "head": _describe_run(comparison.head),
        "differences": list(comparison.differences),
        "totals": {change.metric: _describe_change(change) for change in comparison.totals},
        "groups": [_describe_group(group, comparison) for group in comparison.groups],
        "findings": [_describe_finding(finding) for finding in comparison.findings],
        "timing": _describe_timing(comparison.timing) if comparison.timing else None,
        "estimate": _describe_estimates(comparison.estimate) if comparison.estimate else None,
        "compiled": _describe_change(comparison.compiled) if comparison.compiled else None,
    }
    if comparison.beside is not None:
        document["beside"] = _describe_beside(comparison, comparison.beside)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _describe_run(run: Run) -> dict[str, Any]:
    return {
        **_take(run, "id", "created", "scenario", "params", "mode", "dynamic", "device"),
        "target": run.target.name if run.target else None,
        "variant": {**_take(run.variant, "name", "options", "env", "python")},
        **_take(run.environment, "torch", "triton"),
        "kernels": len(run.kernels),
        "graph_breaks": dict(run.graph_breaks),
        "break_places": {
            reason: [{"location": p.location, "code": p.code or None} for p in places]
            for reason, places in run.break_places.items()
        },
        "externs": [{"op": e.op, "graph": e.graph, "count": e.count} for e in run.externs],
        "compile_seconds": dict(run.compile_seconds),
        "compile_cpu_seconds": run.compile_work.cpu_seconds if run.compile_work else None,
        "notes": list(run.notes),
        **(
            {"selections": [_describe_selection(s) for s in run.selections]}
            if run.selections
            else {}
        ),
    }


def _describe_selection(selection: Selection) -> dict[str, Any]:
    return {
        **_take(selection, "operator", "operands"),
        "implementations": [
            {
                **_take(each, "name", "kind", "config"),
                "registers": each.candidate.registers if each.candidate else None,
                "spilled_words": each.candidate.spilled_words if each.candidate else None,
                "shared_bytes": each.candidate.shared_bytes if each.candidate else None,
                "estimated_seconds": each.estimate.seconds if each.estimate else None,
                "measured_seconds": each.measured_seconds,
                "left_out": each.left_out or None,
            }
            for each in selection.implementations
        ],
        "uses": [
            {"graph": use.graph, "chosen": use.chosen, "kernel": use.kernel or None}
            for use in selection.uses
        ],
        "within_interval": selection.within,
    }


def _describe_change(change: Change) -> dict[str, Any]:
    return _take(change, "base", "head", "delta", "outcome")


def _describe_group(group: KernelGroup, comparison: Comparison) -> dict[str, Any]:
    match = group.match
    return {
        **_take(match, "relation", "method", "confidence"),
        "base": [_describe_kernel(index, comparison.base.kernels[index]) for index in match.base],
        "head": [_describe_kernel(index, comparison.head.kernels[index]) for index in match.head],
        "changes": {change.metric: _describe_change(change) for change in group.changes},
    }


def _describe_kernel(number: int, kernel: KernelFacts) -> dict[str, Any]:
    facts = kernel.source_facts
    return {
        "number": number,
        **_take(kernel, "name", "kind", "graph", "launches"),
        "loads": facts.loads if facts else None,
        "stores": facts.stores if facts else None,
        **_take(kernel, "bytes_read", "bytes_written", "bytes_swept", "lower_bound_seconds"),
        "estimate": _describe_estimate(kernel.estimate) if kernel.estimate else None,
        "source_hash": kernel.source_hash,
        "operators": sorted({origin.op for origin in kernel.origins if origin.op}),
        "best": _describe_candidate(kernel.best) if kernel.best else None,
        "notes": list(kernel.notes),
    }


def _describe_candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        **_take(
            candidate,
            "config",
            "num_warps",
            "num_stages",
            "registers",
            "spilled_words",
            "stack_bytes",
            "shared_bytes",
            "local_loads",
            "local_stores",
            "occupancy",
        ),
        "occupancy_limit": candidate.occupancy_limit or None,
    }


def _describe_finding(finding: Finding) -> dict[str, Any]:
    return {
        **_take(finding, "code", "severity", "kernels", "headline", "evidence", "advice"),
        "metric": finding.metric or None,
        "amount": finding.amount,
        "cost": _take(finding.cost) if finding.cost else None,
        "location": finding.origin.location if finding.origin else None,
        "line": finding.origin.code if finding.origin else None,
        "appearance": finding.appearance,
        "explained_by": finding.explained_by or None,
        "side": "base" if finding.on_base else "head",
        "source_lines": dict(finding.source_lines),
        "cures": [_take(cure) for cure in finding.cures],
        "trials": [_describe_trial(trial) for trial in finding.trials],
        "proven": finding.proven,
    }


def _describe_trial(trial: Trial) -> dict[str, Any]:
    return {
        **_take(trial.cure),
        **_take(trial, "outcome", "before", "after"),
        "changes": {change.metric: _describe_change(change) for change in trial.changes},
        "reason": trial.reason or None,
        "run": trial.run or None,
        "brought": list(trial.brought),
    }


REPORT = Report("json", ".json", render, _describe_finding)
