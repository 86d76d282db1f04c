"""Does a cure help? Judged on hand-made runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from handmade import kernel, run
from handmade_estimate import weighed_kernel, weighed_run

from perfcli import diagnosis
from perfcli.diff.compare import compare
from perfcli.model import Comparison, Cost, Cure, Finding, KernelFacts, Rule, Run, Severity, Trial
from perfcli.rules import graph_breaks
from perfcli.workflow import fixes

CURE = Cure({"triton.mix_order_reduction_max_reads": 10})
GB = 10**9


def spills(made: Run) -> Iterator[Finding]:
    for number, each in enumerate(made.kernels):
        if each.spilled_words:
            yield Finding(
                "PC901",
                "warning",
                each.name,
                kernels=(number,),
                cures=(CURE,),
                metric="spilled_words",
                amount=each.spilled_words,
            )


def many_loads(made: Run) -> Iterator[Finding]:
    """Nothing counted: it is there or not."""
    for number, each in enumerate(made.kernels):
        if each.source_facts and each.source_facts.loads > 10:
            yield Finding("PC902", "info", each.name, kernels=(number,), cures=(CURE,))


def breaks(made: Run) -> Iterator[Finding]:
    if made.graph_breaks:
        yield Finding("PC903", "info", "breaks", cures=(CURE,), subject="breaks")


def more_bytes(comparison: Comparison) -> Iterator[Finding]:
    was, is_ = (sum(k.bytes_moved or 0 for k in r.kernels) for r in _both(comparison))
    if is_ > was:
        yield Finding(
            "PC904", "warning", "more", cures=(CURE,), metric="bytes_moved", amount=is_ - was
        )


def blocks(made: Run) -> Iterator[Finding]:
    """Stack stands for shared memory, of which there are 400 B."""
    for number, each in enumerate(made.kernels):
        words = each.spilled_words or 0
        if words > 90:
            severity: Severity = "error" if words > 100 else "info"
            yield Finding(
                "PC906", severity, each.name, kernels=(number,), metric="words", amount=words
            )


def memory(made: Run) -> Iterator[Finding]:
    """Of the run's peak, what one kernel adds."""
    for number, each in enumerate(made.kernels):
        if each.source_facts and each.source_facts.loads > 10:
            yield Finding(
                "PC905",
                "warning",
                each.name,
                kernels=(number,),
                cures=(CURE,),
                metric="peak_memory_bytes",
                amount=3 * GB,
            )


def slow(made: Run) -> Iterator[Finding]:
    """An error about time, of kernels that are called red."""
    for number, each in enumerate(made.kernels):
        if "red" in each.name:
            yield Finding(
                "PC907",
                "error",
                each.name,
                kernels=(number,),
                cures=(CURE,),
                metric="estimated_seconds",
                amount=1e-4,
                cost=Cost(1e-6, 1e-6, 1e-6),
            )


def _both(comparison: Comparison) -> tuple[Run, Run]:
    return comparison.base, comparison.head


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (
        Rule("PC901", "", "", of_run=spills),
        Rule("PC902", "", "", of_run=many_loads),
        Rule("PC903", "", "", of_run=breaks),
        graph_breaks.RULE,
        Rule("PC904", "", "", of_comparison=more_bytes),
        Rule("PC905", "", "", of_run=memory),
        Rule("PC906", "", "", of_run=blocks),
        Rule("PC907", "", "", of_run=slow),
    )
    monkeypatch.setattr(diagnosis, "rules", lambda: found)


def k(name: str, nodes: str, words: int = 0, **more: Any) -> KernelFacts:
    return kernel(name, *nodes.split(), stack=4 * words, text=f"{name} {words}", **more)


def judged(head: Run, tried: Run, code: str = "PC901", name: str = "") -> Trial:
    findings = diagnosis.explain(head)
    (finding,) = [f for f in findings if f.code == code and f.headline.startswith(name)]
    return fixes._judge(finding, CURE, fixes._attempt(head, tried, findings))


OVER_FUSED = [k("fused", "1 2 3", 92, loads=17, read=9 * GB), k("far", "9")]


def test_a_split_that_cures_names_its_cost() -> None:
    parts = [k("a", "1", 2, read=6 * GB), k("b", "2 3", read=4 * GB), k("far", "9")]
    trial = judged(run(OVER_FUSED), run(parts, id="tried"))
    assert (trial.outcome, trial.before, trial.after) == ("helps at a cost", 92, 2)
    (moved,) = [change for change in trial.changes if change.metric == "bytes_moved"]
    assert (moved.delta, moved.outcome) == (GB + 500, "worse")
    spilled = next(change for change in trial.changes if change.metric == "spilled_words")
    assert (spilled.base, spilled.head, spilled.outcome) == (92, 2, "better")
    assert trial.run == "tried"


def test_without_a_cost_it_just_helps() -> None:
    parts = [k("a", "1", 0, read=5 * GB), k("b", "2 3", read=4 * GB), k("far", "9")]
    trial = judged(run(OVER_FUSED), run(parts))
    assert (trial.outcome, trial.before, trial.after) == ("helps", 92, 0)


@pytest.mark.parametrize(("left", "helps"), [(46, True), (47, False), (92, False), (120, False)])
def test_half_must_go(left: int, helps: bool) -> None:
    tried = [k("a", "1 2 3", left, read=9 * GB), k("far", "9")]
    trial = judged(run(OVER_FUSED), run(tried))
    assert (trial.outcome == "helps", trial.after) == (helps, left)


@pytest.mark.parametrize(("left", "outcome"), [(99, "helps"), (101, "does not help")])
def test_an_error_that_is_only_worth_knowing_now(left: int, outcome: str) -> None:
    head = run([k("a", "1 2 3", 110)])
    assert judged(head, run([k("a", "1 2 3", left)]), "PC906").outcome == outcome


def test_parts_are_counted_together() -> None:
    """A split into two that spill 46 each cures nothing."""
    tried = [k("a", "1", 46), k("b", "2 3", 46), k("far", "9")]
    trial = judged(run(OVER_FUSED), run(tried))
    assert (trial.outcome, trial.before, trial.after) == ("does not help", 92, 92)


def test_moving_it_to_another_kernel_does_not_help() -> None:
    tried = [k("a", "1 2 3"), k("far", "9", 92)]
    trial = judged(run(OVER_FUSED), run(tried))
    assert (trial.outcome, trial.reason) == ("does not help", "it is elsewhere instead")
    assert (trial.before, trial.after) == (92, 92)  # in the whole run


def test_a_break_for_another_reason_does_not_help() -> None:
    """With the option that captures ``.item()`` the ``if`` around it breaks the graph."""
    item = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
    head = run([k("a", "1"), k("b", "2")], graph_breaks={item: 1})
    tried = run([k("a", "1"), k("b", "2")], graph_breaks={"Data-dependent branching": 1})
    trial = judged(head, tried, "PC403")
    assert (trial.outcome, trial.before, trial.after) == ("does not help", 1, 1)


def test_the_same_kernels_do_not_help() -> None:
    trial = judged(run(OVER_FUSED), run(OVER_FUSED))
    assert (trial.outcome, trial.reason) == ("does not help", "the same kernels are generated")
    assert (trial.before, trial.after) == (92, 92)


def test_what_is_not_known_is_not_cured() -> None:
    """No machine code, so no spills are seen: the finding is gone for the wrong reason."""
    unknown = k("a", "1 2 3", registers=None)
    trial = judged(run(OVER_FUSED), run([unknown, k("far", "9")]))
    assert (trial.outcome, trial.reason) == ("failed", "the machine code of a is not known")
    assert trial.after is None


def test_a_finding_without_an_amount_is_gone_or_not() -> None:
    parts = [k("a", "1", loads=9), k("b", "2 3", loads=8), k("far", "9")]
    trial = judged(run(OVER_FUSED), run(parts), "PC902")
    assert (trial.outcome, trial.before, trial.after) == ("helps", None, None)
    still = [k("a", "1 2", loads=11), k("b", "3", loads=6), k("far", "9")]
    assert judged(run(OVER_FUSED), run(still), "PC902").outcome == "does not help"


def test_each_of_two_findings_is_judged_for_itself() -> None:
    head = run([k("a", "1", 40), k("b", "2", 30)])
    tried = run([k("a", "1", 0), k("b", "2", 29)])
    assert judged(head, tried, name="a").outcome == "helps"
    assert judged(head, tried, name="b").outcome == "does not help"


def test_a_finding_without_kernels_may_go_though_no_kernel_changes() -> None:
    head = run([k("a", "1")], graph_breaks={"print": 1})
    assert judged(head, run([k("a", "1")]), "PC903").outcome == "helps"
    assert judged(head, head, "PC903").outcome == "does not help"


def test_what_only_a_comparison_shows_is_looked_for_against_the_base() -> None:
    base = run([k("a", "1", read=GB)])
    head = run([k("b", "1", read=3 * GB)])
    findings = diagnosis.diagnose(compare(base, head)).findings
    (finding,) = [f for f in findings if f.code == "PC904"]
    for read, outcome in ((GB, "helps"), (2 * GB, "helps"), (3 * GB, "does not help")):
        tried = run([k("c", "1", read=read)])
        made = fixes._attempt(head, tried, findings, base)
        assert fixes._judge(finding, CURE, made).outcome == outcome


def test_gone_findings_of_the_comparison_do_not_count() -> None:
    base, head = run([k("a", "1", 99), k("b", "2")]), run([k("a", "1"), k("b", "2", 9)])
    findings = diagnosis.diagnose(compare(base, head)).findings
    tried = run([k("a", "1", 9), k("b", "2")])
    finding = next(f for f in findings if f.appearance == "new")
    made = fixes._attempt(head, tried, findings, base)
    assert fixes._judge(finding, CURE, made).reason == "it is elsewhere instead"


def test_proven() -> None:
    (finding,) = spills(run([k("a", "1", 4)]))
    assert finding.proven is None
    assert replace(finding, trials=(fixes._failed(CURE, "no lowering"),)).proven is None
    tried = [fixes._failed(CURE, "no lowering"), Trial(CURE, "does not help")]
    assert replace(finding, trials=tuple(tried)).proven is False
    assert replace(finding, trials=(*tried, Trial(CURE, "helps at a cost"))).proven is True


def test_what_a_kernel_adds_to_the_peak_is_read_off_the_runs_peak() -> None:
    parts = [k("a", "1", read=5 * GB), k("b", "2 3", read=4 * GB), k("far", "9")]
    head = run(OVER_FUSED, peak=4 * GB)
    trial = judged(head, run(parts, peak=2 * GB), "PC905")
    assert (trial.outcome, trial.before, trial.after) == ("helps", 4 * GB, 2 * GB)
    trial = judged(head, run(parts, peak=4 * GB), "PC905")
    assert (trial.outcome, trial.reason) == ("does not help", "the peak is elsewhere")
    trial = judged(head, run(OVER_FUSED, peak=7 * GB), "PC905")
    assert (trial.outcome, trial.after) == ("does not help", 4 * GB)


# --- estimated time --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "outcome", "words"),
    [
        (2048, "helps", "by estimate"),  # half the work
        (8192, "does not help", "estimated step"),  # twice the work
    ],
)
def test_a_cure_that_takes_longer_by_estimate_does_not_help(
    blocks: int, outcome: str, words: str
) -> None:
    def made(blocks: int, stack: int, name: str) -> Run:
        base = weighed_kernel("triton_red_fused_add_1", "1", blocks=blocks, text=name)
        counted = tuple(replace(c, stack_bytes=stack) for c in base.candidates)
        return weighed_run(replace(base, candidates=counted), id=name)

    trial = judged(made(4096, 400, "head"), made(blocks, 0, "tried"))
    assert trial.outcome == outcome
    write_trial = import_module("perfcli.reports._screen.cures").write_trial
    assert words in write_trial(trial, "spilled_words")


@pytest.mark.parametrize(
    ("blocks", "outcome", "says"),
    [
        (2048, "helps", "helps: the finding is gone, 147.9 → "),
        (4200, "does not help", "does not help: estimated step 147.9 → "),  # unsure, and longer
        (8192, "does not help", "does not help: estimated step 147.9 → "),
    ],
)
def test_of_an_error_about_time_the_step_decides_and_no_time_is_made_up(
    blocks: int, outcome: str, says: str
) -> None:
    """The kernel is another one with the cure: its time is not 0 s."""

    def made(blocks: int, name: str) -> Run:
        return weighed_run(weighed_kernel(name, "1", blocks=blocks, text=name), id=name)

    trial = judged(made(4096, "triton_red_0"), made(blocks, "triton_per_0"), "PC907")
    assert (trial.outcome, trial.before, trial.after) == (outcome, 1e-4, None)
    write_trial = import_module("perfcli.reports._screen.cures").write_trial
    assert write_trial(trial, "estimated_seconds").split(": ", 1)[1].startswith(says)
