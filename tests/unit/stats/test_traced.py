"""Two traces compared: the interval against scipy's and by simulation, and what verdicts come of
sessions that differ."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare, gather_evidence
from perfcli.model import Comparison, Observed, ObservedStep, ObservedWork, Run
from perfcli.stats import traced
from perfcli.stats.traced import derive_traced

NAMES = [f"triton_poi_fused_add_{n}" for n in range(20)]
MICROS = [20.0 + 7 * n for n in range(20)]


def observe(
    seed: int,
    *,
    steps: int = 8,
    noise: float = 0.005,
    session: float = 1.0,
    slower: dict[int, float] | None = None,
    gaps: float = 0.03,
    resolution: float = 1e-9,
) -> Observed:
    """What a trace would say of twenty kernels; ``session`` multiplies all of their times."""
    chance = random.Random(seed)
    known = slower or {}
    drift = [chance.gauss(1, noise) for _ in range(steps)]
    works = [
        ObservedWork(
            name, name, True, 1,
            tuple(1e-6 * m * session * known.get(n, 1.0) * d * chance.gauss(1, noise / 3)
                  for d in drift),
            graph="forward 0", grid=(64, 1, 1), block=(128, 1, 1), registers=32, shared_bytes=0,
        )
        for n, (name, m) in enumerate(zip(NAMES, MICROS, strict=True))
    ]  # fmt: skip
    busy = [sum(w.seconds[n] for w in works) for n in range(steps)]
    marks = [
        ObservedStep(
            f"ProfilerStep#{n}", b * (1 + gaps) if n < steps - 1 or steps == 1 else None, b
        )
        for n, b in enumerate(busy)
    ]
    return Observed(
        "torch.profiler", "a.json", "NVIDIA H200", 132, tuple(marks), tuple(works),
        tuple(range(20)), "ProfilerStep marks", resolution,
    )  # fmt: skip


def trace(seed: int, **given: object) -> Run:
    kernels = [
        replace(kernel(name), graph="forward 0", source_hash="", source="", origins=())
        for name in NAMES
    ]
    return replace(run(kernels), observed=observe(seed, **given))  # type: ignore[arg-type]


def judge(base: Run, head: Run) -> Comparison:
    comparison = gather_evidence(base, head)
    timing = derive_traced(base, head, comparison.groups)
    assert timing is not None
    return replace(comparison, timing=timing)


# --- the interval -------------------------------------------------------------------------------


def exact_interval(
    ours: Sequence[float], theirs: Sequence[float], level: float
) -> tuple[float, float]:
    """The shifts that the exact two-sided rank-sum test does not reject, by trying them."""
    from scipy.stats import mannwhitneyu

    differences = sorted(b - a for a in ours for b in theirs)
    points = [(a + b) / 2 for a, b in itertools.pairwise(differences)]
    kept = [
        shift
        for shift in points
        if mannwhitneyu([b - shift for b in theirs], ours, method="exact").pvalue > 1 - level
    ]
    return (
        max(d for d in differences if d < min(kept)),
        min(d for d in differences if d > max(kept)),
    )


@pytest.mark.parametrize(("m", "n"), [(5, 5), (6, 9), (12, 12)])
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_the_interval_is_that_of_the_exact_rank_sum_test(m: int, n: int, level: float) -> None:
    chance = random.Random(m * n)
    ours, theirs = ([chance.gauss(0, 1) for _ in range(k)] for k in (m, n))
    found = traced._find_interval(ours, theirs, level)
    assert found == pytest.approx(exact_interval(ours, theirs, level))


def test_too_few_steps_for_ranks_have_welchs_interval() -> None:
    from scipy.stats import ttest_ind

    ours, theirs = [1.0, 1.1, 0.95], [1.3, 1.25]
    found = traced._find_interval(ours, theirs, 0.95)
    expected = ttest_ind(theirs, ours, equal_var=False).confidence_interval(0.95)
    assert found == pytest.approx((expected.low, expected.high))


def test_the_interval_covers_as_often_as_it_says() -> None:
    chance, inside, rounds = random.Random(5), 0, 400
    for _ in range(rounds):
        ours, theirs = ([chance.gauss(0, 1) for _ in range(8)] for _ in range(2))
        low, high = traced._find_interval(ours, theirs, 0.95)
        inside += low <= 0 <= high
    assert inside / rounds >= 0.93


# --- verdicts -----------------------------------------------------------------------------------


def test_sessions_of_the_same_code_are_never_called_slower_or_faster() -> None:
    verdicts = []
    for seed in range(60):
        chance = random.Random(1000 + seed)
        session, gaps = math.exp(chance.gauss(0, 0.02)), chance.uniform(0.01, 0.1)
        found = judge(trace(2 * seed), trace(2 * seed + 1, session=session, gaps=gaps))
        assert found.timing is not None
        verdicts.append(found.timing.step.verdict)
        sure = [g.name for g in found.timing.groups if g.change.verdict in ("slower", "faster")]
        assert sure == []
    assert set(verdicts) <= {"same", "unsure"}
    assert verdicts.count("same") >= 20


@pytest.mark.parametrize("session", [0.98, 1.0, 1.02])
def test_a_kernel_that_got_slower_is_found_and_blamed(session: float) -> None:
    found = judge(trace(1), trace(2, session=session, slower={19: 2.0}))
    timing = found.timing
    assert timing is not None
    assert timing.step.verdict == "slower"
    true = (sum(MICROS) + MICROS[19]) / sum(MICROS)
    assert timing.step.low is not None
    assert timing.step.high is not None
    assert timing.step.low < true < timing.step.high
    slow = [g for g in timing.groups if g.change.verdict == "slower"]
    assert [g.name for g in slow] == [NAMES[19]]
    assert slow[0].share_of_change == pytest.approx(1.0, abs=0.35)


def test_all_kernels_slower_alike_may_be_the_session() -> None:
    found = judge(trace(1), trace(2, session=1.08)).timing
    assert found is not None
    assert found.step.verdict == "unsure"
    assert "two sessions may differ by" in found.step.why


@pytest.mark.parametrize("gaps", [0.14, 0.3])
def test_gaps_that_grow_may_be_the_session(gaps: float) -> None:
    found = judge(trace(1, gaps=0.02), trace(2, gaps=gaps)).timing
    assert found is not None
    assert found.step.verdict == "unsure"


def test_gaps_that_shrink_do_not_hide_that_kernels_are_the_same() -> None:
    found = judge(trace(1, gaps=0.12), trace(2, gaps=0.02)).timing
    assert found is not None
    assert (found.traced, found.step.verdict) == ("busy", "same")
    assert found.wall is not None
    assert found.wall.verdict == "unsure"


def test_where_the_device_waits_the_time_from_step_to_step_decides() -> None:
    found = judge(trace(1, gaps=0.5), trace(2, gaps=0.5, slower={19: 3.0})).timing
    assert found is not None
    assert (found.traced, found.step.verdict) == ("step", "slower")
    assert found.step.base == pytest.approx(1.5e-6 * sum(MICROS), rel=0.02)
    found = judge(trace(1, gaps=0.5), trace(2, gaps=0.5)).timing
    assert found is not None
    assert found.kernels_total is not None
    assert found.kernels_total.verdict == "same"


def test_a_coarse_clock_can_not_tell_short_kernels_apart() -> None:
    fine, coarse = (
        judge(trace(1, resolution=r), trace(2, slower={0: 1.05}, resolution=r)).timing
        for r in (1e-9, 1e-6)
    )
    assert fine is not None
    assert coarse is not None
    assert fine.groups[0].change.verdict == "slower"
    assert coarse.groups[0].change.verdict == "unsure"


def test_one_step_is_too_few() -> None:
    found = judge(trace(1, steps=1), trace(2, steps=1, slower={19: 9.0})).timing
    assert found is not None
    assert (found.step.verdict, found.step.low) == ("unsure", None)
    assert "too few" in found.step.why


def test_what_one_side_alone_launches_is_new_or_gone() -> None:
    base, head = trace(1), trace(2)
    assert head.observed is not None
    seen = replace(head.observed, works=head.observed.works[1:])
    head = replace(head, kernels=head.kernels[1:], observed=seen)
    found = judge(base, head).timing
    assert found is not None
    gone = [g for g in found.groups if g.change.head is None]
    assert [g.name for g in gone] == [NAMES[0]]
    assert gone[0].delta == pytest.approx(-MICROS[0] * 1e-6, rel=0.02)


def test_runs_without_traces_have_no_such_times() -> None:
    base, head = trace(1), trace(2)
    groups = compare(base, head).groups
    assert derive_traced(replace(base, observed=None), head, groups) is None
