"""What is assumed, what was stored, and what controls prove."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from perfcli.stats import floor
from perfcli.stats.series import RoundSeconds


def controls(
    biases: Sequence[float], *, spread: float = 0.02, rounds: int = 100, seed: int = 1
) -> list[RoundSeconds]:
    """Kernels with identical code whose head's times are off by these shares."""
    dice = random.Random(seed)

    def head(bias: float) -> tuple[float, ...]:
        return tuple((1 + bias) * math.exp(dice.gauss(0, spread)) for _ in range(rounds))

    return [RoundSeconds((1.0,) * rounds, head(bias), (0,) * rounds) for bias in biases]


def test_without_any_knowledge_it_is_assumed() -> None:
    assert floor.find_floor("cpu", []).relative == 0.015
    made = floor.find_floor("cuda", [])
    assert (made.relative, made.kernel, made.source) == (0.01, 0.01, "assumed")


def test_short_graphs_have_a_higher_floor_than_long_ones() -> None:
    def assumed(seconds: float) -> float:
        return floor.find_floor("cuda", [], None, "graph", seconds=seconds).relative

    # Twelve pairs of 28 to 281 µs on an H200, in percent; those of 0.65 ms and more by 0.2 %.
    seen = (0.36, 0.62, 0.48, 0.95, 0.70, 0.22, 0.89, 0.26, 0.35, 0.50, 0.82, 0.06)
    highest = 3.055 * math.sqrt(sum(d * d for d in seen) / len(seen)) / 100  # Student's t, 12
    assert assumed(28e-6) == assumed(222e-6) == pytest.approx(highest, abs=5e-4)
    assert 2 * 0.002 <= assumed(0.66e-3) <= 0.006


@pytest.mark.parametrize(
    ("seconds", "seen"), [(0.25e-3, 0.48), (0.86e-3, 0.164), (2.4e-3, 0.07), (5e-3, 0.075)]
)
def test_steps_that_wait_may_differ_by_what_two_hosts_did(seconds: float, seen: float) -> None:
    """What pairs of processes with the same code differed by at most, on an H200."""
    made = floor.find_floor("cuda", [], seconds=seconds, waits=True)
    assert seen * 1.5 < made.relative < seen * 2.6
    assert made.source == "assumed of a step that waits for its host"
    assert made.kernel == floor.ASSUMED["cuda"]  # a kernel waits for no host


def test_what_was_stored_counts_where_it_is_larger() -> None:
    made = floor.find_floor("cpu", [], (0.04, "perfcli noise, 2026-11-21"))
    assert (made.relative, made.kernel) == (0.04, 0.04)
    assert made.source == "perfcli noise, 2026-11-21"
    assert floor.find_floor("cpu", [], (0.001, "perfcli noise")).source == "assumed"


def test_quiet_controls_prove_nothing() -> None:
    made = floor.find_floor("cpu", controls([0.0] * 12))
    assert made.source == "assumed"
    assert made.kernel == 0.015


def test_a_bias_of_all_controls_raises_the_floor_of_the_step() -> None:
    made = floor.find_floor("cpu", controls([0.03] * 6))
    assert made.relative == pytest.approx(0.03, abs=0.003)
    assert made.source == "6 identical kernels on both sides, today"


def test_a_control_that_differs_alone_says_nothing_of_the_step() -> None:
    made = floor.find_floor("cpu", controls([0.0, 0.0, 0.0, 0.0, 0.0, 0.2]))
    assert made.relative == 0.015
    assert made.kernel == pytest.approx(0.2, abs=0.01)


def test_too_few_controls_prove_nothing() -> None:
    assert floor._common_bias(controls([0.1] * 2)) == 0
    assert floor._single_bias(controls([0.1] * 4)) == 0
    assert floor._common_bias(controls([0.1] * 3)) == pytest.approx(0.1, abs=0.01)


def test_of_39_controls_the_two_wildest_are_beyond_the_95_percent() -> None:
    # the conformal rank is ⌈0.95 · 40⌉ = 38: one control lies above it
    made = controls([0.0] * 36 + [0.1, 0.2, 0.3])
    assert floor._single_bias(made) == pytest.approx(0.2, abs=0.01)


def test_a_slower_base_is_a_bias_as_well() -> None:
    assert floor._common_bias(controls([1 / 1.05 - 1] * 5)) == pytest.approx(0.05, abs=0.01)


def test_the_noise_of_kernels_is_no_bias() -> None:
    """Their intervals have it already: the floor is not to count it twice. Of 8 intervals at 99.2 %
    (all ranks of 8 stretches) one misses by chance in 1 − 0.992⁸ = 6.1 % of all cases."""
    found = [
        floor._single_bias(controls([0.0] * 8, spread=0.3, seed=seed)) > 0 for seed in range(200)
    ]
    assert 0.02 < sum(found) / len(found) < 0.11


def numbered(bias: float, numbers: Sequence[int]) -> RoundSeconds:
    (made,) = controls([bias], rounds=len(numbers))
    return RoundSeconds(made.base, made.head, made.processes, numbers=tuple(numbers))


def test_controls_are_held_together_by_the_rounds_that_all_of_them_have() -> None:
    """One that lost a round, and one without any times, take no other's word."""
    found = [numbered(0.03, range(100)) for _ in range(4)]
    made = floor.find_floor(
        "cpu", [*found, numbered(0.03, range(5, 100)), RoundSeconds((), (), ())]
    )
    assert made.relative == pytest.approx(0.03, abs=0.003)
    assert made.source == "5 identical kernels on both sides, today"


def test_controls_without_a_round_in_common_prove_nothing() -> None:
    apart = [numbered(0.03, range(n, n + 50)) for n in (0, 50, 100)]
    assert floor._common_bias(apart) == 0
