"""Captures the same on a real GPU: nothing is stood in for, and each candidate has the driver's own
numbers.

What the fidelity check holds the stand-ins against.
"""

from __future__ import annotations

from typing import Any

from perfcli.compile import tracing
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.building import Built, build_users_workload
from perfcli.compile.capture.capture import hook_inductor
from perfcli.compile.capture.captured import Capture
from perfcli.compile.capture.definition import Definition
from perfcli.errors import PerfcliError
from perfcli.model import Candidate, CompileRequest


def trace(request: CompileRequest) -> tuple[Capture, Built, tracing.Traced]:
    """Build, compile and run one step of the request on ``cuda``."""
    import torch

    if not torch.cuda.is_available():
        raise PerfcliError("no GPU here: torch.cuda.is_available() is False")
    with torch.device("cuda"):
        built = build_users_workload(request)
    capture = Capture()
    with hook_inductor(capture, finish=None):
        traced = tracing.run(built.workload, capture, request.dynamic, tracing.backward)
        torch.cuda.synchronize()
    return capture, built, traced


def _driver_facts(definition: Definition) -> Compiled:
    """Return every candidate of a kernel as the driver reports it once the binary is loaded."""
    from torch._inductor.codecache import PyCodeCache

    from perfcli.compile.binaries.assembler import select_ptxas

    if definition.language != "triton":
        return Compiled((), {})
    select_ptxas()
    # Another text, so that the kernel is loaded anew: in the one that ran, only the autotuner's
    # winner is left, and a second precompile() would add configurations.
    source = f"{definition.source}\n# read by perfcli\n"
    tuner = getattr(PyCodeCache.load(source), definition.name)
    tuner.precompile()
    return Compiled(tuple(_candidate(launcher) for launcher in tuner.launchers), {})


def _candidate(launcher: Any) -> Candidate:
    config = launcher.config
    return Candidate(
        config={k: int(v) for k, v in config.kwargs.items() if isinstance(v, int)},
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        registers=int(launcher.n_regs),
        stack_bytes=4 * int(launcher.n_spills),
        shared_bytes=int(launcher.shared),
    )


class DriverFacts:
    """Stands where the compile pool stands, but asks the driver, in this process."""

    def result(self, definition: Definition) -> Any:
        from perfcli.compile.binaries.pool import KernelResult

        return KernelResult(None, _driver_facts(definition))
