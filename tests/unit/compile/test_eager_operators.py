"""What runs outside of graphs is counted, with its bytes; what asks or only looks is not."""

from __future__ import annotations

from typing import Any

import pytest

from perfcli.compile.capture.eager_operators import EagerOperator, describe_eager

ADD = EagerOperator("aten.add_.Tensor", 1_500_000)


def test_operators_are_told_with_the_most_frequent_first() -> None:
    others = [EagerOperator(f"aten.{name}.default", 0) for name in ("a", "b", "c", "d")]
    assert describe_eager([others[0], ADD, ADD, *others[1:]]) == (
        "outside of graphs 6 operators run eagerly, 3 MB, which no number counts: "
        "aten.add_.Tensor (×2), aten.a.default, aten.b.default, aten.c.default, …",
    )
    assert describe_eager([ADD]) == (
        "outside of graphs 1 operator runs eagerly, 1.5 MB, which no number counts: "
        "aten.add_.Tensor",
    )
    assert describe_eager([]) == ()


@pytest.mark.torch
def test_what_runs_on_the_device_counts_once(device_calls: Any) -> None:
    assert device_calls["eager"] == [
        ["aten.mm.default", 4 * (16 + 32 + 8)],
        ["aten.sum.default", 4 * (8 + 1)],
        ["aten.mm.default", 4 * (16 + 8 + 32)],  # the gradient of the weight
        ["aten._foreach_add_.Scalar", 4 * 2 * (16 + 16)],  # read and written
        ["c10d.shuffle_.default", 4 * (16 + 16)],  # none of the collectives, which stand apart
    ]
