"""Prepares ways to compute a problem, each ready to be launched: ours, torch's, other projects',
and a copy of as many bytes, which is what the memory allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.handwritten import peers
from perfcli.model import Problem
from perfcli.model.kernel_work import BenchAsk, Contender

Launch = Callable[[], Any]

COPY = "copy"
MODES = {"inductor": None, "inductor-max-autotune": "max-autotune-no-cudagraphs"}


@dataclass(frozen=True, slots=True)
class Workbench:
    """Holds a problem with its inputs on the device."""

    problem: Problem
    code: Any
    """A ``FamilyCode``."""
    tensors: Mapping[str, Any]
    device: str

    def eager(self) -> Mapping[str, Any]:
        outputs: Mapping[str, Any] = self.code.eager(self.problem, self.tensors)
        return outputs


def launch_of(contender: Contender, bench: Workbench, ask: BenchAsk) -> Launch:
    """Return what launches it, and gives its outputs by name (a copy: nothing). Raises PerfcliError
    where it cannot compute this problem, or is not installed."""
    if contender.name == COPY:
        return _prepare_copy(ask.moved_bytes, bench.device)
    plan = contender.plan
    if plan is not None:
        return lambda: bench.code.run(bench.problem, bench.tensors, plan)
    if contender.name == "eager":
        return bench.eager
    if contender.name in MODES:
        return _prepare_compiled(bench, MODES[contender.name])
    if contender.name in peers.NAMES:
        return peers.launch_of(contender.name, bench.problem, bench.tensors)
    raise PerfcliError(f"there is no contender {contender.name!r}")


def _prepare_copy(moved_bytes: int, device: str) -> Launch:
    """Return a launch that reads half of the bytes and writes the other half."""
    import torch

    source = torch.zeros(max(moved_bytes // 2, 1), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)

    return copy


def _prepare_compiled(bench: Workbench, mode: str | None) -> Launch:
    """Return Inductor's code for what ``eager`` does, for these very shapes. What an earlier
    problem compiled is forgotten: it would be made dynamic instead of compiled anew."""
    import torch

    torch._dynamo.reset()
    code, problem = bench.code, bench.problem

    def step(tensors: Mapping[str, Any]) -> Any:
        return code.eager(problem, tensors)

    compiled = torch.compile(step, mode=mode, dynamic=False)
    tensors = dict(bench.tensors)
    return lambda: compiled(tensors)
