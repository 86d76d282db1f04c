"""``perfcli kernels``: from options to families, plans and workers, and on to what is shown."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcli import environment, registry, targets
from perfcli.commands import _kernels_check, _kernels_facts, _kernels_view, _output
from perfcli.commands._kernels_problems import problems, variant_of
from perfcli.commands._obtain import How, fake_plan
from perfcli.commands._progress import Notes, Reporter
from perfcli.commands._request import DEFAULT_TARGET
from perfcli.errors import PerfcliError
from perfcli.model import KernelFamily, Target
from perfcli.names import public
from perfcli.worker.executor import Progress
from perfcli.worker.kernel_worker import KernelWorker

if TYPE_CHECKING:
    from perfcli.commands._kernels_check import Checked

DEFAULT_SEED = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as typed."""

    targets: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    variant: str | None = None
    all_variants: bool = False
    cases: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    rounds: int | None = None
    budget: float | None = None
    svg: Path | None = None
    seed: int | None = None
    device: str | None = None
    python: str | None = None
    jobs: int | None = None
    timeout: float | None = None
    json: Path | None = None
    quiet: bool = False
    fake: bool = False

    @property
    def plan_of_fake(self) -> str:
        return fake_plan(How(fake=self.fake))

    def refuse(self, action: str, *names: str) -> None:
        """Raises PerfcliError where one of these options was given: it means nothing here."""
        for name in names:
            if getattr(self, name) not in (None, False, ()):
                option = _TYPED.get(name, f"--{public(name)}")
                raise PerfcliError(f"{option} says nothing to {action}: leave it out")


_TYPED = {"targets": "--target", "params": "-p", "cases": "--case"}


# --- show ---------------------------------------------------------------------------------------


def show(first: str | None, second: str | None, asked: Asked) -> int:
    """The list, or one family; with what launches are made of where a target or a name says so."""
    if second is not None:
        raise PerfcliError(f"kernels {first}: expected check or bench before {second!r}")
    asked.refuse("kernels", "cases", "against", "rounds", "budget", "svg", "seed", "device")
    _output.check_writable(asked.json)
    families = _families(first)
    if first is None and not asked.targets:
        asked.refuse("the list", "params", "variant", "all_variants")
        documents = [_kernels_view.document(family) for family in families.values()]
        _output.write_document("kernels-families", {"families": documents}, asked.json)
        _output.show(_kernels_view.overview(list(families.values())), asked.json)
        return 0
    if first is None:
        asked.refuse("all families", "params", "variant", "all_variants")
    chosen = _targets(asked)
    notes, faults, document = Notes(asked.quiet), 0, []
    with opened_worker(asked) as worker:
        for reference, family in families.items():
            planned = _facts(reference, family, chosen, asked, worker, notes)
            faults += sum(len(each.faults) for each in planned)
            document += _kernels_view.facts_document(family, planned)
            detail = _kernels_view.detail if first else _kernels_view.heading
            if not asked.quiet:
                _output.show(detail(family), asked.json)
                _output.show(_kernels_view.facts(planned), asked.json)
    if asked.quiet:
        _output.print_text(_kernels_view.sum_of(document), asked.json)
    families_document = [_kernels_view.document(family) for family in families.values()]
    fields = {"families": families_document, "launches": document}
    _output.write_document("kernels-facts", fields, asked.json)
    return 1 if faults else 0


def _facts(
    reference: str,
    family: KernelFamily,
    chosen: Sequence[Target],
    asked: Asked,
    worker: KernelWorker,
    notes: Notes,
) -> list[_kernels_facts.Planned]:
    variant = variant_of(family, asked.variant)
    variants: list[str | None] = [variant]
    if asked.all_variants:
        variants += [each.name for each in family.variants]
    planned = _kernels_facts.plans(family, problems(family, asked.params), chosen, variants)
    refusals = {each.refusal for each in planned if each.plan is None}
    if refusals and not any(each.plan for each in planned):
        raise PerfcliError("; ".join(sorted(refusals)))
    with Reporter([public(family.name)], notes) as progress:

        def told(done: int, total: int) -> None:
            progress(Progress(0, "kernels", done, total, "compiling launches"))

        return _kernels_facts.compile_plans(family, reference, planned, worker, asked.jobs, told)


# --- check --------------------------------------------------------------------------------------


def check(name: str | None, asked: Asked) -> int:
    """Every case; 1 where one is wrong or failed."""
    asked.refuse("check", "all_variants", "against", "rounds", "budget", "svg")
    _output.check_writable(asked.json)
    runner, target = _runner(asked)
    notes, done = Notes(asked.quiet), []
    if runner == "interpreter":
        notes.say(_WHY_INTERPRETED if asked.device is None else "through Triton's interpreter")
    with opened_worker(asked) as worker:
        for reference, family in _families(name).items():
            variant = variant_of(family, asked.variant)
            cases = _kernels_check.cases_of(family, asked.params, variant, asked.cases)
            checking = _kernels_check.planned(reference, family, cases, target, runner)
            with Reporter([f"{public(family.name)}"], notes) as progress:
                found = _kernels_check.run(
                    checking,
                    worker,
                    asked.jobs,
                    DEFAULT_SEED if asked.seed is None else asked.seed,
                    _checking_told(progress, len(cases)),
                )
            done.append(found)
            lines = _kernels_check.lines(found)
            _output.print_text("\n".join(lines[-1:] if asked.quiet else lines), asked.json)
    documents = [_kernels_check.document(found) for found in done]
    _output.write_document("kernels-check", {"families": documents}, asked.json)
    return max((found.exit_code for found in done), default=0)


_WHY_INTERPRETED = (
    "no GPU here: cases run through Triton's interpreter, which shows wrong numbers but no races "
    "and no misaligned access"
)


def _checking_told(progress: Reporter, total: int) -> Callable[[Checked], None]:
    def told(found: Checked) -> None:
        failed = found.count("wrong", "failed")
        text = f"running cases, {failed} not right" if failed else "running cases"
        progress(Progress(0, "check", len(found.found), total, text))

    return told


def _runner(asked: Asked) -> tuple[Any, Target]:
    """Where cases run, and what they are planned for."""
    if asked.device not in (None, "cuda", "cpu"):
        raise PerfcliError(f"--device is cuda or cpu, not {asked.device!r}")
    if len(asked.targets) > 1:
        raise PerfcliError("cases are planned for one --target at a time")
    if asked.device == "cuda" and asked.targets:
        raise PerfcliError("cases that run on the GPU are planned for it: leave out --target")
    if asked.device == "cuda" or (asked.device is None and not asked.targets and _has_gpu(asked)):
        return "gpu", targets.this_gpu()
    named = asked.targets[0] if asked.targets else DEFAULT_TARGET
    return "interpreter", targets.for_kernels(named)


# --- bench --------------------------------------------------------------------------------------


def bench(name: str | None, asked: Asked) -> int:
    """Every problem of one family, or of all, against everything that computes it."""
    from perfcli.commands import _kernels_bench

    asked.refuse("bench, which runs on the GPU in this machine", "targets", "cases", "jobs")
    if asked.device not in (None, "cuda"):
        raise PerfcliError(f"bench needs a GPU, --device {asked.device} is none: {_OFFERED}")
    for path in (asked.json, asked.svg):
        _output.check_writable(path)
    if not asked.plan_of_fake and not targets.has_gpu():
        raise PerfcliError(f"bench needs a GPU, and there is none here: {_OFFERED}")
    target = targets.get(DEFAULT_TARGET) if asked.plan_of_fake else targets.this_gpu()
    seed = random.randrange(2**31) if asked.seed is None else asked.seed
    with opened_worker(asked) as worker:
        return _kernels_bench.run(_families(name), target, asked, seed, worker)


_OFFERED = (
    "perfcli kernels check NAME runs the kernels through Triton's interpreter, perfcli kernels "
    "NAME --target h100 shows what they are made of"
)


# --- shared -------------------------------------------------------------------------------------


def _families(name: str | None) -> dict[str, KernelFamily]:
    """By what a worker finds them by."""
    if name is not None:
        reference = str(Path(name).resolve()) if name.endswith(".py") else public(name)
        return {reference: registry.family(name)}
    found = {each: registry.family(each) for each in registry.names("kernels")}
    if not found:
        raise PerfcliError("there are no families in kernels/")
    return found


def _targets(asked: Asked) -> list[Target]:
    if asked.targets:
        return [targets.for_kernels(name) for name in dict.fromkeys(asked.targets)]
    return [targets.this_gpu() if _has_gpu(asked) else targets.get(DEFAULT_TARGET)]


def _has_gpu(asked: Asked) -> bool:
    return not asked.plan_of_fake and targets.has_gpu()


@contextmanager
def opened_worker(asked: Asked) -> Iterator[KernelWorker]:
    """Made up where ``--fake`` says so. Raises PerfcliError where the interpreter has no torch."""
    worker = _started(asked)
    try:
        yield worker
    finally:
        worker.close()


def _started(asked: Asked) -> KernelWorker:
    if plan := asked.plan_of_fake:
        from perfcli.worker.fake_kernels import FakeKernels

        return FakeKernels(plan)
    from perfcli.worker.hand_written import KernelProcess

    interpreter = environment.probe(asked.python)
    if warning := environment.torch_warning(interpreter.torch):
        sys.stderr.write(f"warning: {warning}\n")
    python = interpreter.path if asked.python else None
    return KernelProcess(python, asked.timeout)
