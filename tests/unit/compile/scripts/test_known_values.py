"""Values of fake tensors that alias each other, held against those of real tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess, make_request

PROGRAMS = Path(__file__).parents[3] / "fixtures" / "known_values.py"
UNKNOWN = {"fill_half_of_unknown", "copy_unknown_into_a_view", "copy_unknown_into_the_whole"}

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def seen(warm_process: WarmProcess, cache_of_the_run: Path) -> dict[str, Any]:
    """What is known after each program, and what is true."""
    found: dict[str, Any] = warm_process.call(make_request(cache_of_the_run), PROGRAMS)
    return found


def test_what_is_known_is_true(seen: dict[str, Any]) -> None:
    wrong = {n: both for n, both in seen.items() if n not in UNKNOWN and both[0] != both[1]}
    assert not wrong


def test_what_unknown_values_were_written_into_is_not_known(seen: dict[str, Any]) -> None:
    assert {name for name, (known, _) in seen.items() if known is None} == UNKNOWN
