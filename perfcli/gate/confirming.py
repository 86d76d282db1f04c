"""A slower step fails only when a second measurement, in fresh processes, says so too: noise of
one pair of processes (where their memory lies) is the same in all of its rounds."""

from __future__ import annotations

from dataclasses import replace

from perfcli.gate.judging import Result, concluded
from perfcli.gate.metrics import TIME
from perfcli.model import LimitResult


def slower(result: Result) -> LimitResult | None:
    """The limit on time that is broken."""
    return next((r for r in result.limits if r.limit.metric == TIME and r.state == "broken"), None)


def confirmed(first: Result, second: Result) -> Result:
    """What follows of two measurements of which the first one was slower than it may be."""
    before, after = slower(first), slower(second)
    if before is None:
        return second
    limits = tuple(
        _again(result, before.text, after is not None) if result.limit.metric == TIME else result
        for result in second.limits
    )
    return concluded(replace(second, limits=limits))


def _again(result: LimitResult, before: str, still: bool) -> LimitResult:
    if still:
        return replace(result, text=f"{result.text}, confirmed in fresh processes")
    text = f"{before}, but not confirmed in fresh processes: {result.text}"
    return replace(result, state="unknown", text=text)
