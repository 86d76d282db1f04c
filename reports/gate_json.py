"""JSON of a gate: every check with its limits, findings and comparison. Of a static gate the same
code gives the same bytes: there are no times, ids of runs and absolute paths in it."""

from __future__ import annotations

import json
from typing import Any

from perfcli.model import (
    Allowance,
    Comparison,
    Document,
    Judged,
    Judgement,
    LimitResult,
    Provenance,
    Run,
)

from ._rows.places import parse_place, strip_root
from .json import _take, render

# History of the schema; it grows when a field changes its meaning or goes.
# 1  first version
FORMAT = 1
_OF_ONE_RUN = ("id", "created", "compile_seconds", "compile_cpu_seconds", "notes", "break_places")


def _render(judgement: Judgement) -> str:
    document = {
        "perfcli": "gate",
        "format": FORMAT,
        "outcome": judgement.outcome,
        "reason": strip_root(judgement.reason, judgement.root),
        "exit_code": judgement.exit_code,
        "warnings": [strip_root(each, judgement.root) for each in judgement.warnings],
        "checks": [_describe_check(check, judgement.root) for check in judgement.checks],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _describe_check(check: Judged, root: str) -> dict[str, Any]:
    return {
        **_take(check, "name", "outcome"),
        "reason": strip_root(check.reason, root),
        "fault": strip_root(check.fault, root) or None,
        "baseline": _describe_provenance(check.provenance) if check.provenance else None,
        "limits": [_describe_limit(result, root) for result in check.limits],
        "findings": [
            {
                **_take(result, "finding", "state"),
                "allowance": _describe_allowance(result.allowance),
            }
            for result in check.findings
        ],
        "comparison": _describe_comparison(check.comparison, root) if check.comparison else None,
    }


def _describe_provenance(source: Provenance) -> dict[str, Any]:
    return {
        **_take(source, "kind", "where"),
        "created": source.created or None,
        "reason": source.reason or None,
        "revision": source.revision or None,
        "torch": source.torch or None,
        "triton": source.triton or None,
    }


def _describe_limit(result: LimitResult, root: str) -> dict[str, Any]:
    limit = result.limit
    return {
        "metric": limit.metric,
        "pattern": limit.kernel or None,
        **_take(limit, "most", "growth", "growth_share"),
        **_take(result, "state", "base", "head", "allowed", "group"),
        "kernel": result.kernel or None,
        "text": strip_root(result.text, root),
        "allowance": _describe_allowance(result.allowance),
    }


def _describe_allowance(allowance: Allowance | None) -> dict[str, Any] | None:
    return _take(allowance) if allowance else None


def _describe_comparison(comparison: Comparison, root: str) -> dict[str, Any]:
    """Return the comparison as ``compare`` writes it, without what differs from one compilation to
    the next."""
    document: dict[str, Any] = json.loads(render(comparison))
    del document["perfcli"], document["format"], document["compiled"]
    document["reason"] = strip_root(document["reason"], root)
    for side, run in (("base", comparison.base), ("head", comparison.head)):
        document[side] = _describe_run(document[side], run)
    for finding in document["findings"]:
        place = parse_place(finding["location"], root) if finding["location"] else None
        finding["location"] = place.text if place else None
        for name in ("headline", "advice"):
            finding[name] = strip_root(finding[name] or "", root) or finding[name]
        finding["evidence"] = [strip_root(text, root) for text in finding["evidence"]]
    return document


def _describe_run(document: dict[str, Any], run: Run) -> dict[str, Any]:
    kept = {name: value for name, value in document.items() if name not in _OF_ONE_RUN}
    kept["scenario"] = run.scenario.rpartition("/")[2]
    return kept


GATE = Document("gate_json", ".json", _render)
