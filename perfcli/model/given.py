"""A function or module that a user's process holds, for a worker to compile."""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.model.values import Mode
from perfcli.model.workload import CompileRequest


@dataclass(frozen=True, slots=True)
class GivenRequest:
    """What is called, and with what, instead of a scenario to build."""

    compile: CompileRequest
    """``scenario`` is a name to show."""
    packed: str
    """Base64 of a pickle of ``(call, args, kwargs)`` that holds no values of tensors; made by the
    process that sends it, and read by its own child alone."""
    path: tuple[str, ...]
    """Where modules are imported from: the sender's ``sys.path``."""
    mode: Mode = "forward"
    autocast: str | None = None
    """The dtype of the autocast that was active."""
    keeps_cpu: bool = False
    """Some of the tensors are on a GPU already: those on the CPU are meant to be there."""
