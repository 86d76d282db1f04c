"""CUDA graphs were asked for, and Inductor does not record them.

What it sees: `triton.cudagraphs` is on, and something in a compiled graph keeps it from being
recorded as one CUDA graph, in Inductor's own words and with the model's line where Inductor knows
it. Three things can become of such a graph:

* it is not recorded: it changes an input in place that has another address each time, or works on
  two devices ("mutated inputs", "multiple devices", "cpu device");
* it is split (torch's `graph_partition`): operators on the CPU, copies between devices, sizes that
  values decide and operators that can't be recorded run between the recorded parts;
* it is recorded anew for each size, because sizes are dynamic.

Why it costs: what is not recorded is launched kernel by kernel, each of which takes the host 5 µs
and more, and a split graph takes a replay for each part. Recording takes a second and memory of its
own for each size.

What to try: copy the result out instead of changing the input, or give the input a fixed address
(`torch._dynamo.mark_static_address`); make tensors on the device; pad sizes to a few.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Finding, GraphObstacle, Origin, Rule, Run, Severity

_SEVERITIES: dict[str, Severity] = {
    "not recorded": "warning",
    "split": "info",
    "recorded again": "info",
}
_HEADLINES = {
    "not recorded": "is not recorded as a CUDA graph",
    "split": "is recorded as several CUDA graphs",
    "recorded again": "is recorded as a CUDA graph anew for each size",
}
_ADVICE = {
    "mutated inputs": "return the new value, or torch._dynamo.mark_static_address(input) before",
    "cpu": "make the tensor on the device",
    "DeviceCopy": "make the tensor on the device",
    "dynamic": "pad sizes to a few",
    "unbacked": "keep sizes that values decide out of the compiled function",
}


def _check(run: Run) -> Iterator[Finding]:
    if run.settings.get("triton.cudagraphs") is not True:
        return
    for obstacle in run.graph_obstacles or ():
        yield _write_finding(obstacle, _count_sizes(run))


def _count_sizes(run: Run) -> int:
    """Return with how many sizes the model was called."""
    return 1 + len(run.recompilations.varied) if run.recompilations else 1


def _write_finding(obstacle: GraphObstacle, sizes: int) -> Finding:
    place = obstacle.location
    again = obstacle.effect == "recorded again" and sizes > 2
    advice = next((text for word, text in _ADVICE.items() if word in obstacle.reason), "")
    return Finding(
        code=RULE.code,
        severity="warning" if again else _SEVERITIES[obstacle.effect],
        headline=f"{obstacle.graph} {_HEADLINES[obstacle.effect]}: {obstacle.reason}",
        evidence=(f"{sizes} sizes are {sizes} recordings of each graph",) if again else (),
        advice=advice,
        origin=Origin("", "", location=place, code=obstacle.code) if place else None,
        subject=f"{obstacle.graph} {obstacle.reason} {place}",
    )


RULE = Rule("PC602", "CUDA graphs skipped", __doc__, of_run=_check)
