"""What findings do where they never fail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.gate.judging import Policy, _settle, judge
from perfcli.model import Comparison, Finding, Severity


def better_with_a_warning() -> Comparison:
    head = kernel("a_0", "mul", read=100, text="less")
    comparison = compare(run([kernel("a_0", "mul")]), run([head], id="head"))
    found = Finding("PC205", "warning", "it is slow", (0,), appearance="new")
    return replace(comparison, findings=(found,))


@pytest.mark.parametrize(
    ("fail_on", "outcome"),
    [(None, "pass"), ("error", "unsure"), ("warning", "unsure"), ("info", "unsure")],
)
def test_a_warning_is_no_doubt_where_findings_never_fail(
    fail_on: Severity | None, outcome: str
) -> None:
    result = judge(better_with_a_warning(), Policy((), fail_on=fail_on))
    assert (result.outcome, _settle(result).outcome) == (outcome, outcome)
