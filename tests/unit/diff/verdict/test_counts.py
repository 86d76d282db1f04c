"""What the counts of two hand-made runs come to where a gain and a loss stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.model import Comparison, KernelFacts, Outcome

# Two spilled words: a stack of 8 bytes in a kernel with as many registers as there are.
SPILLING = kernel("a_0", "mul", loads=6, stack=8, registers=255, read=10_000, text="1")


def spared(in_loops: int = 0, **more: Any) -> KernelFacts:
    made = kernel("a_0", "mul", **{"loads": 6, "read": 10_000, "text": "2", **more})
    assert made.source_facts is not None
    return replace(made, source_facts=replace(made.source_facts, loads_in_loops=in_loops))


def held(head: Sequence[KernelFacts], base: Sequence[KernelFacts] = (SPILLING,)) -> Comparison:
    return compare(run(base), run(head, id="head"))


def test_a_trifle_that_costs_nothing_is_better() -> None:
    comparison = held([spared()])
    assert comparison.outcome == "better"
    assert comparison.reason.startswith("spilled words 2 → 0: a_0 changed")


def test_a_trifle_hides_no_loss() -> None:
    """Two spilled words and 0.58 % of the bytes for a kernel, a launch and seven loads more."""
    base = [SPILLING, kernel("b_1", "add", loads=1, read=90_000)]
    more = kernel("copy_2", "clone", loads=7, read=200, written=100)
    comparison = held([spared(read=9_110), base[1], more], base)
    outcomes = {c.metric: (c.outcome, c.delta) for c in comparison.totals}
    assert outcomes["spilled_words"] == ("better", -2)
    assert outcomes["bytes_moved"] == ("better", -590)  # of 101 kB: 0.58 %
    assert outcomes["launches"] == ("worse", 1)
    assert comparison.outcome == "unknown"
    assert comparison.reason == (
        "launches 2 → 3 (+50 %): copy_2 is new (nothing → 1 kernel, 7 loads, +1 launches), "
        "though spilled words −2, bytes moved −590 B (−0.584 %); "
        "too little was gained to tell which weighs more"
    )
    because = comparison.because
    assert because is not None
    assert (because.kernel, because.how, because.group) == ("copy_2", "is new", 2)
    assert because.also == "kernels +1 (+50 %), loads +7 (+100 %)"


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        ({}, {"in_loops": 2}, "unknown"),
        ({}, {"loads": 7}, "unknown"),
        ({}, {"loads": 5}, "better"),
        ({"stack": 64}, {"loads": 7}, "unknown"),
        ({"stack": 68}, {"loads": 7}, "better"),  # 17 spilled words are no trifle
        ({"read": 10_100}, {"loads": 7}, "unknown"),
        ({"read": 10_200}, {"loads": 7}, "better"),  # nor are 1.9 % of the bytes
        ({}, {"loads": 7, "read": 10_200}, "worse"),  # what decides is worse
    ],
)
def test_how_much_makes_up_for_a_loss(
    base: dict[str, Any], head: dict[str, Any], outcome: Outcome
) -> None:
    spills = {"stack": 8, "registers": 255, "text": "1"}
    comparison = held([spared(**head)], [spared(**{**spills, **base})])
    assert comparison.outcome == outcome


@pytest.mark.parametrize(("peak", "outcome"), [(985, "unknown"), (979, "better")])
def test_a_little_memory_is_a_trifle(peak: int, outcome: Outcome) -> None:
    base, head = run([spared(text="1")], peak=1000), run([spared(loads=7)], id="head", peak=peak)
    assert compare(base, head).outcome == outcome


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"read": 20_000}, "a_0 is the same code, over other data"),
        ({"launches": 2}, "a_0 is the same code, launched another number of times"),
    ],
)
def test_the_same_code_that_costs_more_says_how(more: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"text": "1", "read": 10_000}
    before, after = kernel("a_0", "mul", **given), kernel("a_0", "mul", **{**given, **more})
    comparison = held([after], [before])
    assert comparison.outcome == "worse"
    assert said in comparison.reason
