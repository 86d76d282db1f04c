"""Changes planted in a run are found again, none is invented, and sums are conserved.

``PERFCLI_EXAMPLES=20000 pytest tests/unit/diff/test_match_property.py`` looks at as many cases.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.diff.planting import CHANGES, Planted, Planter

from perfcli.diff.match import match
from perfcli.diff.metrics import KERNEL_METRICS, changes, fold
from perfcli.model import KernelFacts, Match

EXAMPLES = int(os.environ.get("PERFCLI_EXAMPLES", "300"))


@st.composite
def planted(draw: st.DrawFn, nodes_agree: bool) -> Planted:
    return Planter(
        random.Random(draw(st.integers(0, 2**40))),
        layers=draw(st.integers(1, 5)),
        roles=draw(st.integers(1, 7)),
        modules=draw(st.booleans()),
        nodes_agree=nodes_agree,
    ).plant(draw(st.lists(st.sampled_from(CHANGES), max_size=12)))


def found(case: Planted, matches: Sequence[Match]) -> set[object]:
    return {
        (
            frozenset(case.base[n].name for n in m.base),
            frozenset(case.head[n].name for n in m.head),
            m.relation,
        )
        for m in matches
    }


def check_conserved(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts], matches: Sequence[Match]
) -> None:
    assert sorted(n for m in matches for n in m.base) == list(range(len(base)))
    assert sorted(n for m in matches for n in m.head) == list(range(len(head)))
    groups = [changes([base[n] for n in m.base], [head[n] for n in m.head]) for m in matches]
    for metric in KERNEL_METRICS:
        if metric.fold != "sum":
            continue
        of_groups = [c for group in groups for c in group if c.metric == metric.name]
        for side, kernels in (("base", base), ("head", head)):
            total = sum(getattr(c, side) or 0 for c in of_groups)
            assert total == pytest.approx(fold(metric, kernels).value or 0, rel=1e-12)
            of_launched = sum(metric.of(k) or 0 for k in kernels if k.launches)
            assert total == pytest.approx(of_launched, rel=1e-12)


@pytest.mark.parametrize("nodes_agree", [True, False])
def test_planted_changes_are_found_and_none_is_invented(nodes_agree: bool) -> None:
    @given(planted(nodes_agree))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=EXAMPLES == 300,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Planted) -> None:
        matches = match(case.base, case.head, nodes_agree)
        check_conserved(case.base, case.head, matches)
        assert found(case, matches) == case.expected

    check()


def test_forms_that_are_never_launched_are_in_no_sum() -> None:
    @given(planted(True), st.integers(0, 2**40))
    @settings(
        max_examples=50,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Planted, seed: int) -> None:
        dice = random.Random(seed)
        base, head = (
            [replace(k, launches=0) if dice.random() < 0.3 else k for k in side]
            for side in (case.base, case.head)
        )
        check_conserved(base, head, match(base, head, True))

    check()
