"""Derives everything from a measurement: changes with verdicts, shares, bandwidths, what is
left."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from perfcli import units
from perfcli.model import (
    WAITS,
    Clocks,
    Device,
    DeviceClock,
    DeviceState,
    GroupTiming,
    KernelGroup,
    Machine,
    Measurement,
    Prepared,
    Round,
    RoundKind,
    Run,
    TimeChange,
    Timing,
    Turn,
)
from perfcli.stats import floor, parts, series, stopping, verdict
from perfcli.stats.paired import share_of
from perfcli.stats.parts import Part, _TimedPart
from perfcli.stats.series import RoundSeconds

LEVEL = 0.05


def _adjust(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Benjamini and Hochberg's adjusted p values (``scipy.stats.false_discovery_control``);
    those that are None stay None and do not count."""
    known = [p for p in p_values if p is not None]
    if not known:
        return [None] * len(p_values)
    from scipy.stats import false_discovery_control

    found = iter(false_discovery_control(known))
    return [None if p is None else float(next(found)) for p in p_values]


def _adjust_verdicts(changes: Sequence[TimeChange]) -> list[TimeChange]:
    """Return the same changes; slower or faster becomes unsure where it may be one of the false
    finds that so many tests make. The values stay as they are."""
    return [
        change
        if change.verdict not in ("slower", "faster") or (p is not None and p <= LEVEL)
        else replace(change, verdict="unsure", why=f"may be chance among {len(changes)} kernels")
        for change, p in zip(changes, _adjust([c.p for c in changes]), strict=True)
    ]


AVERAGED = (
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_watts",
    "temperature_celsius",
    "others_utilisation",
)


def _average_sides(rounds: Iterable[Round]) -> dict[str, DeviceState]:
    """Return ``base`` and ``head``: means over the turns that were sampled, throttle reasons
    united; a side that never was sampled is not there."""
    made = list(rounds)
    sides = {"base": [r.base.state for r in made], "head": [r.head.state for r in made]}
    sampled = {name: [s for s in states if s is not None] for name, states in sides.items()}
    return {name: _average(states) for name, states in sampled.items() if states}


def _average(states: Sequence[DeviceState]) -> DeviceState:
    """Return mean of each value over the states that know it."""
    means: dict[str, Any] = {}
    for name in AVERAGED:
        known = [v for s in states if (v := getattr(s, name)) is not None]
        means[name] = statistics.fmean(known) if known else None
    reasons = sorted({reason for s in states for reason in s.throttle})
    return DeviceState(**means, throttle=tuple(reasons))


def derive(
    measurement: Measurement,
    base_run: Run,
    head_run: Run,
    groups: Sequence[KernelGroup],
    stored_floor: tuple[float, str] | None = None,
    stored_device_floor: tuple[float, str] | None = None,
    clocks: Clocks = "both",
) -> Timing:
    """Derive the times of the step and of each group of the comparison. ``stored_floor``,
    ``stored_device_floor``: what ``perfcli noise`` found for the step and for the device's own time
    (relative), and where that is from. ``clocks``: whose time decides."""
    runs = (base_run, head_run)
    sides = parts._join_sides(measurement, runs)
    timed = parts._all_parts(measurement, runs, groups)
    controls = [t.series for t in timed if t.control]
    clock = _name_clock(measurement.prepared)
    judged = judge_clocks(
        measurement.rounds, measurement.device, clock, controls, stored_floor, stored_device_floor
    )
    found = judged.floor
    profiled, incomplete = parts._profiled_rounds(measurement, sides)
    total = (
        verdict.judge_change(parts._total(profiled, sides), found.relative) if profiled else None
    )
    changes = _adjust_verdicts([t.change(found.kernel) for t in timed])
    workers = tuple(p for p in (measurement.of("base"), measurement.of("head")) if p is not None)
    timing = replace(
        judged,
        wall=_wall(measurement, found.relative),
        kernels_total=total,
        no_graph=next((p.no_graph for p in measurement.prepared if p.no_graph), ""),
        clocks=clocks,
        prepared=workers,
        seed=measurement.seed,
        method=measurement.method,
        stopped=measurement.stopped,
        measurement=measurement.id,
        joined=parts._count_known(workers, [s for s in sides if s.parts]),
        states=_average_sides(measurement.rounds),
        notes=(
            *measurement.notes,
            *_describe_exchange(measurement, "device" if clock == "graph" else "step"),
            *_describe_ranks(measurement),
            *_describe_dropped(series.step_series(measurement.rounds).dropped, incomplete),
        ),
    )
    deciding = timing.deciding
    return replace(
        timing,
        groups=tuple(
            _group(t, change, deciding, total, runs, _copy_bandwidth(measurement))
            for t, change in zip(timed, changes, strict=True)
        ),
        # By the profiler, the device's time is that of its kernels and leaves nothing else.
        unexplained=_unexplained(deciding, changes)
        if (timing.clock, clock) != ("device", "profiler")
        else None,
    )


def _name_clock(prepared: Sequence[Prepared]) -> DeviceClock:
    """Return what tells the device's own time on both sides: CUDA graphs only where all workers
    have one."""
    known = {each.device_clock for each in prepared}
    if "" in known or not known:
        return ""
    return "graph" if known == {"graph"} else "profiler"


def judge_clocks(
    rounds: Sequence[Round],
    device: Device,
    clock: DeviceClock,
    controls: Sequence[RoundSeconds] = (),
    stored_floor: tuple[float, str] | None = None,
    stored_device_floor: tuple[float, str] | None = None,
) -> Timing:
    """Return the times of the step and, where ``clock`` tells it, of the device alone, each judged
    by its floor. A step that waits for its host has one of its own: two processes of the same
    Python differ by more than two of the same kernels."""
    seconds = series.seconds_spent(rounds)
    steps = series.step_series(rounds)
    found = floor.find_floor(device, controls, stored_floor)
    timing = Timing(verdict.judge_step(steps, seconds, found), found, seconds=seconds)
    times = series.clock_series(rounds, "device" if clock == "graph" else "kernels")
    if clock and times.base:
        of_device = floor.find_floor(
            device, controls, stored_device_floor, clock, seconds=statistics.median(times.base)
        )
        own = verdict.judge_step(times, seconds, of_device)
        timing = replace(timing, device=own, device_floor=of_device, device_clock=clock)
    # Where only the step was asked for, its kernels tell how long the device was busy.
    shares = series.waiting_shares(steps, times) if device == "cuda" else []
    if max(shares, default=0.0) < WAITS:
        return timing
    found = floor.find_floor(
        device, controls, stored_floor, seconds=statistics.median(steps.base), waits=True
    )
    return replace(timing, step=verdict.judge_step(steps, seconds, found), floor=found)


def _copy_bandwidth(measurement: Measurement) -> float | None:
    """Return what the head's kernels are held against. On the CPU the better of both sides' copies:
    it is one machine, and each side measured its copy while the other got ready on the same
    cores."""
    sides = [measurement.of("head")]
    if measurement.device == "cpu":
        sides.append(measurement.of("base"))
    return max((p.copy_bandwidth for p in sides if p and p.copy_bandwidth), default=None)


def _wall(measurement: Measurement, relative: float) -> TimeChange | None:
    if measurement.device != "cuda":
        return None
    walls = series.step_series(measurement.rounds, wall=True)
    return verdict.judge_change(walls, relative) if walls.base else None


def _group(
    timed: _TimedPart,
    change: TimeChange,
    step: TimeChange,
    total: TimeChange | None,
    runs: tuple[Run, Run],
    copy: float | None,
) -> GroupTiming:
    head = _bandwidth(timed.head, change.head, runs[1])
    target = runs[1].target
    told_apart = step.verdict in ("slower", "faster")
    of_base = share_of(change.base, total.base if total else None)
    of_head = share_of(change.head, total.head if total else None)
    return GroupTiming(
        group=timed.group,
        name=timed.name,
        change=change,
        control=timed.control,
        share_of_step=of_base if timed.base else of_head,
        share_of_change=share_of(_added_seconds(change), step.delta) if told_apart else None,
        base_bandwidth=_bandwidth(timed.base, change.base, runs[0]),
        head_bandwidth=head,
        peak_share=share_of(head, target.bandwidth if target else None),
        copy_share=share_of(head, copy),
    )


def _added_seconds(change: TimeChange) -> float | None:
    """Return seconds per step that head takes more; all of it for what only one side has."""
    if change.base is None or change.head is None:
        return change.head if change.head is not None else -change.base if change.base else None
    return change.delta


def _unexplained(step: TimeChange, changes: Iterable[TimeChange]) -> float | None:
    """Return the step's change less that of its parts, or None where any of them is not known."""
    each = [_added_seconds(change) for change in changes]
    known = [seconds for seconds in each if seconds is not None]
    if step.delta is None or not each or len(known) < len(each):
        return None
    return step.delta - sum(known)


def _bandwidth(kernels: Sequence[Part], seconds: float | None, run: Run) -> float | None:
    """Return bytes moved by all launches of a step over their time, or None where any is not
    known."""
    moved = 0
    for index in kernels:
        if isinstance(index, str) or (each := run.kernels[index].bytes_moved) is None:
            return None
        moved += each * run.kernels[index].launches
    return share_of(moved, seconds) if moved else None


def _describe_dropped(jumped: int, incomplete: int) -> list[str]:
    found = []
    if jumped:
        found.append(f"rounds left out because a clock jumped: {jumped}")
    if incomplete:
        found.append(f"profiled rounds left out, their launches incomplete: {incomplete}")
    return found


def _describe_exchange(measurement: Measurement, kind: RoundKind) -> list[str]:
    """Say which devices both sides exchanged, and what these differ by."""
    if not any(r.half for r in measurement.rounds):
        return []
    ours, theirs = (
        f"{measurement.device}:{_place(worker.machine)}"
        for worker in (measurement.of("base"), measurement.of("head"))
        if worker is not None
    )
    where = f"base on {ours} and head on {theirs}"
    ratio = series.device_ratio(measurement.rounds, kind)
    if ratio is None:
        return [f"{where}; ended before they exchanged these, so there is nothing to compare"]
    differs = f"{units.percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"
    return [f"{where}, exchanged half-way: on {theirs} a step takes {differs}, which cancels out"]


def _describe_ranks(measurement: Measurement) -> list[str]:
    """Say where the ranks of a process group ran, and how often each side's slowest was the same
    one."""
    worker = measurement.of("head")
    if worker is None or not worker.ranks:
        return []
    unlike = len({machine.device for machine in worker.ranks}) > 1
    where = ", ".join(
        f"{measurement.device}:{_place(machine)}" + (f" ({machine.device})" if unlike else "")
        for machine in worker.ranks
    )
    turns = {
        "base": [r.base for r in measurement.rounds if r.kind == "step"],
        "head": [r.head for r in measurement.rounds if r.kind == "step"],
    }
    slowest = [f"{side}: {text}" for side, of in turns.items() if (text := _name_slowest(of))]
    text = f"{len(worker.ranks)} ranks on {where}; a step takes as long as its slowest rank"
    return ["; ".join([text, *slowest])]


def _name_slowest(turns: Iterable[Turn]) -> str:
    """Return ``rank 1 in 83 % of steps``, of the rank that was slowest most often."""
    found = Counter(
        steps.index(max(steps)) for turn in turns for steps in zip(*turn.ranks, strict=True)
    )
    if not found:
        return ""
    rank, times = found.most_common(1)[0]
    return f"rank {rank} in {units.percent(round(times / found.total(), 2))} of steps"


def _place(machine: Machine) -> int:
    return machine.device_index or 0 if not machine.cpus else machine.cpus[0]


def is_broken_off(timing: Timing | None) -> bool:
    """Return whether Ctrl-C ended a measurement before there was enough for a verdict."""
    if timing is None or timing.stopped != "interrupted":
        return False
    return timing.deciding.low is None or timing.seconds < stopping.LEAST_SECONDS
