"""A search as JSON: the fields of bisect-config's document (docs/bisect.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfcli.bisect.answer import Bisection
from perfcli.model import Comparison
from perfcli.search.question import Answer, OptionChange
from perfcli.search.result import Culprits, CulpritSet, Improvement


def _fields(found: Bisection, comparison: Comparison | None, runs: Sequence[str]) -> dict[str, Any]:
    """Return the document's fields; values are exact and in the metric's unit, or for timed metrics
    ratios to the good end."""
    return {
        "id": found.id,
        "scenario": found.scenario,
        "params": dict(found.params),
        "metric": found.metric.of_runs,
        "exact": not found.metric.is_timed,
        "direction": found.direction,
        "exit_code": found.exit_code,
        "stopped": found.stopped,
        "ends": found.ends,
        "changes": [_change(change) for change in found.changes],
        **_culprits(found.culprits),
        "flips": [
            {
                "option": each.option,
                "status": each.flip.status,
                "last_good": each.flip.last_good,
                "first_bad": each.flip.first_bad,
                "tested": [{"value": v, **describe_answer(a)} for v, a in each.flip.tested],
                "back": each.flip.back,
                "compiled": each.compiled,
            }
            for each in found.flips
        ],
        "improvement": _improvement(found.improvement) if found.improvement else None,
        "installations": found.across,
        "unexplained": found.unexplained,
        "cure": found.cure,
        "command": found.command,
        "failures": found.failures,
        "cost": found.cost,
        "comparison": _comparison(comparison, runs),
    }


def _change(change: OptionChange) -> dict[str, Any]:
    return {"option": change.name, "good": change.good, "bad": change.bad}


def describe_answer(answer: Answer | None) -> dict[str, Any]:
    if answer is None:
        return {"outcome": None}
    return {
        "outcome": answer.outcome,
        "value": answer.value,
        "code": answer.code,
        "evidence": answer.evidence,
        "reason": answer.reason,
    }


def _culprits(found: Culprits | None) -> dict[str, Any]:
    if found is None:
        return {"status": None, "culprits": [], "left": None, "suspects": []}
    return {
        "status": found.status,
        "culprits": [_set(each) for each in found.sets],
        "left": describe_answer(found.left),
        "share_left": found.share(found.left),
        "suspects": [_change(change) for change in found.suspects],
        "contradictions": found.contradictions,
    }


def _set(found: CulpritSet) -> dict[str, Any]:
    return {
        "options": [_change(option) for option in found.options],
        "interaction": found.is_interaction,
        "proven": found.proven,
        "minimal": found.minimal,
        "good_with_it": describe_answer(found.with_it),
        "bad_without_it": describe_answer(found.without),
        "alone": [
            {
                "option": own.option.name,
                "changes_code": own.changes_code,
                **describe_answer(own.alone),
            }
            for own in found.own
        ],
        "dependencies": [
            {"option": each.option.name, "needs": [o.name for o in each.needs]}
            for each in found.dependencies
        ],
    }


def _improvement(found: Improvement) -> dict[str, Any]:
    return {
        "baseline": describe_answer(found.baseline),
        "best": [_change(change) for change in found.best],
        "answer": describe_answer(found.answer),
        "gain": found.gain,
        "effects": [
            {
                **_change(effect.change),
                "gain": effect.gain,
                "changes_code": effect.changes_code,
                "same_as": effect.same_as.key if effect.same_as else None,
                **describe_answer(effect.answer),
            }
            for effect in found.effects
        ],
        "interactions": [
            {
                "options": [_change(option) for option in pair.options],
                "together": pair.together,
                "apart": pair.apart,
            }
            for pair in found.interactions
        ],
        "dependencies": [
            {"option": each.option.name, "needs": [o.name for o in each.needs]}
            for each in found.dependencies
        ],
        "pairs_left": found.pairs_left,
        "untried": [_change(change) for change in found.untried],
    }


def _comparison(found: Comparison | None, runs: Sequence[str]) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"outcome": found.outcome, "reason": found.reason, "runs": list(runs)}
