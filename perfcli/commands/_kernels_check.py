"""``perfcli kernels check``: which cases, where they run, and what is said of each."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perfcli import units
from perfcli.commands._kernels_problems import named, problems
from perfcli.errors import PerfcliError
from perfcli.handwritten import planning
from perfcli.model import Case, KernelFamily, Target
from perfcli.model.kernel_work import CheckedCase, CheckRequest, OutputError, PlannedCase, Runner
from perfcli.names import public
from perfcli.worker.kernel_worker import KernelWorker

LISTED = 3
"""Scaled cases that are named; JSON has all."""


@dataclass(frozen=True, slots=True)
class Checking:
    """What is run, and on what."""

    reference: str
    """The family's name, or its file."""
    family: KernelFamily
    cases: tuple[PlannedCase, ...]
    target: Target
    runner: Runner


@dataclass(slots=True)
class Checked:
    """What came of it, by case number."""

    checking: Checking
    found: dict[int, CheckedCase] = field(default_factory=dict)

    def count(self, *outcomes: str) -> int:
        return sum(checked.outcome in outcomes for checked in self.found.values())

    @property
    def exit_code(self) -> int:
        return 1 if self.count("wrong", "failed") else 0


def cases_of(
    family: KernelFamily, params: Sequence[str], variant: str | None, wanted: Sequence[str]
) -> list[Case]:
    """The family's cases, or one for each problem that ``-p`` makes; of them those of a variant,
    and those whose label has all words of one of ``wanted``.

    Raises:
        PerfcliError: none is left.
    """
    cases = [Case(p) for p in problems(family, params)] if params else list(family.cases)
    if variant is not None:
        cases = [replace(c, variant=variant) for c in cases if c.variant in (None, variant)]
    if wanted:
        cases = [case for case in cases if any(_matches(label(case), text) for text in wanted)]
    if not cases:
        asked = ", ".join(repr(text) for text in wanted) or f"variant {variant}"
        example = label(family.cases[0]) if family.cases else "none"
        raise PerfcliError(
            f"no case of {public(family.name)} is like {asked}: a case reads {example!r}"
        )
    return _distinct(cases)


def _distinct(cases: Sequence[Case]) -> list[Case]:
    found: dict[str, Case] = {}
    for case in cases:
        found.setdefault(label(case), case)
    return list(found.values())


def label(case: Case) -> str:
    """``softmax 7 × 192 bfloat16 split nan padded-rows``."""
    special = [case.variant or ""]
    special += [case.data if case.data != "normal" else ""]
    special += [case.layout if case.layout != "contiguous" else ""]
    return " ".join([named(case.problem), *(word for word in special if word)])


def _matches(text: str, words: str) -> bool:
    text = text.replace(" × ", "x").lower()
    words = words.replace(" × ", "x").replace("×", "x").lower()
    return all(word in text for word in words.split())


def planned(
    reference: str, family: KernelFamily, cases: Sequence[Case], target: Target, runner: Runner
) -> Checking:
    plans = tuple(planning.planned(family, case, target, runner) for case in cases)
    return Checking(reference, family, plans, target, runner)


def run(
    checking: Checking,
    worker: KernelWorker,
    jobs: int | None,
    seed: int,
    told: Callable[[Checked], None],
) -> Checked:
    """``told`` hears after each case.

    Raises:
        PerfcliError: every case was refused: nothing was checked.
    """
    found = Checked(checking)
    request = CheckRequest(
        checking.reference,
        checking.cases,
        checking.runner,
        jobs or len(os.sched_getaffinity(0)),
        seed,
    )
    for number, checked in worker.checked(request):
        found.found[number] = checked
        told(found)
    if not found.count("right", "wrong", "failed"):
        reasons = {checked.reason for checked in found.found.values()}
        raise PerfcliError(
            f"nothing of {public(checking.family.name)} was checked, every case is refused: "
            f"{'; '.join(sorted(reasons)) or 'there are none'}"
        )
    return found


# --- what is said -------------------------------------------------------------------------------


def lines(found: Checked) -> list[str]:
    """A line for each failure, what was not run as the family says, and the sum."""
    checking = found.checking
    failures = [
        failure(checking.cases[number], found.found[number])
        for number in sorted(found.found)
        if found.found[number].outcome in ("wrong", "failed")
    ]
    return [*failures, *_fallbacks(found), *_refusals(found), *_scaled(found), summary(found)]


def failure(planned: PlannedCase, checked: CheckedCase) -> str:
    case = label(planned.case)
    ran = f" · {checked.variant}" if checked.variant not in ("", planned.case.variant) else ""
    if checked.outcome == "failed":
        return f"FAILED {case}{ran}: {checked.reason}"
    outputs = "; ".join(_output(error) for error in checked.outputs if not error.is_right)
    return f"WRONG  {case}{ran}: {outputs}"


def _output(error: OutputError) -> str:
    if error.problem:
        return f"{error.name} {error.problem}"
    place = ", ".join(map(str, error.where))
    how = "" if error.error is None else f", error {error.error:.3g}"
    allowed = "" if error.allowed is None else f", tolerance {error.allowed:.3g}"
    return (
        f"{error.name}[{place}] is {error.value}, expected {error.expected}{how}{allowed} "
        f"({error.wrong:,} of {units.plural(error.elements, 'element')})"
    )


def _fallbacks(found: Checked) -> list[str]:
    reasons = [
        each.plan.instead_of
        for each in found.checking.cases
        if each.plan is not None and each.plan.instead_of
    ]
    return [f"fell back in {_cases(n)}: {reason}" for reason, n in _alike(reasons)]


def _refusals(found: Checked) -> list[str]:
    reasons = [each.reason for each in found.found.values() if each.outcome == "refused"]
    return [f"refused in {_cases(n)}: {reason}" for reason, n in _alike(reasons)]


def _alike(reasons: Sequence[str]) -> list[tuple[str, int]]:
    """Reasons that differ in numbers alone are one: its first, and how many."""
    first: dict[str, str] = {}
    counted: Counter[str] = Counter()
    for reason in reasons:
        shape = re.sub(r"\d[\d,.]*", "#", reason)
        counted[shape] += 1
        first.setdefault(shape, reason)
    return [(first[shape], number) for shape, number in counted.items()]


def _scaled(found: Checked) -> list[str]:
    scaled = [
        f"{label(each.case)} (of {each.rows_asked:,} rows)"
        for each in found.checking.cases
        if each.rows_asked is not None
    ]
    if not scaled:
        return []
    rest = [f"and {len(scaled) - LISTED:,} more"] if len(scaled) > LISTED else []
    listed = "; ".join([*scaled[:LISTED], *rest])
    return [f"fewer rows for the interpreter in {_cases(len(scaled))}: {listed}"]


def summary(found: Checked) -> str:
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
    return f"{public(checking.family.name)}: {_cases(len(found.found))} {where}: {', '.join(parts)}"


def _cases(number: int) -> str:
    return units.plural(number, "case")


def document(found: Checked) -> dict[str, object]:
    checking = found.checking
    return {
        "family": public(checking.family.name),
        "target": checking.target.name,
        "runner": checking.runner,
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
