"""Tells which kernel's facts belong to which launch that the profiler saw."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from perfcli.model import (
    KernelFacts,
    MeasuredLaunch,
    Measurement,
    Prepared,
    Round,
    Run,
    SideName,
    Turn,
)
from perfcli.stats import paired

Part: TypeAlias = int | str
"""An index into ``Run.kernels``, or the name of what has no facts there."""


@dataclass(frozen=True, slots=True)
class SideLaunches:
    """Holds one side's launches, for each pair of processes: the part that each belongs to."""

    name: SideName
    launches: dict[int, tuple[MeasuredLaunch, ...]]
    parts: dict[int, tuple[Part, ...]]

    places: dict[int, dict[Part, list[int]]]
    """The same, the other way round."""

    def slots(self, wanted: Collection[Part], process: int) -> list[int]:
        """Return places in ``Turn.launches`` of these parts."""
        known = self.places.get(process, {})
        return [slot for part in wanted for slot in known.get(part, ())]

    def complete(self, made: Round) -> bool:
        """Return whether every step of this side's turn has the launches that the worker
        announced."""
        turn, count = self._turn(made), len(self.parts.get(made.process, ()))
        return bool(turn.launches) and all(len(step) == count for step in turn.launches)

    def seconds(self, wanted: Collection[Part], made: Round) -> float | None:
        """Return the seconds of these parts per step: the median over the steps of a complete turn.
        None where nothing launches them, or the clock jumped."""
        slots = self.slots(wanted, made.process)
        if not slots:
            return None
        if len(slots) == 1:
            sums = [step[slots[0]] for step in self._turn(made).launches]
        else:
            sums = [sum([step[slot] for slot in slots]) for step in self._turn(made).launches]
        return statistics.median(sums) if all(map(paired.is_time, sums)) else None

    def _turn(self, made: Round) -> Turn:
        return made.base if self.name == "base" else made.head

    def configurations(self, wanted: Collection[Part]) -> Counter[tuple[str, int | None]]:
        """Return what the autotuner took for these parts, and the registers, in every process."""
        return Counter(
            (launches[slot].config, launches[slot].registers)
            for process, launches in self.launches.items()
            for slot in self.slots(wanted, process)
        )

    def others(self) -> list[str]:
        """Return what has no facts, each name once, in order."""
        return list(
            dict.fromkeys(p for parts in self.parts.values() for p in parts if isinstance(p, str))
        )


def join_side(name: SideName, measurement: Measurement, run: Run) -> SideLaunches:
    """Return every launch of this side's processes, joined."""
    workers = [p for p in measurement.prepared if p.side == name]
    parts = {p.process: _join(p.launches, run.kernels) for p in workers}
    places: dict[int, dict[Part, list[int]]] = {process: defaultdict(list) for process in parts}
    for process, joined in parts.items():
        for slot, part in enumerate(joined):
            places[process][part].append(slot)
    return SideLaunches(name, {p.process: p.launches for p in workers}, parts, places)


def _join(launches: Sequence[MeasuredLaunch], kernels: Sequence[KernelFacts]) -> tuple[Part, ...]:
    """Join by graph and name, else by source; of kernels with one source each gets as many launches
    as its facts announce. The rest goes by operator, or by its own name."""
    named = {(k.graph, k.name): i for i, k in enumerate(kernels)}
    left = Counter({i: k.launches for i, k in enumerate(kernels)})
    parts: list[Part | None] = []
    for launch in launches:
        found = named.get((launch.graph, launch.name)) if launch.generated else None
        if found is not None:
            left[found] -= 1
        parts.append(found)
    for place, launch in enumerate(launches):
        if parts[place] is None:
            found = _by_source(launch, kernels, left)
            if found is not None:
                left[found] -= 1
            parts[place] = _operator(launch.name) if found is None else found
    return tuple(p for p in parts if p is not None)


def _by_source(
    launch: MeasuredLaunch, kernels: Sequence[KernelFacts], left: Counter[int]
) -> int | None:
    if not launch.generated or not launch.source_hash:
        return None
    alike = [i for i, k in enumerate(kernels) if k.source_hash == launch.source_hash]
    return next((i for i in alike if left[i] > 0), None)


def _operator(name: str) -> str:
    """Return ``aten::mm`` of ``aten::mm sm90_xmma_gemm…``: its kernel may be another on each
    side."""
    first = name.partition(" ")[0]
    return first if "::" in first else name


def count_known(workers: Sequence[Prepared], sides: Sequence[SideLaunches]) -> tuple[int, int]:
    """Return launches of generated kernels whose facts are known, and all of them, in these
    workers."""
    known = every = 0
    for worker, joined in zip(workers, sides, strict=True):
        for launch, part in zip(worker.launches, joined.parts[worker.process], strict=True):
            every += launch.generated
            known += launch.generated and isinstance(part, int)
    return known, every
