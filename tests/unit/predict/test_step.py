"""Which launch configuration is expected to win, and how wide intervals are."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import candidate, kernel, run
from handmade_estimate import weighed_kernel, weighed_run, work

from perfcli.diff.compare import compare
from perfcli.machine import targets
from perfcli.model import ExternCall, KernelFacts, Launch, Run, Target
from perfcli.predict.calibration import calibration_for, encode_calibration, shipped
from perfcli.predict.calibration_files import VARIABLE
from perfcli.predict.step import (
    _count_finishing,
    _half_width,
    _judge,
    _name_constants,
    class_of,
    compare_steps,
    estimate_step,
    name_estimator,
    with_estimates,
)

H200 = targets.get("h200")


def with_candidates(*candidates: tuple[int, int]) -> KernelFacts:
    """A kernel whose launch configurations have so many blocks, and so many bytes of stack."""
    made = tuple(
        candidate(blocks_per_sm=8, work=work(blocks), stack_bytes=stack, registers=32)
        for blocks, stack in candidates
    )
    return replace(kernel("triton_red_fused_mul_0", "1"), candidates=made, launches=1)


def on(target: Target, *kernels: KernelFacts) -> Run:
    return replace(run(list(kernels)), target=target, weighed=True)


def winner(*candidates: tuple[int, int]) -> int | None:
    step = estimate_step(on(H200, with_candidates(*candidates)))
    assert step is not None
    (estimate,) = step.kernels
    assert estimate is not None
    return estimate.candidate


def test_the_fastest_configuration_is_expected_to_win() -> None:
    assert winner((8192, 0), (2048, 0), (4096, 0)) == 1


def test_a_configuration_that_spills_too_much_is_not_timed() -> None:
    """16 words may be spilled (64 bytes), 17 may not."""
    assert winner((8192, 0), (2048, 68)) == 0
    assert winner((8192, 0), (2048, 64)) == 1


def test_where_all_spill_the_first_is_taken_however_slow() -> None:
    assert winner((8192, 400), (2048, 200)) == 0


def test_intervals_are_those_of_the_class() -> None:
    step = estimate_step(on(H200, with_candidates((8192, 0))))
    calibration = calibration_for(H200)
    assert step is not None
    assert calibration is not None
    (estimate,) = step.kernels
    assert estimate is not None
    spread = calibration.residuals_of(estimate.kind).q90
    assert estimate.high == pytest.approx(estimate.seconds * math.exp(spread))
    assert estimate.low == pytest.approx(estimate.seconds * math.exp(-spread))
    assert estimate.kind in calibration.residuals


@pytest.mark.parametrize(
    ("first", "seconds", "kind"),
    [
        ("DRAM", 4.9e-6, "memory, short"),
        ("L2 to SM", 5e-6, "memory, long"),
        ("latency", 1e-3, "latency, long"),
        ("issue", 1e-6, "throughput, short"),
    ],
)
def test_classes(first: str, seconds: float, kind: str) -> None:
    assert class_of({first: 0.8, "other": 0.2}, seconds) == kind


def test_other_targets_derive_theirs_from_the_nearest() -> None:
    own = shipped()["h200"]
    h100 = targets.get("h100")
    derived = calibration_for(h100)
    assert derived is not None
    assert derived.derived == "h200"
    ratio = h100.bandwidth / H200.bandwidth
    assert derived.constants["dram"] == pytest.approx(own.constants["dram"] * ratio)
    assert derived.residuals["all"].q90 > own.residuals["all"].q90
    assert derived.pair["k80"] > own.pair["k80"]
    assert derived.pair["floor"] == own.pair["floor"]


def test_a_target_of_another_vendor_has_none() -> None:
    assert calibration_for(targets.get_for_kernels("mi300x")) is None


def test_runs_without_work_have_no_estimate() -> None:
    base = replace(on(H200, kernel("triton_red_fused_mul_0", "1")), weighed=False)
    assert compare_steps(base, base, ()) is None


def with_traits(**traits: Any) -> KernelFacts:
    made = with_candidates((8192, 0))
    (only,) = made.candidates
    assert only.work is not None
    return replace(made, candidates=(replace(only, work=replace(only.work, **traits)),))


@pytest.mark.parametrize("traits", [{"indirect": True}, {"unknown_loops": True}])
def test_what_nobody_can_tell_makes_intervals_twice_as_wide(traits: dict[str, bool]) -> None:
    found = [estimate_step(on(H200, each)) for each in (with_traits(), with_traits(**traits))]
    sure, doubtful = (step.kernels[0] for step in found if step)
    assert sure is not None
    assert doubtful is not None
    assert not sure.doubts
    assert doubtful.doubts
    assert doubtful.seconds == sure.seconds
    assert math.log(doubtful.high / doubtful.seconds) == pytest.approx(
        2 * math.log(sure.high / sure.seconds)
    )


def test_updates_that_are_tried_again_have_no_estimate() -> None:
    """Measured once, 5.1 million of them took 11 to 17 ms, a hundred times what they move takes."""
    step = estimate_step(on(H200, with_traits(retries=True)))
    assert step is not None
    assert step.kernels == (None,)
    (reason,) = step.missing
    assert reason.endswith("how often its 16-bit atomic updates are tried again depends on data")


def test_sums_that_finish_a_kernel_are_part_of_the_step() -> None:
    """One sum over 8 MB after each of two launches: 8 and 10 microseconds each."""
    summing = replace(with_candidates((8192, 0)), finishing_bytes=8_000_000, launches=2)
    launch = Launch(summing.graph, summing.name)
    total = Launch(summing.graph, "aten.sum.dim_IntList", extern=True, finishing=True)
    alone = estimate_step(replace(on(H200, summing), launches=(launch, launch)))
    step = estimate_step(replace(on(H200, summing), launches=(launch, total, launch, total)))
    assert alone is not None
    assert step is not None
    (estimate,) = step.kernels
    assert estimate is not None
    assert estimate.finishing == pytest.approx(18e-6)
    assert step.seconds == pytest.approx(2 * (estimate.seconds + 18e-6))
    assert alone.seconds == pytest.approx(2 * (estimate.seconds + 10e-6))


@pytest.mark.parametrize("kept", [0, 4096])
def test_which_side_is_the_base_does_not_matter(kept: int) -> None:
    """Twice the work is as surely slower as half the work is faster, in a step of one kernel as
    beside one that stays."""
    others = [weighed_kernel("triton_poi_fused_kept_1", "9", blocks=kept)] if kept else []

    def made(blocks: int, text: str) -> Run:
        changed = weighed_kernel("triton_red_fused_add_1", "1", blocks=blocks, text=text)
        return weighed_run(changed, *others, id=text)

    less, more = made(4096, "less"), made(8192, "more")
    slower, faster = compare(less, more).estimate, compare(more, less).estimate
    assert slower is not None
    assert faster is not None
    assert slower.ratio == pytest.approx(1 / (faster.ratio or math.nan))
    assert slower.low == pytest.approx(1 / (faster.high or math.nan))
    assert slower.high == pytest.approx(1 / (faster.low or math.nan))


def test_a_step_of_one_kernel_has_the_interval_that_pairs_were_measured_to_have() -> None:
    """However much slower it got: its share of the step is all of it, and never more."""
    calibration = calibration_for(H200)
    assert calibration is not None
    pair = calibration.pair
    less, more = (
        on(H200, weighed_kernel("triton_red_fused_add_1", "1", blocks=blocks, text=text))
        for blocks, text in ((4096, "less"), (16384, "more"))
    )
    found = compare(less, more).estimate
    assert found is not None
    assert found.ratio is not None
    assert found.ratio > 2
    half = pair["k80"] * math.hypot(1, pair["floor"])
    assert math.log((found.high or 0) / found.ratio) == pytest.approx(half)
    assert math.log(found.ratio / (found.low or 1)) == pytest.approx(half)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.021, 1.5, "slower"),
        (1.02, 1.5, "unsure"),
        (0.5, 0.98, "faster"),
        (0.5, 1 / 1.02, "unsure"),
        (1 / 1.02, 1.02, "same"),
        (0.98, 1.02, "unsure"),
        (0.99, 1.021, "unsure"),
        (1.0, 1.0, "same"),
        (0.5, 1.5, "unsure"),
    ],
)
def test_an_interval_decides_at_two_percent(low: float, high: float, verdict: str) -> None:
    assert _judge(low, high) == verdict


def test_half_the_width_of_an_interval_by_hand() -> None:
    """A tenth of both steps, 30 and 5 % of them, and a floor: 2 · √(0.1² + 0.3² + 0.15²)."""
    known = replace(shipped()["h200"], pair={"k80": 2.0, "floor": 0.15})
    moved = [(1.0, 2.0), (3.0, 1.0)]
    assert _half_width(moved, (10.0, 20.0), known) == pytest.approx(2 * 0.35)
    assert _half_width(moved[:1], (10.0, 40.0), known) == pytest.approx(2 * math.sqrt(0.0325))
    assert _half_width([], (10.0, 20.0), known) == 0
    assert _half_width(moved, (10.0, 20.0), None) == 0


def test_sums_are_counted_for_the_kernel_before_them() -> None:
    """Of two launches of a, each with two sums; b has none; what comes first is nobody's."""
    names = ["sum", "a", "sum", "sum", "b", "a", "sum", "sum", "mm"]
    launches = tuple(
        Launch("forward 0", name, extern=name in ("sum", "mm"), finishing=name == "sum")
        for name in names
    )
    found = _count_finishing(replace(on(H200, kernel("a", "1")), launches=launches))
    assert found == {("forward 0", "a"): 2, ("forward 0", "b"): 0}


def test_the_ends_of_a_steps_interval_are_sums_over_launches() -> None:
    """Two launches of one, three of another, each followed by a sum of eight microseconds."""
    two = replace(with_candidates((8192, 0)), launches=2, name="two")
    three = replace(with_candidates((2048, 0)), launches=3, name="three")
    launches = tuple(
        each
        for made in (two, three)
        for each in (
            Launch(made.graph, made.name),
            Launch(made.graph, "aten.sum.dim_IntList", extern=True, finishing=True),
        )
    )
    step = estimate_step(replace(on(H200, two, three), launches=launches))
    assert step is not None
    one, other = step.kernels
    assert one is not None
    assert other is not None
    assert one.finishing == other.finishing == pytest.approx(8e-6)
    sums = 5 * 8e-6
    assert step.seconds == pytest.approx(2 * one.seconds + 3 * other.seconds + sums)
    assert step.low == pytest.approx(2 * one.low + 3 * other.low + sums)
    assert step.high == pytest.approx(2 * one.high + 3 * other.high + sums)


def test_why_a_kernel_has_no_estimate() -> None:
    uncounted = replace(with_candidates((8192, 0)), name="uncounted")
    (only,) = uncounted.candidates
    uncounted = replace(uncounted, candidates=(replace(only, work=None),))
    cpu = replace(uncounted, name="cpu", candidates=())
    step = estimate_step(on(H200, uncounted, with_candidates((8192, 0)), cpu))
    assert step is not None
    assert step.missing == ("cpu: it was not compiled for a GPU",)
    assert step.rough == (
        "uncounted: estimated from its bytes alone: its work could not be counted",
    )
    assert [estimate is None for estimate in step.kernels] == [False, False, True]


def test_a_configuration_that_does_not_fit_is_not_timed() -> None:
    """None of its blocks fits on a multiprocessor; one of unknown registers was not compiled."""
    made = with_candidates((8192, 0), (2048, 0), (1024, 0))
    slow, unfit, uncompiled = made.candidates
    tried = (slow, replace(unfit, blocks_per_sm=0), replace(uncompiled, registers=None))
    step = estimate_step(on(H200, replace(made, candidates=tried)))
    assert step is not None
    (estimate,) = step.kernels
    assert estimate is not None
    assert estimate.candidate == 0
    assert sorted(estimate.candidates) == [0, 2]
    assert estimate.candidates[0] == estimate.seconds


def test_kernels_of_users_are_timed_however_much_they_spill() -> None:
    made = with_candidates((8192, 400), (2048, 200))
    step = estimate_step(on(H200, replace(made, kind="user")))
    assert step is not None
    (estimate,) = step.kernels
    assert estimate is not None
    assert estimate.candidate == 1


def test_what_a_kernel_is_held_up_by_comes_in_order_and_from_a_hundredth_on() -> None:
    step = estimate_step(on(H200, with_candidates((8192, 0))))
    assert step is not None
    (estimate,) = step.kernels
    assert estimate is not None
    shares = list(estimate.bounds.values())
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= 0.01
    assert 0.9 < sum(shares) <= 1


def test_estimates_that_were_kept_are_taken_where_the_constants_are_the_same() -> None:
    """A stored run has no work, only its estimates."""
    given = on(H200, with_candidates((8192, 0)))
    step = estimate_step(given)
    assert step is not None
    kept = replace(with_estimates(given, step), weighed=False)
    again = estimate_step(kept)
    assert again is not None
    assert (again.seconds, again.low, again.high) == (step.seconds, step.low, step.high)
    assert estimate_step(replace(kept, estimated_with="others")) is None
    assert with_estimates(given, None) is given


def changed_steps(*sides: tuple[int, int, int]) -> Any:
    """Two steps of three kernels each of so many blocks."""
    base, head = (
        weighed_run(
            *(
                weighed_kernel(f"triton_poi_fused_{name}_1", name, blocks=n, text=f"{name} {n}")
                for name, n in zip("abc", blocks, strict=True)
                if n
            ),
            id=str(number),
            target=H200,
        )
        for number, blocks in enumerate(sides)
    )
    found = compare(base, head)
    assert found.estimate is not None
    return found, found.estimate


def test_groups_that_changed_come_with_the_largest_change_first() -> None:
    """What is gone and what is new count with all that they take; what stays is not there."""
    found, estimate = changed_steps((4096, 0, 40960), (8192, 20480, 40960))
    changes = [abs(group.head - group.base) for group in estimate.groups]
    assert len(changes) == 2
    assert changes == sorted(changes, reverse=True)
    assert (estimate.groups[0].base, estimate.groups[0].head > 0) == (0.0, True)
    names = [found.groups[group.group].match.relation for group in estimate.groups]
    assert names == ["new", "changed"]
    shared = estimate.head.seconds - sum(group.head for group in estimate.groups)
    assert estimate.base.seconds == pytest.approx(
        shared + sum(group.base for group in estimate.groups)
    )
    assert estimate.ratio == pytest.approx(estimate.head.seconds / estimate.base.seconds)


def test_the_same_code_takes_as_long_where_one_side_alone_has_an_estimate() -> None:
    """A baseline's kernel that is the same has none; a changed one without makes it unsure."""
    same = weighed_kernel("triton_poi_fused_a_1", "a", blocks=4096, text="a")
    unknown = replace(same, candidates=tuple(replace(c, work=None) for c in same.candidates))
    other = weighed_kernel("triton_poi_fused_b_1", "b", blocks=8192, text="b")
    for kernels in ((same, unknown), (unknown, same)):
        base, head = (
            weighed_run(each, other, id=str(n), target=H200) for n, each in enumerate(kernels)
        )
        estimate = compare(base, head).estimate
        assert estimate is not None
        assert (estimate.verdict, estimate.ratio, estimate.missing) == ("same", 1, ())
        expected = estimate_step(weighed_run(same, other, target=H200))
        assert expected is not None
        assert estimate.base.seconds == pytest.approx(expected.seconds)
        assert estimate.head.seconds == pytest.approx(expected.seconds)


def test_the_same_code_launched_more_often_has_changed() -> None:
    once = weighed_kernel("triton_poi_fused_a_1", "a", text="a")
    alone = weighed_kernel("triton_poi_fused_b_1", "b", blocks=40960, text="b")
    base, head = (
        weighed_run(replace(once, launches=n), alone, id=str(n), target=H200) for n in (1, 3)
    )
    estimate = compare(base, head).estimate
    assert estimate is not None
    ((before, after),) = [(group.base, group.head) for group in estimate.groups]
    assert after == pytest.approx(3 * before)
    rest = estimate.base.seconds - before
    assert estimate.ratio == pytest.approx((rest + 3 * before) / (rest + before))


def test_an_estimate_is_named_by_all_that_it_is_made_of() -> None:
    given = on(H200, with_candidates((8192, 0)))
    step = estimate_step(given)
    assert step is not None
    assert name_estimator(given) == step.constants
    others = [replace(given, target=target) for target in (targets.get("h100"), None)]
    other, none = map(name_estimator, others)
    assert (len(other), none) == (12, "")
    assert other != step.constants
    known = shipped()["h200"]
    slower = {**known.constants, "dram": known.constants["dram"] / 2}
    wider = {**known.residuals, "all": replace(known.residuals["all"], q90=9.0)}
    changed = (
        replace(known, constants=slower),
        replace(known, residuals=wider),
        replace(known, clock_mhz=known.clock_mhz + 1),
        replace(known, pair={**known.pair, "k80": 9.0}),
    )
    assert len({_name_constants(each) for each in (known, *changed)}) == 5
    assert _name_constants(replace(known, date="2030-01-01")) == _name_constants(known)


@pytest.mark.parametrize("turned", [False, True])
def test_the_same_code_on_two_gpus_takes_the_time_of_each(turned: bool) -> None:
    """The groups have as much as the steps of their own, and the interval is the wider one."""
    kernels = [weighed_kernel("triton_poi_fused_a_1", "a", blocks=40960, text="a")]
    h200, h100 = (
        weighed_run(*kernels, id=name, target=targets.get(name)) for name in ("h200", "h100")
    )
    base, head = (h100, h200) if turned else (h200, h100)
    alone = [estimate_step(each) for each in (base, head)]
    found = compare(base, head, {"target"}).estimate
    assert found is not None
    assert [found.base.seconds, found.head.seconds] == [each.seconds for each in alone if each]
    (group,) = found.groups
    assert (group.base, group.head) == (found.base.seconds, found.head.seconds)
    faster, slower = sorted((group.base, group.head))
    assert slower / faster > 1.1  # of two memories, one of 1.43 times the bandwidth
    assert found.verdict != "same"
    assert found.ratio == pytest.approx(group.head / group.base)
    derived = calibration_for(targets.get("h100"))
    assert derived is not None
    half = derived.pair["k80"] * math.hypot(1, derived.pair["floor"])
    assert math.log((found.high or 0) / (found.ratio or 1)) == pytest.approx(half)


def test_without_operators_the_sums_that_finish_a_kernel_still_count() -> None:
    """One operator has no estimate on either side: generated kernels are compared alone."""
    runs = []
    for name, blocks in (("less", 4096), ("more", 40960)):
        summing = replace(
            weighed_kernel("triton_red_fused_add_1", "1", blocks=blocks, text=name),
            finishing_bytes=8_000_000,
        )
        launches = (
            Launch(summing.graph, summing.name),
            Launch(summing.graph, "aten.sum.dim_IntList", extern=True, finishing=True),
        )
        unknown = ExternCall("aten.linalg.out", summing.graph, 1)
        externs = (unknown,)
        runs.append(weighed_run(summing, id=name, target=H200, launches=launches, externs=externs))
    found = compare(runs[0], runs[1]).estimate
    steps = [estimate_step(each) for each in runs]
    assert found is not None
    (group,) = found.groups
    for ours, alone, seconds in zip(
        (found.base, found.head), steps, (group.base, group.head), strict=True
    ):
        assert alone is not None
        (kernel,) = alone.kernels
        assert kernel is not None
        assert kernel.finishing == pytest.approx(18e-6)
        assert ours.seconds == alone.seconds == seconds == kernel.of_step
        assert (ours.low, ours.high) == (alone.low, alone.high)
        assert ours.low == pytest.approx(kernel.low + 18e-6)


def test_other_tables_of_operators_make_other_estimates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = shipped()["h200"]
    names = {_name_constants(known)}
    plain = json.loads(encode_calibration(known))
    for micros in (1.0, 2.0):
        host = {**plain["operators"]["host_micros"], "step": micros}
        file = tmp_path / f"{micros}.json"
        file.write_text(
            json.dumps(plain | {"operators": {**plain["operators"], "host_micros": host}})
        )
        monkeypatch.setenv(VARIABLE, str(file))
        names.add(_name_constants(known))
    assert len(names) == 3
    without = tmp_path / "without.json"
    without.write_text(json.dumps({**plain, "operators": None}))
    monkeypatch.setenv(VARIABLE, str(without))
    assert _name_constants(known) in names  # those that come with perfcli


def choosing(*blocks: int, text: str) -> KernelFacts:
    """A kernel of configurations of so many blocks; those with as many are the same binary."""
    made = tuple(
        candidate(
            blocks_per_sm=8,
            work=work(n),
            registers=32,
            config={"XBLOCK": n},
            binary_hash=f"binary of {n}",
        )
        for n in blocks
    )
    found = kernel("triton_red_fused_mul_0", "1", sizes={"x": 4096}, text=text)
    return replace(found, candidates=made)


def changed(base: Run, head: Run) -> tuple[float, float, float]:
    estimate = compare(base, head).estimate
    assert estimate is not None
    assert estimate.ratio is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.ratio, estimate.low, estimate.high


def test_more_configurations_to_choose_from_are_no_slower() -> None:
    """The device times them. Without that, the interval of a ratio of 0.97 would reach 1.22."""
    few, more = choosing(4096, text="a"), choosing(4096, 3680, text="a  # tuned")
    ratio, low, high = changed(on(H200, few), on(H200, more))
    assert 0.9 < ratio < 0.98
    assert low < 0.8
    assert high == pytest.approx(1.0)
    # The other way round none of them is faster.
    back = changed(on(H200, more), on(H200, few))
    assert back == pytest.approx((1 / ratio, 1 / high, 1 / low))


def test_other_machine_code_may_be_slower_however_many_configurations_there_are() -> None:
    few, more = choosing(4096, text="a"), choosing(4095, 3680, text="a  # tuned")
    ratio, _, high = changed(on(H200, few), on(H200, more))
    assert ratio < 0.98
    assert high > 1.05


def test_what_else_changed_keeps_its_interval() -> None:
    few, more = choosing(4096, text="a"), choosing(4096, 3680, text="a  # tuned")
    other, slower = (weighed_kernel("b", "add", text=f"b {n}", blocks=n) for n in (4096, 4300))
    _, _, high = changed(on(H200, few, other), on(H200, more, slower))
    alone = changed(on(H200, few, other), on(H200, few, slower))
    assert high == pytest.approx(alone[2], rel=0.01)
    assert high > 1.05
