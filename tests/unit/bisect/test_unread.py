"""Which variants need no compiling."""

from __future__ import annotations

import pytest

from perfcli.bisect.knowledge import Unread
from perfcli.bisect.space import Settings


@pytest.fixture
def unread() -> Unread:
    """One variant was compiled, and nobody read ``a`` and ``b``."""
    made = Unread()
    made.add({"a": 1, "c": 2}, "code", ("a", "b"))
    return made


@pytest.mark.parametrize(
    "settings",
    [{"a": 1, "c": 2}, {"a": 3, "c": 2}, {"c": 2}, {"a": 1, "b": [4], "c": 2}],
)
def test_what_nobody_read_may_be_anything(unread: Unread, settings: Settings) -> None:
    assert unread.code_of(settings) == "code"


@pytest.mark.parametrize(
    "settings", [{"a": 1}, {"a": 1, "c": 3}, {"c": 2, "d": 1}, {"c": 2.0}, {"c": True}]
)
def test_what_was_read_may_not(unread: Unread, settings: Settings) -> None:
    assert unread.code_of(settings) is None


def test_true_is_not_one() -> None:
    made = Unread()
    made.add({"c": 1}, "code", ())
    assert made.code_of({"c": True}) is None
    assert not made.has({"c": True})


def test_whether_an_option_is_read(unread: Unread) -> None:
    compiled, other = {"c": 2, "a": 1}, {"c": 3}
    assert [unread.is_read(compiled, name) for name in "abc"] == [False, False, True]
    assert unread.is_read(other, "a") is None
