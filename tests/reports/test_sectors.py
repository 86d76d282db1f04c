"""The sectors that stand beside a kernel's source."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from handmade import candidate
from handmade_estimate import work
from rich.console import Console

from perfcli.model import LineCounts, MemoryAccess

view = import_module("perfcli.reports._screen.kernel")

SOURCE = "a\nb\nc\nd\ne\n"


def access(
    line: int, sectors: float, needed: float, kind: Any = "load", **more: Any
) -> MemoryAccess:
    return MemoryAccess(kind, "in_ptr0", line, 4, 10.0, sectors, needed, sectors, needed, **more)


def shown(*accesses: MemoryAccess) -> list[str]:
    counted = replace(work(), accesses=accesses)
    chosen = candidate(work=counted, lines={"1": LineCounts(global_loads=2)})
    console = Console(width=60, color_system=None)
    with console.capture() as capture:
        console.print(view.SourceView(SOURCE, chosen))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_sectors_moved_and_needed_by_one_instruction_of_a_warp() -> None:
    """32 of which 4 are needed; 4.5 of 4; unknown; and what no block that was looked at does."""
    lines = shown(
        access(1, 320.0, 40.0),
        access(2, 45.0, 40.0, "store"),
        access(3, 40.0, 40.0, indirect=True),
        MemoryAccess("load", "in_ptr0", 4, 4, 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    assert lines == [
        " LDG  STG  LDL  STL sectors",
        "   2                   32/4    1 a",
        "                      4.5/4    2 b",
        "                          ?    3 c",
        "                               4 d",
        "                               5 e",
    ]


def test_of_several_on_a_line_the_most_wasteful_is_shown() -> None:
    lines = shown(access(1, 80.0, 40.0), access(1, 320.0, 40.0), access(1, 40.0, 40.0))
    assert lines[1].split()[1] == "32/4"


def test_a_run_without_accesses_has_no_column() -> None:
    console = Console(width=60, color_system=None)
    chosen = candidate(work=work(), lines={"1": LineCounts(global_loads=2)})
    with console.capture() as capture:
        console.print(view.SourceView(SOURCE, chosen))
    assert capture.get().splitlines()[0] == " LDG  STG  LDL  STL"


def test_the_summary_says_what_is_not_known() -> None:
    accesses = (
        access(1, 320.0, 40.0),
        access(2, 40.0, 40.0, "store"),
        access(3, 40.0, 40.0, indirect=True),
        access(4, 40.0, 40.0, known=False),
    )
    chosen = candidate(work=replace(work(), accesses=accesses))
    assert view._describe_sectors(chosen) == (
        "loads 8 × what they need, stores 1 × what they need; where 1 access goes depends on data; "
        "1 access could not be evaluated"
    )
    two = candidate(work=replace(work(), accesses=(accesses[2], accesses[2])))
    assert view._describe_sectors(two) == "where 2 accesses go depends on data"
    assert view._describe_sectors(candidate()).startswith("unknown: the kernel's index arithmetic")
    assert view._describe_sectors(candidate(work=work())).startswith("unknown: the run was stored")
