"""The host takes longer to launch a step than the device to run it.

What it sees: the number of launches of a step, of generated kernels and of library operators, and
how long the host is busy with them by estimate, against the estimated time of the device. It speaks
only where the least that a host needs to launch them (5 µs each) is more than the most that the
device needs to run them, and what it takes to replay them: no host is fast enough then.
Constants and where they come from: docs/time_operators.md, "The host". Where both clocks were
measured on a GPU, no estimate is asked: it speaks where the device waits for at least a fifth of
the step, by the step's time and the device's own, and says whether that came with the head.

Why it costs: the device waits for its next launch, so that faster kernels gain nothing, and a
kernel that is split in four takes four times as long, whatever it moves.

What to try: CUDA graphs, `torch.compile(mode="reduce-overhead")` or `triton.cudagraphs=true`, which
replay all launches of a step at once: about 8 µs of the host for each graph, and a microsecond of
the device for each kernel. The evidence says what would keep Inductor from recording them. Fewer
launches with more work each help as well: larger batches, or `combo_kernels=true`, which puts
kernels that do not depend on each other into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfcli import units
from perfcli.model import (
    Comparison,
    Cost,
    Cure,
    Finding,
    HostEstimate,
    Rule,
    Run,
    SideName,
    StepEstimate,
    TimeChange,
    Timing,
)
from perfcli.predict.savings import estimate_total
from perfcli.predict.step import estimate_step

_OPTION, _COMBINE = "triton.cudagraphs", "combo_kernels"


def _check(run: Run) -> Iterator[Finding]:
    if run.observed is not None:
        return  # a trace shows how busy the device was
    if run.host is not None and run.host.launching <= (estimate_total(run) or 0.0):
        return  # by what is estimated already, the device needs as long or longer
    step = estimate_step(run)
    if step is None or not step.waits_for_host or step.host is None:
        return
    if step.host.launching <= step.host.replay:
        return  # one launch: replaying it takes about as long
    yield _write_finding(run, step, step.host)


def _write_finding(run: Run, step: StepEstimate, host: HostEstimate) -> Finding:
    launches = units.plural(host.launches, "launch", "launches")
    kernels = sum(kernel.launches for kernel in run.kernels)
    calls = host.launches - kernels
    parts = [units.plural(kernels, "of a generated kernel", "of generated kernels")]
    parts += [units.plural(calls, "operator")] if calls > 0 else []
    busy = host.seconds - host.once
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{launches} keep the host busy for {units.seconds(busy)}, and the device for "
        f"{units.seconds(step.seconds)}",
        evidence=(
            f"launches: {', '.join(parts)}, in {units.plural(len(run.graphs), 'graph')}",
            f"they take the host {units.seconds(host.launching)} at least, and the device "
            f"{units.seconds(step.high)} at most",
            f"besides, guards and entering the graphs take the host {units.seconds(host.once)}",
            *_list_obstacles(run),
        ),
        advice="record CUDA graphs: mode='reduce-overhead'; launch fewer kernels with more work",
        cures=_propose(run),
        metric="launches",
        amount=host.launches,
        cost=_estimate_cost(step, host),
        subject="host",
    )


def _estimate_cost(step: StepEstimate, host: HostEstimate) -> Cost:
    """Return what CUDA graphs would save: launches, not what the host does once in a step."""
    replayed = max(host.once + host.replay, step.seconds)
    saved = host.seconds - replayed
    low = max(host.launching - max(host.replay, step.high), 0.0)
    return Cost(saved, min(low, saved), max(host.high - host.once, saved), saved / host.seconds)


def _list_obstacles(run: Run) -> Iterator[str]:
    if run.graph_obstacles is None:
        return
    if not run.graph_obstacles:
        yield "nothing keeps its graphs from being recorded as CUDA graphs"
    for obstacle in run.graph_obstacles:
        where = f" at {obstacle.location}" if obstacle.location else ""
        kept = f"{obstacle.graph} would be {obstacle.effect}"
        yield f"as a CUDA graph, {kept}: {obstacle.reason}{where}"


def _propose(run: Run) -> tuple[Cure, ...]:
    cures = []
    if run.settings.get(_OPTION) is False and not run.graph_obstacles:
        cures.append(Cure({_OPTION: True}, "launches each graph of the step at once"))
    graphs = [kernel.graph for kernel in run.kernels if kernel.launches]
    if run.settings.get(_COMBINE) is False and len(graphs) > len(set(graphs)):
        cures.append(Cure({_COMBINE: True}, "puts independent kernels of a graph into one"))
    return tuple(cures)


# --- measured ----------------------------------------------------------------------------------

LEAST_WAITING = 0.2
"""Share of a step in which the device waits: less is what launching adds to most short kernels."""


def _is_measured(comparison: Comparison) -> bool:
    return comparison.timing is not None and comparison.timing.waiting is not None


def _check_measured(comparison: Comparison) -> Iterator[Finding]:
    timing = comparison.timing
    if timing is None or timing.device is None:
        return
    base, head = (_wait(*pair) for pair in _pair_times(timing.device, timing.step))
    gone = base >= LEAST_WAITING > head
    if max(base, head) < LEAST_WAITING:
        return
    waiting = base if gone else head
    side: SideName = "base" if gone else "head"
    run = comparison.base if gone else comparison.head
    busy, whole = _pair_times(timing.device, timing.step)[not gone]
    # A head whose kernels became faster waits longer, too: that is no fault of it.
    came = base < LEAST_WAITING and timing.step.verdict == "slower"
    yield Finding(
        code=RULE.code,
        severity="warning" if came else "info",
        headline=f"the step waits for the host {units.percent(round(waiting, 2))} of the time: it "
        f"takes {units.seconds(whole)}, and the device {units.seconds(busy)} of that",
        evidence=(
            *_list_measured_launches(timing, side),
            f"measured: {_SAID_BY[timing.device_clock]}",
            f"waits in the base {units.percent(round(base, 2))} of the step, in the head "
            f"{units.percent(round(head, 2))}",
            *_list_obstacles(run),
        ),
        advice="record CUDA graphs: mode='reduce-overhead'; launch fewer kernels with more work",
        cures=() if gone else _propose(run),
        metric="waiting_seconds",
        amount=whole - busy,
        cost=_measure_cost(run, busy, whole),
        subject="host",
        on_base=gone,
        appearance="gone" if gone else "new" if came else "same",
    )


_SAID_BY: Mapping[str, str] = {
    "graph": "the step as it runs, and the same step replayed as a CUDA graph",
    "profiler": "the step as it runs, and the sum of its kernels by the profiler",
}


def _pair_times(device: TimeChange, step: TimeChange) -> tuple[tuple[float, float], ...]:
    """Return the device's seconds and the step's, of the base and of the head."""
    pairs = ((device.base, step.base), (device.head, step.head))
    return tuple((busy or 0.0, whole or busy or 0.0) for busy, whole in pairs)


def _wait(busy: float, whole: float) -> float:
    """Return the share of a step in which the device waits."""
    return max(1 - busy / whole, 0.0) if whole else 0.0


def _list_measured_launches(timing: Timing, side: SideName) -> Iterator[str]:
    worker = timing.of(side)
    if worker is not None and worker.launch_count:
        generated = sum(launch.generated for launch in worker.launches)
        count = units.plural(worker.launch_count, "launch", "launches")
        yield f"{count} per step, {generated} of them of generated kernels"


def _measure_cost(run: Run, busy: float, whole: float) -> Cost:
    """Return what CUDA graphs would save: all that the device waits, if replaying them took the
    host no longer than the device; at worst what the estimated replay leaves of it."""
    replay = run.host.once + run.host.replay if run.host is not None else 0.0
    saved = whole - max(busy, replay)
    return Cost(saved, min(0.5 * saved, saved), whole - busy, saved / whole if whole else None)


RULE = Rule(
    *("PC601", "the host decides", __doc__),
    of_run=_check,
    of_comparison=_check_measured,
    is_measured=_is_measured,
)
