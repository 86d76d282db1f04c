from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, kernel, run
from handmade_estimate import work

from perfcli.diff.compare import compare
from perfcli.model import Access, Candidate, Finding, KernelFacts, Run, SourceFacts
from perfcli.predict.step import estimate_run
from perfcli.rules.candidates_changed import RULE


def candidate(
    block: int, warps: int = 4, *, registers: int = 32, stack: int = 0, **more: Any
) -> Candidate:
    given: dict[str, Any] = {
        "binary_hash": f"{block} {warps} {registers} {stack}",
        "occupancy": min(1.0, 32 / registers),
        **more,
    }
    return Candidate({"XBLOCK": block}, warps, 1, registers=registers, stack_bytes=stack, **given)


def offering(*candidates: Candidate, name: str = "k", **more: Any) -> KernelFacts:
    return kernel(name, "add", candidates=candidates, **more)


def found(
    base: KernelFacts | list[KernelFacts], head: KernelFacts | list[KernelFacts], **more: Any
) -> list[Finding]:
    left = run(base if isinstance(base, list) else [base])
    right = run(head if isinstance(head, list) else [head], id="head", **more)
    return list(RULE.of_comparison(compare(left, right)))


def test_a_configuration_that_was_dropped_was_the_best() -> None:
    base = offering(candidate(1, 8), candidate(8, registers=255, stack=64))
    (finding,) = found(base, offering(candidate(8, registers=255, stack=64)))
    assert finding.severity == "warning"
    assert finding.headline == (
        "other launch configurations to choose from: k, the best of 1 got worse"
    )
    assert finding.evidence == (
        "dropped: XBLOCK=1 8 warps 1 stage",
        "k: best 32 registers, 0 spilled words → 255 registers, 16 spilled words",
    )


def test_one_more_to_choose_from_is_worth_knowing() -> None:
    (finding,) = found(offering(candidate(1)), offering(candidate(1), candidate(2, 2)))
    assert finding.severity == "info"
    assert finding.evidence[0] == "added: XBLOCK=2 2 warps 1 stage"


def test_more_registers_that_cost_no_warps_are_no_worse() -> None:
    slim, wide = candidate(1, registers=24), candidate(2, registers=32)
    (finding,) = found(offering(slim), offering(wide))
    assert finding.severity == "info"
    (finding,) = found(offering(slim), offering(candidate(2, registers=64)))
    assert finding.severity == "warning"


def test_a_few_spilled_words_or_warps_less_are_worth_knowing_only() -> None:
    """As for PC101: up to 16 words cost little; 17 are a warning."""
    before = offering(candidate(1))
    for after, severity in (
        (candidate(2, stack=8), "info"),
        (candidate(2, stack=64), "info"),
        (candidate(2, stack=68), "warning"),
        (candidate(2, registers=40), "info"),
    ):
        (finding,) = found(before, offering(after))
        assert finding.severity == severity, after


def test_another_ptxas_makes_other_binaries_of_all_kernels() -> None:
    newer = {"environment": replace(ENVIRONMENT, ptxas="13.0")}
    base = [offering(candidate(1), name=f"k{n}", text=str(n)) for n in range(3)]
    head = [offering(candidate(1, registers=80), name=f"k{n}", text=str(n)) for n in range(3)]
    (finding,) = found(base, head, **newer)
    assert finding.headline == (
        "other machine code from equal source: k0 and 2 other kernels, the best of 3 got worse"
    )
    assert finding.kernels == (0, 1, 2)
    assert finding.advice == "the compiler made it: ptxas 12.8 → 13.0"


def test_equal_lists_in_another_order_are_equal() -> None:
    one, two = candidate(1), candidate(2)
    assert found(offering(one, two), offering(two, one)) == []


def test_other_source_is_another_matter() -> None:
    assert found(offering(candidate(1)), offering(candidate(2), text="other")) == []


def test_options_written_into_the_source_do_not_hide_that_the_code_is_the_same() -> None:
    facts = SourceFacts(1, 0, 0, 0, 0, 0, 0, (Access("load", "in_ptr0", 5, 0, 0),), {}, 1, 0)
    base = offering(candidate(1), source_facts=facts)
    head = offering(candidate(2), source_facts=facts, text="max_autotune on")
    assert len(found(base, head)) == 1
    moved = replace(facts, accesses=(Access("load", "in_ptr0", 6, 0, 0),))
    assert found(base, replace(head, source_facts=moved)) == []
    assert found(base, replace(head, sizes={"x": 7})) == []


def test_what_is_not_known_is_not_compared() -> None:
    unknown = candidate(1, binary_hash=None)
    assert found(offering(candidate(1)), offering(unknown)) == []
    assert found(offering(candidate(1)), offering()) == []


def timed(blocks: int, **more: Any) -> Candidate:
    """A configuration whose work was counted: it moves 32 kB in each block."""
    return replace(candidate(blocks), work=work(blocks), blocks_per_sm=8, **more)


def weigh(*candidates: Candidate, **settings: Any) -> Run:
    kernels = [offering(*candidates)]
    return estimate_run(run(kernels, weighed=True, settings=settings))


def lost(base: Run, head: Run) -> list[Finding]:
    return list(RULE.of_comparison(compare(base, head)))


def test_the_fastest_was_dropped() -> None:
    base = weigh(timed(4096), timed(8192), max_autotune=False)
    head = weigh(timed(8192), max_autotune=True)
    (finding,) = lost(base, head)
    assert finding.severity == "warning"
    assert finding.headline == (
        "k no longer tried with XBLOCK=4096 4 warps 1 stage, perhaps the fastest"
    )
    assert [dict(cure.options) for cure in finding.cures] == [{"max_autotune": False}]
    (ours,), (theirs,) = base.kernels, head.kernels
    assert ours.step_seconds is not None and theirs.step_seconds is not None
    assert finding.cost is not None
    assert finding.cost.seconds == pytest.approx(theirs.step_seconds - ours.step_seconds)


def test_one_that_is_as_fast_by_estimate_may_have_been_the_fastest() -> None:
    """Nothing changes by estimate, and nobody knows: what was SAME is UNSURE."""
    base, head = weigh(timed(4096), timed(4100)), weigh(timed(4096))
    (finding,) = lost(base, head)
    assert "no longer tried with XBLOCK=4100" in finding.headline
    assert finding.severity == "warning"
    assert finding.cost is not None
    assert finding.cost.seconds == 0
    assert finding.cost.high > 0
    assert compare(base, head).outcome == "unknown"


def test_one_that_would_never_win_is_not_missed() -> None:
    base, head = weigh(timed(4096), timed(8192)), weigh(timed(4096))
    (finding,) = lost(base, head)
    assert finding.severity == "info"
    assert finding.headline.startswith("other launch configurations")
    assert compare(base, head).outcome == "same"
    assert compare(head, base).outcome == "same"
