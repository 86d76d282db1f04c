"""What PC902 says about the machine while it was measured on: clocks, other work, addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perfcli import units
from perfcli.diff.budget import BUSY
from perfcli.model import Comparison, DeviceState, Finding, MeasuredLaunch, Timing
from perfcli.rules._doubts import NAMED, doubt

CODE = "PC902"
CLOCKS = 0.01
"""Relative difference of the mean clocks: a step that waits for arithmetic follows it."""
ADDRESSES = 0.04
"""Two processes of the same code differ by 1 to 4 % where addresses are random (seen: a dozen
pairs of CPU workers on one core of a shared 2-core AMD EPYC, 2026-11-21)."""
RANDOM = "fixed_layout"


def told(timing: Timing) -> bool:
    """Whether the step's verdict says that there is a difference."""
    return timing.step.verdict in ("slower", "faster")


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
            "; ".join(sides),
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
        f"other processes kept {units.percent(busiest)} of the {what} busy",
        advice=f"free the {what}, or give a longer --budget; perfcli noise measures what can be "
        "told apart here",
        severity="warning",
        code=CODE,
    )


def _addresses(comparison: Comparison, timing: Timing) -> Iterator[Finding]:
    random = [p.side for p in timing.prepared if p.machine.facts.get(RANDOM) is False]
    if not random or comparison.head.device != "cpu":
        return
    small = told(timing) and abs((timing.step.ratio or 1.0) - 1) < ADDRESSES
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
            severity="warning" if told(timing) else "info",
            amount=len(differ),
            code=CODE,
        )


def _configs(launches: tuple[MeasuredLaunch, ...]) -> dict[tuple[str, str], str]:
    return {
        (each.source_hash, each.name): each.config
        for each in launches
        if each.source_hash and each.config
    }


PARTS: tuple[Callable[[Comparison, Timing], Iterator[Finding]], ...] = (
    _throttled,
    _clocks,
    _others,
    _addresses,
    _autotuned,
)
