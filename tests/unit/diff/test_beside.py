"""Inductor's kernels and hand-written ones: their numbers, and the findings that explain them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import candidate, kernel, run

from perfcli.diff.beside import totals_of
from perfcli.diff.compare import compare
from perfcli.model import Beside, Buffer, Comparison, Finding, KernelFacts, SourceFacts, Totals

ROWS = (4096, 2048)
SIZE = 4096 * 2048 * 2


def buffer(argument: str, name: str, *, graph_input: bool = True, size: int = SIZE) -> Buffer:
    role = "input" if argument.startswith("in") else "output"
    return Buffer(argument, name, role, "bfloat16", ROWS, (2048, 1), size, graph_input)  # type: ignore[arg-type]


def reading(
    facts: KernelFacts, buffers: tuple[Buffer, ...], passes: dict[str, int], read: int
) -> KernelFacts:
    source = SourceFacts(1, 0, 1, 0, 0, 1, 0, (), passes, 1, 1)
    return replace(facts, buffers=buffers, source_facts=source, bytes_read=read, bytes_written=SIZE)


def test_passes_weigh_inputs_by_their_bytes() -> None:
    """Two kernels: the first sweeps x twice, the second x once more and a vector."""
    x, vector = buffer("in_ptr0", "x"), buffer("in_ptr1", "w", size=SIZE // 4)
    first = reading(kernel("first"), (x, buffer("out_ptr0", "s")), {"in_ptr0": 2}, SIZE)
    made = buffer("in_ptr2", "s", graph_input=False)
    second = reading(kernel("second"), (x, vector, made), {"in_ptr0": 1, "in_ptr1": 1}, SIZE)
    totals = totals_of(run([first, second]))
    assert totals.passes == (3 * SIZE + SIZE // 4) / (SIZE + SIZE // 4)
    assert totals.bytes_moved == 4 * SIZE
    assert totals.launches == 2


def test_loads_are_weighed_by_what_is_read_and_the_best_configuration_counts() -> None:
    narrow, wide = {"16": 8, "128": 1}, {"128": 4}
    main = kernel("main", candidates=[candidate(4, global_loads=narrow), candidate(8)])
    other = kernel(
        "other", candidates=[candidate(global_loads=narrow), candidate(global_loads=wide)]
    )
    small = kernel("small", candidates=[candidate(global_loads={}, tma_loads=1)])
    facts = [reading(k, (), {}, read) for k, read in ((main, 60), (other, 30), (small, 10))]
    totals = totals_of(run(facts))
    assert totals.wide_share == pytest.approx(0.6 * 0.5 + 0.3 + 0.1)


def test_kernels_count_as_often_as_they_are_launched() -> None:
    """One of three launches over 10 bytes of x, wide; one that reads 20 of y, half of it wide."""
    wide, half = candidate(global_loads={"128": 4}), candidate(global_loads={"16": 8, "128": 1})
    three = reading(
        kernel("three", candidates=[wide], launches=3),
        (buffer("in_ptr0", "x", size=10),),
        {"in_ptr0": 2},
        10,
    )
    one = reading(kernel("one", candidates=[half]), (buffer("in_ptr0", "y", size=20),), {}, 20)
    totals = totals_of(run([three, one]))
    assert totals.wide_share == pytest.approx((3 * 10 + 20 / 2) / (3 * 10 + 20))
    assert totals.passes == pytest.approx((3 * 2 * 10 + 20) / (10 + 20))
    empty = reading(kernel("one", candidates=[half]), (buffer("in_ptr0", "z", size=0),), {}, 0)
    assert totals_of(run([empty])).passes is None
    assert totals_of(run([empty])).wide_share is None


def test_the_worst_kernel_decides_and_what_is_not_known_is_none() -> None:
    kernels = [
        kernel("a", candidates=[candidate(registers=40, shared_bytes=64, occupancy=0.5)]),
        kernel("b", candidates=[candidate(registers=90, shared_bytes=16, occupancy=0.25)]),
    ]
    totals = totals_of(run(kernels))
    assert (totals.registers, totals.shared_bytes, totals.occupancy) == (90, 64, 0.25)
    assert totals.passes is None
    assert totals.wide_share is None
    assert totals_of(run([replace(kernels[0], bytes_read=None)])).bytes_moved is None


def comparison(*findings: Finding) -> Comparison:
    numbers = Totals(1, bytes_swept=300, spilled_words=0, wide_share=0.2)
    ours = Totals(1, bytes_swept=200, spilled_words=0, wide_share=0.9)
    made = compare(run([kernel("a")]), run([kernel("b")]))
    shown = Beside(("softmax/online",), ("",), numbers, ours)
    return replace(made, findings=findings, beside=shown)


def finding(code: str, metric: str, **more: object) -> Finding:
    fields: dict[str, object] = {"appearance": "gone", "on_base": True, **more}
    return Finding(code, "warning", code, (0,), metric=metric, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "explains"),
    [
        (finding("PC203", "bytes_swept"), True),
        (finding("PC204", "narrow_loads"), True),
        (finding("PC201", ""), True),
        (finding("PC101", "spilled_words"), False),  # ours spill as little
        (finding("PC104", "occupancy"), False),  # not known
        (finding("PC203", "bytes_swept", appearance="same"), False),  # ours have it too
        (finding("PC203", "bytes_swept", explained_by="PC201"), False),
        (finding("PC901", ""), False),
    ],
)
def test_what_explains_is_gone_and_seen_in_the_numbers(found: Finding, explains: bool) -> None:
    shown = comparison(finding("PC301", "", appearance="new"), found)
    assert shown.beside is not None
    assert shown.beside.list_explaining(shown.findings) == ((found,) if explains else ())
