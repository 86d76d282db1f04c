"""Values that are computed several times: where arithmetic decides, and where memory hides it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade_fusion import BLOCKS, POINTS, passing, step

from perfcli.model import Finding, KernelFacts, Origin
from perfcli.rules.computed_again import RULE

WHOLE = (BLOCKS, 1024)
PART = (BLOCKS // 16, 1024)
"""What is put into one of sixteen places."""
BUSY = 4000.0
"""Instructions of a warp for each line, which take far longer than memory does."""


def nodes(*named: str, shape: tuple[int, ...] = WHOLE) -> tuple[Origin, ...]:
    return tuple(Origin(name, f"aten.{name.split('_')[0]}.default", shape=shape) for name in named)


def scatter(part: tuple[int, ...] = PART, instructions: float = BUSY) -> KernelFacts:
    return passing(
        "triton_poi_fused_select_scatter_0", reads=["arg0_1"], writes=["result"],
        instructions=instructions,
        origins=(*nodes("erf", "tanh", shape=part), *nodes("select_scatter")),
    )  # fmt: skip


def found(*kernels: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(step(*kernels, **more)))


def test_a_part_is_computed_for_all_places_of_the_whole() -> None:
    (finding,) = found(scatter())
    assert finding.headline.endswith(
        f"computes {POINTS // 16:,} results 16 times each: erf, tanh at all of its "
        f"{POINTS:,} points"
    )
    (kernel,) = step(scatter()).kernels
    # Of 37 instructions 36 belong to the part, and 15 of 16 times are one too many.
    (once,) = step(scatter(instructions=BUSY * (1 - 36 / 37 * 15 / 16))).kernels
    assert finding.cost is not None
    assert kernel.step_seconds is not None and once.step_seconds is not None
    saved = kernel.step_seconds - once.step_seconds
    # Less a kernel of 2.5 µs, and what it passes on.
    assert finding.cost.seconds == pytest.approx(saved - 2.5e-6, rel=0.1)


def test_what_hides_behind_memory_is_none() -> None:
    assert found(scatter(instructions=8.0)) == []


def test_a_whole_is_computed_once() -> None:
    assert found(scatter(part=WHOLE)) == []


def test_a_number_is_computed_once_by_each_thread() -> None:
    """The gradient of a mean loss divides one number, in a kernel with a point for each logit: the
    machine code of 16 points has one reciprocal."""
    assert found(scatter(part=())) == found(scatter(part=(1, 1))) == []
    assert found(scatter(part=(2, 1))) != []


def test_what_says_where_an_element_lies_is_not_computed_again() -> None:
    """Inductor makes ``roll`` of an ``fmod`` of its indices."""
    whole = scatter()
    index = tuple(replace(o, node="fmod", op="aten.roll.default") for o in whole.origins[:2])
    assert found(whole) != []
    assert found(replace(whole, origins=(*index, *whole.origins[2:]))) == []


def twice(instructions: float, *shared: str) -> tuple[KernelFacts, KernelFacts]:
    """Two kernels, and what both of them compute."""
    first = passing(
        "triton_poi_fused_0", reads=["arg0_1", "arg1_1"], writes=["result"],
        instructions=instructions, origins=nodes(*shared, "mul"),
    )  # fmt: skip
    second = passing(
        "triton_poi_fused_1", reads=["arg0_1", "arg1_1"], writes=["other"],
        instructions=instructions, origins=nodes(*shared, "add"),
    )  # fmt: skip
    return first, second


def test_two_kernels_compute_the_same() -> None:
    settings = {"realize_opcount_threshold": 30}
    (finding,) = found(*twice(BUSY, "erf", "tanh", "sub"), settings=settings)
    assert finding.kernels == (0, 1)
    assert "both compute erf, tanh" in finding.headline
    assert finding.evidence == ("in both: erf, tanh, sub",)
    assert [dict(cure.options) for cure in finding.cures] == [{"realize_opcount_threshold": 2}]
    kernels = step(*twice(BUSY, "erf", "tanh", "sub")).kernels
    assert finding.cost is not None
    # The second one has 1 of 38 instructions left: nearly half of the step is saved.
    assert finding.cost.seconds == pytest.approx(kernels[1].step_seconds, rel=0.25)


@pytest.mark.parametrize(
    "kernels",
    [twice(8.0, "erf", "tanh"), twice(BUSY, "sub", "neg"), twice(BUSY)],
    ids=["memory hides it", "light", "nothing in common"],
)
def test_what_is_as_well_computed_again(kernels: tuple[KernelFacts, ...]) -> None:
    assert found(*kernels) == []
