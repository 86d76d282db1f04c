"""Findings of both sides held together: over split, fused, regrouped and repeated kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from handmade import kernel, run

from perfcli import diagnosis
from perfcli.diff.compare import compare
from perfcli.errors import PerfcliError, RuleFailed
from perfcli.model import (
    Appearance,
    Because,
    Change,
    Comparison,
    Cost,
    Cure,
    Finding,
    KernelFacts,
    Rule,
    Run,
    Severity,
    Trial,
)


def spills(made: Run) -> Iterator[Finding]:
    for number, each in enumerate(made.kernels):
        if each.spilled_words:
            yield Finding(
                "PC901",
                "warning",
                f"{each.name} spills",
                kernels=(number,),
                metric="spilled_words",
                amount=each.spilled_words,
            )


def breaks(made: Run) -> Iterator[Finding]:
    for reason, number in made.graph_breaks.items():
        yield Finding("PC902", "info", reason, subject=reason, amount=number)


def fewer(comparison: Comparison) -> Iterator[Finding]:
    if len(comparison.head.kernels) < len(comparison.base.kernels):
        yield Finding("PC903", "error", "fewer kernels")


RULES = (
    Rule("PC901", "spills", "", of_run=spills),
    Rule("PC902", "breaks", "", of_run=breaks),
    Rule("PC903", "fewer", "", of_comparison=fewer),
)


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "rules", lambda: RULES)


def k(name: str, nodes: str, words: int, **more: Any) -> KernelFacts:
    return kernel(name, *nodes.split(), stack=4 * words, text=f"{name} {words}", **more)


def appearances(
    base: list[KernelFacts], head: list[KernelFacts]
) -> list[tuple[Appearance, str, float | None]]:
    found = diagnosis.diagnose(compare(run(base), run(head))).findings
    return [(f.appearance, f.headline.split()[0], f.amount) for f in found if f.code == "PC901"]


def test_one_to_one() -> None:
    base = [k("a", "1", 2), k("b", "2", 2), k("c", "3", 2), k("d", "4", 2), k("e", "5", 0)]
    head = [k("a", "1", 2), k("b", "2", 5), k("c", "3", 1), k("d", "4", 0), k("e", "5", 9)]
    assert appearances(base, head) == [
        ("new", "e", 9),
        ("worse", "b", 5),
        ("gone", "d", 2),
        ("better", "c", 1),
        ("same", "a", 2),
    ]


@pytest.mark.parametrize(
    ("left", "right", "what"),
    [(46, 46, "same"), (50, 50, "worse"), (60, 10, "better"), (92, 0, "same"), (80, 20, "worse")],
)
def test_a_split_kernels_findings_count_together(left: int, right: int, what: str) -> None:
    """Each part alone spills less than 92; only the sum tells."""
    found = appearances([k("a", "1 2", 92)], [k("b", "1", left), k("c", "2", right)])
    assert found == [(what, n, w) for n, w in (("b", left), ("c", right)) if w]


@pytest.mark.parametrize(("words", "what"), [(10, "worse"), (9, "same"), (8, "better")])
def test_fused_kernels_findings_become_one(words: int, what: str) -> None:
    base = [k("a", "1", 4), k("b", "2", 5), k("c", "3", 0)]
    assert appearances(base, [k("d", "1 2 3", words)]) == [(what, "d", words)]
    assert [a for a, *_ in appearances(base, [k("d", "1 2 3", 0)])] == ["gone", "gone"]


def test_regrouped_kernels_findings_go_with_their_group() -> None:
    base = [k("a", "1 2", 6), k("b", "3 4", 6), k("far", "9", 7)]
    head = [k("c", "1 3", 5), k("d", "2 4", 5), k("far", "9", 7)]
    assert appearances(base, head) == [("better", "c", 5), ("better", "d", 5), ("same", "far", 7)]


def test_repeated_kernels_are_matched_one_by_one() -> None:
    """The same code in each layer: a finding of the third layer is not the first's."""
    base = [k(f"layer_{n}", f"{n}", 3) for n in range(4)]
    head = [k(f"layer_{n}", f"{n}", 8 if n == 2 else 3) for n in range(4)]
    assert appearances(base, head)[0] == ("worse", "layer_2", 8)
    assert [a for a, *_ in appearances(base, head)] == ["worse", "same", "same", "same"]


def test_an_unmatched_kernels_finding_is_new_although_another_has_the_code() -> None:
    base, head = [k("a", "1", 3), k("x", "7", 0)], [k("a", "1", 3), k("b", "2", 3)]
    assert appearances(base, head) == [("new", "b", 3), ("same", "a", 3)]


def test_a_finding_of_several_kernels_goes_on_in_all_their_groups() -> None:
    found = [Finding("PC1", "info", "x", kernels=(0, 2)), Finding("PC1", "info", "y", kernels=(1,))]
    three = [k("a", "1", 0), k("b", "2", 0), k("c", "3", 0)]
    comparison = compare(run(three), run(three))
    assert [(f.base, f.head) for f in diagnosis.families(comparison, found, found)] == [
        ([0], [0]),
        ([1], [1]),
    ]
    bridge = [Finding("PC1", "info", "z", kernels=(1, 2))]
    (family,) = diagnosis.families(comparison, found, bridge)
    assert (sorted(family.base), family.head) == ([0, 1], [0])


def test_no_code_is_held_against_another() -> None:
    one, other = (Finding(code, "info", "x", kernels=(0,)) for code in ("PC1", "PC2"))
    comparison = compare(run([k("a", "1", 0)]), run([k("a", "1", 0)]))
    assert len(diagnosis.families(comparison, [one], [other])) == 2


def test_findings_without_kernels_are_told_apart_by_subject() -> None:
    base = run([k("a", "1", 0)], graph_breaks={"print": 2, "item": 1})
    head = run([k("a", "1", 0)], graph_breaks={"print": 3, "len": 1})
    found = diagnosis.diagnose(compare(base, head)).findings
    assert [(f.appearance, f.subject, f.on_base) for f in found] == [
        ("new", "len", False),
        ("worse", "print", False),
        ("gone", "item", True),
    ]


def test_what_came_with_the_head_is_first_and_the_gravest_of_it() -> None:
    """What only two runs show has no appearance."""
    base, head = [k("a", "1", 0), k("b", "2", 0), k("x", "9", 3)], [k("c", "1 2", 4)]
    breaks = {"print": 99}
    found = diagnosis.diagnose(
        compare(run(base), run(head, graph_breaks=breaks)),
    ).findings
    assert [(f.appearance, f.code) for f in found] == [
        ("", "PC903"),
        ("new", "PC901"),
        ("new", "PC902"),
        ("gone", "PC901"),
    ]


def test_amounts_of_different_codes_are_not_compared() -> None:
    found = [
        Finding(code, "info", "x", subject=str(amount), amount=amount)
        for code, amount in (("PC302", 10.0**9), ("PC101", 2.0), ("PC101", 92.0))
    ]
    rule = Rule("PC101", "", "", of_run=lambda _: found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosis, "rules", lambda: (rule,))
        ordered = diagnosis.explain(run([k("a", "1", 0)]))
    assert [(f.code, f.amount) for f in ordered] == [
        ("PC101", 92),
        ("PC101", 2),
        ("PC302", 10**9),
    ]


def test_causes_come_before_their_consequences_about_the_same_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def over_fused(made: Run) -> Iterator[Finding]:
        yield Finding("PC999", "warning", "over-fused", kernels=(0,))

    cause = Rule("PC999", "over-fused", "", explains=("PC901",), of_run=over_fused)
    monkeypatch.setattr(diagnosis, "rules", lambda: (*RULES, cause))
    found = diagnosis.explain(run([k("a", "1", 3), k("b", "2", 8)]))
    assert [(f.code, f.kernels, f.explained_by) for f in found] == [
        ("PC901", (1,), ""),
        ("PC999", (0,), ""),
        ("PC901", (0,), "PC999"),
    ]


def test_a_run_alone_has_the_gravest_first() -> None:
    made = run([k("a", "1", 3), k("b", "2", 8)], graph_breaks={"print": 99})
    assert [f.headline for f in diagnosis.explain(made)] == ["b spills", "a spills", "print"]


def test_a_rule_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Iterator[Finding]:
        yield Finding("PC999", "info", "said before it broke")
        raise KeyError("nonsense")

    bad = Rule("PC999", "a broken rule", "", of_run=broken)
    monkeypatch.setattr(diagnosis, "rules", lambda: (*RULES, bad))
    with pytest.raises(RuleFailed) as error:
        diagnosis.explain(run([k("a", "1", 3)], id="261121-1"))
    assert str(error.value).startswith(
        "internal error: rule PC999 (a broken rule) failed on run 261121-1: KeyError: 'nonsense' "
        "(test_diagnosis.py:"
    )


def test_rules_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnosis.rule("pc902").title == "breaks"
    with pytest.raises(PerfcliError, match="did you mean"):
        diagnosis.rule("PC909")


def judged(
    monkeypatch: pytest.MonkeyPatch, severity: Severity, read: int = 1000, doubt: bool = False
) -> Comparison:
    def idle(made: Run) -> Iterator[Finding]:
        if made.id == "head":
            headline = "b leaves 124 SMs idle"
            yield Finding("PC999", severity, headline, kernels=(0,), doubt=doubt)

    monkeypatch.setattr(diagnosis, "rules", lambda: (Rule("PC999", "idle", "", of_run=idle),))
    base, head = [k("a", "1", 0, read=4000)], [k("b", "1", 0, read=read)]
    return diagnosis.diagnose(compare(run(base), run(head, id="head")))


CHANGE = "bytes moved 4.5 kB → 1.5 kB (−66.7 %)"
SUMS = "1 kernel, 2 loads → 1 kernel, 2 loads, −3 kB bytes moved"
HOW = "leaves 124 SMs idle"


def test_a_new_error_decides_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer bytes, but most of the device idle."""
    found = judged(monkeypatch, "error")
    assert found.outcome == "worse"
    assert found.reason == f"PC999 b {HOW}, though {CHANGE}"
    assert found.because == Because("PC999", 0, "b", HOW, SUMS, though=CHANGE, code="PC999")


def test_with_a_new_warning_nothing_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, "warning")
    assert found.outcome == "unknown"
    assert found.reason == f"{CHANGE}, but PC999: b {HOW}"
    assert found.because == Because(f"{CHANGE}, but PC999", 0, "b", HOW, SUMS, code="PC999")
    same = judged(monkeypatch, "warning", read=4000)
    assert same.outcome == "unknown"
    assert same.reason.endswith(f"changed, but neither spills nor bytes; but PC999: b {HOW}")
    assert judged(monkeypatch, "warning", read=9000).outcome == "worse"


def test_notes_and_doubts_change_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(monkeypatch, "info").outcome == "better"
    assert judged(monkeypatch, "warning", doubt=True).outcome == "better"


def costing(code: str, micros: float | None, severity: Severity = "info", **more: Any) -> Finding:
    """Of a step that takes a millisecond."""
    cost = None if micros is None else Cost(micros * 1e-6, 0.0, 2e-6 * micros, micros / 1000)
    return Finding(code, severity, f"{code} is wrong", cost=cost, **{"kernels": (0,), **more})


def test_the_costliest_comes_first_whatever_its_severity(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not known stands behind what costs a hundredth of the step; but an error before."""
    given = (
        costing("PC111", None),
        costing("PC112", 9.0, "warning"),
        costing("PC113", 30.0),
        costing("PC114", None, "error"),
        costing("PC115", 200.0, "warning"),
        costing("PC116", None, "warning"),
        costing("PC117", -50.0, "error"),
    )
    rule = Rule("PC901", "all", "", of_run=lambda _: given)
    monkeypatch.setattr(diagnosis, "rules", lambda: (rule,))
    found = [finding.code for finding in diagnosis.explain(run([kernel("a", "1")]))]
    assert found == ["PC114", "PC115", "PC113", "PC112", "PC116", "PC111", "PC117"]


def proposed(*findings: Finding) -> list[tuple[dict[str, Any], str, float]]:
    return [
        (dict(p.options), p.text, round(p.seconds * 1e6, 3))
        for p in diagnosis.choose_proposals(findings)
    ]


def test_the_changes_that_save_most_of_a_step() -> None:
    """Findings with one cure add up, a kernel counts once, and what saves less than a hundredth is
    not worth doing."""
    split, fuse = Cure({"split": True}, "splits"), Cure({"fuse": True}, "fuses")
    assert proposed(
        costing("PC111", 100.0, kernels=(0,), cures=(split, fuse)),
        costing("PC112", 150.0, kernels=(0,), cures=(split,)),
        costing("PC111", 40.0, kernels=(1,), cures=(split,)),
        costing("PC113", 60.0, cures=(fuse,)),
        costing("PC114", 300.0, advice="pad the rows"),
        costing("PC115", 9.0, advice="too little"),
        costing("PC116", -80.0, advice="gains nothing"),
        costing("PC117", None, advice="not known"),
        costing("PC118", 500.0, advice="a consequence", explained_by="PC111"),
        costing("PC119", 20.0, advice="the fourth"),
    ) == [
        ({}, "pad the rows", 300.0),
        ({"split": True}, "splits", 190.0),
        ({"fuse": True}, "fuses", 60.0),
    ]


def test_what_was_compiled_counts_as_it_was_estimated() -> None:
    """And what does not help is not proposed; the next cure is."""
    first, second = Cure({"a": 1}, "first"), Cure({"b": 1}, "second")
    time = Change("step_time", 1e-3, 0.9e-3, "better")
    tried = (Trial(first, "does not help"), Trial(second, "helps", changes=(time,)))
    finding = costing("PC111", 500.0, cures=(first, second), trials=tried)
    (proposal,) = diagnosis.choose_proposals([finding])
    assert dict(proposal.options) == {"b": 1}
    assert proposal.proven
    assert proposal.seconds == pytest.approx(1e-4)
    assert proposal.share == pytest.approx(0.1)
    worse = Trial(second, "helps", changes=(Change("step_time", 1e-3, 1.1e-3, "worse"),))
    again = costing("PC111", 500.0, cures=(second,), trials=(worse,))
    assert diagnosis.choose_proposals([again]) == ()
