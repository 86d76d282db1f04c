"""Tells where a kernel reads and writes: where data says, and how far apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from perfcli.model import KernelFacts, MemoryAccess


def scatters(kernel: KernelFacts, arguments: Collection[str]) -> bool:
    """Return whether a kernel writes one of these arguments by atomics, or at addresses that depend
    on data or could not be computed: no block knows what will be at its own points."""
    sourced = kernel.source_facts.accesses if kernel.source_facts else ()
    if any(a.kind == "atomic" and a.pointer in ("", *arguments) for a in sourced):
        return True
    return any(
        access.kind == "atomic" or access.indirect or not access.known
        for access in _accesses(kernel, arguments)
        if access.kind != "load"
    )


def gathers(kernel: KernelFacts, arguments: Collection[str]) -> bool:
    """Return whether a kernel reads one of these arguments at addresses that depend on data."""
    return any(a.kind == "load" and a.indirect for a in _accesses(kernel, arguments))


def step_along(kernel: KernelFacts, argument: str, axis: str) -> int | None:
    """Return bytes from one element of an argument to the next along an axis of the kernel's blocks
    (``x``, ``r0_``); None where that is not known."""
    steps = (a.steps.get(axis) for a in _accesses(kernel, {argument}) if a.known)
    return next((step for step in steps if step is not None), None)


def _accesses(kernel: KernelFacts, arguments: Collection[str]) -> Iterator[MemoryAccess]:
    """Yield what is known of the accesses to these arguments: of the first launch configuration
    whose work could be counted, since all of them have the same source."""
    works = (c.work for c in kernel.candidates if c.work and c.work.accesses is not None)
    work = next(works, None)
    for access in (work.accesses or ()) if work else ():
        if access.argument in arguments:
            yield access
