"""What a search has found out, as data: what each variant generates, and what each code measures.

It is kept by settings and by code, never by the question: a search with other sides, or of another
metric, goes on with all of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from perfcli.bisect.metrics import Metric
from perfcli.bisect.space import Settings
from perfcli.performance_knobs import load
from perfcli.search.ledger import Code
from perfcli.search.weighing import Reading

# As in ``commands/_measuring``: options that act when the step runs, though the code is the same.
_AT_RUN_TIME = ("cudagraph", "graph_partition", "cpp_wrapper", "memory_plan", "buffer_reuse", "tun")


@dataclass(slots=True)
class Knowledge:
    codes: dict[str, Code] = field(default_factory=dict)
    """By ``name_of`` the settings; a failure may be among them."""
    inferred: set[str] = field(default_factory=set)
    """Those that were not compiled: nobody reads the options in which they differ from one that
    was."""
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """By class, then by metric: exact values, in the metric's unit."""
    readings: dict[str, list[Reading]] = field(default_factory=dict)
    """By ``pair_of`` two classes and a metric: the second against the first."""

    def readings_against(self, good: str, metric: Metric) -> dict[str, list[Reading]]:
        """By class; the lists themselves: what is appended to them stays known."""
        start = pair_of(good, "", metric)
        return {k.removeprefix(start): v for k, v in self.readings.items() if k.startswith(start)}


def name_of(settings: Settings) -> str:
    """One text for the same settings, in whatever order."""
    return json.dumps(dict(settings), sort_keys=True)


def pair_of(good: str, code: str, metric: Metric) -> str:
    return f"{metric.name} {good} {code}"


def class_of(code: str, settings: Settings, metric: Metric) -> str:
    """What an answer is valid for: the code, where that decides the metric. What it takes to run
    also depends on options that act then; to compile, on every one."""
    if metric.kind == "compile":
        deciding = dict(settings)
    elif metric.kind in ("time", "memory"):
        deciding = {name: value for name, value in settings.items() if _acts_later(name)}
    else:
        deciding = {}
    if not deciding:
        return code
    return f"{code}-{hashlib.sha256(name_of(deciding).encode()).hexdigest()[:12]}"


def _acts_later(name: str) -> bool:
    listed = any(knob.name == name and knob.acts in ("launch", "run") for knob in load())
    variable = name.isupper()
    words = any(word in name for word in _AT_RUN_TIME)
    return listed or variable or words or name.startswith("dynamo.")
