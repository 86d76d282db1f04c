"""Joins each launch that the profiler saw to the kernel whose facts belong to it, and adds up the
parts that a step's time is made of: groups of kernels, and operators without facts."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from perfcli.model import (
    KernelFacts,
    KernelGroup,
    MeasuredLaunch,
    Measurement,
    Prepared,
    Round,
    Run,
    SideName,
    TimeChange,
    Turn,
)
from perfcli.stats import paired, series, verdict
from perfcli.stats.series import RoundSeconds

Part: TypeAlias = int | str
"""An index into ``Run.kernels``, or the name of what has no facts there."""


@dataclass(frozen=True, slots=True)
class _SideLaunches:
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
        return statistics.median(sums) if all(map(paired._is_time, sums)) else None

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


def join_side(name: SideName, measurement: Measurement, run: Run) -> _SideLaunches:
    """Return every launch of this side's processes, joined."""
    workers = [p for p in measurement.prepared if p.side == name]
    parts = {p.process: _join(p.launches, run.kernels) for p in workers}
    places: dict[int, dict[Part, list[int]]] = {process: defaultdict(list) for process in parts}
    for process, joined in parts.items():
        for slot, part in enumerate(joined):
            places[process][part].append(slot)
    return _SideLaunches(name, {p.process: p.launches for p in workers}, parts, places)


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


def _count_known(workers: Sequence[Prepared], sides: Sequence[_SideLaunches]) -> tuple[int, int]:
    """Return launches of generated kernels whose facts are known, and all of them, in these
    workers."""
    known = every = 0
    for worker, joined in zip(workers, sides, strict=True):
        for launch, part in zip(worker.launches, joined.parts[worker.process], strict=True):
            every += launch.generated
            known += launch.generated and isinstance(part, int)
    return known, every


@dataclass(frozen=True, slots=True)
class _TimedPart:
    """Holds one part of both sides with its times per profiled round."""

    group: int | None
    name: str
    base: tuple[Part, ...]
    head: tuple[Part, ...]
    series: RoundSeconds
    alone: TimeChange | None = None
    """Where only one side has it."""
    control: bool = False

    def change(self, floor: float) -> TimeChange:
        return self.alone or verdict.judge_change(self.series, floor)


def _all_parts(
    measurement: Measurement, runs: tuple[Run, Run], groups: Sequence[KernelGroup]
) -> list[_TimedPart]:
    """Return the groups, then what has no facts; all that was launched is in exactly one of
    them."""
    sides = _join_sides(measurement, runs)
    rounds, _ = _profiled_rounds(measurement, sides)
    others = dict.fromkeys([*sides[0].others(), *sides[1].others()])
    on_gpu = measurement.device == "cuda"
    return [
        replace(
            _time_part(i, _name(g, runs), g.match.base, g.match.head, rounds, sides),
            control=_is_control(g, runs, sides, on_gpu=on_gpu),
        )
        for i, g in enumerate(groups)
    ] + [
        _time_part(None, name, _where(name, sides[0]), _where(name, sides[1]), rounds, sides)
        for name in others
    ]


def _join_sides(
    measurement: Measurement, runs: tuple[Run, Run]
) -> tuple[_SideLaunches, _SideLaunches]:
    return join_side("base", measurement, runs[0]), join_side("head", measurement, runs[1])


def _profiled_rounds(
    measurement: Measurement, sides: tuple[_SideLaunches, _SideLaunches]
) -> tuple[list[Round], int]:
    """Return the profiled rounds that are complete on both sides, and how many are not."""
    every = [r for r in measurement.rounds if r.kind == "kernels"]
    whole = [r for r in every if all(side.complete(r) for side in sides)]
    return whole, len(every) - len(whole)


def _total(rounds: Sequence[Round], sides: tuple[_SideLaunches, _SideLaunches]) -> RoundSeconds:
    """Return all launches of a step together."""
    base, head = ({p for parts in side.parts.values() for p in parts} for side in sides)
    return _columns(base, head, rounds, sides)


def _columns(
    base: Collection[Part],
    head: Collection[Part],
    rounds: Sequence[Round],
    sides: tuple[_SideLaunches, _SideLaunches],
) -> RoundSeconds:
    return series.join(
        rounds, lambda r: sides[0].seconds(base, r), lambda r: sides[1].seconds(head, r)
    )


def _name(group: KernelGroup, runs: tuple[Run, Run]) -> str:
    head = group.match.head
    return runs[1].kernels[head[0]].name if head else runs[0].kernels[group.match.base[0]].name


def _where(name: str, side: _SideLaunches) -> tuple[Part, ...]:
    return (name,) if name in side.others() else ()


def _is_control(
    group: KernelGroup,
    runs: tuple[Run, Run],
    sides: tuple[_SideLaunches, _SideLaunches],
    *,
    on_gpu: bool,
) -> bool:
    """Return whether both sides run the same machine code here: same binaries (same sources where a
    binary is not known), and on a GPU the same launch configurations and registers."""
    match = group.match
    if match.relation != "same":
        return False
    base = [runs[0].kernels[i] for i in match.base]
    head = [runs[1].kernels[i] for i in match.head]
    known = all(k.binary_hash for k in (*base, *head))
    ours, theirs = (
        Counter(k.binary_hash if known else k.source_hash for k in kernels)
        for kernels in (base, head)
    )
    if ours != theirs:
        return False
    left, right = sides[0].configurations(match.base), sides[1].configurations(match.head)
    return left == right if on_gpu else sum(left.values()) == sum(right.values())


def _time_part(
    group: int | None,
    name: str,
    base: tuple[Part, ...],
    head: tuple[Part, ...],
    rounds: Sequence[Round],
    sides: tuple[_SideLaunches, _SideLaunches],
) -> _TimedPart:
    if base and head:
        return _TimedPart(group, name, base, head, _columns(base, head, rounds, sides))
    side, wanted = (sides[1], head) if head else (sides[0], base)
    seconds = [s for r in rounds if (s := side.seconds(wanted, r)) is not None]
    return _TimedPart(
        group, name, base, head, RoundSeconds((), (), ()), _time_alone(side.name, seconds)
    )


def _time_alone(side: str, seconds: Sequence[float]) -> TimeChange:
    """Return the change of what only one side launches: the other's time is zero, which has no
    ratio."""
    median = statistics.median(seconds) if seconds else None
    return TimeChange(
        base=median if side == "base" else None,
        head=median if side == "head" else None,
        rounds=len(seconds),
        why=f"only {side} launches it",
    )
