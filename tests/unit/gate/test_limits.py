"""Numbers that limits are about, and their units."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import candidate, kernel, run
from handmade_timing import gpu

from perfcli.diff.compare import compare
from perfcli.gate.limits import (
    OWN,
    PER_KERNEL,
    TOTALS,
    _higher_is_better,
    _is_worse,
    _kind,
    _total,
    of_group,
)
from perfcli.model import Change, Comparison, TimeVerdict


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("bytes_moved", "bytes"),
        ("peak_memory_bytes", "bytes"),
        ("lower_bound_seconds", "seconds"),
        ("time", "seconds"),
        ("loads", "count"),
        ("vector_loads", "count"),
        ("spilled_words", "count"),
        ("graphs", "count"),
    ],
)
def test_the_kind_of_a_metric(metric: str, kind: str) -> None:
    assert _kind(metric) == kind


@pytest.mark.parametrize(
    ("metric", "value", "than", "worse"),
    [
        ("loads", 2, 1, True),
        ("loads", 1, 1, False),
        ("loads", 0, 1, False),
        ("occupancy", 0, 1, True),
        ("occupancy", 1, 1, False),
        ("occupancy", 2, 1, False),
        ("graphs", 2, 1, True),
    ],
)
def test_what_is_worse(metric: str, value: float, than: float, worse: bool) -> None:
    assert _is_worse(metric, value, than) is worse
    assert _higher_is_better(metric) is (metric == "occupancy")


def test_what_can_be_limited() -> None:
    assert "occupancy" not in TOTALS
    assert "kernels" not in PER_KERNEL
    assert {"time", "peak_memory_bytes", "graph_breaks"} <= set(TOTALS)
    assert {"load_bits", "store_bits", "occupancy"} <= set(PER_KERNEL)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [("slower", "worse"), ("faster", "better"), ("same", "same"), ("unsure", "unknown")],
)
def test_a_measured_step_is_a_total(verdict: TimeVerdict, outcome: str) -> None:
    comparison, timing = gpu()
    assert _total(comparison, "time") is None
    timed = replace(comparison, timing=replace(timing, step=replace(timing.step, verdict=verdict)))
    found = _total(timed, "time")
    assert found is not None
    assert (found.base, found.head, found.outcome) == (12.31e-3, 12.70e-3, outcome)


def bits(base: list[dict[str, int]], head: list[dict[str, int]]) -> Comparison:
    """One kernel a side, with a configuration for each."""
    ours, theirs = (
        kernel("a_0", "mul", text=text, candidates=[candidate(global_loads=n) for n in loads])
        for text, loads in (("1", base), ("2", head))
    )
    return compare(run([ours]), run([theirs], id="head"))


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ([{"128": 1, "32": 3}], [{"32": 2}], Change("load_bits", 56, 32, "same")),
        ([{"16": 1}, {"64": 1}, {}], [{"32": 1}], Change("load_bits", 64, 32, "same")),
        ([{}], [{"32": 1}], Change("load_bits", None, 32, "unknown")),
        ([{"32": 1}], [{}], Change("load_bits", 32, None, "unknown")),
        ([{}], [{}], None),
    ],
)
def test_bits_of_one_load_of_the_widest_configuration(
    base: list[dict[str, int]], head: list[dict[str, int]], expected: Change | None
) -> None:
    comparison = bits(base, head)
    assert of_group(comparison, comparison.groups[0], "load_bits") == expected
    assert of_group(comparison, comparison.groups[0], "no metric") is None
    assert [(own.name, own.fold, own.better) for own in OWN] == [
        ("load_bits", "min", "higher"),
        ("store_bits", "min", "higher"),
    ]
