"""The reported problems as data, and how what perfcli says of them is judged. Nothing compiles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reported import Reported, Side
from reported_judged import Heard, Missing, judge
from reported_page import write_page, write_table
from reported_problems import Asking, judge_case, load_cases, number_of

CASES = load_cases()

CASE = Reported(
    issue="pytorch/pytorch#2",
    kind="memory access",
    title="loads lie apart",
    said="3×",
    rebuilt="pattern",
    seen="strides",
    bad=Side("bad"),
    good=Side("good"),
    codes=frozenset({"PC207"}),
    cause=("uncoalesced",),
    cure=("contiguous",),
    true_of_good={"PC203": "read twice on either side"},
)


def finding(code: str, **changed: Any) -> dict[str, Any]:
    return {
        "code": code,
        "severity": "warning",
        "headline": "it does",
        "kernels": [0],
        "advice": "",
        "cures": [],
        "side": "head",
        "appearance": "new",
        **changed,
    }


def heard(
    outcome: str = "worse",
    top: str = "SLOWER  step 1 → 2 µs",
    findings: Sequence[Mapping[str, Any]] = (),
    bad: Sequence[Mapping[str, Any]] = (),
    good: Sequence[Mapping[str, Any]] = (),
) -> Heard:
    return Heard({"outcome": outcome, "findings": list(findings)}, top, bad, good, 4)


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_named_by_its_issue_and_has_a_twin(name: str) -> None:
    case = CASES[name]
    project, _, number = case.issue.partition("#")
    assert name.rpartition("_")[0] in project.replace("-", "_").lower()
    assert number_of(name) == int(number)
    assert case.bad != case.good
    assert all(re.fullmatch(r"PC\d{3}", code) for code in case.codes)
    assert case.codes and case.cause and case.cure and case.said and case.seen
    for pattern in (*case.cause, *case.cure):
        re.compile(pattern)


def test_each_number_is_there_once_and_both_halves_are_served() -> None:
    numbers = Counter(map(number_of, CASES))
    assert set(numbers.values()) == {1}
    assert list(load_cases(half="even")) == [n for n in CASES if number_of(n) % 2 == 0]
    assert list(load_cases(only=(189940,))) == ["pytorch_189940"]


def test_a_cause_on_top_counts_and_its_cure_too() -> None:
    found = finding("PC207", advice="make it contiguous first")
    top = "SLOWER  step 1 → 2 µs\ncause   PC207 16 elements apart"
    judged = judge("a_2", CASE, heard(top=top, findings=[found], bad=[found]))
    assert (judged.right, judged.cause_on_top, judged.cause, judged.cure) == (True,) * 4
    assert judged.explained and not judged.misled and judged.found == ["PC207"]


def test_names_of_kernels_and_cures_name_no_cause() -> None:
    case = replace(CASE, cause=("copy", "split"), cure=("split_reductions",))
    top = (
        "SLOWER  step 1 → 2 µs\nkernel  triton_poi_fused__to_copy_0\ncure    split_reductions=true"
    )
    judged = judge("a_2", case, heard(top=top))
    assert not judged.cause_on_top and not judged.cure


def test_a_cause_below_is_not_on_top() -> None:
    judged = judge("a_2", CASE, heard(findings=[finding("PC207")]))
    assert judged.cause and not judged.cause_on_top and not judged.cure


@pytest.mark.parametrize("gone", [{"side": "base", "appearance": "gone"}, {"appearance": "same"}])
def test_what_is_gone_or_stayed_names_no_cause(gone: dict[str, str]) -> None:
    assert not judge("a_2", CASE, heard(findings=[finding("PC207", **gone)])).cause


@pytest.mark.parametrize(("outcome", "misled"), [("same", True), ("better", True), ("unknown", 0)])
def test_a_worse_side_called_same_or_better_misleads(outcome: str, misled: bool) -> None:
    judged = judge("a_2", CASE, heard(outcome, "SAME"))
    assert (judged.right, judged.misled) == (False, bool(misled))


@pytest.mark.parametrize("word", ["slower", "faster"])
def test_what_is_likely_counts_as_said(word: str) -> None:
    top = f"UNSURE  step 1 → 2 µs\ncure    x=1\nwhy     {word} in 8 of 10 such cases, but"
    judged = judge("a_2", CASE, heard("unknown", top))
    slower = word == "slower"
    assert (judged.right, judged.called_worse, judged.misled) == (slower, False, not slower)


def test_compile_time_is_right_where_the_top_names_it() -> None:
    case = replace(CASE, metric="compile time", codes=frozenset({"PC604"}))
    assert judge("a_2", case, heard("same", "SAME\nbesides PC604 compiled in 9 s, was 3")).right
    silent = judge("a_2", case, heard("same", "SAME"))
    assert not silent.right and not silent.misled
    assert judge("a_2", case, heard("better", "FASTER")).misled


def test_only_warnings_and_errors_of_the_twin_that_are_not_true_are_false() -> None:
    alone = [
        finding("PC203"),
        finding("PC801"),
        finding("PC901"),
        finding("PC204", severity="info"),
        finding("PC501", kernels=[1, 2], headline="fusion lost"),
    ]
    judged = judge("a_2", CASE, heard(good=alone))
    assert judged.false == ["PC501 fusion lost"]
    assert (judged.false_kernels, judged.good_kernels) == (2, 4)


def test_a_case_that_fails_says_so_and_the_next_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Asking(tmp_path, {})

    def fail(name: str, case: Reported) -> Heard:
        raise RuntimeError("gone") if name == "a_1" else Missing("torch 2.11 is not installed")

    monkeypatch.setattr(asking, "ask", fail)
    monkeypatch.setattr("reported_problems._hash", lambda path: path.name)
    assert judge_case(asking, "a_1", CASE).missing == "RuntimeError: gone"
    assert judge_case(asking, "a_2", CASE).missing == "torch 2.11 is not installed"


def test_a_result_is_kept_until_the_case_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, asked = Asking(tmp_path, {}), []

    def answer(name: str, case: Reported) -> Heard:
        asked.append(name)
        return heard()

    monkeypatch.setattr(asking, "ask", answer)
    monkeypatch.setattr("reported_problems._hash", lambda path: path.name)
    first = judge_case(asking, "a_2", CASE)
    assert judge_case(asking, "a_2", CASE) == first and asked == ["a_2"]
    monkeypatch.setattr("reported_problems._hash", lambda path: "changed")
    assert judge_case(asking, "a_2", CASE) == first and asked == ["a_2", "a_2"]


def test_totals_stand_side_by_side() -> None:
    named = finding("PC207", advice="contiguous")
    cases = {"a_2": CASE, "a_3": replace(CASE, issue="pytorch/pytorch#3"), "a_4": CASE}
    judged = {
        "a_2": judge("a_2", CASE, heard(top="SLOWER PC207", findings=[named])),
        "a_3": judge("a_3", CASE, heard("same", "SAME", good=[finding("PC501")])),
        "a_4": replace(judge("a_4", CASE, heard()), missing="no torch"),
    }
    rows = {
        line[:40].strip(): line[42:].split() for line in write_table(cases, judged).splitlines()
    }
    assert rows["cases run"] == ["1", "1", "2"]
    assert rows["right direction on top"] == ["1/1", "100", "%", "0/1", "0", "%", "1/2", "50", "%"]
    assert rows["misled"] == ["0/1", "0", "%", "1/1", "100", "%", "1/2", "50", "%"]
    assert rows["… kernels with a false finding"][:2] == ["0/4", "0"]
    page = write_page(cases, judged, "2.13.0")
    assert "not run: no torch" in page and "**misled**" in page
