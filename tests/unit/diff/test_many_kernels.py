"""Runs of thousands of kernels: what is weighed grows with their number, not with its square."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from handmade import kernel

from perfcli.diff.match import _Matching, match
from perfcli.diff.overlap import MOST_PAIRS, _few, _owners
from perfcli.model import KernelFacts, Match

MANY = 3000


def kernels(side: str, *nodes: str, text: str = "") -> list[KernelFacts]:
    """All do the same work, where any is said; ``text``: all have this code."""
    names = (f"triton_{n}" for n in range(MANY))
    return [kernel(name, *nodes, text=text or f"{side} {name}") for name in names]


def pairs(found: Sequence[Match]) -> list[tuple[tuple[int, ...], tuple[int, ...], str]]:
    return [(m.base, m.head, m.relation) for m in found]


@pytest.mark.parametrize("nodes", [(), ("add",), ("add", "mul")])
def test_many_kernels_of_the_same_code_are_paired_in_order(nodes: tuple[str, ...]) -> None:
    same = kernels("", *nodes, text="one")
    assert pairs(match(same, same)) == [((n,), (n,), "same") for n in range(MANY)]


def test_many_kernels_without_work_are_paired_by_name_in_order() -> None:
    found = match(kernels("base"), kernels("head"))
    assert pairs(found) == [((n,), (n,), "changed") for n in range(MANY)]
    assert {m.method for m in found} == {"name"}


def test_a_graph_s_only_kernels_are_looked_for_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    really = _Matching._only

    def only(self: _Matching, base: int, head: int) -> bool:
        nonlocal asked
        asked += 1
        return really(self, base, head)

    monkeypatch.setattr(_Matching, "_only", only)
    found = match(kernels("base", "gone"), kernels("head", "new"))
    assert {m.relation for m in found} == {"gone", "new"}
    assert asked <= 3 * MANY


def test_pieces_that_everybody_has_are_not_weighed() -> None:
    members = {n: frozenset({"all", f"pair {n // 2}", f"own {n}"}) for n in range(MANY)}
    found = _owners(members)
    telling = _few(found, found)
    assert sum(len(found[piece]) ** 2 for piece in telling) <= MOST_PAIRS
    assert telling == found.keys() - {"all"}
    some = _owners({n: members[n] for n in range(100)})
    assert _few(some, some) == some.keys()
