"""Which families and targets are meant, and the worker that is asked about them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perfcli import environment, registry, targets
from perfcli.commands._kernels_asked import Asked
from perfcli.commands._request import DEFAULT_TARGET
from perfcli.errors import PerfcliError
from perfcli.model import KernelFamily, Target
from perfcli.names import public
from perfcli.worker.kernel_worker import KernelWorker


def families_of(name: str | None) -> dict[str, KernelFamily]:
    """By what a worker finds them by."""
    if name is not None:
        reference = str(Path(name).resolve()) if name.endswith(".py") else public(name)
        return {reference: registry.family(name)}
    found = {each: registry.family(each) for each in registry.names("kernels")}
    if not found:
        raise PerfcliError("there are no families in kernels/")
    return found


def targets_of(asked: Asked) -> list[Target]:
    if asked.targets:
        return [targets.for_kernels(name) for name in dict.fromkeys(asked.targets)]
    return [targets.this_gpu() if has_gpu(asked) else targets.get(DEFAULT_TARGET)]


def has_gpu(asked: Asked) -> bool:
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
