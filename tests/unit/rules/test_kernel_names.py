"""New, gone and renamed kernels: only a baseline says so, since elsewhere the list does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.model import Comparison, Finding, Rule, Run
from perfcli.names import stem
from perfcli.rules import gone_kernels, new_kernels, renamed_kernels

BASE = [kernel("triton_poi_fused_add", "add"), kernel("triton_poi_fused_mul#2", "mul")]
SAME = [
    kernel("triton_poi_fused_add_0", "add", text="triton_poi_fused_add"),
    kernel("triton_poi_fused_mul_7", "mul", text="triton_poi_fused_mul#2"),
]
RULES = (new_kernels.RULE, gone_kernels.RULE, renamed_kernels.RULE)


KEPT = run([replace(each, source="") for each in BASE], id="")


def against(*head: str, base: Run = KEPT) -> Comparison:
    return compare(base, run([kernel(name, name) for name in head], id="head"))


def said(rule: Rule, comparison: Comparison) -> Finding:
    (finding,) = rule.of_comparison(comparison)
    return finding


def test_another_number_is_no_other_name() -> None:
    comparison = compare(KEPT, run(SAME, id="head"))
    assert [list(rule.of_comparison(comparison)) for rule in RULES] == [[], [], []]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("base", [run(BASE, id="stored"), run(BASE, id="")])
def test_two_runs_say_nothing(rule: Rule, base: Run) -> None:
    """Whether they were stored or not: their kernels have sources."""
    assert list(rule.of_comparison(against("exp", "log", base=base))) == []


def test_new_and_gone() -> None:
    comparison = against(*(f"new{n}" for n in range(8)))
    new, gone = said(new_kernels.RULE, comparison), said(gone_kernels.RULE, comparison)
    assert new.headline == "8 kernels that the baseline does not have"
    assert (new.kernels, new.amount, new.severity) == (tuple(range(8)), 8, "info")
    assert len(new.evidence) == 7
    assert new.evidence[-1] == "and 2 more"
    assert gone.headline == "2 kernels of the baseline are gone"
    assert (gone.kernels, gone.amount) == ((), 2)


def test_renamed() -> None:
    head = [kernel("triton_poi_fused_add_sub_0", "add", text="triton_poi_fused_add"), SAME[1]]
    finding = said(renamed_kernels.RULE, compare(KEPT, run(head, id="head")))
    assert finding.evidence == ("triton_poi_fused_add → triton_poi_fused_add_sub",)
    assert (finding.kernels, finding.severity) == ((0,), "info")


def test_what_was_rewritten_is_not_renamed() -> None:
    """A persistent reduction that became pointwise is listed as changed, under both names."""
    head = [kernel("triton_poi_fused_add_sub_0", "add", text="rewritten"), SAME[1]]
    comparison = compare(KEPT, run(head, id="head"))
    assert [g.match.relation for g in comparison.groups] == ["changed", "same"]
    assert list(renamed_kernels.RULE.of_comparison(comparison)) == []


def test_names_without_numbers() -> None:
    assert (
        stem("triton_red_fused_add_12_3")
        == stem("triton_red_fused_add#4")
        == ("triton_red_fused_add")
    )
