"""How much of a difference is left, and what of it is proven."""

from __future__ import annotations

import pytest

from perfcli.search.question import Answer, OptionChange
from perfcli.search.result import Culprits, CulpritSet


def ended(good: float | None, bad: float | None) -> Culprits:
    return Culprits("explained", good_end=Answer("good", good), bad_end=Answer("bad", bad))


@pytest.mark.parametrize(
    ("good", "bad", "value", "share"),
    [
        (1.0, 3.0, 2.0, 0.5),
        (3.0, 1.0, 1.0, 1.0),
        (1.0, 3.0, 1.0, 0.0),
        (1.0, 3.0, None, None),
        (None, 3.0, 2.0, None),
        (1.0, None, 2.0, None),
        (2.0, 2.0, 2.0, None),
    ],
)
def test_the_share_of_the_difference(
    good: float | None, bad: float | None, value: float | None, share: float | None
) -> None:
    assert ended(good, bad).share(Answer("good", value)) == share
    assert ended(good, bad).share(None) is None
    assert Culprits(None).share(Answer("good", value)) is None


@pytest.mark.parametrize(
    ("with_it", "without", "proven"),
    [
        ("bad", "good", True),
        ("bad", "bad", False),
        ("good", "good", False),
        ("bad", "unresolved", False),
    ],
)
def test_both_ways_have_to_be_seen(with_it: str, without: str, proven: bool) -> None:
    option = OptionChange("a", 0, 1)
    ends = Answer(with_it), Answer(without)  # type: ignore[arg-type]
    found = CulpritSet((option,), *ends, (), (), True)
    assert found.proven is proven
    assert not found.is_interaction
    assert CulpritSet((option, option), *ends, (), (), True).is_interaction
