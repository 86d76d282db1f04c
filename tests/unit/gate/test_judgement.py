"""All checks of a gate together: outcome, exit code, and what to know besides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import kernel, run
from handmade_estimate import weighed_kernel, weighed_run

from perfcli.diff.compare import compare
from perfcli.gate.checks import Check
from perfcli.gate.config import Config
from perfcli.gate.judgement import (
    NO_TIMES,
    _broken,
    _exceeded,
    _means_one,
    _of_check,
    _of_estimates,
    _patterns_of_none,
    _place,
    _reason,
    _warnings,
    judge_all,
    say_where_to_look,
)
from perfcli.gate.request import CheckResult, GateRequest
from perfcli.model import (
    Allowance,
    Comparison,
    Finding,
    FindingResult,
    Judged,
    Limit,
    LimitResult,
    Provenance,
)

LOADS = Limit("loads", growth=0)
UPDATE = 'perfcli baseline update a@h100 --reason "…"'
OURS = Provenance("baseline", "b.toml", "2026-11-01", "first")


def compared() -> Comparison:
    base, head = (run([kernel("norm_0", "mul", loads=n, text=f"{n}")], id=f"{n}") for n in (1, 3))
    return compare(base, head)


def judged(name: str = "a@h100", outcome: Any = "pass", **more: Any) -> Judged:
    return Judged(name, outcome, **{"reason": "kept", "comparison": compared(), **more})


def limit(state: Any, text: str = "loads 1 → 3", of: Limit = LOADS) -> LimitResult:
    return LimitResult(of, state, 1, 3, 1, text=text)


def done(judged: Judged, exit_code: int = 0, *used: Allowance) -> CheckResult:
    return CheckResult(judged, exit_code, None, frozenset(used))


def check(name: str = "a@h100", *limits: Limit) -> Check:
    return Check(name, "norm", {}, None, "h100", None, False, {}, limits)


def order(*checks: Check, today: str = "2026-11-22", **more: Any) -> GateRequest:
    config = Config(Path("/p/perfcli.toml"), Path("/p/b.toml"), checks or (check(),), **more)
    return GateRequest(config, None, (), today=today)  # type: ignore[arg-type]


# --- all together ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0], 0),
        ([0, 3], 3),
        ([3, 1], 1),
        ([1, 4], 4),
        ([4, 2], 2),
        ([0, 130, 1], 130),  # what is not one of these is the gravest
    ],
)
def test_the_gravest_exit_code_is_that_of_all(codes: list[int], code: int) -> None:
    checks = [done(judged(), each) for each in codes]
    assert judge_all(checks, order(), "perfcli gate", Path("/p")).exit_code == code


def test_the_order_of_exit_codes() -> None:
    assert [_place(code) for code in (2, 4, 1, 3, 0, 7)] == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize(
    ("outcomes", "outcome", "reason"),
    [
        (["pass"], "pass", "1 check: 1 passed"),
        (["pass", "unsure"], "unsure", "2 checks: 1 unsure, 1 passed"),
        (["unsure", "fail", "fail"], "fail", "3 checks: 2 failed, 1 unsure"),
        (["fail", "fault"], "fault", "2 checks: 1 failed, 1 could not be judged"),
    ],
)
def test_the_outcome_of_all(outcomes: list[Any], outcome: str, reason: str) -> None:
    checks = [done(judged(outcome=each)) for each in outcomes]
    made = judge_all(checks, order(on_unsure="pass"), "perfcli gate a", Path("/p"))
    assert made.reason == reason == _reason(outcomes)
    assert [each.outcome for each in made.checks] == outcomes
    assert (made.command, made.root, made.configuration) == (
        "perfcli gate a",
        "/p",
        "/p/perfcli.toml",
    )
    assert made.outcome == outcome


# --- exceptions ------------------------------------------------------------------------------


def allowance(kernel: str = "*", limit: str = "loads", **more: Any) -> Allowance:
    return Allowance(kernel, limit, "known", "me", **{"expires": "2026-12-31", **more})


UNUSED = "exception for loads of * (me: known) excepts nothing any more: take it out"


def test_an_exception_that_nobody_needs_is_warned_of_where_all_were_judged() -> None:
    known = allowance()
    asked = order(allowances=(known,))
    assert list(_warnings([done(judged())], asked)) == [UNUSED]
    assert list(_warnings([done(judged(), 0, known)], asked)) == []
    assert list(_warnings([done(judged(outcome="fault"))], asked)) == []
    two = order(check(), check("b@h100"), allowances=(known,))
    assert list(_warnings([done(judged())], two)) == []
    expired = order(today="2027-01-01", allowances=(known,))
    for outcome in ("pass", "fault"):
        (said,) = _warnings([done(judged(outcome=outcome))], expired)
        assert "expired on 2026-12-31" in said


def test_an_exception_that_is_exceeded_says_by_what() -> None:
    small, other = allowance(most=2), allowance(limit="stores", most=0)
    fails = done(judged(outcome="fail", limits=(limit("broken"),)))
    asked = order(allowances=(small, other))
    assert _exceeded([fails], asked.config) == {small: 3}
    assert next(iter(_warnings([fails], asked))) == (
        "exception for loads of * (me: known) is exceeded: 3, excepted up to 2"
    )
    kept = done(judged(limits=(limit("kept"),)))
    assert _exceeded([kept], asked.config) == {}
    assert _exceeded([done(judged(comparison=None))], asked.config) == {}
    enough = order(allowances=(allowance(most=3),))
    assert _exceeded([fails], enough.config) == {}


def test_what_fails_a_check() -> None:
    findings = tuple(
        Finding(code, "warning", "it", (0,), appearance="new") for code in ("PC101", "PC102")
    )
    comparison = replace(compared(), findings=findings)
    results = (FindingResult(0, "allowed"), FindingResult(1, "broken"))
    stores = Limit("stores", growth=0)
    made = judged(
        comparison=comparison,
        findings=results,
        limits=(limit("broken"), limit("kept", of=stores)),
    )
    assert _broken(made) == {"PC102", "loads"}


# --- patterns --------------------------------------------------------------------------------


def test_a_pattern_that_means_no_kernel_is_warned_of_once() -> None:
    limits = (Limit("loads", "gone_*", most=3), Limit("stores", "gone_*", most=3), LOADS)
    everything = Limit("loads", "*", most=3)
    checks = (check("a@h100", *limits, everything), check("b@h100", *limits))
    results = [done(judged("a@h100")), done(judged("b@h100"))]
    said = 'the limits of kernels."gone_*" hold nothing: no kernel of a@h100, b@h100 is called so'
    assert list(_patterns_of_none(results, order(*checks).config)) == [said]
    assert list(_warnings(results, order(*checks))) == [said]
    named = (check("a@h100", Limit("loads", "norm", most=3)), check("b@h100", *limits))
    (only,) = _patterns_of_none(results, order(*named).config)
    assert "no kernel of b@h100 is called so" in only


def test_a_pattern_means_a_kernel_of_either_side() -> None:
    gone = Limit("loads", "gone_*", most=3)
    assert not _means_one(judged(), "gone_*")
    assert _means_one(judged(), "norm_*")
    assert _means_one(judged(limits=(limit("kept", of=gone),)), "gone_*")
    assert not _means_one(judged(limits=(limit("kept", of=gone),)), "other_*")
    assert _means_one(judged(comparison=None), "gone_*")


# --- one check -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_unsure", "outcome", "said"),
    [
        ("warn", "unsure", ["a@h100 is unsure: kept"]),
        ("pass", "unsure", []),
        ("fail", "unsure", []),
        ("warn", "fail", []),
    ],
)
def test_an_unsure_check_is_warned_of(on_unsure: Any, outcome: str, said: list[str]) -> None:
    assert list(_of_check(judged(outcome=outcome), order(on_unsure=on_unsure))) == said


BETTER = f"a@h100 is better than the baseline (loads 3 → 1): take it over with {UPDATE}"


@pytest.mark.parametrize(
    ("outcome", "states", "source", "said"),
    [
        ("pass", ["kept", "better", "better"], OURS, [BETTER]),
        ("pass", ["kept"], OURS, []),
        ("fail", ["better"], OURS, []),
        ("pass", ["better"], None, []),
        ("pass", ["better"], replace(OURS, kind="revision"), []),
    ],
)
def test_better_numbers_are_to_be_taken_over(
    outcome: str, states: list[str], source: Provenance | None, said: list[str]
) -> None:
    texts = ("first", "loads 3 → 1, at most +0", "second")
    limits = tuple(map(limit, states, texts))
    made = judged(outcome=outcome, limits=limits, provenance=source)
    assert list(_of_check(made, order())) == said


@pytest.mark.parametrize(("today", "old"), [("2026-11-08", False), ("2026-11-09", True)])
def test_an_old_baseline_is_to_be_renewed(today: str, old: bool) -> None:
    said = list(_of_check(judged(provenance=OURS), order(today=today, max_age_days=7)))
    text = f"the baseline of a@h100 is 8 days old (of 2026-11-01, first): renew it with {UPDATE}"
    assert said == ([text] if old else [])


def test_where_to_look_is_said_of_what_did_not_pass() -> None:
    class Notes:
        said: list[str] = []  # noqa: RUF012

        def say(self, text: str) -> None:
            self.said.append(text)

    class Head:
        reference = "a1b2"

    checks = [
        CheckResult(judged(outcome, outcome), 0, Head())  # type: ignore[arg-type]
        for outcome in ("pass", "fail", "unsure", "fault")
    ]
    say_where_to_look([*checks, CheckResult(judged("x", "fail"), 1)], Notes())  # type: ignore[arg-type]
    assert Notes.said == ["fail: perfcli explain a1b2", "unsure: perfcli explain a1b2"]


# --- estimated times -------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "warned"), [("other", True), ("the same", False)])
def test_a_baseline_without_estimated_times_is_said_where_kernels_changed(
    text: str, warned: bool
) -> None:
    base = run([kernel("triton_poi_fused_neg_1", "2", text="the same", sizes={"x": 4096})])
    head = weighed_run(weighed_kernel("triton_poi_fused_neg_1", "2", text=text), id="head")
    found = compare(base, head)
    check = judged(comparison=found, provenance=OURS)
    lines = list(_of_estimates(check, order(today="2026-11-02")))
    assert [UPDATE in line and "counts decide" in line for line in lines] == [True] * warned
    assert all(line.startswith(NO_TIMES) for line in lines)
    assert list(_of_check(check, order(today="2026-11-02"))) == []
