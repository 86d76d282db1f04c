"""Which budget is proposed where a measurement could not tell."""

from __future__ import annotations

import pytest

from perfcli.diff.budget import what_helps
from perfcli.model import Floor, TimeChange, Timing


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        # 33 s a round, of which 8 are needed: 264 s.
        (1, "--budget 300 may tell"),
        (3, "--budget 120 may tell"),
        (0, "a quieter machine"),
    ],
)
def test_too_few_rounds_need_time(rounds: int, says: str) -> None:
    step = TimeChange(47.35e-3, 45.56e-3, 0.962, rounds=rounds)
    assert what_helps(Timing(step, Floor(0.01, "assumed"), seconds=33.0)) == says
