"""A run and its findings as the tables of one check."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perfcli.diff.metrics import totals
from perfcli.gate.baseline import kernels as of_kernels
from perfcli.gate.baseline.kernels import _in_order, _labels
from perfcli.gate.baseline.operators import _numbered
from perfcli.model import ExternCall, Finding, GraphFacts, Run
from perfcli.predict.step import estimate_step, with_estimates

_SAME_CODE = re.compile(r"\+(cpu|cu\d[\w.]*|rocm\d[\w.]*|xpu)$")


def _public(version: str | None) -> str:
    """Return ``2.13.0`` of ``2.13.0+cpu``: one release for several devices.

    Another suffix is another source: ``2.14.0a0+gitaaaa`` stays as it is.
    """
    return _SAME_CODE.sub("", version or "")


TOOLS = ("perfcli", "torch", "triton", "ptxas", "python")


def _plain(run: Run, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what the file keeps of a run: tables, lists and plain values, in the file's order."""
    run = with_estimates(run, estimate_step(run))
    order = _in_order(run.kernels)
    kernels = [run.kernels[index] for index in order]
    names = _labels(kernels)
    nodes = _numbered(run.kernels)
    tables = [
        of_kernels._table(
            kernel,
            name,
            reads,
            [nodes[key] for o in kernel.origins if (key := (kernel.graph, o.node)) in nodes],
        )
        for kernel, name, reads in zip(
            kernels, names, of_kernels._read_by(kernels, names), strict=True
        )
    ]
    by_index = dict(zip(order, names, strict=True))
    values: dict[str, Any] = {
        **{tool: getattr(run.environment, tool) for tool in TOOLS},
        "scenario": run.scenario,
        "params": {name: value for name, value in run.params.items() if value is not None},
        "options": {k: _option(v) for k, v in sorted(run.variant.options.items())} or None,
        "mode": run.mode,
        "dynamic": run.dynamic,
        "device": run.device,
        "target": described_target(run) or None,
        "threads": run.threads,
        "estimated_with": run.estimated_with or None,
        "totals": _totals(run),
        "graphs": [_graph(graph) for graph in sorted(run.graphs, key=lambda g: g.name)],
        "externs": _externs(run.externs) or None,
        "graph_breaks": dict(sorted(run.graph_breaks.items())) or None,
        "findings": _findings(findings, by_index) or None,
        "kernels": tables,
    }
    return {name: value for name, value in values.items() if value is not None}


def described_target(run: Run) -> str:
    """Return the target as ``compare`` tells targets apart."""
    target = run.target
    return f"{target.name} ({target.arch}, {target.sm_count} SMs)" if target else ""


def _option(value: Any) -> Any:
    return "none" if value is None else value  # TOML has no word for it


def _totals(run: Run) -> dict[str, Any]:
    """Return totals, for readers only: what the kernels below add up to."""
    return {c.metric: c.head for c in totals(run, run) if c.head is not None}


def _graph(graph: GraphFacts) -> dict[str, Any]:
    peak = graph.peak_memory_bytes
    known = {} if peak is None else {"peak_memory_bytes": peak}
    return {"name": graph.name, "direction": graph.direction, "index": graph.index, **known}


def _externs(externs: Iterable[ExternCall]) -> dict[str, dict[str, int]]:
    """Return the calls of extern operators by graph."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for extern in sorted(externs, key=lambda e: (e.graph, e.op)):
        calls = found[extern.graph]
        calls[extern.op] = calls.get(extern.op, 0) + extern.count
    return dict(found)


def _findings(findings: Sequence[Finding], names: Mapping[int, str]) -> list[dict[str, Any]]:
    def one(finding: Finding) -> dict[str, Any]:
        kernels = sorted(names[index] for index in finding.kernels)
        values = {
            "code": finding.code,
            "severity": finding.severity,
            "kernels": kernels or None,
            "subject": finding.subject or None,
            "metric": finding.metric or None,
            "amount": finding.amount,
            "doubt": finding.doubt or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    return sorted(map(one, findings), key=lambda f: (f["code"], f.get("kernels", []), repr(f)))


def _unchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether two checks hold the same facts: another build of the same torch, another
    Python or perfcli that finds the same is no change."""
    return _told(before) == _told(after)


def _told(table: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in table.items() if name not in ("perfcli", "python")}
    kept["torch"] = _public(str(kept.get("torch", "")))
    return repr(_lists(kept))


def _lists(value: Any) -> Any:
    """Return lists that are the same however they are held: sorted tables, lists for tuples."""
    if isinstance(value, Mapping):
        return sorted((name, _lists(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return [_lists(each) for each in value]
    return value
