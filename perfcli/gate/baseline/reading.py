"""Reads one check of a baseline: its run and its findings, from the tables of the file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, get_args

from perfcli.gate.baseline.facts import TOOLS
from perfcli.gate.baseline.kernels import _facts
from perfcli.model import (
    Environment,
    ExternCall,
    Finding,
    GraphFacts,
    KernelFacts,
    Launch,
    Run,
    Severity,
    Variant,
)


@dataclass(frozen=True, slots=True)
class Made:
    """Says how a check came into the baseline."""

    created: str
    """ISO date."""
    reason: str
    revision: str = ""
    """Of the repository; empty where there was none."""


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """Holds one check: its run without sources, node names and numbers of kernels, as far as the
    file keeps it, and what the rules said of it."""

    made: Made
    run: Run
    findings: tuple[Finding, ...]
    target: str = ""
    """``h100 (sm_90, 132 SMs)``; empty on a CPU. The run of an entry has no target."""


def _entry(table: Mapping[str, Any]) -> BaselineEntry:
    """Return one check. Raises KeyError, TypeError and ValueError for what is none of ours."""
    kernels = tuple(map(_facts, table["kernels"]))
    tools: dict[str, Any] = {tool: table.get(tool) for tool in TOOLS}
    run = Run(
        id="",
        created=table["created"],
        scenario=table["scenario"],
        params=table["params"],
        mode=table["mode"],
        dynamic=table["dynamic"],
        device=table["device"],
        target=None,
        variant=Variant("baseline", options=table.get("options", {})),
        environment=Environment(**tools, platform=""),
        kernels=kernels,
        launches=_launches(kernels),
        graphs=tuple(_graph_facts(graph) for graph in table["graphs"]),
        externs=tuple(
            ExternCall(op, graph, count)
            for graph, calls in table.get("externs", {}).items()
            for op, count in calls.items()
        ),
        graph_breaks=table.get("graph_breaks", {}),
        threads=table.get("threads"),
        estimated_with=table.get("estimated_with", ""),
    )
    made = Made(table["created"], table["reason"], table.get("revision", ""))
    return BaselineEntry(made, run, _read_findings(table, kernels), table.get("target", ""))


def _launches(kernels: Iterable[KernelFacts]) -> tuple[Launch, ...]:
    return tuple(Launch(k.graph, k.name) for k in kernels for _ in range(k.launches))


def _graph_facts(table: Mapping[str, Any]) -> GraphFacts:
    return GraphFacts(
        table["name"], table["direction"], table["index"], 0, table.get("peak_memory_bytes")
    )


def _read_findings(table: Mapping[str, Any], kernels: Sequence[KernelFacts]) -> tuple[Finding, ...]:
    places = {kernel.name: index for index, kernel in enumerate(kernels)}
    return tuple(
        Finding(
            code=each["code"],
            severity=each["severity"],
            headline=_headline(each),
            kernels=tuple(places[name] for name in each.get("kernels", ())),
            metric=each.get("metric", ""),
            amount=each.get("amount"),
            subject=each.get("subject", ""),
            doubt=each.get("doubt", False),
        )
        for each in table.get("findings", ())
    )


def _headline(finding: Mapping[str, Any]) -> str:
    about = ", ".join(finding.get("kernels", ())) or finding.get("subject", "")
    return about or finding["code"]


def _renamed(run: Run, names: Mapping[str, str]) -> Run:
    """Return the run with other names for its kernels."""

    def name(old: str) -> str:
        return names.get(old, old)

    return replace(
        run,
        kernels=tuple(replace(k, name=name(k.name)) for k in run.kernels),
        launches=tuple(replace(each, name=name(each.name)) for each in run.launches),
    )


Kind: TypeAlias = Any
"""A type, a tuple of types or of texts; a list of what a list holds; a table of kinds by key, where
``*`` is any other key."""

_ANY = "*"
_COUNTS = {_ANY: int}
_SCALAR = (bool, int, float, str)
_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}

_CONFIGURATION: Kind = {
    **dict.fromkeys(("config", "limit", "loads", "stores", "binary"), str),
    **dict.fromkeys(("warps", "stages", "registers", "stack", "arrays", "shared"), int),
    **dict.fromkeys(("blocks", "tma_loads", "tma_stores"), int),
    "occupancy": float,
    "failed": bool,
}
_KERNEL: Kind = {
    **dict.fromkeys(("name", "kind", "language", "graph", "code"), str),
    **dict.fromkeys(("launches", "loads", "loads_in_loops", "stores"), int),
    **dict.fromkeys(("vector_loads", "vector_stores", "spilled_words", "registers"), int),
    "finishing_bytes": int,
    **dict.fromkeys(("bytes_read", "bytes_written", "bytes_swept", "lower_bound_seconds"), float),
    "sizes": _COUNTS,
    "dynamic_sizes": [str],
    "estimated_us": [float],
    "finishing_us": float,
    "reads": [str],
    "configurations": [_CONFIGURATION],
    "operators": [{"in": str, "layers": str, "shape": [(int, str)], "ops": str}],
}
_FINDING: Kind = {
    **dict.fromkeys(("code", "subject", "metric"), str),
    "severity": get_args(Severity),
    "kernels": [str],
    "amount": float,
    "doubt": bool,
}
_CHECK: Kind = {
    **dict.fromkeys(("perfcli", "torch", "triton", "ptxas", "python"), str),
    **dict.fromkeys(("reason", "revision", "scenario", "mode", "device", "target"), str),
    "params": {_ANY: _SCALAR},
    "options": {_ANY: _SCALAR},
    "dynamic": bool,
    "threads": int,
    "estimated_with": str,
    "totals": {_ANY: float},
    "graphs": [{"name": str, "direction": str, "index": int, "peak_memory_bytes": float}],
    "externs": {_ANY: _COUNTS},
    "graph_breaks": _COUNTS,
    "findings": [_FINDING],
    "kernels": [_KERNEL],
}


def check(table: Any) -> None:
    """Raise TypeError and ValueError where a check's table has a value of another kind than perfcli
    writes."""
    _check(table, _CHECK, "")


def _check(value: Any, kind: Kind, where: str) -> None:
    if isinstance(kind, Mapping):
        if not isinstance(value, dict):
            raise TypeError(f"{where or 'it'} is {value!r}, not a table")
        for name, each in value.items():
            if name in kind or _ANY in kind:
                _check(each, kind.get(name, kind.get(_ANY)), f"{where}.{name}".lstrip("."))
    elif isinstance(kind, list):
        if not isinstance(value, list):
            raise TypeError(f"{where} is {value!r}, not a list")
        for number, each in enumerate(value, 1):
            _check(each, kind[0], f"{where}[{number}]")
    else:
        _check_plain(value, kind if isinstance(kind, tuple) else (kind,), where)


def _check_plain(value: Any, kinds: tuple[Any, ...], where: str) -> None:
    if isinstance(kinds[0], str):
        if value not in kinds:
            raise ValueError(f"{where} is {value!r}, not one of {', '.join(kinds)}")
        return
    accepted = {*kinds, int} if float in kinds else {*kinds}
    if type(value) not in accepted:
        words = " or ".join(_WORDS[kind] for kind in kinds)
        raise TypeError(f"{where} is {value!r}, not {words}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, not a finite number")
