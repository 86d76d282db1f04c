"""The calls of library operators that a calibration times."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from perfcli.calibrate.operator_cases import _list_operator_cases


def test_there_are_as_many_of_each_as_a_minute_or_two_allow() -> None:
    cases = _list_operator_cases()
    assert Counter(case.family for case in cases) == {
        "product": 560, "attention": 90, "convolution": 210, "other": 94,
    }  # fmt: skip
    # Stopping early loses some of each: every quarter has all families.
    quarter = len(cases) // 4
    for start in range(0, len(cases) - quarter + 1, quarter):
        assert len({case.family for case in cases[start : start + quarter]}) == 4


def test_the_same_seed_draws_the_same_calls() -> None:
    assert _list_operator_cases() == _list_operator_cases()
    assert set(map(repr, _list_operator_cases())) != set(map(repr, _list_operator_cases(seed=1)))


def test_a_smoke_test_has_few_of_each_family() -> None:
    few = _list_operator_cases(smoke=True)
    assert len(few) == 48
    assert {case.family for case in few} == {"product", "attention", "convolution", "other"}


@pytest.mark.parametrize("seed", [20261123, 1])
def test_no_call_takes_more_than_milliseconds_or_gigabytes(seed: int) -> None:
    most = {"bf16": 3e12, "fp16": 3e12, "tf32": 1.2e12, "fp32": 2.5e11}
    for case in _list_operator_cases(seed=seed):
        if case.family != "product":
            continue
        m, n, k, b = (int(case.settings[name]) for name in "mnkb")
        assert 2 * math.prod((m, n, k, b)) <= most[str(case.settings["dtype"])]
        assert b * (m * k + k * n + m * n) * 2 <= 1.5e9


def test_products_walk_along_alignments_layouts_and_dtypes() -> None:
    products = [c.settings for c in _list_operator_cases() if c.family == "product"]
    assert {p["dtype"] for p in products} == {"bf16", "fp16", "fp32", "tf32"}
    assert {(p["ta"], p["tb"]) for p in products} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    odd = [p for p in products if int(p["n"]) % 8 and p["dtype"] == "bf16"]
    assert len(odd) > 20
    assert {p["op"] for p in products} == {"mm", "addmm", "bmm", "baddbmm"}
