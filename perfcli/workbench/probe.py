"""``perfcli kernels probe``: one kernel over many launches: registers, spills, times, the cliff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

from perfcli.console import documents, output
from perfcli.console.notes import Notes, Reporter
from perfcli.errors import Interrupted, PerfcliError
from perfcli.machine import targets
from perfcli.model import Candidate, KernelFamily, KernelLaunch, Problem, Scalar, Target
from perfcli.model.kernel_work import BenchAsk, BenchRequest, Contender
from perfcli.names import internal, public, suggestion
from perfcli.stats.paired import median
from perfcli.workbench import facts, probe_view, tables
from perfcli.workbench.request import (
    KernelsOptions,
    _choose_targets,
    _find_families,
    _has_gpu,
    open_worker,
)
from perfcli.worker.roles import KernelWorker, Progress

VARIANT = "inductor"
"""Whose launch is taken where a sweep fixes nothing."""
ROUNDS, BUDGET_SECONDS = 10, 0.5
_SHAPE = {"rows": 98304, "columns": 512}
_SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


class _ProbeCode(Protocol):
    """Says what a family's ``probe`` module has."""

    SWEPT: Mapping[str, tuple[int, ...]]

    def settings(self, **chosen: Any) -> tuple[Problem, ...]:
        """Return every combination, each a problem that fixes its launch."""

    def row_of(
        self,
        problem: Problem,
        launch: KernelLaunch,
        compiled: Candidate,
        seconds: float | None,
        target: Target,
    ) -> Any: ...

    def cliffs(self, rows: Sequence[Any]) -> Sequence[Any]: ...

    def inductors(
        self, rows: Sequence[Any], columns: int, row_count: int, target: Target
    ) -> set[Any]: ...


def run(name: str | None, asked: KernelsOptions) -> int:
    """Compiles every launch, times it where the GPU is there, and says where the cliff is. Raises
    PerfcliError where the family is no probe, or a parameter is none of its."""
    asked.refuse("probe", "cases", "against", "variant", "all_variants")
    output.check_writable(asked.svg)
    ((reference, family),) = _find_families(name or "mix-order").items()
    if not family.probe:
        raise PerfcliError(f"{public(family.name)} is no probe: perfcli kernels probe mix-order")
    code = cast(_ProbeCode, import_module(family.probe))
    problems = code.settings(**_choose_settings(code, asked.params))
    target, timed = _choose_device(asked)
    with open_worker(asked) as worker:
        rows = _count_rows(code, reference, family, problems, target, asked, worker, timed)
    _show(code, rows, problems[0], target, asked)
    return 0


def _choose_device(asked: KernelsOptions) -> tuple[Target, bool]:
    """Return what launches are compiled for, and whether they are timed on it."""
    if len(asked.targets) > 1:
        raise PerfcliError("a probe looks at one --target at a time")
    if asked.device not in (None, "cuda", "cpu"):
        raise PerfcliError(f"--device is cuda or cpu, not {asked.device!r}")
    if asked.device == "cuda" and asked.targets:
        raise PerfcliError("what is timed is compiled for the GPU here: leave out --target")
    if asked.device == "cuda" and not (asked.plan_of_fake or targets.has_gpu()):
        raise PerfcliError("--device cuda needs a GPU, and there is none here: leave it out")
    here = asked.device is None and not asked.targets and _has_gpu(asked)
    return _choose_targets(asked)[0], here or asked.device == "cuda"


def _choose_settings(code: _ProbeCode, params: Sequence[str]) -> dict[str, Any]:
    """Return what ``-p`` says, by the names of the arguments of ``settings``."""
    names = {"block": "blocks", "dtype": "dtypes"}
    found: dict[str, Any] = dict(_SHAPE)
    for text in params:
        typed, equals, value = text.partition("=")
        known = [*code.SWEPT, "dtype", *_SHAPE]
        if internal(typed) not in known:
            raise PerfcliError(f"the probe has no parameter {typed!r}: {suggestion(typed, known)}")
        words = [word.strip() for word in value.split(",") if word.strip()]
        if not equals or not words:
            raise PerfcliError(
                f"a parameter is written NAME=VALUE, for example warps=2,4: {text!r}"
            )
        values = [_read_value(typed, word) for word in words]
        if typed in _SHAPE and len(values) > 1:
            raise PerfcliError(f"the probe takes one number of {typed}, not {value}")
        found[names.get(typed, typed)] = values[0] if typed in _SHAPE else tuple(values)
    return found


def _read_value(name: str, word: str) -> Scalar:
    if name == "dtype":
        return _SHORT.get(word, word)
    if not word.replace("_", "").isdecimal() or int(word) == 0:
        raise PerfcliError(f"parameter {name} needs a whole number from 1 on, not {word!r}")
    number = int(word)
    if name in ("warps", "block") and number & (number - 1):
        raise PerfcliError(f"parameter {name} needs a power of 2, not {number}")
    return number


def _count_rows(
    code: _ProbeCode,
    reference: str,
    family: KernelFamily,
    problems: Sequence[Problem],
    target: Target,
    asked: KernelsOptions,
    worker: KernelWorker,
    timed: bool,
) -> list[Any]:
    notes = Notes(asked.quiet)
    planned = facts.plan_problems(family, problems, [target], [VARIANT])
    for each in planned:
        if each.plan is None:
            raise PerfcliError(each.refusal)
    with Reporter([public(family.name)], notes) as progress:
        told = progress.count("kernels", "compiling launches")
        made = facts.compile_plans(family, reference, planned, worker, asked.jobs, told)
        seconds: dict[int, float | None] = {}
        for number, each in enumerate(made if timed else ()):
            progress(Progress(0, "warm", number, len(made), "timing launches"))
            try:
                seconds[number] = _read_seconds(family, reference, each, asked, worker, notes)
            except KeyboardInterrupt:
                raise Interrupted(f"interrupted after {number} of {len(made)} launches") from None
    return [
        code.row_of(
            each.problem, each.plan.launches[0], each.compiled[0], seconds.get(number), target
        )
        for number, each in enumerate(made)
        if each.plan is not None
    ]


def _read_seconds(
    family: KernelFamily,
    reference: str,
    planned: facts.Planned,
    asked: KernelsOptions,
    worker: KernelWorker,
    notes: Notes,
) -> float | None:
    """Return the median of the launch and the sum of its partial results; None where it was not
    timed."""
    if planned.plan is None or planned.faults:
        return None
    ask = BenchAsk(
        planned.problem,
        family.moved_bytes(planned.problem),
        (Contender("ours", planned.plan),),
        asked.rounds or ROUNDS,
        asked.budget or BUDGET_SECONDS,
    )
    try:
        found = worker.benched(BenchRequest(reference, asked.seed or 0), ask, lambda _name: None)
    except PerfcliError as error:
        notes.warn(f"not timed: {error}")
        return None
    middle = median(found.timed[0].seconds)
    return middle.value if middle else None


def _show(
    code: _ProbeCode, rows: Sequence[Any], problem: Problem, target: Target, asked: KernelsOptions
) -> None:
    own = code.inductors(rows, problem.columns, problem.rows, target)
    probed = probe_view.Probed(rows, code.cliffs(rows), own, replace(problem, settings={}), target)
    if asked.quiet:
        output.print_text("\n".join(probe_view.write_settings(probed)), asked.taken)
    else:
        output.show(probe_view._draw_report(probed), asked.taken)
    if asked.svg is not None:
        output.write_text(probe_view._draw_chart(probed), asked.svg)
    output.write_document("kernels-probe", probe_view._describe_probe(probed), asked.json)
    documents.write_table(tables.PROBED, rows, asked.written)
