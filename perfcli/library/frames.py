"""Makes tables for pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.library.kernel import Kernel
from perfcli.model import Comparison, Run

COUNTS = (
    "launches", "loads", "loads_in_loops", "stores", "atomics", "spilled_words", "registers",
    "stack_bytes", "shared_bytes", "bytes_read", "bytes_written", "bytes_moved", "bytes_swept",
)  # fmt: skip
NUMBERS = ("occupancy", "lower_bound_seconds", "estimated_seconds")
NEEDS_PANDAS = "to_frame() needs pandas: pip install pandas"


def kernels_frame(kernels: Sequence[Kernel]) -> Any:
    """Return one row per kernel."""
    columns: dict[str, Sequence[Any]] = {
        "name": [k.name for k in kernels],
        "kind": [k.kind for k in kernels],
        "language": [k.facts.language for k in kernels],
        "graph": [k.graph for k in kernels],
        **{name: [getattr(k, name) for k in kernels] for name in (*COUNTS, *NUMBERS)},
        "num_warps": [k.best.num_warps if k.best else None for k in kernels],
        "operators": [", ".join(k.operators) for k in kernels],
        "location": [k.locations[0] if k.locations else "" for k in kernels],
        "findings": [", ".join(f.code for f in k.findings) for k in kernels],
    }
    whole = {*COUNTS, "num_warps"}
    return _frame(columns, {n: "Int64" if n in whole else "Float64" for n in (*whole, *NUMBERS)})


def comparison_frame(comparison: Comparison) -> Any:
    """Return one row per group of kernels that compute the same."""
    groups = comparison.groups
    metrics = dict.fromkeys(c.metric for group in groups for c in group.changes)
    columns: dict[str, Sequence[Any]] = {
        "relation": [g.match.relation for g in groups],
        "base": [_names(comparison.base, g.match.base) for g in groups],
        "head": [_names(comparison.head, g.match.head) for g in groups],
        "method": [g.match.method for g in groups],
        "confidence": [g.match.confidence for g in groups],
    }
    kinds = {}
    for metric in metrics:
        found = [{c.metric: c for c in g.changes}.get(metric) for g in groups]
        for side in ("base", "head", "delta"):
            name = f"{metric}_{side}"
            columns[name] = [getattr(change, side) if change else None for change in found]
            kinds[name] = "Float64" if metric in NUMBERS else "Int64"
    return _frame(columns, kinds)


def _frame(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> Any:
    try:
        import pandas
    except ModuleNotFoundError:
        raise PerfcliError(NEEDS_PANDAS) from None
    made = {
        name: pandas.array(list(values), dtype=kinds[name]) if name in kinds else list(values)
        for name, values in columns.items()
    }
    frame = pandas.DataFrame(made)
    frame.index.name = "number"
    return frame


def _names(run: Run, indices: Sequence[int]) -> str:
    return ", ".join(run.kernels[index].name for index in indices)
