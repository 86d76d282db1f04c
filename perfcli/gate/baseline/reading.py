"""A run and its findings, of the tables of one check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfcli.gate.baseline.entry import BaselineEntry, Made
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
    Variant,
)


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
