"""Whose results are wrong."""

from __future__ import annotations

import pytest

from perfcli.errors import WrongResult
from perfcli.workflow.pair import _wrong_results


@pytest.mark.parametrize("side", ["base", "head"])
def test_wrong_results_are_of_the_side_that_the_message_names(side: str) -> None:
    found = _wrong_results(WrongResult(f"the {side}'s outputs are wrong: 3 of 8 are NaN"))
    assert found.side == side


def test_nobody_is_blamed_where_no_side_is_named() -> None:
    with pytest.raises(WrongResult, match="outputs are wrong"):
        _wrong_results(WrongResult("outputs are wrong: 3 of 8 values are NaN"))
