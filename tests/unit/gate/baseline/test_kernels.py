"""A kernel as a table of the baseline's file, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, kernel

from perfcli.gate.baseline.kernels import (
    _candidate,
    _counts,
    _facts,
    _in_order,
    _labels,
    _natural,
    _table,
    _table_candidates,
    _widths,
)
from perfcli.model import Buffer, Candidate, KernelFacts, Origin, SourceFacts, TimeEstimate


@pytest.mark.parametrize(
    ("made", "table"),
    [
        (
            Candidate({"YBLOCK": 2, "XBLOCK": 128}, num_warps=4, num_stages=1),
            {"config": "XBLOCK=128 YBLOCK=2", "warps": 4, "stages": 1},
        ),
        (
            candidate(8, stack_bytes=0, local_array_bytes=0, tma_loads=0, tma_stores=0),
            {
                "config": "XBLOCK=128",
                "warps": 8,
                "stages": 1,
                "registers": 32,
                "stack": 0,
                "shared": 0,
                "blocks": 8,
                "occupancy": 1.0,
                "limit": "warps",
            },
        ),
        (
            Candidate(
                {},
                num_warps=1,
                num_stages=2,
                registers=9,
                local_array_bytes=28,
                tma_loads=1,
                tma_stores=2,
                global_loads={"64": 7, "128": 3, "8": 1},
                global_stores={"32": 1},
                binary_hash="0123456789ab" + "c" * 52,
                error="ptxas failed",
            ),
            {
                "config": "",
                "warps": 1,
                "stages": 2,
                "registers": 9,
                "arrays": 28,
                "tma_loads": 1,
                "tma_stores": 2,
                "loads": "128x3 64x7 8x1",
                "stores": "32x1",
                "binary": "0123456789ab",
                "failed": True,
            },
        ),
    ],
)
def test_a_configuration_is_kept_in_few_words(made: Candidate, table: dict[str, Any]) -> None:
    expected = {name: value for name, value in table.items() if value != ""}
    assert _table_candidates(made) == expected
    again = _candidate({**expected, "config": table["config"]})
    usual = {"local_array_bytes": 0, "tma_loads": 0, "tma_stores": 0}
    missing = usual if made.registers is not None else {}
    kept: dict[str, Any] = {name: n for name, n in missing.items() if getattr(made, name) is None}
    assert again == replace(
        made,
        **kept,
        binary_hash=made.binary_hash and made.binary_hash[:12],
        error="did not compile" if made.error else "",
    )


def test_widths_and_counts() -> None:
    assert _widths({}) == ""
    assert _counts("") == {}
    assert _counts("128x3 8x1") == {"128": 3, "8": 1}


def test_labels_are_unique() -> None:
    kernels = [kernel(name) for name in ("add_0", "add_1", "mul_2", "add_7", "add")]
    assert _labels(kernels) == ["add", "add#2", "mul", "add#3", "add#4"]


def placed(name: str, graph: str = "forward 0", module: str = "", **more: Any) -> KernelFacts:
    return kernel(name, graph=graph, origins=(Origin("mul", "aten.mul", module),), **more)


def test_kernels_stand_as_they_run_and_then_by_name_size_and_layer() -> None:
    kernels = [
        placed("a_0", "backward 0"),
        placed("a_1", "forward 10"),
        placed("a_2", "forward 9"),
        placed("b_3"),
        placed("a_4", sizes={"x": 9}),
        placed("a_5", sizes={"x": 8}, launches=2),
        placed("a_6", sizes={"x": 8}, module="blocks.10"),
        placed("a_7", sizes={"x": 8}, module="blocks.9"),
        placed("a_8", sizes={"x": 8}, module="blocks.9"),
    ]
    first, second = sorted((7, 8), key=lambda n: kernels[n].source_hash)
    assert _in_order(kernels) == [first, second, 6, 5, 4, 3, 2, 1, 0]
    assert _in_order([kernels[7]] * 3) == [0, 1, 2]
    assert _in_order([placed("a_0", "forward x"), placed("a_1", "forward 0")]) == [1, 0]


def test_modules_are_in_the_order_of_their_numbers() -> None:
    names = ["blocks.10.a", "blocks.9.a", "blocks.9", "blocks.x", "a.0"]
    assert sorted(names, key=_natural) == [
        "a.0",
        "blocks.x",
        "blocks.9",
        "blocks.9.a",
        "blocks.10.a",
    ]


def test_a_kernel_comes_back_as_far_as_it_is_kept() -> None:
    made = kernel(
        "a_0",
        loads=7,
        launches=3,
        sizes={"y": 2, "x": 8},
        dynamic_sizes=("s1", "s0"),
        finishing_bytes=9,
        bytes_swept=77,
        buffers=(Buffer("in_ptr0", "x", "input", "float32", (8,), (1,), 32),),
    )
    table = _table(made, "a", ["c", "b"], [])
    assert (table["name"], table["reads"], table["loads"]) == ("a", ["b", "c"], 7)
    assert list(table["sizes"].items()) == [("x", 8), ("y", 2)]
    assert table["dynamic_sizes"] == ["s0", "s1"]
    assert "language" not in table
    again = _facts(table)
    assert (again.name, again.launches, again.bytes_swept, again.finishing_bytes) == ("a", 3, 77, 9)
    assert (again.language, again.source_hash) == ("triton", made.source_hash[:16])
    assert [(b.name, b.is_read) for b in again.buffers] == [
        ("forward 0 b", True),
        ("forward 0 c", True),
        ("forward 0 a", False),
    ]
    assert again.source_facts == SourceFacts(7, 0, 1, 0, 0, 0, 0, (), {}, 0, 0)


def test_what_a_kernel_does_not_know_has_no_line() -> None:
    bare = kernel(
        "a_0",
        language="cpp",
        registers=None,
        read=None,
        written=None,
        source_facts=None,
        lower_bound_seconds=None,
        sizes={},
    )
    table = _table(bare, "a", [], [])
    assert table == {
        "name": "a",
        "kind": "pointwise",
        "language": "cpp",
        "graph": "forward 0",
        "launches": 1,
        "sizes": {},
        "code": bare.source_hash[:16],
    }
    again = _facts(table)
    assert (again.source_facts, again.candidates, again.bytes_read) == (None, (), None)
    assert (again.finishing_bytes, again.dynamic_sizes) == (0, ())


def test_the_time_of_the_sums_that_finish_a_kernel_comes_back() -> None:
    """Without it every head of such a kernel would be slower than its baseline."""
    estimate = TimeEstimate(100e-6, 80e-6, 125e-6, finishing=18.25e-6)
    table = _table(replace(kernel("k", "1"), estimate=estimate), "a", [], [])
    assert table["estimated_us"] == [100, 80, 125]
    assert table["finishing_us"] == 18.25
    read = _facts(table).estimate
    assert read is not None
    assert read.of_step == pytest.approx(118.25e-6)
