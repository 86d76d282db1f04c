"""What a target's memory and arithmetic allow, as lines of a roofline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfcli.model import Target

from ._html_scale import Scale

ASSUMED = "fp32"
"""What generated kernels compute in, whatever they load."""


@dataclass(frozen=True, slots=True)
class Roof:
    path: str
    look: str
    text: str
    x: float
    y: float


def roofs(target: Target, xs: Scale, ys: Scale) -> Iterator[Roof]:
    fastest = max(target.peak_flops, key=lambda kind: (kind == "bf16", kind == ASSUMED))
    for kind in dict.fromkeys((ASSUMED, fastest)):
        peak = target.peak_flops[kind]
        ridge = min(max(peak / target.bandwidth, xs.low), xs.high)
        start = (xs(xs.low), ys(max(xs.low * target.bandwidth, ys.low)))
        corner, end = (xs(ridge), ys(peak)), (xs(xs.high), ys(peak))
        if kind != ASSUMED:  # below the first roof's corner they are one line
            start = (
                xs(target.peak_flops[ASSUMED] / target.bandwidth),
                ys(target.peak_flops[ASSUMED]),
            )
        if peak / target.bandwidth > xs.high:
            corner = end = (xs(xs.high), ys(xs.high * target.bandwidth))
        path = "M" + " L".join(f"{x:g},{y:g}" for x, y in (start, corner, end))
        word = f"{kind} {flops_per_second(peak)}"
        word += " (matrix units)" if kind != ASSUMED else ""
        below = 17 if kind == ASSUMED else -10
        look = "assumed" if kind == ASSUMED else "other"
        yield Roof(path, look, word, xs.end, end[1] + below)


def flops_per_second(value: float) -> str:
    for size, unit in ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} FLOP/s"
