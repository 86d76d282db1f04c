"""In which order wrong results, times, counts and findings conclude a comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare, gather_evidence
from perfcli.diff.verdict.conclude import acquit, conclude
from perfcli.diff.verdict.decide import decide_by_code
from perfcli.model import Because, Comparison, Finding, KernelFacts, WrongResults

NAMES = ("a_0", "b_1")


def compared(before: int = 1000, after: int = 1000, **more: Any) -> Comparison:
    """Two kernels, of which the second reads more or less than before."""

    def side(read: int) -> list[KernelFacts]:
        return [
            kernel(NAMES[0], "mul", text=more.get("text", "")),
            kernel(NAMES[1], "add", read=read, text=f"{read}"),
        ]

    return compare(run(side(before)), run(side(after), id="head"))


def found(severity: Any, headline: str = "it idles", code: str = "PC205", **more: Any) -> Finding:
    return Finding(code, severity, headline, **{"kernels": (1,), "appearance": "new", **more})


def concluded(comparison: Comparison, *findings: Finding) -> Comparison:
    return conclude(replace(comparison, findings=findings))


SAME = compared()
BETTER = compared(1000, 500)
WORSE = compared(500, 1000)


def test_the_three() -> None:
    assert [c.outcome for c in (SAME, BETTER, WORSE)] == ["same", "better", "worse"]
    assert BETTER.reason.startswith("bytes moved 3 kB → 2.5 kB (−16.7 %): b_1 changed")


# --- findings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comparison", "severity", "outcome"),
    [
        (SAME, "error", "worse"),
        (SAME, "warning", "unknown"),
        (SAME, "info", "same"),
        (BETTER, "error", "worse"),
        (BETTER, "warning", "unknown"),
        (BETTER, "info", "better"),
        (WORSE, "error", "worse"),
        (WORSE, "warning", "worse"),
    ],
)
def test_a_new_finding_objects_to_better_and_the_same(
    comparison: Comparison, severity: str, outcome: str
) -> None:
    result = concluded(comparison, found(severity))
    assert result.outcome == outcome
    if comparison is WORSE or severity == "info":
        assert (result.reason, result.because) == (comparison.reason, comparison.because)


@pytest.mark.parametrize(
    "more",
    [
        {"appearance": "same"},
        {"appearance": "gone"},
        {"on_base": True},
        {"doubt": True},
    ],
)
def test_a_finding_that_did_not_come_or_only_doubts_objects_to_nothing(
    more: dict[str, Any],
) -> None:
    assert concluded(BETTER, found("error", **more)).outcome == "better"
    assert concluded(BETTER, found("warning", **more)).outcome == "better"


def test_an_error_is_asked_before_a_warning() -> None:
    result = concluded(SAME, found("warning", code="PC101"), found("error"))
    assert result.reason == "PC205 it idles"


def test_an_error_names_its_kernel_and_what_was_gained() -> None:
    result = concluded(BETTER, found("error", "b_1 idles"))
    change = "bytes moved 3 kB → 2.5 kB (−16.7 %)"
    assert result.reason == f"PC205 b_1 idles, though {change}"
    assert BETTER.because is not None
    assert result.because == Because(
        "PC205", 1, "b_1", "idles", BETTER.because.sums, though=change, code="PC205"
    )
    assert BETTER.because.sums.startswith("1 kernel, 2 loads → 1 kernel, 2 loads, −500 B")


def test_an_error_where_nothing_was_gained_has_nothing_against_it() -> None:
    result = concluded(SAME, found("error", "b_1 idles"))
    assert result.reason == "PC205 b_1 idles"
    assert result.because == Because("PC205", 1, "b_1", "idles", code="PC205")


def test_sums_are_those_of_the_same_group_only() -> None:
    result = concluded(BETTER, found("error", "a_0 idles", kernels=(0,)))
    assert result.because is not None
    assert (result.because.group, result.because.kernel, result.because.sums) == (0, "a_0", "")


@pytest.mark.parametrize(
    ("headline", "kernels", "group"),
    [
        ("it idles", (1,), 1),
        ("b_1x idles", (1,), 1),  # another name that begins alike
        ("a_0 idles", (1, 0), 0),  # named, but not as the first: a group that has any
        ("the run idles", (), None),
    ],
)
def test_a_headline_that_does_not_begin_with_its_kernel_is_kept_whole(
    headline: str, kernels: tuple[int, ...], group: int | None
) -> None:
    result = concluded(SAME, found("error", headline, kernels=kernels))
    assert result.because == Because(f"PC205: {headline}", group, code="PC205")


def test_a_warning_stands_behind_what_was_gained() -> None:
    result = concluded(BETTER, found("warning", "b_1 idles"))
    change = "bytes moved 3 kB → 2.5 kB (−16.7 %), but PC205"
    assert result.reason == f"{change}: b_1 idles"
    assert result.because is not None
    assert (result.because.change, result.because.kernel) == (change, "b_1")


def test_a_second_but_is_set_off() -> None:
    result = concluded(SAME, found("warning"))
    assert SAME.because is None
    assert result.reason == f"{SAME.reason}, but PC205: it idles"
    twice = concluded(replace(SAME, besides=("graph breaks 0 → 1",)), found("warning"))
    assert twice.reason == f"{SAME.reason}, but graph breaks 0 → 1; but PC205: it idles"


def test_a_warning_says_nothing_where_it_cannot_be_told_anyway() -> None:
    unknown = compare(run([]), run([kernel("a_0", "mul")], id="head"))
    assert unknown.outcome == "unknown"
    result = concluded(unknown, found("warning", kernels=(0,)))
    assert (result.outcome, result.reason) == ("unknown", unknown.reason)
    assert concluded(unknown, found("error", kernels=(0,))).outcome == "worse"


# --- wrong results ---------------------------------------------------------------------------

WRONG = "the outputs are wrong"


@pytest.mark.parametrize(
    ("findings", "reason", "code"),
    [
        ((), WRONG, ""),
        ((found("error", WRONG, "PC903"),), f"PC903 {WRONG}", "PC903"),
        ((found("warning", WRONG, "PC903"),), WRONG, ""),
        ((found("error", "other", "PC903"),), WRONG, ""),
        (
            (found("error", WRONG, "PC903"), found("error", WRONG, "PC904")),
            f"PC903 {WRONG}",
            "PC903",
        ),
    ],
)
def test_wrong_results_are_told_with_the_code_of_their_finding(
    findings: tuple[Finding, ...], reason: str, code: str
) -> None:
    comparison = replace(BETTER, wrong=WrongResults("head", WRONG))
    result = concluded(comparison, *findings)
    assert (result.outcome, result.reason) == ("worse", reason)
    assert result.because == Because(f"{code}: {WRONG}" if code else WRONG, code=code)


def test_wrong_results_of_the_base_leave_nothing_to_compare_with() -> None:
    comparison = replace(WORSE, wrong=WrongResults("base", WRONG))
    assert conclude(comparison).outcome == "unknown"


def test_a_run_beside_itself_is_the_same() -> None:
    result = acquit(WORSE)
    assert (result.outcome, result.reason, result.because) == ("same", "", None)


# --- evidence and conclusion -----------------------------------------------------------------


def test_evidence_has_no_verdict_and_concluding_it_is_comparing() -> None:
    evidence = gather_evidence(WORSE.base, WORSE.head)
    assert (evidence.outcome, evidence.reason, evidence.because) == ("unknown", "", None)
    assert evidence.totals == WORSE.totals
    assert conclude(evidence) == WORSE


@pytest.mark.parametrize("comparison", [SAME, BETTER, WORSE])
def test_what_the_code_alone_says_is_asked_without_all_that_is_stronger(
    comparison: Comparison,
) -> None:
    alone = comparison.outcome
    assert decide_by_code(gather_evidence(comparison.base, comparison.head)) == alone
    assert decide_by_code(replace(comparison, findings=(found("error"),))) == alone
    assert decide_by_code(replace(comparison, wrong=WrongResults("base", "wrong"))) == alone
