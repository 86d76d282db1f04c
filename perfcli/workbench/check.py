"""``perfcli kernels check``: which cases, where they run, and what is said of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perfcli.errors import PerfcliError
from perfcli.handwritten import checking as planning
from perfcli.model import Case, KernelFamily, Target
from perfcli.model.kernel_work import CheckedCase, CheckRequest, PlannedCase, Runner
from perfcli.names import public
from perfcli.workbench.problems import _list_problems, write_problem
from perfcli.worker.roles import KernelWorker

FEW_CASES = 20
"""A family with no more than these is checked as a whole."""


@dataclass(frozen=True, slots=True)
class _Checking:
    """Says what is run, and on what."""

    reference: str
    """The family's name, or its file."""
    family: KernelFamily
    cases: tuple[PlannedCase, ...]
    target: Target
    runner: Runner
    known: int
    """How many cases there are to choose from."""


@dataclass(slots=True)
class CaseResults:
    """Says what came of it, by case number."""

    checking: _Checking
    found: dict[int, CheckedCase] = field(default_factory=dict)

    def count(self, *outcomes: str) -> int:
        return sum(checked.outcome in outcomes for checked in self.found.values())

    @property
    def exit_code(self) -> int:
        return 1 if self.count("wrong", "failed") else 0


def _choose_cases(
    family: KernelFamily, params: Sequence[str], variant: str | None, wanted: Sequence[str]
) -> list[Case]:
    """Return the family's cases, or one for each problem that ``-p`` makes; of them those of a
    variant, and those whose label has all words of one of ``wanted``. Raises PerfcliError where
    none is left."""
    cases = [Case(p) for p in _list_problems(family, params)] if params else list(family.cases)
    if variant is not None:
        cases = [replace(c, variant=variant) for c in cases if c.variant in (None, variant)]
    if wanted:
        cases = [
            case for case in cases if any(_matches(_write_label(case), text) for text in wanted)
        ]
    if not cases:
        asked = ", ".join(repr(text) for text in wanted) or f"variant {variant}"
        example = _write_label(family.cases[0]) if family.cases else "none"
        raise PerfcliError(
            f"no case of {public(family.name)} is like {asked}: a case reads {example!r}"
        )
    return _drop_repeated(cases)


def _drop_repeated(cases: Sequence[Case]) -> list[Case]:
    found: dict[str, Case] = {}
    for case in cases:
        found.setdefault(_write_label(case), case)
    return list(found.values())


def _write_label(case: Case) -> str:
    """Return ``softmax 7 × 192 bfloat16 split nan padded-rows``."""
    special = [case.variant or ""]
    special += [case.data if case.data != "normal" else ""]
    special += [case.layout if case.layout != "contiguous" else ""]
    return " ".join([write_problem(case.problem), *(word for word in special if word)])


def _matches(text: str, words: str) -> bool:
    text = text.replace(" × ", "x").lower()
    words = words.replace(" × ", "x").replace("×", "x").lower()
    return all(word in text for word in words.split())


def _plan(
    reference: str,
    family: KernelFamily,
    cases: Sequence[Case],
    target: Target,
    runner: Runner,
    smoke: bool = False,
) -> _Checking:
    """Plan these cases; with ``smoke`` no more of them than show each thing once."""
    plans = tuple(planning.plan_case(family, case, target, runner) for case in cases)
    chosen = _choose_smoke(plans) if smoke else plans
    return _Checking(reference, family, chosen, target, runner, len(plans))


def _choose_smoke(cases: Sequence[PlannedCase]) -> tuple[PlannedCase, ...]:
    """Return a few small cases that have each operation by each variant that computes it, and each
    dtype, layout and kind of data; all of them where there are few."""
    if len(cases) <= FEW_CASES:
        return tuple(cases)
    seen: set[tuple[str, ...]] = set()
    chosen: set[int] = set()
    for number in sorted(range(len(cases)), key=lambda n: cases[n].case.problem.elements):
        shown = _list_traits(cases[number])
        if not shown <= seen:
            seen |= shown
            chosen.add(number)
    return tuple(case for number, case in enumerate(cases) if number in chosen)


def _list_traits(planned: PlannedCase) -> set[tuple[str, ...]]:
    case, plan = planned.case, planned.plan
    return {
        ("variant", case.problem.operation, plan.variant if plan else "refused"),
        ("data", case.data),
        ("layout", case.layout),
        ("dtype", case.problem.dtype),
    }


def _run(
    found: CaseResults,
    worker: KernelWorker,
    jobs: int | None,
    seed: int,
    told: Callable[[CaseResults], None],
    compiling: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Fills ``found``. ``told`` hears after each case, ``compiling`` of what is compiled ahead.
    Raises PerfcliError where every case was refused: nothing was checked."""
    checking = found.checking
    request = CheckRequest(
        checking.reference,
        checking.cases,
        checking.runner,
        jobs or len(os.sched_getaffinity(0)),
        seed,
        checking.target if checking.runner == "gpu" else None,
    )
    for number, checked in worker.checked(request, compiling):
        found.found[number] = checked
        told(found)
    if not found.count("right", "wrong", "failed"):
        reasons = {checked.reason for checked in found.found.values()}
        raise PerfcliError(
            f"nothing of {public(checking.family.name)} was checked, every case is refused: "
            f"{'; '.join(sorted(reasons)) or 'there are none'}"
        )
