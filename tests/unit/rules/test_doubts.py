from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, H100, kernel, run

from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.compile.stand_in import decisions
from perfcli.diff.compare import compare
from perfcli.model import TOO_SLOW, Candidate, Comparison, Finding, GraphFacts, KernelFacts, Run
from perfcli.rules.doubts import RULE

FAILED = Candidate({"XBLOCK": 1}, 4, 1, error="PTXAS error")


def of_run(*kernels: KernelFacts, **more: Any) -> dict[str, Finding]:
    return {finding.subject: finding for finding in RULE.of_run(run(kernels, **more))}


def of_pair(comparison: Comparison) -> dict[str, Finding]:
    return {finding.subject: finding for finding in RULE.of_comparison(comparison)}


def sides(base: list[KernelFacts], head: list[KernelFacts], **more: Any) -> Comparison:
    return compare(run(base), run(head, id="head", **more))


# --- one run ---------------------------------------------------------------------------------


def test_a_run_of_which_all_is_known_raises_nothing() -> None:
    note = "the model's code reads values while it is built: built on the CPU, then moved"
    assert of_run(kernel("k", "add"), notes=(note,)) == {}


def test_kernels_without_machine_code_are_named_together() -> None:
    unknown = [kernel(f"k{n}", registers=None) for n in range(6)]
    (finding,) = of_run(*unknown, kernel("known")).values()
    assert finding.headline == (
        "6 of 7 kernels without machine code: registers, spills and occupancy leave them out"
    )
    assert finding.evidence == ("k0, k1, k2, k3 and 2 more",)
    assert (finding.severity, finding.amount, finding.kernels) == ("info", 6, ())


def test_a_kernel_for_the_cpu_has_no_registers_to_know() -> None:
    assert of_run(kernel("cpp_fused_0", registers=None, language="cpp", kind="cpp")) == {}


def test_a_configuration_that_did_not_compile() -> None:
    partly = kernel("k")
    partly = replace(partly, candidates=(*partly.candidates, FAILED))
    assert set(of_run(partly)) == {"failed configurations"}
    assert set(of_run(replace(partly, candidates=(FAILED,)))) == {"no machine code"}


@pytest.mark.parametrize("known", [True, False])
def test_a_configuration_that_the_assembler_was_stopped_at(known: bool) -> None:
    stopped = replace(FAILED, error=f"{TOO_SLOW} 120 s")
    whole = kernel("k")
    candidates = (*whole.candidates, stopped) if known else (stopped,)
    (finding,) = of_run(replace(whole, candidates=candidates), kernel("other")).values()
    assert finding.subject == "assembler stopped"
    assert finding.headline == (
        "1 of 2 kernels with launch configurations that ptxas was stopped at: their registers and "
        "spills are not known"
    )
    assert finding.evidence == ("k",)


def test_bytes_that_inductor_does_not_tell() -> None:
    assert set(of_run(kernel("k", read=None))) == {"bytes not known"}


def test_all_that_is_assumed_without_a_device_is_told() -> None:
    assumptions = decisions.Assumptions()
    texts = [
        decisions.PADDING,
        decisions.PADDED,
        decisions.SIZES,
        decisions.VALUES,
        decisions.RECURRENT,
    ]
    assumptions.counts = Counter(texts)
    graph = CapturedGraph(GraphFacts("forward 0", "forward", 0, 1))
    graph.choices = {"choice": ("k0", "k1")}
    notes = (*assumptions.notes(), *Capture(graphs=[graph], branches=2).notes())
    assert len(notes) == 7
    (finding,) = of_run(kernel("k"), notes=(*notes, "made up")).values()
    assert finding.headline == "perfcli assumed 7 decisions that the device would make"
    assert finding.evidence == notes


# --- two runs --------------------------------------------------------------------------------


def test_like_runs_raise_nothing() -> None:
    changed = kernel("k", "add", registers=40, text="other")
    assert of_pair(sides([kernel("k", "add")], [changed])) == {}


def test_a_verdict_on_spills_of_kernels_partly_unknown() -> None:
    unknown = kernel("lost", "mul", registers=None)
    spilling = kernel("k", "add", stack=64, text="other")
    other = replace(unknown, source_hash="other")
    base = [kernel("k", "add"), unknown]
    (finding,) = of_pair(sides(base, [spilling, other])).values()
    assert finding.subject == "verdict: no machine code"
    assert finding.severity == "warning"
    assert finding.headline == (
        "the verdict rests on spilled words: 2 changed kernels without machine code: "
        "registers, spills and occupancy leave them out"
    )
    assert finding.evidence == ("base: lost", "head: lost")


def test_a_verdict_on_spills_of_some_configurations() -> None:
    worse = kernel("k", "add", stack=64, text="other")
    worse = replace(worse, candidates=(*worse.candidates, FAILED))
    (finding,) = of_pair(sides([kernel("k", "add")], [worse])).values()
    assert finding.subject == "verdict: failed configurations"
    assert finding.evidence == ("head: k",)


def test_what_did_not_change_leaves_the_verdict_alone() -> None:
    unknown = kernel("lost", "mul", registers=None)
    spilling = kernel("k", "add", stack=64, text="other")
    assert of_pair(sides([kernel("k", "add"), unknown], [spilling, unknown])) == {}


def test_unknown_bytes_do_not_matter_to_a_verdict_on_spills() -> None:
    base = [kernel("k", "add", read=None)]
    assert of_pair(sides(base, [kernel("k", "add", read=None, stack=64, text="other")])) == {}


def test_kernels_matched_by_name_alone() -> None:
    base = [kernel("triton_poi_fused_0", text="a")]
    found = of_pair(sides(base, [kernel("triton_poi_fused_1", text="b")]))
    assert set(found) == {"weak matches", "no provenance"}
    assert found["weak matches"].headline == (
        "1 group of kernels may not belong together, 1 by name alone"
    )
    assert found["weak matches"].evidence == (
        "triton_poi_fused_0 → triton_poi_fused_1: by name, confidence 0.3",
    )
    assert found["no provenance"].amount == 2


@pytest.mark.parametrize(("confidence", "weak"), [(0.39, True), (0.4, False)])
def test_little_shared_work(confidence: float, weak: bool) -> None:
    comparison = sides([kernel("k", "add", text="a")], [kernel("k", "add", text="b")])
    (group,) = comparison.groups
    match = replace(group.match, confidence=confidence)
    found = of_pair(replace(comparison, groups=(replace(group, match=match),)))
    assert ("weak matches" in found) is weak


@pytest.mark.parametrize(
    ("tool", "stack", "severity"),
    [
        ("triton", 64, "warning"),
        ("ptxas", 64, "warning"),
        ("torch", 64, "info"),
        ("triton", 0, "info"),
    ],
)
def test_other_compilers(tool: str, stack: int, severity: str) -> None:
    newer: dict[str, Any] = {tool: "99"}
    changed = kernel("k", "add", read=2000, stack=stack, text="other")
    (finding,) = of_pair(
        sides([kernel("k", "add")], [changed], environment=replace(ENVIRONMENT, **newer))
    ).values()
    assert finding.severity == severity
    assert finding.headline == (f"not the same compilers: {tool} {getattr(ENVIRONMENT, tool)} → 99")
    assert len(finding.evidence) == (tool == "torch")


def test_differences_that_were_allowed() -> None:
    def of(rows: int, **more: Any) -> Run:
        return run([kernel("k", "add", read=rows)], params={"rows": rows}, **more)

    comparison = compare(of(1000), of(2000, id="head"), {"params"})
    (finding,) = of_pair(comparison).values()
    assert finding.severity == "warning"
    assert finding.headline == "the two runs answer different questions: parameter rows 1000 → 2000"
    other = replace(H100, name="h200")
    allowed = compare(of(1000), of(1000, target=other), {"target"})
    assert of_pair(allowed)["different questions"].severity == "info"
