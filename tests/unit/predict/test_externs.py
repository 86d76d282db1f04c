"""Library operators in the estimate of a step and of two."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from handmade_estimate import weighed_kernel, weighed_run

from perfcli.diff.compare import compare
from perfcli.machine import targets
from perfcli.model import ExternCall, Launch, OperatorCall, OperatorWork, Run, TimeEstimate
from perfcli.predict.calibration import shipped
from perfcli.predict.operators import estimate_call, estimate_host
from perfcli.predict.step import _list_changed_externs, estimate_step

H200 = targets.get("h200")
KERNEL = weighed_kernel("triton_poi_fused_add_0", "1")


def product(m: int, n: int, k: int, align: int = 8) -> OperatorWork:
    sizes = {"m": m, "n": n, "k": k, "batch": 1, "left": 0, "right": 1, "align": align}
    flags = {"batched": 0.0, "bias": 0.0, "added": 0.0}
    return OperatorWork("product", "bf16", 2.0 * m * n * k, 0.0, 0.0, {**sizes, **flags})


UNKNOWN = OperatorWork("product", "float64", 1.0, 0.0, 0.0, product(8, 8, 8).sizes)


def mm(*works: tuple[OperatorWork | None, int]) -> ExternCall:
    calls = tuple(OperatorCall((), {}, work, count) for work, count in works)
    return ExternCall("aten.mm.out", "forward 0", sum(n for _, n in works), calls)


def made(*externs: ExternCall, **more: Any) -> Run:
    return weighed_run(KERNEL, target=H200, externs=externs, **more)


def estimate(work: OperatorWork) -> TimeEstimate:
    found = estimate_call(work, H200)
    assert found is not None
    return found


def seconds(work: OperatorWork) -> float:
    return estimate(work).seconds


def test_a_step_is_the_sum_of_its_kernels_and_operators() -> None:
    alone, step = (
        estimate_step(made()),
        estimate_step(made(mm((product(4096, 4096, 4096), 3), (product(128, 128, 128), 1)))),
    )
    assert alone is not None
    assert step is not None
    large, small = seconds(product(4096, 4096, 4096)), seconds(product(128, 128, 128))
    assert step.seconds == pytest.approx(alone.seconds + 3 * large + small)
    (average,) = step.externs
    assert average is not None
    assert average.seconds == pytest.approx((3 * large + small) / 4)
    assert step.low < step.seconds < step.high


def test_the_ends_of_intervals_add_up_and_doubts_are_told_once() -> None:
    far, farther = product(2, 3, 10**7), product(3, 2, 10**7)
    alone, step = estimate_step(made()), estimate_step(made(mm((far, 3), (farther, 1))))
    assert alone is not None
    assert step is not None
    one, other = estimate(far), estimate(farther)
    assert step.low == pytest.approx(alone.low + 3 * one.low + other.low)
    assert step.high == pytest.approx(alone.high + 3 * one.high + other.high)
    (average,) = step.externs
    assert average is not None
    assert average.low == pytest.approx((3 * one.low + other.low) / 4)
    assert average.high == pytest.approx((3 * one.high + other.high) / 4)
    assert average.doubts == ("no call of such sizes was measured",)


@pytest.mark.parametrize(
    "unknown",
    [
        mm((UNKNOWN, 1)),
        mm((None, 1)),
        ExternCall("aten.mm", "forward 0", 2),
        ExternCall("aten.mm", "forward 0", 2, mm((product(8, 8, 8), 1)).calls),
    ],
)
def test_with_an_operator_that_is_not_known_seconds_are_those_of_kernels(
    unknown: ExternCall,
) -> None:
    alone, step = estimate_step(made()), estimate_step(made(mm((product(64, 64, 64), 1)), unknown))
    assert alone is not None
    assert step is not None
    assert step.seconds == alone.seconds
    assert step.externs[1] is None
    assert step.externs[0] is not None


def test_the_host_launches_kernels_and_operators() -> None:
    launches = tuple(Launch("forward 0", f"triton_{n}") for n in range(100))
    few, many = (
        estimate_step(made(mm((product(64, 64, 64), n)), launches=launches[:n])) for n in (1, 100)
    )
    assert few is not None
    assert many is not None
    assert few.host is not None
    assert many.host is not None
    assert many.host.seconds > few.host.seconds + 99 * 10e-6
    assert many.host.seconds > many.seconds, "a hundred small launches are host-bound"


def test_the_host_pays_for_kernels_and_operators_by_hand() -> None:
    """Two generated kernels; what is called is counted by operator, not by launch."""
    launches = (
        Launch("forward 0", "triton_1"),
        Launch("forward 0", "aten.mm.out", extern=True),
        Launch("forward 0", "triton_2"),
    )
    step = estimate_step(made(mm((UNKNOWN, 5)), launches=launches))
    assert step is not None
    assert step.host is not None
    assert step.host.seconds == estimate_host(2, [("aten.mm.out", 5)], H200)


def compared(base: Run, head: Run) -> Any:
    found = compare(base, head).estimate
    assert found is not None
    return found


def test_a_product_that_becomes_slow_makes_the_step_slower() -> None:
    base = made(mm((product(16384, 50264, 768), 1)), id="base")
    head = made(mm((product(16384, 50257, 768, align=1), 1)), id="head")
    found = compared(base, head)
    assert found.verdict == "slower"
    assert found.ratio == pytest.approx(found.head.seconds / found.base.seconds)
    assert compared(base, base).ratio == 1


def test_the_same_products_take_as_long_on_both_sides() -> None:
    """Their errors cancel: only what changed widens the interval."""
    same = mm((product(4096, 4096, 4096), 12))
    found = compared(made(same, id="base"), made(same, id="head"))
    assert (found.verdict, found.low, found.high) == ("same", 1, 1)


def test_a_side_without_calls_leaves_operators_out_of_both() -> None:
    """Baselines and runs of earlier versions count operators without what they are called with."""
    old = made(ExternCall("aten.mm.out", "forward 0", 3), id="base")
    new = made(mm((product(4096, 4096, 4096), 3)), id="head")
    found = compared(old, new)
    assert found.base.seconds == found.head.seconds
    assert (found.verdict, found.ratio) == ("same", 1)
    more = made(mm((product(4096, 4096, 4096), 4)), id="head")
    assert compared(old, more).missing == (
        "aten.mm.out: called 3 → 4 times, and it has no estimate",
    )


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (0, 2), (2, 0)])
def test_calls_that_one_side_makes_more_often_count_with_all_that_they_take(
    before: int, after: int
) -> None:
    """Their share of the step, on the side where it is greater: other calls cancel."""
    work, same = product(4096, 4096, 4096), product(1024, 1024, 1024)
    base, head = (
        made(mm((same, 2), *([(work, count)] if count else [])), id=f"{side} {count}")
        for side, count in (("base", before), ("head", after))
    )
    found = compared(base, head)
    kernels = estimate_step(made())
    assert kernels is not None
    rest = kernels.seconds + 2 * seconds(same)
    totals = [rest + count * seconds(work) for count in (before, after)]
    assert [found.base.seconds, found.head.seconds] == pytest.approx(totals)
    share = max(
        count * seconds(work) / total for count, total in zip((before, after), totals, strict=True)
    )
    pair = shipped()["h200"].pair
    half = pair["k80"] * math.hypot(pair["floor"], share)
    assert math.log(found.high / found.ratio) == pytest.approx(half)
    assert math.log(found.ratio / found.low) == pytest.approx(half)


def test_calls_without_an_estimate_are_counted_over_all_graphs() -> None:
    def side(id: str, *counts: int) -> Run:
        return made(*(ExternCall("aten.mm.out", f"forward {n}", c) for n, c in enumerate(counts)),
                    ExternCall("aten.bmm.out", "forward 0", 1), id=id)  # fmt: skip

    moved = compared(side("base", 2, 1), side("head", 1, 2))
    assert (moved.missing, moved.verdict) == ((), "same")
    gone = compared(side("base", 2, 1), side("head", 1, 0))
    assert gone.missing == ("aten.mm.out: called 3 → 1 times, and it has no estimate",)
    assert (gone.verdict, gone.ratio, gone.low, gone.high) == ("unsure", None, None, None)


def test_the_operator_that_lacks_an_estimate_is_named() -> None:
    """An operator that has one is not said to lack it."""
    known = product(4096, 4096, 4096)
    attention = ExternCall("aten.attention", "forward 0", 2)
    base = made(mm((known, 6)), attention, id="base")
    head = made(mm((known, 10)), attention, id="head")
    assert compared(base, head).missing == (
        "aten.mm.out: called 6 → 10 times, which is not counted: no estimate of aten.attention",
    )


def test_operators_on_two_gpus_take_the_time_of_each() -> None:
    h100 = targets.get("h100")
    work = product(4096, 4096, 4096)
    base, head = made(mm((work, 2))), replace(made(mm((work, 2))), target=h100)
    alone = [estimate_step(each) for each in (base, head)]
    found = compare(base, head, {"target"}).estimate
    assert found is not None
    assert [found.base.seconds, found.head.seconds] == pytest.approx(
        [each.seconds for each in alone if each]
    )
    there = estimate_call(work, h100)
    assert there is not None
    assert list(_list_changed_externs(base, head)) == [
        pytest.approx((2 * seconds(work), 2 * there.seconds))
    ]
    assert list(_list_changed_externs(base, base)) == []


def test_an_operator_without_an_estimate_is_not_alike_on_two_gpus() -> None:
    base = made(mm((UNKNOWN, 2)))
    found = compare(base, replace(base, target=targets.get("h100")), {"target"}).estimate
    assert found is not None
    assert found.verdict == "unsure"
    assert found.missing == ("aten.mm.out: the sides' GPUs differ, and it has no estimate",)
