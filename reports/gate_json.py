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

from . import json as comparison_json
from ._rows import places

# History of the schema; it grows when a field changes its meaning or goes.
# 1  first version
FORMAT = 1
_OF_ONE_RUN = ("id", "created", "compile_seconds", "notes")


def _render(judgement: Judgement) -> str:
    document = {
        "perfcli": "gate",
        "format": FORMAT,
        "outcome": judgement.outcome,
        "reason": places.without_root(judgement.reason, judgement.root),
        "exit_code": judgement.exit_code,
        "warnings": [places.without_root(each, judgement.root) for each in judgement.warnings],
        "checks": [_check(check, judgement.root) for check in judgement.checks],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _check(check: Judged, root: str) -> dict[str, Any]:
    return {
        "name": check.name,
        "outcome": check.outcome,
        "reason": places.without_root(check.reason, root),
        "fault": places.without_root(check.fault, root) or None,
        "baseline": _provenance(check.provenance) if check.provenance else None,
        "limits": [_limit(result, root) for result in check.limits],
        "findings": [
            {
                "finding": result.finding,
                "state": result.state,
                "allowance": _allowance(result.allowance),
            }
            for result in check.findings
        ],
        "comparison": _comparison(check.comparison, root) if check.comparison else None,
    }


def _provenance(source: Provenance) -> dict[str, Any]:
    return {
        "kind": source.kind,
        "where": source.where,
        "created": source.created or None,
        "reason": source.reason or None,
        "revision": source.revision or None,
        "torch": source.torch or None,
        "triton": source.triton or None,
    }


def _limit(result: LimitResult, root: str) -> dict[str, Any]:
    limit = result.limit
    return {
        "metric": limit.metric,
        "pattern": limit.kernel or None,
        "most": limit.most,
        "growth": limit.growth,
        "growth_share": limit.growth_share,
        "state": result.state,
        "base": result.base,
        "head": result.head,
        "allowed": result.allowed,
        "group": result.group,
        "kernel": result.kernel or None,
        "text": places.without_root(result.text, root),
        "allowance": _allowance(result.allowance),
    }


def _allowance(allowance: Allowance | None) -> dict[str, Any] | None:
    if allowance is None:
        return None
    return {
        "kernel": allowance.kernel,
        "limit": allowance.limit,
        "reason": allowance.reason,
        "owner": allowance.owner,
        "expires": allowance.expires,
        "most": allowance.most,
    }


def _comparison(comparison: Comparison, root: str) -> dict[str, Any]:
    """Return the comparison as ``compare`` writes it, without what differs from one compilation to
    the next."""
    document: dict[str, Any] = json.loads(comparison_json.render(comparison))
    del document["perfcli"], document["format"]
    document["reason"] = places.without_root(document["reason"], root)
    for side, run in (("base", comparison.base), ("head", comparison.head)):
        document[side] = _run(document[side], run)
    for finding in document["findings"]:
        place = places.place(finding["location"], root) if finding["location"] else None
        finding["location"] = place.text if place else None
        for name in ("headline", "advice"):
            finding[name] = places.without_root(finding[name] or "", root) or finding[name]
        finding["evidence"] = [places.without_root(text, root) for text in finding["evidence"]]
    return document


def _run(document: dict[str, Any], run: Run) -> dict[str, Any]:
    kept = {name: value for name, value in document.items() if name not in _OF_ONE_RUN}
    kept["scenario"] = run.scenario.rpartition("/")[2]
    return kept


GATE = Document("gate_json", ".json", _render)
