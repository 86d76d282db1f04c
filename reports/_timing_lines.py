"""How it was measured and on what, a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from perfcli import units
from perfcli.model import DeviceState, GroupTiming, OutputCheck, Prepared, Timing

from ._timing_rows import is_timed, share

# Of the device or the cores; less than this is nothing to worry about.
LEAST_BUSY = 0.01


def measured_lines(timing: Timing) -> list[tuple[str, str]]:
    """Label and text of each line, safe to print."""
    lines = [("measured", _how(timing)), ("floor", _floor(timing)), *_joined(timing)]
    lines += _both(timing, "device", _device)
    lines += [("copies", text) for text in [_copies(timing)] if text]
    lines += _both(timing, "host", _host)
    lines += [("state", text) for text in [_states(timing)] if text]
    lines += _both(timing, "outputs", lambda side: _outputs(side.check))
    notes = [note for side in timing.prepared for note in side.notes]
    lines += [("note", note) for note in dict.fromkeys((*timing.notes, *notes))]
    return [(label, units.printable(text)) for label, text in lines]


def _how(timing: Timing) -> str:
    rounds = units.plural(timing.step.rounds, "round")
    parts = [f"{rounds} in {units.seconds(timing.seconds)}", timing.method]
    parts += [f"seed {timing.seed}", timing.stopped]
    return "; ".join(part for part in parts if part)


def _floor(timing: Timing) -> str:
    floor = timing.floor
    kernel = f"; for one kernel {units.percent(floor.kernel)}" if floor.kernel else ""
    controls = sum(group.control for group in timing.groups)
    same = f"; {units.plural(controls, 'kernel')} with the same code" if controls else ""
    return f"{units.percent(floor.relative)}, {floor.source}{kernel}{same}"


def _joined(timing: Timing) -> Iterator[tuple[str, str]]:
    known, every = timing.joined
    if every:
        launches = units.plural(every, "launch", "launches")
        yield "joined", f"{units.count(known)} of {launches} with their kernel's facts"


def _both(timing: Timing, label: str, line: Callable[[Prepared], str]) -> Iterator[tuple[str, str]]:
    """What holds for both sides once, else each side's."""
    texts: dict[str, str] = {side.side: line(side) for side in timing.prepared}
    if len(set(texts.values())) == 1:
        texts = {"": next(iter(texts.values()))}
    for side, text in texts.items():
        if text:
            yield label, f"{side}: {text}" if side else text


def _device(side: Prepared) -> str:
    machine = side.machine
    parts = [machine.device, f"driver {machine.driver}" if machine.driver else ""]
    parts += [f"number {machine.device_index}" if machine.device_index else ""]
    return ", ".join(part for part in parts if part)


def _copies(timing: Timing) -> str:
    """What a large copy reaches there, ``base: 4.13 TB/s; head: 4.12 TB/s``."""
    known = {p.side: units.rate(p.copy_bandwidth) for p in timing.prepared if p.copy_bandwidth}
    if len(known) == len(timing.prepared) and len(set(known.values())) == 1:
        return next(iter(known.values()))
    return "; ".join(f"{side}: {rate}" for side, rate in known.items())


def _host(side: Prepared) -> str:
    machine = side.machine
    facts = machine.facts
    parts = [units.plural(machine.threads, "thread")] if machine.threads else []
    if machine.cpus:
        word = "core" if len(machine.cpus) == 1 else "cores"
        parts += [f"on {word} {_ranges(machine.cpus)}"]
    parts += [f"of {facts['cores']}"] if machine.cpus and facts.get("cores") else []
    found = [" ".join(parts)]
    found += [f"governor {facts['governor']}"] if facts.get("governor") else []
    found += ["address layout not fixed"] if facts.get("fixed_layout") is False else []
    return ", ".join(part for part in found if part)


def _ranges(numbers: tuple[int, ...]) -> str:
    """``0–3, 8``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)


def _states(timing: Timing) -> str:
    texts = {side: _state(state) for side, state in timing.states.items()}
    return "; ".join(f"{side}: {text}" for side, text in texts.items() if text)


def _state(state: DeviceState) -> str:
    numbers = (
        (state.sm_clock_mhz, "MHz"),
        (state.power_watts, "W"),
        (state.temperature_celsius, "°C"),
    )
    parts = [f"{value:,.0f} {unit}" for value, unit in numbers if value is not None]
    parts += [f"slowed down: {' and '.join(state.throttle)}"] if state.throttle else []
    busy = state.others_utilisation
    parts += [f"others kept {share(busy)} of it busy"] if busy and busy >= LEAST_BUSY else []
    return ", ".join(parts)


def _outputs(check: OutputCheck | None) -> str:
    if check is None or check.failure:
        return "" if check is None else check.failure
    if check.error is None:
        return check.reference  # it says why, "not compared: …"
    within = "" if check.tolerance is None else f", tolerance {check.tolerance:.2g}"
    return f"off by {check.error:.2g} from {check.reference}{within}"


# --- what the table of kernels leaves out ------------------------------------------------------


def rest(timing: Timing, shown: Sequence[GroupTiming]) -> str:
    """One line for the kernels that have no row: ``4 more and 12 with the same code, together
    +12 µs``."""
    hidden = [group for group in timing.groups if group not in shown]
    timed = [group for group in hidden if is_timed(group)]
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


def doubt(shown: Sequence[GroupTiming]) -> str:
    """Why rows of the table are unsure: the most frequent reason, and of how many it is one."""
    unsure = [g.change for g in shown if g.change.verdict == "unsure" and g.change.ratio]
    reasons = Counter(change.why for change in unsure if change.why)
    if not reasons:
        return ""
    why, number = reasons.most_common(1)[0]
    of = f" ({number} of {len(unsure)})" if number < len(unsure) else ""
    return f"unsure{of}: {units.printable(why)}"


def unexplained(timing: Timing) -> str:
    """What no kernel's time explains: gaps between kernels, and the host."""
    if timing.unexplained is None:
        return ""
    total = timing.step.delta
    part = f" ({share(timing.unexplained / total)})" if total else ""
    return f"in no kernel: {units.signed(units.seconds, timing.unexplained)} of the change{part}"
