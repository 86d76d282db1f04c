"""Runs cases of a family through Triton's interpreter (``warm.WarmProcess.interpret``)."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli.handwritten.checking import _check_case, plan_case
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model.kernel_work import CheckRequest


def answer(name: str, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
    """Return of each of the family's cases the outcome, the variant and the reason."""
    return [_check(name, number) for number in numbers]


def _check(name: str, number: int) -> tuple[str, str, str]:
    family = registry.family(name)
    case = plan_case(family, family.cases[number], targets.get("h200"), "interpreter")
    request = CheckRequest(name, (case,), "interpreter", 1, 7)
    checked = _check_case(request, case, "cpu", number)
    return checked.outcome, checked.variant, checked.reason
