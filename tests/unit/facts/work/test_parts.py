"""Loads of which each element takes one, by hand."""

from __future__ import annotations

import numpy as np

from perfcli.facts.work.accesses import Numbers
from perfcli.facts.work.parts import find_parts
from perfcli.facts.work.programs import Execution, MemoryEvent
from perfcli.facts.work.ttgir import TensorType

PLACES = np.arange(128)[None, :]


ROW = TensorType((128,), "!tt.ptr<bf16>", "")


def load(line: int, mask: Numbers | None, loops: tuple[int, ...] = (5,)) -> MemoryEvent:
    name = f"in_ptr{line}"
    offset = PLACES * 2
    return MemoryEvent("load", line, name, 2, offset, mask, ROW, loops, 0, 1.0, False, False)


def part(line: int, low: int, high: int, loops: tuple[int, ...] = (5,)) -> MemoryEvent:
    mask: Numbers = np.isin(PLACES, np.arange(low, high))
    return load(line, mask, loops)


def parts(*events: MemoryEvent) -> tuple[int, set[int]]:
    number, lines = find_parts([Execution(1, list(events))])
    return number, set(lines)


def test_three_parts_of_a_row() -> None:
    """Lines 11 to 20 belong to the second and third: the first one's are needed anyway."""
    found = parts(part(10, 0, 40), part(14, 40, 100), part(20, 100, 128))
    assert found == (3, set(range(11, 21)))


def test_two_loads_of_one_part_are_one() -> None:
    number, _ = parts(part(10, 0, 40), part(12, 0, 40), part(14, 40, 128), part(15, 40, 128))
    assert number == 2


def test_masks_that_overlap_are_of_no_cat() -> None:
    """The end of a row masks all of its loads alike."""
    assert parts(part(10, 0, 100), part(12, 0, 100)) == (0, set())
    assert parts(part(10, 0, 80), part(12, 60, 128)) == (0, set())
    assert parts(load(10, None), load(12, None)) == (0, set())


def test_other_loads_behind_them_are_none_of_them() -> None:
    found = parts(part(10, 0, 40), part(14, 40, 128), part(20, 0, 127))
    assert found == (2, {11, 12, 13, 14})


def test_each_loop_has_its_own() -> None:
    both = (part(10, 0, 40), part(14, 40, 128), part(30, 0, 40, (25,)), part(33, 40, 128, (25,)))
    assert parts(*both) == (2, {11, 12, 13, 14, 31, 32, 33})
