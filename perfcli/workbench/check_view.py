"""Renders ``perfcli kernels check``: failures, cases not run as the family says, and the sum."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from perfcli import units
from perfcli.model.kernel_work import CheckedCase, OutputError, PlannedCase
from perfcli.names import public
from perfcli.workbench.check import CaseResults, _write_label

_LISTED = 3
"""Scaled cases that are named; JSON has all."""


def _describe_cases(found: CaseResults) -> list[str]:
    """Return a line for each failure, for what was not run as the family says, and the sum."""
    checking = found.checking
    failures = [
        _write_failure(checking.cases[number], found.found[number])
        for number in sorted(found.found)
        if found.found[number].outcome in ("wrong", "failed")
    ]
    return [
        *failures,
        *_list_fallbacks(found),
        *_list_refusals(found),
        *_list_scaled(found),
        _sum_up_cases(found),
    ]


def _write_failure(planned: PlannedCase, checked: CheckedCase) -> str:
    case = _write_label(planned.case)
    ran = f" · {checked.variant}" if checked.variant not in ("", planned.case.variant) else ""
    if checked.outcome == "failed":
        return f"FAILED {case}{ran}: {checked.reason}"
    outputs = "; ".join(_write_output(error) for error in checked.outputs if not error.is_right)
    return f"WRONG  {case}{ran}: {outputs}"


def _write_output(error: OutputError) -> str:
    if error.problem:
        return f"{error.name} {error.problem}"
    place = ", ".join(map(str, error.where))
    how = "" if error.error is None else f", error {error.error:.3g}"
    allowed = "" if error.allowed is None else f", tolerance {error.allowed:.3g}"
    return (
        f"{error.name}[{place}] is {error.value}, expected {error.expected}{how}{allowed} "
        f"({error.wrong:,} of {units.plural(error.elements, 'element')})"
    )


def _list_fallbacks(found: CaseResults) -> list[str]:
    reasons = [
        each.plan.instead_of
        for each in found.checking.cases
        if each.plan is not None and each.plan.instead_of
    ]
    return [f"fell back in {_count_cases(n)}: {reason}" for reason, n in _join_alike(reasons)]


def _list_refusals(found: CaseResults) -> list[str]:
    reasons = [each.reason for each in found.found.values() if each.outcome == "refused"]
    return [f"refused in {_count_cases(n)}: {reason}" for reason, n in _join_alike(reasons)]


def _join_alike(reasons: Sequence[str]) -> list[tuple[str, int]]:
    """Return reasons that differ only in numbers as one: its first, and how many."""
    first: dict[str, str] = {}
    counted: Counter[str] = Counter()
    for reason in reasons:
        shape = re.sub(r"\d[\d,.]*", "#", reason)
        counted[shape] += 1
        first.setdefault(shape, reason)
    return [(first[shape], number) for shape, number in counted.items()]


def _list_scaled(found: CaseResults) -> list[str]:
    scaled = [
        f"{_write_label(each.case)} (of {each.rows_asked:,} rows)"
        for each in found.checking.cases
        if each.rows_asked is not None
    ]
    if not scaled:
        return []
    rest = [f"and {len(scaled) - _LISTED:,} more"] if len(scaled) > _LISTED else []
    listed = "; ".join([*scaled[:_LISTED], *rest])
    return [f"fewer rows for the interpreter in {_count_cases(len(scaled))}: {listed}"]


def _sum_up_cases(found: CaseResults) -> str:
    checking = found.checking
    where = (
        f"on {checking.target.description}"
        if checking.runner == "gpu"
        else f"through Triton's interpreter, planned for {checking.target.name}"
    )
    parts = [f"{units.count(found.count('right'))} right"]
    parts += [
        f"{units.count(found.count(outcome))} {outcome}"
        for outcome in ("wrong", "failed", "refused")
        if found.count(outcome)
    ]
    number = _count_cases(len(found.found))
    if len(checking.cases) < checking.known:
        number = f"{units.count(len(found.found))} of {_count_cases(checking.known)}"
    return f"{public(checking.family.name)}: {number} {where}: {', '.join(parts)}"


def _count_cases(number: int) -> str:
    return units.plural(number, "case")


def _document_cases(found: CaseResults) -> dict[str, object]:
    checking = found.checking
    return {
        "family": public(checking.family.name),
        "target": checking.target.name,
        "runner": checking.runner,
        "known_cases": checking.known,
        "cases": [
            {
                "case": checking.cases[number].case,
                "rows_asked": checking.cases[number].rows_asked,
                "plan": checking.cases[number].plan,
                "checked": found.found[number],
            }
            for number in sorted(found.found)
        ],
    }
