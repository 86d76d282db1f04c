"""JSON for programs: the whole comparison, without sources.

``format`` grows by one when a field changes its meaning or goes; new fields come without that.
Numbers are plain: bytes, seconds, counts; ``null`` means not known. Kernels are named by their
index in the run (``number``), which is what inspect-kernel takes.
"""

from __future__ import annotations

import json
from typing import Any

from perfcli.model import (
    Beside,
    Candidate,
    Change,
    CollectiveTime,
    Comparison,
    Cost,
    Cure,
    DeviceState,
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
    Totals,
    Trial,
)


def _describe_beside(comparison: Comparison, beside: Beside) -> dict[str, Any]:
    """Return the hand-written kernels' part; ``explained_by`` are codes, the findings themselves
    are the comparison's."""
    found = [finding.code for finding in beside.list_explaining(comparison.findings)]
    return {
        "kernels": list(beside.kernels),
        "why": list(beside.why),
        "inductor": _describe_totals(beside.inductor),
        "hand_written": _describe_totals(beside.ours),
        "explained_by": list(dict.fromkeys(found)),
        "left_out": list(beside.left_out),
        "times": [
            {
                "problem": race.problem,
                "inductor": race.inductor,
                "hand_written": race.ours,
                "copy": race.copy,
                "rounds": race.rounds,
            }
            for race in beside.raced
        ],
        "untimed": beside.untimed or None,
    }


def _describe_totals(totals: Totals) -> dict[str, Any]:
    return {
        "launches": totals.launches,
        "bytes_moved": totals.bytes_moved,
        "bytes_swept": totals.bytes_swept,
        "passes": totals.passes,
        "wide_share": totals.wide_share,
        "registers": totals.registers,
        "spilled_words": totals.spilled_words,
        "shared_bytes": totals.shared_bytes,
        "occupancy": totals.occupancy,
    }


def _describe_timing(timing: Timing) -> dict[str, Any]:
    """Return the statistics; raw values stay in the measurement's file."""
    return {
        "measurement": timing.measurement or None,
        "verdict": timing.deciding.verdict,
        "clock": timing.clock,
        "clocks": timing.clocks,
        "device": _describe_time_change(timing.device) if timing.device else None,
        "device_clock": timing.device_clock or None,
        "device_floor": timing.device_floor.relative if timing.device_floor else None,
        "no_graph": timing.no_graph or None,
        "waiting": timing.waiting,
        "step": _describe_time_change(timing.step),
        "wall": _describe_time_change(timing.wall) if timing.wall else None,
        "kernels": _describe_time_change(timing.kernels_total) if timing.kernels_total else None,
        "floor": {
            "relative": timing.floor.relative,
            "kernel": timing.floor.kernel,
            "source": timing.floor.source,
            "margin": timing.floor.margin,
        },
        "groups": [_describe_group_timing(group) for group in timing.groups],
        "unexplained_seconds": timing.unexplained,
        "joined": {"known": timing.joined[0], "launches": timing.joined[1]},
        "sides": {side.side: _describe_side(side) for side in timing.prepared},
        "states": {side: _describe_state(state) for side, state in timing.states.items()},
        "seconds": timing.seconds,
        "seed": timing.seed,
        "method": timing.method,
        "stopped": timing.stopped,
        "notes": list(timing.notes),
    }


def _describe_estimates(estimate: EstimatedChange) -> dict[str, Any]:
    """Return both steps, and what they say together; times of kernels stand beside their facts."""
    return {
        "verdict": estimate.verdict,
        "ratio": estimate.ratio,
        "low": estimate.low,
        "high": estimate.high,
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
        "seconds": step.seconds,
        "low": step.low,
        "high": step.high,
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
    return {"seconds": time.seconds, "hidden": time.hidden, "exposed": time.exposed}


def _describe_host(host: HostEstimate) -> dict[str, Any]:
    return {
        "seconds": host.seconds,
        "low": host.low,
        "high": host.high,
        "launches": host.launches,
        "replayed": host.replayed,
    }


def _describe_estimate(estimate: TimeEstimate) -> dict[str, Any]:
    return {
        "seconds": estimate.seconds,
        "low": estimate.low,
        "high": estimate.high,
        "bounds": dict(estimate.bounds),
        "candidate": estimate.candidate,
        "doubts": list(estimate.doubts),
    }


def _describe_time_change(change: TimeChange) -> dict[str, Any]:
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


def _describe_group_timing(group: GroupTiming) -> dict[str, Any]:
    return {
        "group": group.group,
        "name": group.name,
        "control": group.control,
        **_describe_time_change(group.change),
        "delta": group.delta,
        "share_of_step": group.share_of_step,
        "share_of_change": group.share_of_change,
        "base_bandwidth": group.base_bandwidth,
        "head_bandwidth": group.head_bandwidth,
        "peak_share": group.peak_share,
        "copy_share": group.copy_share,
    }


def _describe_side(side: Prepared) -> dict[str, Any]:
    return {
        "machine": _describe_machine(side.machine),
        "launches": side.launch_count,
        "compile_seconds": side.compile_seconds,
        "memory": _describe_memory(side.memory) if side.memory else None,
        "check": _describe_check(side.check) if side.check else None,
        "copy_bandwidth": side.copy_bandwidth,
        "notes": list(side.notes),
    }


def _describe_machine(machine: Machine) -> dict[str, Any]:
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


def _describe_memory(memory: MemoryUse) -> dict[str, Any]:
    return {
        "peak_allocated_bytes": memory.peak_allocated_bytes,
        "peak_reserved_bytes": memory.peak_reserved_bytes,
        "method": memory.method,
        "timeline": [list(point) for point in memory.timeline],
    }


def _describe_check(check: OutputCheck) -> dict[str, Any]:
    return {
        "error": check.error,
        "tolerance": check.tolerance,
        "reference": check.reference,
        "failure": check.failure or None,
    }


def _describe_state(state: DeviceState) -> dict[str, Any]:
    return {
        "sm_clock_mhz": state.sm_clock_mhz,
        "memory_clock_mhz": state.memory_clock_mhz,
        "power_watts": state.power_watts,
        "temperature_celsius": state.temperature_celsius,
        "throttle": list(state.throttle),
        "others_utilisation": state.others_utilisation,
    }


# History of the schema.
# 1  first version
# 2  a finding's "patch" became "cures", several changes to try
FORMAT = 2


def render(comparison: Comparison) -> str:
    document = {
        "perfcli": "comparison",
        "format": FORMAT,
        "outcome": comparison.outcome,
        "reason": comparison.reason,
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
        "id": run.id,
        "created": run.created,
        "scenario": run.scenario,
        "params": dict(run.params),
        "mode": run.mode,
        "dynamic": run.dynamic,
        "device": run.device,
        "target": run.target.name if run.target else None,
        "variant": {
            "name": run.variant.name,
            "options": dict(run.variant.options),
            "env": dict(run.variant.env),
            "python": run.variant.python,
        },
        "torch": run.environment.torch,
        "triton": run.environment.triton,
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
        "operator": selection.operator,
        "operands": list(selection.operands),
        "implementations": [
            {
                "name": each.name,
                "kind": each.kind,
                "config": dict(each.config),
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
    return {
        "base": change.base,
        "head": change.head,
        "delta": change.delta,
        "outcome": change.outcome,
    }


def _describe_group(group: KernelGroup, comparison: Comparison) -> dict[str, Any]:
    match = group.match
    return {
        "relation": match.relation,
        "method": match.method,
        "confidence": match.confidence,
        "base": [_describe_kernel(index, comparison.base.kernels[index]) for index in match.base],
        "head": [_describe_kernel(index, comparison.head.kernels[index]) for index in match.head],
        "changes": {change.metric: _describe_change(change) for change in group.changes},
    }


def _describe_kernel(number: int, kernel: KernelFacts) -> dict[str, Any]:
    facts = kernel.source_facts
    return {
        "number": number,
        "name": kernel.name,
        "kind": kernel.kind,
        "graph": kernel.graph,
        "launches": kernel.launches,
        "loads": facts.loads if facts else None,
        "stores": facts.stores if facts else None,
        "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written,
        "bytes_swept": kernel.bytes_swept,
        "lower_bound_seconds": kernel.lower_bound_seconds,
        "estimate": _describe_estimate(kernel.estimate) if kernel.estimate else None,
        "source_hash": kernel.source_hash,
        "operators": sorted({origin.op for origin in kernel.origins if origin.op}),
        "best": _describe_candidate(kernel.best) if kernel.best else None,
        "notes": list(kernel.notes),
    }


def _describe_candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "config": dict(candidate.config),
        "num_warps": candidate.num_warps,
        "num_stages": candidate.num_stages,
        "registers": candidate.registers,
        "spilled_words": candidate.spilled_words,
        "stack_bytes": candidate.stack_bytes,
        "shared_bytes": candidate.shared_bytes,
        "local_loads": candidate.local_loads,
        "local_stores": candidate.local_stores,
        "occupancy": candidate.occupancy,
        "occupancy_limit": candidate.occupancy_limit or None,
    }


def _describe_finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "kernels": list(finding.kernels),
        "headline": finding.headline,
        "evidence": list(finding.evidence),
        "advice": finding.advice,
        "metric": finding.metric or None,
        "amount": finding.amount,
        "cost": _describe_cost(finding.cost) if finding.cost else None,
        "location": finding.origin.location if finding.origin else None,
        "line": finding.origin.code if finding.origin else None,
        "appearance": finding.appearance,
        "explained_by": finding.explained_by or None,
        "side": "base" if finding.on_base else "head",
        "source_lines": dict(finding.source_lines),
        "cures": [_describe_cure(cure) for cure in finding.cures],
        "trials": [_describe_trial(trial) for trial in finding.trials],
        "proven": finding.proven,
    }


def _describe_cost(cost: Cost) -> dict[str, Any]:
    return {"seconds": cost.seconds, "low": cost.low, "high": cost.high, "share": cost.share}


def _describe_cure(cure: Cure) -> dict[str, Any]:
    return {"options": dict(cure.options), "why": cure.why}


def _describe_trial(trial: Trial) -> dict[str, Any]:
    return {
        **_describe_cure(trial.cure),
        "outcome": trial.outcome,
        "before": trial.before,
        "after": trial.after,
        "changes": {change.metric: _describe_change(change) for change in trial.changes},
        "reason": trial.reason or None,
        "run": trial.run or None,
        "brought": list(trial.brought),
    }


REPORT = Report("json", ".json", render, _describe_finding)
