"""Writes times as rows of text: what was measured, then what was estimated."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import (
    Comparison,
    DeviceState,
    EstimatedChange,
    Floor,
    GroupEstimate,
    GroupTiming,
    MemoryUse,
    Observed,
    ObservedRank,
    OutputCheck,
    Prepared,
    Run,
    StepEstimate,
    TimeChange,
    TimeEstimate,
    TimeVerdict,
    Timing,
)

from .kernels import sum_estimates, write_bounds, write_share


@dataclass(frozen=True, slots=True)
class TimeRow:
    """Holds one number of the whole step. ``change``: in percent, of a time with its interval."""

    title: str
    base: str
    head: str
    delta: str
    change: str
    verdict: TimeVerdict | None = None


@dataclass(frozen=True, slots=True)
class KernelTimeRow:
    """A group of kernels, or the calls of an extern operator. ``suffix``: what became of it."""

    number: int | None
    name: str
    suffix: str
    verdict: TimeVerdict
    cells: Mapping[str, str]


# --- the step --------------------------------------------------------------------------------


_TIMES_OF: Mapping[str, tuple[str, str]] = {
    "": ("step", "CPU wall"),
    "step": ("step", ""),
    "busy": ("device busy", "step to step"),
}
"""What ``Timing.step`` and ``Timing.wall`` are called."""


def list_step_times(timing: Timing) -> list[TimeRow]:
    """Times, launches, memory, and how long it took to compile; what is known of either side."""
    first, last = _TIMES_OF[timing.traced]
    by_profiler = timing.device_clock == "profiler"
    times = (
        ("device", timing.device),
        (first, timing.step),
        ("kernels together", None if by_profiler else timing.kernels_total),
        (last, timing.wall),
    )
    known = [(title, c) for title, c in times if c and (c.base is not None or c.head is not None)]
    rows = [_write_time(title, change) for title, change in known]
    return [*rows, *_list_numbers(timing)]


def _write_time(title: str, change: TimeChange) -> TimeRow:
    base, head = units.alike(change.base, change.head)
    delta = units.signed(units.seconds, change.delta) if change.delta is not None else ""
    moved = units.interval(change.ratio, change.low, change.high)
    return TimeRow(title, base, head, delta, moved, change.verdict)


def _list_numbers(timing: Timing) -> Iterator[TimeRow]:
    sides = [timing.of("base"), timing.of("head")]
    for metric, of in _NUMBERS:
        base, head = (None if side is None else of(side) for side in sides)
        if base is not None or head is not None:
            yield _write_number(_choose_title(metric, sides), metric, base, head)


def _choose_title(metric: str, sides: Sequence[Prepared | None]) -> str:
    resident = any(side and side.memory and "resident" in side.memory.method for side in sides)
    return "peak resident" if metric == "peak_allocated_bytes" and resident else units.title(metric)


def _write_number(title: str, metric: str, base: float | None, head: float | None) -> TimeRow:
    write = units.writer(metric)
    delta = None if base is None or head is None else head - base
    moved = units.signed(write, delta) if delta else ""
    return TimeRow(title, write(base), write(head), moved, units.relative(base, head))


def _read_memory(field: str) -> Callable[[Prepared], float | None]:
    def value(side: Prepared) -> float | None:
        memory: MemoryUse | None = side.memory
        found: float | None = None if memory is None else getattr(memory, field)
        return found

    return value


_NUMBERS: tuple[tuple[str, Callable[[Prepared], float | None]], ...] = (
    ("launches", lambda side: side.launch_count),
    ("peak_allocated_bytes", _read_memory("peak_allocated_bytes")),
    ("peak_reserved_bytes", _read_memory("peak_reserved_bytes")),
    ("compile_seconds", lambda side: side.compile_seconds),
)


# --- kernels ---------------------------------------------------------------------------------


def _write_times(group: GroupTiming) -> str:
    return units.from_to(group.change.base, group.change.head)


def _write_change(group: GroupTiming) -> str:
    """Return the change in percent, or in seconds where there is nothing to compare it with."""
    change = group.change
    if change.ratio is None:
        return "" if group.delta is None else units.signed(units.seconds, group.delta)
    return units.interval(change.ratio, change.low, change.high)


def _write_mark(group: GroupTiming) -> str:
    """Return the verdict; of what one side alone has, which."""
    sides = bool(group.change.base), bool(group.change.head)
    return {(True, False): "gone", (False, True): "new"}.get(sides, group.change.verdict)


# Title and text: in order of importance, a narrow screen shows the first ones.
TIME_COLUMNS: tuple[tuple[str, Callable[[GroupTiming], str]], ...] = (
    ("base → head", _write_times),
    ("change", _write_change),
    ("", _write_mark),
    ("of change", lambda group: write_share(group.share_of_change)),
    ("of step", lambda group: write_share(group.share_of_step)),
    ("rate", lambda g: "" if g.head_bandwidth is None else units.rate(g.head_bandwidth)),
    ("peak", lambda group: write_share(group.peak_share)),
    ("copy", lambda group: write_share(group.copy_share)),
)


_ESTIMATED = "estimated"
TIME_TITLES = (
    *(title for title, _ in TIME_COLUMNS[:5]),
    _ESTIMATED,
    *(t for t, _ in TIME_COLUMNS[5:]),
)


def _write_estimated(group: GroupTiming, comparison: Comparison) -> str:
    """Return the estimated times of a group's kernels, to hold the measured ones against."""
    if group.group is None or comparison.estimate is None:
        return ""
    match = comparison.groups[group.group].match
    base, head = map(sum_estimates, match.select(comparison.base, comparison.head))
    return units.from_to(base, head) if base or head else ""


def order_by_change(timing: Timing) -> list[GroupTiming]:
    """Return the largest changes first, of traces those that are sure before all others; controls,
    whose code is the same, only where their time is not."""
    told = [g for g in timing.groups if not g.control or g.change.verdict in ("slower", "faster")]
    timed = [group for group in told if _is_timed(group)]
    by_size = sorted(timed, key=lambda group: -abs(group.delta or 0.0))
    if timing.traced:
        return sorted(
            by_size,
            key=lambda group: (
                group.change.verdict not in ("slower", "faster") and bool(group.change.ratio)
            ),
        )
    return by_size


def _is_timed(group: GroupTiming) -> bool:
    """Return whether its time is known on one side at least."""
    return group.change.base is not None or group.change.head is not None


def write_kernel_time(group: GroupTiming, comparison: Comparison) -> KernelTimeRow:
    cells = {title: text(group) for title, text in TIME_COLUMNS}
    cells[_ESTIMATED] = _write_estimated(group, comparison)
    name = units.printable(group.name)
    number = _find_number(group, comparison)
    return KernelTimeRow(
        number, name, _name_relation(group, comparison), group.change.verdict, cells
    )


def _find_number(group: GroupTiming, comparison: Comparison) -> int | None:
    """Return the kernel's number in the head, which inspect-kernel takes."""
    if group.group is None:
        return None
    match, kernels = comparison.groups[group.group].match, comparison.head.kernels
    named = (number for number in match.head if kernels[number].name == group.name)
    return next(named, match.head[0] if match.head else None)


def _name_relation(group: GroupTiming, comparison: Comparison) -> str:
    if group.group is None:
        return "extern"
    if group.control:
        return "same code"
    match = comparison.groups[group.group].match
    many = {len(match.base), len(match.head)} - {0, 1}
    return f"{len(match.base)} → {len(match.head)}" if many else ""


# Of the device or the cores; less than this is nothing to worry about.
LEAST_BUSY = 0.01


def list_measured(timing: Timing) -> list[tuple[str, str]]:
    """Return the label and text of each line, safe to print."""
    lines = [
        ("traced" if timing.traced else "measured", _write_method(timing)),
        ("allowance" if timing.traced else "floor", _write_floor(timing)),
        *_list_clocks(timing),
        *_list_joined(timing),
    ]
    lines += _list_sides(timing, "device", _name_device)
    lines += [("copies", text) for text in [_write_copies(timing)] if text]
    lines += _list_sides(timing, "host", _describe_host)
    lines += [("state", text) for text in [_write_states(timing)] if text]
    lines += _list_sides(timing, "outputs", lambda side: _write_outputs(side.check))
    notes = [note for side in timing.prepared for note in side.notes]
    lines += [("note", note) for note in dict.fromkeys((*timing.notes, *notes))]
    return [(label, units.printable(text)) for label, text in lines]


def _write_method(timing: Timing) -> str:
    if timing.traced:
        return f"{units.plural(timing.step.rounds, 'step')} of each side; {timing.method}"
    rounds = units.plural(timing.step.rounds, "round")
    parts = [f"{rounds} in {units.seconds(timing.seconds)}", timing.method]
    parts += [f"seed {timing.seed}", timing.stopped]
    return "; ".join(part for part in parts if part)


def _write_floor(timing: Timing) -> str:
    floor = timing.floor
    kernel = f"; for one kernel {units.percent(floor.kernel)}" if floor.kernel else ""
    controls = sum(group.control for group in timing.groups)
    same = f"; {units.plural(controls, 'kernel')} with the same code" if controls else ""
    return f"{_write_relative(floor)}{kernel}{same}"


def _write_relative(floor: Floor) -> str:
    """Return ``0.5 %, assumed``."""
    return f"{units.percent(floor.relative)}, {floor.source}"


def _list_clocks(timing: Timing) -> Iterator[tuple[str, str]]:
    """Yield what told the device's own time, why that is no CUDA graph, and how long the device
    waits for the host."""
    if timing.device_clock == "graph":
        yield "clock", "the device's own time by a CUDA graph of the step, replayed"
    elif timing.device_clock and any(side.ranks for side in timing.prepared):
        yield (
            "clock",
            "the time that the devices are busy, by the profiler: with kernels on the rank that "
            "waits least for the others, with each collective on the rank that waits least in it",
        )
    elif timing.device_clock:
        why = f": no CUDA graph, {timing.no_graph}" if timing.no_graph else ""
        yield "clock", f"the device's own time by the profiler, all kernels together{why}"
    if timing.device_floor is not None:
        yield "", f"floor {_write_relative(timing.device_floor)}"
    if timing.waiting is not None:
        yield (
            "",
            f"the device waits for the host {units.percent(round(timing.waiting, 2))} of the step",
        )


def _list_joined(timing: Timing) -> Iterator[tuple[str, str]]:
    known, every = timing.joined
    if every:
        launches = units.plural(every, "launch", "launches")
        yield "joined", f"{units.count(known)} of {launches} with their kernel's facts"


def _list_sides(
    timing: Timing, label: str, line: Callable[[Prepared], str]
) -> Iterator[tuple[str, str]]:
    """Yield what holds for both sides once, else each side's."""
    texts: dict[str, str] = {side.side: line(side) for side in timing.prepared}
    if len(set(texts.values())) == 1:
        texts = {"": next(iter(texts.values()))}
    for side, text in texts.items():
        if text:
            yield label, f"{side}: {text}" if side else text


def _name_device(side: Prepared) -> str:
    machine = side.machine
    parts = [machine.device, f"driver {machine.driver}" if machine.driver else ""]
    parts += [f"number {machine.device_index}" if machine.device_index else ""]
    return ", ".join(part for part in parts if part)


def _write_copies(timing: Timing) -> str:
    """Return what a large copy reaches there, ``base: 4.13 TB/s; head: 4.12 TB/s``."""
    known = {p.side: units.rate(p.copy_bandwidth) for p in timing.prepared if p.copy_bandwidth}
    if len(known) == len(timing.prepared) and len(set(known.values())) == 1:
        return next(iter(known.values()))
    return "; ".join(f"{side}: {rate}" for side, rate in known.items())


def _describe_host(side: Prepared) -> str:
    machine = side.machine
    facts = machine.facts
    parts = [units.plural(machine.threads, "thread")] if machine.threads else []
    if machine.cpus:
        word = "core" if len(machine.cpus) == 1 else "cores"
        parts += [f"on {word} {_write_ranges(machine.cpus)}"]
    parts += [f"of {facts['cores']}"] if machine.cpus and facts.get("cores") else []
    found = [" ".join(parts)]
    found += [f"governor {facts['governor']}"] if facts.get("governor") else []
    found += ["address layout not fixed"] if facts.get("fixed_layout") is False else []
    return ", ".join(part for part in found if part)


def _write_ranges(numbers: tuple[int, ...]) -> str:
    """Return ``0–3, 8``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)


def _write_states(timing: Timing) -> str:
    texts = {side: _write_state(state) for side, state in timing.states.items()}
    return "; ".join(f"{side}: {text}" for side, text in texts.items() if text)


def _write_state(state: DeviceState) -> str:
    numbers = (
        (state.sm_clock_mhz, "MHz"),
        (state.power_watts, "W"),
        (state.temperature_celsius, "°C"),
    )
    parts = [f"{value:,.0f} {unit}" for value, unit in numbers if value is not None]
    parts += [f"slowed down: {' and '.join(state.throttle)}"] if state.throttle else []
    busy = state.others_utilisation
    parts += [f"others kept {write_share(busy)} of it busy"] if busy and busy >= LEAST_BUSY else []
    return ", ".join(parts)


def _write_outputs(check: OutputCheck | None) -> str:
    if check is None or check.failure:
        return "" if check is None else check.failure
    if check.error is None:
        return check.reference  # it says why, "not compared: …"
    within = "" if check.tolerance is None else f", tolerance {check.tolerance:.2g}"
    return f"off by {check.error:.2g} from {check.reference}{within}"


# --- what a trace says of one run -----------------------------------------------------------------


def list_observed(run: Run) -> list[tuple[str, str]]:
    """Return the label and text of each line about the trace that a run was imported from, safe to
    print."""
    observed = run.observed
    if observed is None:
        return []
    lines: list[tuple[str, str]] = []
    if observed.steps:
        lines = [("step", _write_observed_step(observed)), ("traced", _write_trace(observed))]
    if observed.peak_memory_bytes is not None:
        lines.append(("memory", f"{units.size(observed.peak_memory_bytes)} at most"))
    lines += [("", f"{units.size(size)} {owner}") for owner, size in observed.held]
    lines += [("rank", _write_rank(rank)) for rank in observed.ranks]
    lines += [("trace", note) for note in observed.notes]
    return [(label, units.printable(text)) for label, text in lines]


def _write_observed_step(observed: Observed) -> str:
    """Return ``5.68 ms, the device idle in 8 % of it, kernels together 5.24 ms``."""
    known = observed.step_seconds
    works = [sum(seconds) for seconds in zip(*(w.seconds for w in observed.works), strict=True)]
    parts = [units.seconds(statistics.median(known))] if known else []
    idle = observed.idle_share
    parts += [f"the device idle in {units.percent(round(idle, 2))} of it"] if idle else []
    parts += [f"kernels together {units.seconds(statistics.median(works))}"] if works else []
    generated = [w.seconds for w in observed.works if w.generated]
    if generated and works:
        own = statistics.median(map(sum, zip(*generated, strict=True)))
        share = units.percent(round(own / (statistics.median(works) or 1.0), 2))
        parts.append(f"{share} of that in generated ones")
    return ", ".join(parts)


def _write_trace(observed: Observed) -> str:
    """Return ``8 steps by ProfilerStep marks, NVIDIA H200, by torch.profiler``."""
    rank = [] if observed.rank is None else [f"rank {observed.rank}"]
    device = [observed.device] if observed.device else []
    steps = f"{units.plural(len(observed.steps), 'step')} by {observed.marks}"
    return ", ".join([steps, *device, *rank, f"by {observed.tool}"])


def _write_rank(rank: ObservedRank) -> str:
    """Return ``0: step 12.3 ms, busy 10.1 ms, communication 2.1 ms``."""
    step = "" if rank.seconds is None else f"step {units.seconds(rank.seconds)}, "
    collective = units.seconds(rank.communication)
    return f"{rank.rank}: {step}busy {units.seconds(rank.busy)}, communication {collective}"


# --- what the table of kernels leaves out ------------------------------------------------------


def count_rest(timing: Timing, shown: Sequence[GroupTiming]) -> str:
    """Return one line for the kernels that have no row: ``4 more and 12 with the same code,
    together +12 µs``."""
    hidden = [group for group in timing.groups if group not in shown]
    timed = [group for group in hidden if _is_timed(group)]
    controls = sum(group.control for group in timed)
    counts = (
        (len(timed) - controls, "more"),
        (controls, "with the same code"),
        (len(hidden) - len(timed), "not timed"),
    )
    counted = [f"{number} {what}" for number, what in counts if number]
    if not counted:
        return ""
    known = [group.delta for group in timed if group.delta is not None]
    moved = f", together {units.signed(units.seconds, sum(known))}" if known else ""
    return f"… {', '.join(counted)}{moved}: --json FILE has them all"


def name_doubt(shown: Sequence[GroupTiming]) -> str:
    """Return why rows of the table are unsure: the most frequent reason, and of how many it is
    one."""
    unsure = [g.change for g in shown if g.change.verdict == "unsure" and g.change.ratio]
    reasons = Counter(change.why for change in unsure if change.why)
    if not reasons:
        return ""
    why, number = reasons.most_common(1)[0]
    of = f" ({number} of {len(unsure)})" if number < len(unsure) else ""
    return f"unsure{of}: {units.printable(why)}"


def write_unexplained(timing: Timing) -> str:
    """Return what no kernel's time explains: gaps between kernels, and the host."""
    if timing.unexplained is None:
        return ""
    total = timing.deciding.delta
    part = f" ({write_share(timing.unexplained / total)})" if total else ""
    return f"in no kernel: {units.signed(units.seconds, timing.unexplained)} of the change{part}"


# --- what was estimated ------------------------------------------------------------------------

ESTIMATED_COLUMNS = ("base → head", "change", "", "of change", "limited by", "of step")
_LEAST_TOLD = 0.02


def list_estimated_step(estimate: EstimatedChange) -> list[TimeRow]:
    """Return the row of the step, or of the kernels that have an estimate where not all of it
    has."""
    base, head = units.alike(estimate.base.seconds, estimate.head.seconds)
    delta = estimate.head.seconds - estimate.base.seconds
    sides = (estimate.base, estimate.head)
    whole = not any(None in side.externs or side.missing for side in sides)
    return [
        TimeRow(
            "step" if whole else "kernels",
            base,
            head,
            units.signed(units.seconds, delta) if delta else "",
            units.interval(estimate.ratio, estimate.low, estimate.high),
            estimate.verdict,
        )
    ]


def list_estimated_kernels(comparison: Comparison) -> list[KernelTimeRow]:
    """Return a row for each group whose estimated time changes, the largest change first."""
    estimate = comparison.estimate
    return (
        [_write_group(group, estimate, comparison) for group in estimate.groups] if estimate else []
    )


def _write_group(
    group: GroupEstimate, estimate: EstimatedChange, comparison: Comparison
) -> KernelTimeRow:
    match = comparison.groups[group.group].match
    side, step = (
        (comparison.head, estimate.head) if match.head else (comparison.base, estimate.base)
    )
    numbers = match.head or match.base
    number = max(numbers, key=lambda n: side.kernels[n].step_seconds or 0.0)
    many = {len(match.base), len(match.head)} - {0, 1}
    return KernelTimeRow(
        number if match.head else None,
        units.printable(side.kernels[number].name),
        f"{len(match.base)} → {len(match.head)}" if many else "",
        _judge(group),
        _write_cells(group, estimate, step.kernels[number]),
    )


def _write_cells(
    group: GroupEstimate, estimate: EstimatedChange, kernel: TimeEstimate | None
) -> Mapping[str, str]:
    both = group.base and group.head
    moved = group.head - group.base
    total = estimate.head.seconds - estimate.base.seconds
    change = units.interval(group.head / group.base) if both else units.signed(units.seconds, moved)
    told = estimate.verdict in ("slower", "faster") and total
    texts = (
        units.from_to(group.base or None, group.head or None),
        change,
        "" if both else ("gone" if group.base else "new"),
        write_share(moved / total) if told else "",
        write_bounds(kernel),
        write_share((group.base or group.head) / (estimate.base.seconds or 1.0)),
    )
    return dict(zip(ESTIMATED_COLUMNS, texts, strict=True))


def _judge(group: GroupEstimate) -> TimeVerdict:
    """Return the direction of one group's change: of one alone there is no interval."""
    if group.head > group.base * (1 + _LEAST_TOLD):
        return "slower"
    return "faster" if group.base > group.head * (1 + _LEAST_TOLD) else "same"


def list_estimated(estimate: EstimatedChange) -> list[tuple[str, str]]:
    """Return the label and text of each line about where the estimate comes from."""
    lines = [("estimated", _write_source(estimate.base))]
    if estimate.head.calibration != estimate.base.calibration:
        lines.append(("", f"head: {_write_source(estimate.head)}"))
    missing = dict.fromkeys((*estimate.missing, *estimate.base.missing, *estimate.head.missing))
    lines += [("no estimate", text) for text in _count_missing(tuple(missing))]
    return [(label, units.printable(text)) for label, text in lines]


def _count_missing(missing: Sequence[str], most: int = 3) -> list[str]:
    more = [f"and {len(missing) - most} more"] if len(missing) > most else []
    return [*missing[:most], *more]


def _write_source(step: StepEstimate) -> str:
    """Return what the constants of an estimate are measured on or derived from."""
    text = f"from constants measured on {step.calibration}" if step.calibration else ""
    if step.derived:
        text = f"from constants of {step.derived}, scaled by data sheets: intervals are wider"
    return text
