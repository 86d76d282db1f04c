"""JSON for programs: the whole comparison, without sources.

``format`` grows by one when a field changes its meaning or goes; new fields come without that.
Numbers are plain: bytes, seconds, counts; ``null`` means not known. Kernels are named by their
index in the run (``number``), which is what inspect-kernel takes.
"""

from __future__ import annotations

import json
from typing import Any

from perfcli.model import (
    Candidate,
    Change,
    Comparison,
    Cure,
    Finding,
    KernelFacts,
    KernelGroup,
    Report,
    Run,
    Trial,
)

from ._beside_json import beside_document
from ._timing_json import timing_document

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
        "base": _run(comparison.base),
        "head": _run(comparison.head),
        "differences": list(comparison.differences),
        "totals": {change.metric: _change(change) for change in comparison.totals},
        "groups": [_group(group, comparison) for group in comparison.groups],
        "findings": [_finding(finding) for finding in comparison.findings],
        "timing": timing_document(comparison.timing) if comparison.timing else None,
    }
    if comparison.beside is not None:
        document["beside"] = beside_document(comparison, comparison.beside)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _run(run: Run) -> dict[str, Any]:
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
            "patches": list(run.variant.patches),
        },
        "torch": run.environment.torch,
        "triton": run.environment.triton,
        "kernels": len(run.kernels),
        "graph_breaks": dict(run.graph_breaks),
        "externs": [{"op": e.op, "graph": e.graph, "count": e.count} for e in run.externs],
        "compile_seconds": dict(run.compile_seconds),
        "notes": list(run.notes),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "base": change.base,
        "head": change.head,
        "delta": change.delta,
        "outcome": change.outcome,
    }


def _group(group: KernelGroup, comparison: Comparison) -> dict[str, Any]:
    match = group.match
    return {
        "relation": match.relation,
        "method": match.method,
        "confidence": match.confidence,
        "base": [_kernel(index, comparison.base.kernels[index]) for index in match.base],
        "head": [_kernel(index, comparison.head.kernels[index]) for index in match.head],
        "changes": {change.metric: _change(change) for change in group.changes},
    }


def _kernel(number: int, kernel: KernelFacts) -> dict[str, Any]:
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
        "source_hash": kernel.source_hash,
        "operators": sorted({origin.op for origin in kernel.origins if origin.op}),
        "best": _candidate(kernel.best) if kernel.best else None,
        "notes": list(kernel.notes),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
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


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "kernels": list(finding.kernels),
        "headline": finding.headline,
        "evidence": list(finding.evidence),
        "advice": finding.advice,
        "metric": finding.metric or None,
        "amount": finding.amount,
        "location": finding.origin.location if finding.origin else None,
        "line": finding.origin.code if finding.origin else None,
        "appearance": finding.appearance,
        "explained_by": finding.explained_by or None,
        "side": "base" if finding.on_base else "head",
        "source_lines": dict(finding.source_lines),
        "cures": [_cure(cure) for cure in finding.cures],
        "trials": [_trial(trial) for trial in finding.trials],
        "proven": finding.proven,
    }


def _cure(cure: Cure) -> dict[str, Any]:
    return {"options": dict(cure.options), "why": cure.why}


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        **_cure(trial.cure),
        "outcome": trial.outcome,
        "before": trial.before,
        "after": trial.after,
        "changes": {change.metric: _change(change) for change in trial.changes},
        "reason": trial.reason or None,
        "run": trial.run or None,
        "brought": list(trial.brought),
    }


REPORT = Report("json", ".json", render, _finding)
