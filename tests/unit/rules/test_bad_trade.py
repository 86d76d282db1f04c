from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, H100, kernel, run

from perfcli.diff.compare import compare
from perfcli.model import ExternCall, Finding, KernelFacts, Variant
from perfcli.rules.bad_trade import RULE

GB = 10**9


def moving(seconds: float, name: str = "fused", **more: Any) -> KernelFacts:
    """A kernel that takes so long at full bandwidth."""
    return kernel(name, "add", read=round(seconds * H100.bandwidth), written=0, **more)


def found(
    base: tuple[float, float], head: tuple[float, float], ours: Any = None, theirs: Any = None
) -> list[Finding]:
    """Of lower-bound time (ms) and peak memory (GB) on both sides."""
    left = run([moving(base[0] / 1e3)], peak=round(base[1] * GB), **(ours or {}))
    right = run(
        [moving(head[0] / 1e3, text="other")], peak=round(head[1] * GB), id="head", **(theirs or {})
    )
    return list(RULE.of_comparison(compare(left, right)))


def test_twice_the_memory_for_less_than_half_a_percent() -> None:
    """The numbers of pytorch#138685."""
    option = {"variant": Variant("b", options={"max_fusion_size": 64})}
    (finding,) = found((7.75, 4.591), (7.72, 8.886), theirs=option)
    assert finding.headline == "peak memory 4.59 GB → 8.89 GB (+93.6 %) and no time gained"
    assert finding.evidence == (
        "lower-bound time 7.75 ms → 7.72 ms (−0.387 %)",
        "gained with launches at 5 µs: +30 µs a step",
    )
    assert finding.advice == "take back max_fusion_size"
    assert (finding.metric, finding.amount) == ("peak_memory_bytes", 4_295_000_000)


@pytest.mark.parametrize(
    ("base", "head"),
    [
        pytest.param((7.75, 8.886), (7.72, 4.591), id="memory is freed"),
        pytest.param((7.75, 4.591), (7.67, 8.886), id="one percent gained"),
        pytest.param((7.75, 10.0), (7.75, 10.9), id="nine percent more memory"),
        pytest.param((7.75, 4.0), (7.75, 4.7), id="less than a percent of the device"),
    ],
)
def test_a_trade_or_none(base: tuple[float, float], head: tuple[float, float]) -> None:
    assert found(base, head) == []


def test_more_memory_and_more_time_is_no_better() -> None:
    (finding,) = found((7.75, 4.591), (8.0, 8.886))
    assert finding.evidence[1] == "gained with launches at 5 µs: −250 µs a step"


def test_fewer_launches_are_time() -> None:
    parts = [moving(1e-3, name=f"part{n}", launches=1) for n in range(5)]
    whole = [moving(5e-3)]
    base = run(parts, peak=4 * GB)
    head = run(whole, peak=8 * GB, id="head")
    assert len(list(RULE.of_comparison(compare(base, head)))) == 1
    small = [moving(1e-4, name=f"part{n}", launches=1) for n in range(5)]
    base, head = run(small, peak=4 * GB), run([moving(5e-4)], peak=8 * GB, id="head")
    assert list(RULE.of_comparison(compare(base, head))) == []


def test_time_that_is_not_known_is_not_judged() -> None:
    called = {"externs": (ExternCall("aten.mm.out", "forward 0", 1),)}
    assert found((7.75, 4.591), (7.72, 8.886), ours=called) == []
    older = {"environment": replace(ENVIRONMENT, torch="2.12.0")}
    assert found((7.75, 4.591), (7.72, 8.886), ours=older) == []
    spilling = run([moving(7.75e-3, stack=400)], peak=4 * GB)
    head = run([moving(7.75e-3, text="other")], peak=8 * GB, id="head")
    assert list(RULE.of_comparison(compare(spilling, head))) == []


def test_without_a_device_nothing_says_how_much_is_much() -> None:
    cpu = {"target": None, "device": "cpu"}
    assert found((7.75, 4.591), (7.72, 8.886), ours=cpu, theirs=cpu) == []


def test_equal_kernels_in_another_order_may() -> None:
    kernels = [moving(4e-3, name="a"), moving(3e-3, name="b")]
    left = run(kernels, peak=4 * GB)
    right = run(kernels, peak=8 * GB, id="head", launches=left.launches[::-1])
    assert len(list(RULE.of_comparison(compare(left, right)))) == 1


def test_equal_kernels_need_no_more_memory_whatever_is_estimated() -> None:
    left = run([moving(7.75e-3)], peak=4 * GB)
    right = run([moving(7.75e-3)], peak=8 * GB, id="head")
    assert list(RULE.of_comparison(compare(left, right))) == []
