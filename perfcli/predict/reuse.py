"""Tells how much of what a launch reads is still in the L2 cache.

The launches of a step are walked in order. Whatever was touched since a buffer was touched last
pushes it out, its own bytes and what was read and written beside it included: a buffer that is
larger than the cache is gone by the time that its start is read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from perfcli.model import KernelFacts, Launch, Run

_UNKNOWN_OPERATOR = 16e6
"""Bytes that an operator touches whose tensors are not known."""
_SHARPNESS = 2
"""How suddenly the cache forgets as the distance grows beyond its size (fitted by hand, H200:
kernels of steps, and launches that repeat themselves)."""

_Name = tuple[str, str]
"""A graph, and the name of a buffer in it."""


def find_cold_shares(run: Run, cache_bytes: float) -> tuple[float, ...]:
    """Return for each of ``Run.kernels`` the part of its input bytes that no earlier launch left in
    a cache of ``cache_bytes``, 0 to 1, on average over its launches."""
    kernels = {(kernel.graph, kernel.name): kernel for kernel in run.kernels}
    sizes = _list_sizes(run)
    touched: dict[_Name, float] = {}
    behind = 0.0
    shares: dict[_Name, list[float]] = defaultdict(list)
    for launch in run.launches:
        kernel = None if launch.extern else kernels.get((launch.graph, launch.name))
        names = set(_list_names(launch, kernel))
        if kernel is not None:
            share = _cold_share(kernel, touched, behind, cache_bytes)
            if share is not None:
                shares[launch.graph, launch.name].append(share)
        touched.update(dict.fromkeys(names, behind))
        moved = sum(sizes.get(name, 0) for name in names)
        behind += moved or (_UNKNOWN_OPERATOR if launch.extern else 0.0)
    found = (shares.get((kernel.graph, kernel.name), [1.0]) for kernel in run.kernels)
    return tuple(sum(each) / len(each) for each in found)


def _list_sizes(run: Run) -> dict[_Name, int]:
    sizes: dict[_Name, int] = {}
    externs = {(extern.graph, extern.op): extern.calls for extern in run.externs}
    for launch in run.launches:
        if launch.call is not None:
            call = externs[launch.graph, launch.name][launch.call]
            named = zip(launch.operands, call.buffers, strict=True)
            sizes.update({(launch.graph, name): buffer.bytes for name, buffer in named})
    for kernel in run.kernels:
        sizes.update({(kernel.graph, b.name): b.bytes for b in kernel.buffers})
    return sizes


def _list_names(launch: Launch, kernel: KernelFacts | None) -> Iterator[_Name]:
    if kernel is None:
        yield from ((launch.graph, name) for name in launch.operands)
    else:
        yield from ((launch.graph, b.name) for b in kernel.buffers)


def _cold_share(
    kernel: KernelFacts, touched: Mapping[_Name, float], behind: float, cache_bytes: float
) -> float | None:
    read = [(b.bytes, touched.get((kernel.graph, b.name))) for b in kernel.buffers if b.is_read]
    total = sum(size for size, _ in read)
    if not total:
        return None
    cold = 0.0
    for size, last in read:
        distance = float("inf") if last is None else behind - last
        cold += size * share_cold(distance, cache_bytes)
    return cold / total


def share_cold(distance: float, cache_bytes: float) -> float:
    """Return the part of a buffer that is gone from a cache of ``cache_bytes`` when so many bytes
    were touched since it was."""
    return float(1 / (1 + (cache_bytes / max(distance, 1.0)) ** _SHARPNESS))
