"""What the bench of tune measures of a model, and what its table says of it."""

from __future__ import annotations

from typing import Any

import tune

NONE = {"ratio": 1.0, "low": 1.0, "high": 1.0}


def tried(low: float | None, **options: Any) -> dict[str, Any]:
    estimated = None if low is None else {"ratio": low + 0.1, "low": low, "high": low + 0.2}
    return {"options": options, "estimated": estimated}


def found(options: dict[str, Any], *alone: dict[str, Any]) -> dict[str, Any]:
    return {"options": options, "against_default": NONE, "tried": [], "alone": list(alone)}


def measured(seconds: float, error: float = 0.0) -> dict[str, float]:
    default = {"default_generated": 1e-3, "default_all": 2e-3}
    return {"generated": seconds, "all": 1e-3 + seconds, "error": error, **default}


def test_what_may_gain_most_is_compiled_first() -> None:
    search = found({"a": 1}, tried(0.8, b=1), tried(None, c=1), tried(0.7, d=True), tried(0.9, a=1))
    assert [*tune.variants_of("gqa", search)] == ["chosen", "d=true", "b=1", "c=1"]
    assert [*tune.variants_of("softmax", search)][-1] == "max-autotune"


def test_the_table_compares_what_was_chosen_with_the_best_single_option() -> None:
    search = {
        "gqa": found({"a": 1, "b": 1}, tried(0.8, a=1), tried(0.9, b=1), tried(0.9, c=1)),
        "graph": found({}, tried(0.9, a=1), tried(0.9, b=1)),
    }
    models = {
        # 25 % and 20 % less: gains of 4/3 and 5/4; c=1 is fast and wrong.
        "gqa": {"chosen": measured(0.75e-3), "a=1": measured(0.8e-3), "c=1": measured(1e-4, 0.5)},
        "graph": {"a=1": measured(0.9e-3), "b=1": {"failure": "RuntimeError"}},
    }
    text = tune.table({"models": models, "search": search})
    gqa, graph, _, mean, wrong, _ = text.splitlines()[2:]
    assert "| -25.0% | -12.5% | 1 of 3 | a=1 -20.0% | 129% | – | – |" in gqa
    assert "| default |" in graph
    assert "| +0.0% | +0.0% | 1 of 2 | a=1 -10.0% | 0% |" in graph
    assert "chosen 1.155, best single option 1.179" in mean
    assert "more than 1 %: 0 of 2" in mean
    assert wrong == "wrong results: gqa c=1"
