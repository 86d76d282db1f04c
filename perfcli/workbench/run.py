"""``perfcli kernels``: from options to families, plans and workers, and on to what is shown."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from perfcli import units
from perfcli.console import documents, output
from perfcli.console.notes import Notes, Reporter
from perfcli.errors import Interrupted, PerfcliError
from perfcli.machine import targets
from perfcli.model import KernelFamily, Target
from perfcli.names import public
from perfcli.workbench import check as check_cases
from perfcli.workbench import check_view, facts, tables, view
from perfcli.workbench.check import CaseResults
from perfcli.workbench.problems import _find_variant, _list_problems
from perfcli.workbench.request import (
    KernelsOptions,
    _choose_targets,
    _find_families,
    _has_gpu,
    open_worker,
)
from perfcli.worker.roles import KernelWorker, Progress
from perfcli.workflow.request import DEFAULT_TARGET

# --- show ---------------------------------------------------------------------------------------


def show(first: str | None, second: str | None, asked: KernelsOptions) -> int:
    """Show the list, or one family, with what its launches are made of where a target or a name
    says so."""
    if second is not None:
        raise PerfcliError(f"kernels {first}: expected check, bench or probe before {second!r}")
    asked.refuse(
        "kernels", "cases", "every_case", "against", "rounds", "budget", "svg", "seed", "device"
    )
    found = _find_families(first)
    if first is None and not asked.targets:
        asked.refuse("the list", "params", "variant", "all_variants")
        described = [view._document_family(family) for family in found.values()]
        output.write_document("kernels-families", {"families": described}, asked.json)
        documents.write_table(tables.FAMILIES, found.values(), asked.written)
        output.show(view._list_families(list(found.values())), asked.taken)
        return 0
    if first is None:
        asked.refuse("all families", "params", "variant", "all_variants")
    chosen = _choose_targets(asked)
    notes, faults, document = Notes(asked.quiet), 0, []
    rows: list[tables.LaunchRow] = []
    with open_worker(asked) as worker:
        for reference, family in found.items():
            planned = _compile_launches(reference, family, chosen, asked, worker, notes)
            faults += sum(len(each.faults) for each in planned)
            document += view._document_launches(family, planned)
            rows += tables.list_launches(family, planned)
            detail = view._detail_family if first else view._head_family
            if not asked.quiet:
                output.show(detail(family), asked.taken)
                output.show(view._show_facts(planned), asked.taken)
    if asked.quiet:
        output.print_text(view._sum_up(document), asked.taken)
    families_document = [view._document_family(family) for family in found.values()]
    fields = {"families": families_document, "launches": document}
    output.write_document("kernels-facts", fields, asked.json)
    documents.write_table(tables.LAUNCHES, rows, asked.written)
    return 1 if faults else 0


def _compile_launches(
    reference: str,
    family: KernelFamily,
    chosen: Sequence[Target],
    asked: KernelsOptions,
    worker: KernelWorker,
    notes: Notes,
) -> list[facts.Planned]:
    variant = _find_variant(family, asked.variant)
    variants: list[str | None] = [variant]
    if asked.all_variants:
        variants += [each.name for each in family.variants]
    planned = facts.plan_problems(family, _list_problems(family, asked.params), chosen, variants)
    refusals = {each.refusal for each in planned if each.plan is None}
    if refusals and not any(each.plan for each in planned):
        raise PerfcliError("; ".join(sorted(refusals)))
    with Reporter([public(family.name)], notes) as progress:
        told = progress.count("kernels", "compiling launches")
        return facts.compile_plans(family, reference, planned, worker, asked.jobs, told)


# --- check --------------------------------------------------------------------------------------


def check(name: str | None, asked: KernelsOptions) -> int:
    """Run a few cases of each family, all with ``--all``, or those that are asked for; return 1
    where one is wrong or failed."""
    asked.refuse("check", "all_variants", "against", "rounds", "budget", "svg")
    runner, target = _choose_runner(asked)
    notes, done = Notes(asked.quiet), []
    if runner == "interpreter":
        notes.say(_WHY_INTERPRETED if asked.device is None else "through Triton's interpreter")
    with open_worker(asked) as worker:
        for reference, family in _find_families(name).items():
            variant = _find_variant(family, asked.variant)
            cases = check_cases._choose_cases(family, asked.params, variant, asked.cases)
            smoke = not (asked.every_case or asked.cases or asked.params)
            checking = check_cases._plan(reference, family, cases, target, runner, smoke)
            total = len(checking.cases)
            if total < checking.known:
                known = units.plural(checking.known, "case")
                notes.say(
                    f"{public(family.name)}: {total} of {known}, each operation by each variant, "
                    "and each dtype, layout and kind of data; --all runs all"
                )
            with Reporter([f"{public(family.name)}"], notes) as progress:
                found = CaseResults(checking)
                done.append(found)
                try:
                    told = _report_cases(progress, total)
                    ahead = progress.count("check", "compiling kernels ahead")
                    check_cases._run(found, worker, asked.jobs, asked.seed or 0, told, ahead)
                except KeyboardInterrupt:
                    _say(found, asked)
                    so_far = f"{len(found.found)} of {units.plural(total, 'case')}"
                    raise Interrupted(f"interrupted after {so_far}") from None
            _say(found, asked)
    described = [check_view._document_cases(found) for found in done]
    output.write_document("kernels-check", {"families": described}, asked.json)
    documents.write_table(tables.CASES, tables.list_cases(done), asked.written)
    return max((found.exit_code for found in done), default=0)


def _say(found: CaseResults, asked: KernelsOptions) -> None:
    lines = check_view._describe_cases(found)
    output.print_text("\n".join(lines[-1:] if asked.quiet else lines), asked.taken)


_WHY_INTERPRETED = (
    "no GPU here: cases run through Triton's interpreter, which shows wrong numbers but no races "
    "and no misaligned access"
)


def _report_cases(progress: Reporter, total: int) -> Callable[[CaseResults], None]:
    def told(found: CaseResults) -> None:
        failed = found.count("wrong", "failed")
        text = f"running cases, {failed} not right" if failed else "running cases"
        progress(Progress(0, "check", len(found.found), total, text))

    return told


def _choose_runner(asked: KernelsOptions) -> tuple[Any, Target]:
    """Return where cases run, and what they are planned for."""
    if asked.device not in (None, "cuda", "cpu"):
        raise PerfcliError(f"--device is cuda or cpu, not {asked.device!r}")
    if len(asked.targets) > 1:
        raise PerfcliError("cases are planned for one --target at a time")
    if asked.device == "cuda" and asked.targets:
        raise PerfcliError("cases that run on the GPU are planned for it: leave out --target")
    if asked.device == "cuda" or (asked.device is None and not asked.targets and _has_gpu(asked)):
        return "gpu", targets.this_gpu()
    named = asked.targets[0] if asked.targets else DEFAULT_TARGET
    return "interpreter", targets.get_for_kernels(named)


# --- bench --------------------------------------------------------------------------------------


def bench(name: str | None, asked: KernelsOptions) -> int:
    """Time every problem of one family, or of all, against everything that computes it."""
    from perfcli.workbench.bench import _run

    asked.refuse(
        "bench, which runs on the GPU in this machine", "targets", "cases", "every_case", "jobs"
    )
    if asked.device not in (None, "cuda"):
        raise PerfcliError(f"bench needs a GPU, --device {asked.device} is none: {_OFFERED}")
    output.check_writable(asked.svg)
    if not asked.plan_of_fake and not targets.has_gpu():
        raise PerfcliError(f"bench needs a GPU, and there is none here: {_OFFERED}")
    target = targets.get(DEFAULT_TARGET) if asked.plan_of_fake else targets.this_gpu()
    seed = random.randrange(2**31) if asked.seed is None else asked.seed
    with open_worker(asked) as worker:
        return _run(_find_families(name), target, asked, seed, worker)


_OFFERED = (
    "perfcli kernels check NAME runs the kernels through Triton's interpreter, perfcli kernels "
    "NAME --target h100 shows what they are made of"
)
