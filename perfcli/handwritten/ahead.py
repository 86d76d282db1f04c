"""Compiles the kernels of cases before the cases run, in parallel, into Triton's own cache.

A family's ``run`` is called with tensors that have no memory, under a driver that knows the target
and nothing else: Triton's launcher itself decides what a launch is specialised on (alignment, whole
numbers that are 1, what is not to be specialised), so that it finds on the device what was compiled
here. Seen with triton 3.6 and 3.7.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any

from perfcli.handwritten import describing
from perfcli.handwritten.data import arrange
from perfcli.loading import registry
from perfcli.model import Target
from perfcli.model.kernel_work import CheckRequest, PlannedCase

Group = tuple[PlannedCase, ...]
"""Cases whose launches are the same but for their grids: one process takes them, so that no two
compile the same at once."""


def compile_ahead(request: CheckRequest) -> Iterator[tuple[int, int]]:
    """Yield how many groups of cases are compiled, and of how many. Read it to its end before
    anything asks for the device, which a forked process cannot use.

    What fails here is compiled, and says so, where its case runs; a process that dies ends all of
    it early.
    """
    target = request.target
    if target is None or target.vendor != "nvidia":
        return
    found = _groups(request.cases)
    describing.load_code(registry.family(request.family).code, request.family)
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(
        max(request.jobs, 1), mp_context=context, initializer=_stand_in, initargs=(target,)
    )
    try:
        waiting = [pool.submit(_compile, request.family, group) for group in found]
        yield 0, len(found)
        for done, future in enumerate(as_completed(waiting), 1):
            if isinstance(future.exception(), BrokenProcessPool):
                return
            yield done, len(found)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _groups(cases: Sequence[PlannedCase]) -> list[Group]:
    """Return groups in the order of the cases. Cases that differ in their values alone count
    once."""
    found: dict[str, dict[str, PlannedCase]] = {}
    for planned in cases:
        if planned.plan is not None and planned.plan.launches:
            launches = [replace(launch, grid=(1, 1, 1)) for launch in planned.plan.launches]
            shape = repr((planned.case.problem, planned.case.layout))
            found.setdefault(repr(launches), {}).setdefault(shape, planned)
    return [tuple(group.values()) for group in found.values()]


def _stand_in(target: Target) -> None:
    """Make launches compile and go no further: for good, in a process of the pool."""
    from triton.runtime.jit import JITFunction

    from perfcli.compile.binaries.ahead import build_launcher
    from perfcli.compile.stand_in.device import install_triton_driver

    install_triton_driver(target)
    run = JITFunction.run

    def warm_up(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **named)
        build_launcher(kernel)
        return kernel

    JITFunction.run = warm_up


def _compile(family: str, group: Group) -> None:
    import torch

    code = describing.load_code(registry.family(family).code, family)
    for planned in group:
        # Whatever it is, it is raised again where the case runs.
        with contextlib.suppress(Exception), torch.no_grad():
            code.run(planned.case.problem, _fake_inputs(code, planned), planned.plan)


def _fake_inputs(code: Any, planned: PlannedCase) -> Mapping[str, Any]:
    """Return the case's inputs as they would lie in memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    problem = planned.case.problem
    with FakeTensorMode():
        given = code.inputs(problem, "cpu", 0)
        fakes = arrange(replace(planned.case, data="normal"), problem, given)
    return {name: _on_meta(tensor) for name, tensor in fakes.items()}


def _on_meta(fake: Any) -> Any:
    import torch

    elements = fake.untyped_storage().nbytes() // fake.element_size()
    memory = torch.empty(elements, dtype=fake.dtype, device="meta")
    return memory.as_strided(fake.shape, fake.stride(), fake.storage_offset())
