"""Limits what mix-order kernels read, for torch 2.10 to 2.12, which lack the option.

A mix-order kernel computes two reductions over the same elements, one along the rows and one down
the columns. Once it exists, Inductor fuses more nodes into it. Every further buffer is one more
load in the loop over the rows, whose sums live in registers across it: past some number they are
spilled (pytorch #179423). torch 2.13 stops at ``triton.mix_order_reduction_max_reads`` buffers
(#179494). The same question is asked here at the same place: before a mix-order kernel takes in
another node.

Read against torch 2.10.0, 2.11.0, 2.12.1 and 2.13.0; compiled with 2.11.0, 2.12.1 and 2.13.0.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from perfcli.errors import CompileFailed
from perfcli.model import OptionValue
from perfcli.options.backports import BACKPORTS

MAX_READS = "triton.mix_order_reduction_max_reads"
COUNTER = "rejected_mix_order_reduction_fusion"
"""The name in ``torch._inductor.metrics`` under which torch 2.13 counts how often it refused a
fusion. The scheduler asks about a pair of nodes more than once, so this is not a number of
kernels."""

Undo = Callable[[], None]

_active: dict[str, OptionValue] = {}


def settings() -> dict[str, OptionValue]:
    """Return the backported options that are set in this process, with their values."""
    return dict(_active)


def install(limit: OptionValue) -> Undo:
    """Set the limit until it is undone. As in torch 2.13, None, 0 and negative numbers mean no
    limit and change nothing.

    Raises ``CompileFailed`` with the name of what this torch lacks.
    """
    if limit is not None and type(limit) is not int:
        raise CompileFailed(f"{MAX_READS} needs a whole number or none, got {limit!r}")
    if limit is None or limit <= 0:
        return lambda: None
    from torch._inductor import metrics, scheduler

    lift = _limit_reads(scheduler, metrics, limit)
    _active[MAX_READS] = limit

    def undo() -> None:
        _active.clear()
        lift()

    return undo


def notes() -> tuple[str, ...]:
    """Return what the reader of a run has to know about backported options."""
    if not _active:
        return ()
    import torch
    from torch._inductor import metrics

    refused = getattr(metrics, COUNTER)
    return tuple(
        f"{name}={value} is perfcli's, torch {torch.__version__} has no such option: "
        f"it refused to fuse {refused} times"
        for name, value in _active.items()
    )


def _limit_reads(scheduler: Any, metrics: Any, limit: int) -> Undo:
    """Let mix-order kernels of ``scheduler`` grow to ``limit`` buffers read, and count in
    ``metrics`` what that refuses; return a function that undoes both.

    Raises ``CompileFailed`` with the name of what this torch lacks.
    """
    kernel = _piece(scheduler, "FusedMixOrderReductions")
    original = _piece(kernel, "can_fuse_with")
    memory_dep = _piece(scheduler, "MemoryDep")
    reset = _piece(metrics, "reset")
    if list(inspect.signature(original).parameters) != ["self", "other"]:
        raise _missing("FusedMixOrderReductions.can_fuse_with(self, other)")

    @functools.wraps(original)
    def can_fuse_with(self: Any, other: Any) -> Any:
        if _buffers_read((self, other), memory_dep) > limit:
            setattr(metrics, COUNTER, getattr(metrics, COUNTER) + 1)
            return False
        return original(self, other)

    @functools.wraps(reset)
    def reset_all() -> None:
        reset()
        setattr(metrics, COUNTER, 0)

    counted = vars(metrics).get(COUNTER)

    def undo() -> None:
        kernel.can_fuse_with, metrics.reset = original, reset
        if counted is None:
            delattr(metrics, COUNTER)

    setattr(metrics, COUNTER, 0)
    kernel.can_fuse_with, metrics.reset = can_fuse_with, reset_all
    return undo


def _buffers_read(nodes: Iterable[Any], memory_dep: Any) -> int:
    """Return how many buffers the scheduler nodes read element by element, each counted once.
    Buffers that one of the nodes writes count as well, as in torch 2.13; dependencies that only
    order nodes do not."""
    reads = (dep for node in nodes for part in node.get_nodes() for dep in part.read_writes.reads)
    return len({dep.name for dep in reads if isinstance(dep, memory_dep)})


def _piece(owner: Any, name: str) -> Any:
    if not hasattr(owner, name):
        raise _missing(f"{getattr(owner, '__qualname__', owner.__name__)}.{name}")
    return getattr(owner, name)


def _missing(what: str) -> CompileFailed:
    import torch

    return CompileFailed(
        f"torch {torch.__version__} has no {what}, which {MAX_READS} is built on "
        f"({BACKPORTS[MAX_READS].reach})"
    )
