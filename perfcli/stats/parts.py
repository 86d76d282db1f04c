"""The parts that a step's time is made of: groups of kernels, and operators without facts."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from perfcli.model import KernelGroup, Measurement, Round, Run, TimeChange
from perfcli.stats import joining, series, verdict
from perfcli.stats.joining import Part, SideLaunches
from perfcli.stats.series import Series


@dataclass(frozen=True, slots=True)
class TimedPart:
    """Holds one part of both sides with its times per profiled round."""

    group: int | None
    name: str
    base: tuple[Part, ...]
    head: tuple[Part, ...]
    series: Series
    alone: TimeChange | None = None
    """Where only one side has it."""
    control: bool = False

    def change(self, floor: float) -> TimeChange:
        return self.alone or verdict.judge_change(self.series, floor)


def all_parts(
    measurement: Measurement, runs: tuple[Run, Run], groups: Sequence[KernelGroup]
) -> list[TimedPart]:
    """Return the groups, then what has no facts; all that was launched is in exactly one of
    them."""
    sides = join_sides(measurement, runs)
    rounds, _ = profiled_rounds(measurement, sides)
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


def join_sides(
    measurement: Measurement, runs: tuple[Run, Run]
) -> tuple[SideLaunches, SideLaunches]:
    return joining.join_side("base", measurement, runs[0]), joining.join_side(
        "head", measurement, runs[1]
    )


def profiled_rounds(
    measurement: Measurement, sides: tuple[SideLaunches, SideLaunches]
) -> tuple[list[Round], int]:
    """Return the profiled rounds that are complete on both sides, and how many are not."""
    every = [r for r in measurement.rounds if r.kind == "kernels"]
    whole = [r for r in every if all(side.complete(r) for side in sides)]
    return whole, len(every) - len(whole)


def total(rounds: Sequence[Round], sides: tuple[SideLaunches, SideLaunches]) -> Series:
    """Return all launches of a step together."""
    base, head = ({p for parts in side.parts.values() for p in parts} for side in sides)
    return _columns(base, head, rounds, sides)


def _columns(
    base: Collection[Part],
    head: Collection[Part],
    rounds: Sequence[Round],
    sides: tuple[SideLaunches, SideLaunches],
) -> Series:
    return series.join(
        rounds, lambda r: sides[0].seconds(base, r), lambda r: sides[1].seconds(head, r)
    )


def _name(group: KernelGroup, runs: tuple[Run, Run]) -> str:
    head = group.match.head
    return runs[1].kernels[head[0]].name if head else runs[0].kernels[group.match.base[0]].name


def _where(name: str, side: SideLaunches) -> tuple[Part, ...]:
    return (name,) if name in side.others() else ()


def _is_control(
    group: KernelGroup,
    runs: tuple[Run, Run],
    sides: tuple[SideLaunches, SideLaunches],
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
    sides: tuple[SideLaunches, SideLaunches],
) -> TimedPart:
    if base and head:
        return TimedPart(group, name, base, head, _columns(base, head, rounds, sides))
    side, wanted = (sides[1], head) if head else (sides[0], base)
    seconds = [s for r in rounds if (s := side.seconds(wanted, r)) is not None]
    return TimedPart(group, name, base, head, Series((), (), ()), _time_alone(side.name, seconds))


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
