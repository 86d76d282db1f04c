"""What a gate shows of its checks, line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from golden import shown
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.gate import view
from perfcli.gate.judgement import NO_TIMES
from perfcli.model import (
    Allowance,
    Change,
    Comparison,
    Finding,
    FindingResult,
    Judged,
    Judgement,
    Limit,
    LimitResult,
    Origin,
    Provenance,
)

LOADS = Limit("loads", growth=0)
PLACE = Origin("", "", location="/repo/norm.py:14", code="  print(x)  ")
KNOWN = Allowance("*", "loads", "known for long", "ann", "2027-01-01")


def unchanged() -> Comparison:
    return compare(run([kernel("a_0", "mul")]), run([kernel("a_0", "mul")], id="head"))


def result(state: Any, text: str, **more: Any) -> LimitResult:
    return LimitResult(LOADS, state, 1, 2, 1, text=text, **more)


def check(name: str = "norm@h100", outcome: Any = "fail", **more: Any) -> Judged:
    given: dict[str, Any] = {"reason": "loads 1 → 2", "comparison": unchanged(), **more}
    return Judged(name, outcome, **given)


def lines(*checks: Judged, quiet: bool = False, **more: Any) -> list[str]:
    given: dict[str, Any] = {"outcome": "fail", "reason": "1 failed", "exit_code": 1, **more}
    judgement = Judgement(checks, **given)
    return shown(view.report(judgement, quiet), 300).splitlines()


def details(**more: Any) -> list[str]:
    """What stands below the name of the one check."""
    found = lines(check(**more))
    return [line.removeprefix("  ") for line in found[found.index("norm@h100") + 1 :]]


# --- the table of checks ---------------------------------------------------------------------


def test_each_check_has_a_line_and_their_names_a_column() -> None:
    checks = [check("a", "pass", reason="kept"), check("longer", "fail"), check("b", "unsure")]
    assert lines(*checks, check("c", "fault", reason="", fault="no torch")) == [
        "FAIL  1 failed",
        "",
        "  PASS    a       kept",
        "  FAIL    longer  loads 1 → 2",
        "  UNSURE  b       loads 1 → 2",
        "  ERROR   c       no torch",
    ]


def test_quiet_leaves_out_what_passes_and_all_details() -> None:
    broken = check(limits=(result("broken", "loads 1 → 2, at most +0"),))
    quiet = lines(check("passing", "pass"), broken, quiet=True, warnings=("it is old",))
    assert quiet == ["FAIL  1 failed", "  FAIL    norm@h100  loads 1 → 2"]


def test_a_gate_of_nothing_is_one_line() -> None:
    assert lines(outcome="pass", reason="no checks") == ["PASS  no checks"]


def test_that_times_are_missing_stands_above_the_verdict() -> None:
    told = f"{NO_TIMES} a are missing: run perfcli baseline update"
    shown = lines(check("a", "fail", reason="bytes"), warnings=("one", told))
    assert shown[0] == f"warning: {told}"
    assert shown[1].startswith("FAIL")
    assert shown[-1] == "warning: one"
    assert shown.count(f"warning: {told}") == 1


def test_warnings_stand_last() -> None:
    assert lines(check("a", "pass", reason="kept"), warnings=("one", "two"))[-4:] == [
        "  PASS    a  kept",
        "",
        "warning: one",
        "warning: two",
    ]


@pytest.mark.parametrize(
    ("root", "place"), [("/repo", "norm.py:3"), ("/repo/", "norm.py:3"), ("", "/repo/norm.py:3")]
)
def test_paths_are_relative_to_the_root(root: str, place: str) -> None:
    assert lines(check(reason="at /repo/norm.py:3"), root=root)[2] == (
        f"  FAIL    norm@h100  at {place}"
    )


# --- the heading of a check ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (None, ""),
        (Provenance("baseline", "b.toml"), ", against b.toml"),
        (Provenance("baseline", "b.toml", "2026-11-22"), ", against b.toml of 2026-11-22"),
        (Provenance("baseline", "b.toml", reason="first"), ", against b.toml (first)"),
        (
            Provenance("baseline", "b.toml", "2026-11-22", "first"),
            ", against b.toml of 2026-11-22 (first)",
        ),
    ],
)
def test_a_check_says_what_it_is_held_against(source: Provenance | None, text: str) -> None:
    found = lines(check(limits=(result("broken", "x"),), provenance=source))
    assert f"norm@h100{text}" in found


def test_a_check_without_details_has_no_heading() -> None:
    assert (
        lines(check(comparison=None))
        == lines(check())
        == [
            "FAIL  1 failed",
            "",
            "  FAIL    norm@h100  loads 1 → 2",
        ]
    )


# --- the details -----------------------------------------------------------------------------


def test_limits_stand_by_state_with_the_cause_first() -> None:
    cause = result("broken", "graph breaks")
    cause = replace(cause, limit=Limit("graph_breaks", growth=0), origin=PLACE)
    assert cause.is_cause
    found = details(
        limits=(
            result("unknown", "peak memory"),
            result("kept", "kernels"),
            result("better", "stores"),
            result("allowed", "loads", allowance=KNOWN),
            result("broken", "bytes"),
            cause,
        )
    )
    assert found == [
        "broken: graph breaks",
        "  /repo/norm.py:14  print(x)",
        "broken: bytes",
        "allowed: loads",
        "  known for long (ann)",
        "not known: peak memory",
    ]


@pytest.mark.parametrize(
    ("location", "code", "line"),
    [
        ("a.py:3", "x()", ["  a.py:3  x()"]),
        ("a.py:3", "", ["  a.py:3"]),
        ("", "x()", ["  x()"]),
        ("", "", []),
    ],
)
def test_a_place_is_what_is_known_of_it(location: str, code: str, line: list[str]) -> None:
    place = Origin("", "", location=location, code=code)
    assert details(limits=(result("broken", "bytes", origin=place),)) == ["broken: bytes", *line]


def with_totals(*changes: Change) -> Comparison:
    return replace(unchanged(), totals=changes)


def test_what_got_better_is_said_where_the_check_does_not_pass() -> None:
    better = with_totals(
        Change("bytes_moved", 2000, 1000, "better"),
        Change("spilled_words", 4, 0, "better"),
        Change("loads", 4, 3, "better"),  # weighs nothing
        Change("kernels", 4, 5, "worse"),
    )
    said = "better: bytes moved 2 kB → 1 kB, spilled words 4 → 0"
    assert details(comparison=better) == [said]
    assert not any("better" in line for line in lines(check("a", "pass", comparison=better)))
    assert any("better" in line for line in lines(check("a", "unsure", comparison=better)))
    worse = with_totals(Change("loads", 4, 3, "better"))
    assert not any("better" in line for line in lines(check(comparison=worse)))


@pytest.mark.parametrize(
    ("more", "states", "expected"),
    [
        ({}, (), ["doubt: PC101 it spills"]),
        ({"severity": "error"}, (), ["doubt: PC101 it spills"]),
        ({"severity": "info"}, (), []),
        ({"severity": "info"}, (FindingResult(0, "allowed"),), ["allowed: PC101 it spills"]),
        ({"severity": "info", "code": "PC801"}, (), ["note: PC801 it spills"]),
        ({"severity": "info", "code": "PC810"}, (), []),
        ({"severity": "warning", "code": "PC801"}, (), ["doubt: PC801 it spills"]),
        ({"explained_by": "PC102"}, (), []),
        ({"explained_by": "PC102"}, (FindingResult(0, "broken"),), ["broken: PC101 it spills"]),
        ({"appearance": "same"}, (), []),
        ({"appearance": "same"}, (FindingResult(0, "broken"),), []),
        ({"appearance": "worse"}, (), ["doubt: PC101 it spills"]),
        ({}, (FindingResult(0, "broken"),), ["broken: PC101 it spills"]),
        ({}, (FindingResult(0, "allowed", KNOWN),), ["allowed: PC101 it spills"]),
        (
            {"origin": PLACE, "advice": "split it"},
            (),
            ["doubt: PC101 it spills", "  /repo/norm.py:14  print(x)", "  split it"],
        ),
    ],
)
def test_findings_that_came_are_listed_with_their_state(
    more: dict[str, Any], states: tuple[FindingResult, ...], expected: list[str]
) -> None:
    given: dict[str, Any] = {"code": "PC101", "severity": "warning", "appearance": "new", **more}
    finding = Finding(headline="it spills", **given)
    comparison = replace(unchanged(), findings=(finding,))
    heading = ["", "norm@h100"] if expected else []
    assert lines(check(comparison=comparison, findings=states)) == [
        *lines(check()),
        *heading,
        *(f"  {line}" for line in expected),
    ]


# --- kernels ---------------------------------------------------------------------------------


def test_kernels_that_are_not_the_same_are_listed() -> None:
    base = [
        kernel("same_0", "mul"),
        kernel("gone_1", "add"),
        kernel("kept_2", "sub"),
        kernel("old_3", "div"),
        kernel("x_4", "exp"),
        kernel("y_5", "neg"),
    ]
    head = [
        kernel("same_0", "mul"),
        kernel("kept_2", "sub", text="changed"),
        kernel("young_3", "div", text="changed too"),
        kernel("xy_4", "exp", "neg"),
        kernel("new_5", "pow"),
    ]
    assert sorted(view.kernels(compare(run(base), run(head, id="head")))) == [
        "changed: kept_2",
        "changed: old_3 → young_3",
        "fused: x_4, y_5 → xy_4",
        "gone: gone_1",
        "new: new_5",
    ]


@pytest.mark.parametrize(
    ("number", "last"),
    [
        (8, "new: k_7"),
        (9, "and 1 more group of kernels"),
        (10, "and 2 more groups of kernels"),
    ],
)
def test_at_most_eight_groups_are_listed(number: int, last: str) -> None:
    head = [kernel(f"k_{n}", f"op{n}") for n in range(number)]
    found = list(view.kernels(compare(run([]), run(head, id="head"))))
    assert found[-1] == last
    assert len(found) == min(number, 9)
