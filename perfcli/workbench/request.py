"""The options of ``perfcli kernels`` as typed, and which of them say nothing to what was asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from perfcli.console import documents
from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import environment, targets
from perfcli.model import KernelFamily, Target
from perfcli.names import public
from perfcli.worker.roles import KernelWorker
from perfcli.workflow.context import read_fake_plan
from perfcli.workflow.request import DEFAULT_TARGET


@dataclass(frozen=True, slots=True)
class KernelsOptions:
    """The options as typed."""

    targets: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    variant: str | None = None
    all_variants: bool = False
    cases: tuple[str, ...] = ()
    every_case: bool = False
    against: tuple[str, ...] = ()
    rounds: int | None = None
    budget: float | None = None
    svg: Path | None = None
    seed: int | None = None
    device: str | None = None
    python: str | None = None
    jobs: int | None = None
    timeout: float | None = None
    written: documents.Wanted = field(default_factory=documents.Wanted)
    quiet: bool = False
    fake: bool = False

    @property
    def json(self) -> Path | None:
        return self.written.json

    @property
    def taken(self) -> Path | None:
        """Return stdout where a document has it, so that what is shown goes to stderr."""
        return self.written.stdout

    @property
    def plan_of_fake(self) -> str:
        return read_fake_plan(self.fake)

    def refuse(self, action: str, *names: str) -> None:
        """Raise PerfcliError where one of these options was given: it means nothing here."""
        for name in names:
            if getattr(self, name) not in (None, False, ()):
                option = _TYPED.get(name, f"--{public(name)}")
                raise PerfcliError(f"{option} says nothing to {action}: leave it out")


_TYPED = {"targets": "--target", "params": "-p", "cases": "--case", "every_case": "--all"}


def _find_families(name: str | None) -> dict[str, KernelFamily]:
    """Return the families by what a worker finds them by."""
    if name is not None:
        reference = str(Path(name).resolve()) if name.endswith(".py") else public(name)
        return {reference: registry.family(name)}
    found = {each: registry.family(each) for each in registry.names("kernels")}
    if not found:
        raise PerfcliError("there are no families in kernels/")
    return found


def _choose_targets(asked: KernelsOptions) -> list[Target]:
    if asked.targets:
        return [targets.get_for_kernels(name) for name in dict.fromkeys(asked.targets)]
    return [targets.this_gpu() if _has_gpu(asked) else targets.get(DEFAULT_TARGET)]


def _has_gpu(asked: KernelsOptions) -> bool:
    return not asked.plan_of_fake and targets.has_gpu()


@contextmanager
def open_worker(asked: KernelsOptions) -> Iterator[KernelWorker]:
    """Open a worker, a made-up one where ``--fake`` says so. Raises PerfcliError where the
    interpreter has no torch."""
    worker = _start_worker(asked)
    try:
        yield worker
    finally:
        worker.close()


def _start_worker(asked: KernelsOptions) -> KernelWorker:
    if plan := asked.plan_of_fake:
        from perfcli.fake.kernels import FakeKernels

        return FakeKernels(plan)
    from perfcli.worker.kernels import KernelProcess

    interpreter = environment.probe(asked.python)
    if warning := environment.torch_warning(interpreter.torch):
        sys.stderr.write(f"warning: {warning}\n")
    python = interpreter.path if asked.python else None
    return KernelProcess(python, asked.timeout)
