"""Proposes launch configurations that Inductor did not consider, for kernels whose own are at
fault."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from perfcli.model import Candidate, KernelKind, Target, best_candidate

MOST = 8
"""The number of configurations tried per kernel: each takes as long to compile as one of
Inductor's."""

MAX_WARPS = 16
LOW_OCCUPANCY = 0.125
_BLOCKS = ("XBLOCK", "YBLOCK", "ZBLOCK", "R0_BLOCK", "R1_BLOCK")


def needs_alternatives(candidates: Sequence[Candidate], kind: KernelKind) -> bool:
    """Return whether even the best candidate spills, or leaves the multiprocessor almost empty for
    want of registers or shared memory. The latter is how templates (matrix products) are meant to
    run, and a hand-written kernel may be."""
    best = best_candidate(candidates)
    if best is None:
        return False
    if best.spilled_words:
        return True
    scarce = best.occupancy_limit in ("registers", "shared memory")
    low = best.occupancy is not None and best.occupancy <= LOW_OCCUPANCY
    return low and scarce and kind not in ("template", "user", "other")


def sort_best_first(configs: Sequence[Any], candidates: Sequence[Candidate]) -> list[Any]:
    """Return the candidates' configurations in the order of ``KernelFacts.best``."""
    waiting = dict(enumerate(candidates))
    order: list[Any] = []
    while waiting:
        best = best_candidate(list(waiting.values()))
        number = next(n for n, candidate in waiting.items() if candidate is best)
        order.append(configs[number])
        del waiting[number]
    return order


def other_configs(configs: Sequence[Any], target: Target) -> list[Any]:
    """Return copies of Triton's ``Config`` objects with one change each, at most ``MOST``; copies
    of the first config come first."""
    tried = {_key(config) for config in configs}
    found: list[Any] = []
    for config in configs:
        for changed in _changes(config, target):
            if _key(changed) not in tried:
                tried.add(_key(changed))
                found.append(changed)
    return found[:MOST]


def _key(config: Any) -> tuple[Any, ...]:
    return (*sorted(config.kwargs.items()), config.num_warps, config.num_stages)


def _changes(config: Any, target: Target) -> Iterator[Any]:
    sizes = {k: v for k, v in config.kwargs.items() if k in _BLOCKS}
    # A persistent reduction's row is no part of its configuration: it can't be cut.
    largest = max(sizes, key=lambda name: sizes[name], default=None)
    yield from _more_warps(config, 2, target)
    if "RSPLIT_SIZE" in config.kwargs and "XBLOCK" in sizes:  # a mix-order reduction
        yield _with(config, XBLOCK=1)
    if config.kwargs.get("NUM_STAGES", 1) > 1:
        yield _with(config, NUM_STAGES=1)
    if largest:
        yield _with(config, **{largest: max(sizes[largest] // 2, 1)})
    yield from _more_warps(config, 4, target)
    if largest:
        yield _with(config, **{largest: max(sizes[largest] // 4, 1)})


def _more_warps(config: Any, times: int, target: Target) -> Iterator[Any]:
    warps = config.num_warps * times
    if warps <= min(MAX_WARPS, target.max_threads_per_block // target.warp_size):
        changed = copy.deepcopy(config)
        changed.num_warps = warps
        yield changed


def _with(config: Any, **kwargs: int) -> Any:
    changed = copy.deepcopy(config)
    changed.kwargs.update(kwargs)
    return changed
