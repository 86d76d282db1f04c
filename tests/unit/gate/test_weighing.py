"""A few spilled words against fewer bytes, who is to blame for a total, exceeded exceptions."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.gate.allowances import warnings
from perfcli.gate.excepting import exceeded
from perfcli.gate.judging import Policy, judge
from perfcli.gate.limits import SPILLS
from perfcli.model import Allowance, Because, Comparison, Finding, KernelFacts, Limit, Severity

cause = import_module("perfcli.reports._screen.verdict")._find_cause

A = kernel("a_0", "mul", loads=6, read=2000, written=1000)
B = kernel("b_1", "add", loads=5, read=2000, written=1000)


def of(*head: KernelFacts) -> Comparison:
    return compare(run([A, B]), run(list(head), id="head"))


def one_kernel(words: int, read: int = 1000) -> Comparison:
    return of(kernel("ab_0", "mul", "add", loads=9, stack=4 * words, read=read, written=1000))


@pytest.mark.parametrize(
    ("words", "read", "usual", "outcome"),
    [
        (2, 1000, True, "unsure"),
        (16, 1000, True, "unsure"),
        (17, 1000, True, "fail"),
        (2, 1000, False, "fail"),
        (2, 5000, True, "fail"),
    ],
)
def test_a_few_words_where_fewer_bytes_are_moved(
    words: int, read: int, usual: bool, outcome: str
) -> None:
    comparison = one_kernel(words, read)
    result = judge(comparison, Policy((SPILLS,), usual_spills=usual))
    assert result.outcome == outcome
    said = "but bytes moved 6 kB → 2 kB: can't tell which weighs more" in result.reason
    assert said == (outcome == "unsure"), result.reason


def test_where_nothing_was_added_the_kernel_that_has_most_is_named() -> None:
    spilling = [kernel("a_0", "mul", stack=8), kernel("b_1", "add", stack=4)]
    comparison = compare(run(spilling), run(spilling, id="head"))
    (result,) = judge(comparison, Policy((Limit("spilled_words", most=0),))).limits
    assert result.text == "spilled words 3, at most 0: most of it in a_0 (2)"
    (result,) = judge(comparison, Policy((Limit("kernels", most=1),))).limits
    assert result.text == "kernels 2, at most 1"


@pytest.mark.parametrize(("pattern", "value"), [("ab*", 2), ("*", 2), ("other", None)])
def test_an_exception_that_is_exceeded(pattern: str, value: float | None) -> None:
    exception = Allowance(pattern, "spilled_words", "known", "ada", "2100-01-01", most=1)
    comparison = one_kernel(2)
    assert exceeded(comparison, exception) == value
    assert exceeded(comparison, replace(exception, most=2)) is None
    assert exceeded(comparison, replace(exception, most=None)) is None
    beyond = {} if value is None else {exception: value}
    (line,) = warnings([exception], [], "2026-01-01", beyond)
    ends = (
        "excepts nothing any more: take it out"
        if value is None
        else ("is exceeded: 2, excepted up to 1")
    )
    assert line == f"exception for spilled_words of {pattern} (ada: known) {ends}"


def finding(code: str, severity: Severity, *kernels: int) -> Finding:
    return Finding(code, severity, code, kernels, appearance="new")


def test_new_kernels_are_no_cause() -> None:
    more = [A, B, *(kernel(f"n_{n}", f"exp_{n}", read=10**6 * (n + 1)) for n in range(3))]
    comparison = of(*more)
    assert comparison.because is not None
    assert comparison.because.sums.endswith("; one of 3 new kernels")
    names, breaks = finding("PC801", "info", 2, 3, 4), finding("PC402", "warning")
    assert cause(replace(comparison, findings=(names, breaks))) == breaks
    assert cause(replace(comparison, findings=(names,))) is None
    own = finding("PC104", "info", 4)
    assert cause(replace(comparison, findings=(breaks, own, names))) == breaks
    assert cause(replace(comparison, findings=(own, names))) == own
    assert isinstance(comparison.because, Because)
