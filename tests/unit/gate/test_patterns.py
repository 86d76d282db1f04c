"""A pattern means a kernel by its label in a baseline as by its name with a number."""

from __future__ import annotations

import pytest

from perfcli.gate.allowances import _named
from perfcli.names import stem


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("triton_red_fused_add_12", "triton_red_fused_add"),
        ("triton_red_fused_add_1_2", "triton_red_fused_add"),
        ("triton_red_fused_add#2", "triton_red_fused_add"),
        ("triton_red_fused_add", "triton_red_fused_add"),
    ],
)
def test_a_name_without_its_number(name: str, expected: str) -> None:
    assert stem(name) == expected
    assert _named(expected, name)
