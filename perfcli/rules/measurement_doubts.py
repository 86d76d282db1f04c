"""Measured times may say less than they seem to.

What it sees: in a comparison that was measured, throttling on one side alone; clocks that differ
by more than the noise floor; other work on the GPU or the cores (from 10 %); memory laid out at
random (CPU); other autotuned configurations for kernels of equal source; fewer than 10 rounds; a
step of which kernels take less than 70 %; a change of which kernels do not explain half; at most 3
launches that move less than three times L2; launches of generated kernels that belong to no known
kernel; a CUDA graph that could not be taken; outputs that could not be held against a reference;
and a side of whose kernel time over 90 % is not in generated code. A warning where the times of
the two sides may differ for this alone.

Why it costs: nothing. The verdict stands as it was measured, but what caused it may be another.
Two processes of the same code on one core differ by 1 to 4 % where addresses are random (seen on a
2-core AMD EPYC, 2026-11-21).

What to try: each finding says how to make sure: a longer `--budget`, another `--seed`,
`--cuda-graph`, or `perfcli noise`, which measures what can be told apart on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perfcli import units
from perfcli.diff.verdict.words import BUSY
from perfcli.model import (
    Comparison,
    DeviceState,
    Finding,
    MeasuredLaunch,
    Rule,
    Run,
    SideName,
    Timing,
)
from perfcli.rules.doubts import NAMED, doubt

CODE = "PC902"
CLOCKS = 0.01
"""Relative difference of the mean clocks: a step that waits for arithmetic follows it."""
ADDRESSES = 0.04
"""Two processes of the same code differ by 1 to 4 % where addresses are random (seen: a dozen
pairs of CPU workers on one core of a shared 2-core AMD EPYC, 2026-11-21)."""
RANDOM = "fixed_layout"


def _told(timing: Timing) -> bool:
    """Return whether the verdict of the times says that there is a difference."""
    return timing.deciding.verdict in ("slower", "faster")


def _states(timing: Timing) -> tuple[DeviceState, DeviceState] | None:
    base, head = timing.states.get("base"), timing.states.get("head")
    return (base, head) if base and head else None


def _throttled(_: Comparison, timing: Timing) -> Iterator[Finding]:
    states = _states(timing)
    if states is None:
        return
    base, head = (set(state.throttle) for state in states)
    only = [("head", sorted(head - base)), ("base", sorted(base - head))]
    sides = [f"the {side} alone was slowed down by {', '.join(r)}" for side, r in only if r]
    if sides:
        yield doubt(
            "throttling",
            f"{'; '.join(sides)}{_both_clocks(timing)}",
            advice="repeat with another --seed: where it stays, that side draws more power or "
            "heat, and the slower clock belongs to its time",
            severity="warning",
            code=CODE,
        )


def _clocks(_: Comparison, timing: Timing) -> Iterator[Finding]:
    states = _states(timing)
    clocks = [s.sm_clock_mhz for s in states or ()]
    base, head = clocks if clocks else (None, None)
    if not base or not head or abs(head / base - 1) <= max(CLOCKS, timing.floor.relative):
        return
    yield doubt(
        "clocks",
        f"not the same clock on both sides: {base:.0f} MHz in the base, {head:.0f} MHz in the head",
        advice="lock the clock (nvidia-smi --lock-gpu-clocks), or repeat with another --seed",
        severity="warning",
        code=CODE,
    )


def _others(comparison: Comparison, timing: Timing) -> Iterator[Finding]:
    busiest = max((s.others_utilisation or 0.0 for s in timing.states.values()), default=0.0)
    if busiest < BUSY:
        return
    what = "GPU" if comparison.head.device == "cuda" else "cores"
    yield doubt(
        "other work",
        f"other processes kept {units.percent(busiest)} of the {what} busy{_both_clocks(timing)}",
        advice=f"free the {what}, or give a longer --budget; perfcli noise measures what can be "
        "told apart here",
        severity="warning",
        code=CODE,
    )


def _both_clocks(timing: Timing) -> str:
    """Return that the device's own time is none of an undisturbed device either."""
    return ": the device's own time is longer for it, as the step's" if timing.device else ""


def _addresses(comparison: Comparison, timing: Timing) -> Iterator[Finding]:
    random = [p.side for p in timing.prepared if p.machine.facts.get(RANDOM) is False]
    if not random or comparison.head.device != "cpu":
        return
    small = _told(timing) and abs((timing.deciding.ratio or 1.0) - 1) < ADDRESSES
    yield doubt(
        "random addresses",
        "the system lays out memory at random: "
        "two processes of the same code differ by 1 to 4 % (seen on a 2-core AMD EPYC, 2026-11-21)",
        advice="repeat with other --seed; perfcli noise measures how far two processes differ here",
        severity="warning" if small else "info",
        code=CODE,
    )


def _autotuned(_: Comparison, timing: Timing) -> Iterator[Finding]:
    base, head = (p.launches if (p := timing.of(s)) else () for s in ("base", "head"))
    ours, theirs = _configs(base), _configs(head)
    differ = [
        f"{name}: {ours[source, name]} → {config}"
        for (source, name), config in theirs.items()
        if ours.get((source, name), config) != config
    ]
    if differ:
        yield doubt(
            "autotuned",
            f"the autotuner took other configurations for {units.plural(len(differ), 'kernel')} "
            "of equal source",
            evidence=tuple(differ[:NAMED]),
            advice="repeat with --fresh: where the winner changes from run to run, so does the "
            "time, and neither variant is to blame",
            severity="warning" if _told(timing) else "info",
            amount=len(differ),
            code=CODE,
        )


def _configs(launches: tuple[MeasuredLaunch, ...]) -> dict[tuple[str, str], str]:
    return {
        (each.source_hash, each.name): each.config
        for each in launches
        if each.source_hash and each.config
    }


FEW_LAUNCHES = 3
"""The launches up to which a cold cache matters: in a step of more, kernels drive each other's data
out of the cache, as they do in use."""
CACHES = 3
"""Times L2: a working set below that partly stays in L2 from one step to the next."""
FEW_ROUNDS = 10
"""8 are the fewest that a signed-rank interval of 99 % can be taken of."""
HOST = 0.7
"""Share of the step that its kernels take; below, the device waits for the host."""
FOREIGN = 0.9
"""Share of all kernels' time that is not in generated kernels."""
UNEXPLAINED = 0.5
"""Part of the step's change."""
GRAPH = "launched kernel by kernel"
SIDES: tuple[SideName, SideName] = ("base", "head")


def _warm_cache(comparison: Comparison, timing: Timing) -> Iterator[Finding]:
    target = comparison.head.target
    flushed = any(p.machine.facts.get("flush_l2") for p in timing.prepared)
    if target is None or not target.l2_bytes or flushed:
        return
    sizes = [_working_set(run) for run in (comparison.base, comparison.head)]
    known = [size for size in sizes if size is not None]
    if known and len(known) == len(sizes) and min(known) < CACHES * target.l2_bytes:
        yield doubt(
            "warm cache",
            f"a step moves {units.size(min(known))}, L2 holds {units.size(target.l2_bytes)}: "
            "the times are those of a warm cache",
            advice="--flush-l2 times steps with a cold cache; or measure a larger size",
            code=CODE,
        )


def _working_set(run: Run) -> int | None:
    """Return at most all bytes that a step moves. None where they are not known, or the step is
    long."""
    moved = [kernel.bytes_moved for kernel in run.kernels for _ in range(kernel.launches)]
    if run.externs or not moved or len(moved) > FEW_LAUNCHES or None in moved:
        return None
    finishing = sum(kernel.finishing_bytes * kernel.launches for kernel in run.kernels)
    return sum(size or 0 for size in moved) + finishing


def _host(comparison: Comparison, timing: Timing) -> Iterator[Finding]:
    if timing.device is not None:
        return  # PC601 says so, of a share that is measured
    total, step = timing.kernels_total, timing.step
    pairs = [(total.base, step.base), (total.head, step.head)] if total else []
    shares = [of / whole for of, whole in pairs if of is not None and whole]
    if not shares or min(shares) >= HOST:
        return
    gpu = comparison.head.device == "cuda"
    what = "the GPU is busy for" if gpu else "kernels and operators take"
    graphed = "give --cuda-graph (forward only) or " if gpu else ""
    yield doubt(
        "launch-bound",
        f"{what} {units.percent(min(shares))} of the step: the rest is the host's time, which "
        "kernels do not decide",
        advice=f"{graphed}measure a larger size",
        severity="warning" if _told(timing) else "info",
        code=CODE,
    )


def _joined(_: Comparison, timing: Timing) -> Iterator[Finding]:
    known, launches = timing.joined
    if known < launches:
        yield doubt(
            "not joined",
            f"{launches - known} of {units.plural(launches, 'launch', 'launches')} of generated "
            "kernels belong to no known kernel: their time is missing from the list",
            evidence=tuple(n for p in timing.prepared for n in p.notes if "launches" in n),
            advice="the step's own time does not depend on it",
            amount=launches - known,
            code=CODE,
        )


def _few_rounds(_: Comparison, timing: Timing) -> Iterator[Finding]:
    rounds = timing.deciding.rounds
    if rounds < FEW_ROUNDS:
        number = units.plural(rounds, "round")
        yield doubt(
            "few rounds",
            f"{number} of measuring: intervals are wide or missing",
            advice="give a longer --budget, or a smaller --preset",
            severity="warning",
            amount=rounds,
            code=CODE,
        )


def _graph(_: Comparison, timing: Timing) -> Iterator[Finding]:
    refused = {p.side: note for p in timing.prepared for note in p.notes if GRAPH in note}
    if refused:
        one = len(refused) < len(timing.prepared)
        where = f"on the {next(iter(refused))} alone" if one else "on both sides"
        yield doubt(
            "no CUDA graph",
            f"no CUDA graph was taken {where}: its times contain the launches",
            evidence=tuple(f"{side}: {note}" for side, note in refused.items()),
            advice="compare without --cuda-graph" if one else "",
            severity="warning" if one else "info",
            code=CODE,
        )


def _unchecked(_: Comparison, timing: Timing) -> Iterator[Finding]:
    checks = {p.side: p.check for p in timing.prepared if p.check is not None}
    unknown = {s: c.reference for s, c in checks.items() if c.error is None and not c.failure}
    if unknown:
        sides = " and ".join(f"the {side}'s" for side in unknown)
        yield doubt(
            "outputs",
            f"{sides} outputs were not held against a reference",
            evidence=tuple(f"{side}: {why}" for side, why in unknown.items()),
            advice="a smaller --preset, or eval() for a model with dropout, can be compared",
            code=CODE,
        )


def _unexplained(comparison: Comparison, timing: Timing) -> Iterator[Finding]:
    left, change = timing.unexplained, timing.deciding.delta
    if left is None or not change or not _told(timing) or abs(left) <= UNEXPLAINED * abs(change):
        return
    graph = "; --cuda-graph leaves both out" if comparison.head.device == "cuda" else ""
    yield doubt(
        "unexplained",
        f"the {timing.clock}'s {units.signed(units.seconds, change)} are not its kernels': "
        f"{units.signed(units.seconds, left)} are explained by none",
        advice=f"look at launches and the host's time{graph}",
        severity="warning",
        code=CODE,
    )


def _foreign(_: Comparison, timing: Timing) -> Iterator[Finding]:
    total = timing.kernels_total
    for number, side in enumerate(SIDES):
        whole = (total.base, total.head)[number] if total else None
        parts = [
            g.change.head if number else g.change.base for g in timing.groups if g.group is None
        ]
        share = sum(part or 0.0 for part in parts) / whole if whole else 0.0
        if share > FOREIGN:
            yield doubt(
                f"foreign {side}",
                f"{units.percent(share)} of the {side}'s kernel time is not in code that Inductor "
                "generated",
                advice="what options of Inductor change is the rest; graph breaks (PC403) and "
                "library operators (PC402) show what runs outside of it",
                code=CODE,
            )


PARTS: tuple[Callable[[Comparison, Timing], Iterator[Finding]], ...] = (
    _throttled,
    _clocks,
    _others,
    _addresses,
    _autotuned,
    _few_rounds,
    _host,
    _unexplained,
    _warm_cache,
    _joined,
    _graph,
    _unchecked,
    _foreign,
)


def _check(comparison: Comparison) -> Iterator[Finding]:
    timing = comparison.timing
    if timing is not None and not timing.traced:
        for part in PARTS:
            yield from part(comparison, timing)


RULE = Rule(CODE, "doubts about the measurement", __doc__, of_comparison=_check)
