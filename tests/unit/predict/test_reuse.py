"""What the L2 cache still holds, for launches that can be followed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel, run

from perfcli.model import Buffer, ExternCall, KernelFacts, Launch, OperatorCall, Run
from perfcli.predict.reuse import find_cold_shares

CACHE = 24e6
MB = 1_000_000


def buffer(name: str, megabytes: float, role: str) -> Buffer:
    return Buffer(name, name, role, "float32", (1,), (1,), int(megabytes * MB))  # type: ignore[arg-type]


def named(name: str, *buffers: Buffer) -> KernelFacts:
    return replace(kernel(name, "1"), graph="forward 0", buffers=buffers)


def launched(*kernels: KernelFacts, launches: tuple[Launch, ...] = ()) -> Run:
    own = tuple(Launch("forward 0", each.name) for each in kernels)
    return replace(run(list(kernels)), launches=launches or own)


def share(distance: float) -> float:
    """As the module says: how much is cold at a distance in bytes."""
    return float(1 / (1 + (CACHE / distance) ** 2))


def test_what_nobody_touched_is_cold() -> None:
    assert find_cold_shares(launched(named("a", buffer("x", 1, "input"))), CACHE) == (1.0,)


def test_what_was_just_written_is_hot_if_it_fits() -> None:
    """The first kernel writes y of 2 MB beside 1 MB that it reads: 3 MB lie between two touches
    of the same place of y."""
    writer = named("a", buffer("x", 1, "input"), buffer("y", 2, "output"))
    reader = named("b", buffer("y", 2, "input"), buffer("z", 2, "output"))
    assert find_cold_shares(launched(writer, reader), CACHE)[1] == pytest.approx(share(3 * MB))
    assert share(3 * MB) < 0.05


def test_a_buffer_larger_than_the_cache_is_gone_when_its_start_is_read() -> None:
    writer = named("a", buffer("x", 100, "input"), buffer("y", 200, "output"))
    reader = named("b", buffer("y", 200, "input"))
    assert find_cold_shares(launched(writer, reader), CACHE)[1] > 0.95


def test_shares_are_weighed_by_bytes() -> None:
    writer = named("a", buffer("y", 1, "output"))
    reader = named("b", buffer("y", 1, "input"), buffer("w", 3, "input"))
    expected = (1 * share(1 * MB) + 3 * 1.0) / 4
    assert find_cold_shares(launched(writer, reader), CACHE)[1] == pytest.approx(expected)


def test_a_library_operator_pushes_out_what_it_moves() -> None:
    """Between writing and reading y, a matrix product moves 60 MB."""
    writer = named("a", buffer("y", 1, "output"))
    reader = named("b", buffer("y", 1, "input"))
    product = OperatorCall((buffer("", 40, "input"), buffer("", 20, "output")))
    launches = (
        Launch("forward 0", "a"),
        Launch("forward 0", "aten.mm.out", extern=True, operands=("m", "n"), call=0),
        Launch("forward 0", "b"),
    )
    found = launched(writer, reader, launches=launches)
    found = replace(found, externs=(ExternCall("aten.mm.out", "forward 0", 1, (product,)),))
    assert find_cold_shares(found, CACHE)[1] == pytest.approx(share(61 * MB))


def test_what_an_operator_wrote_is_hot_for_the_kernel_after_it() -> None:
    reader = named("b", buffer("n", 2, "input"))
    product = OperatorCall((buffer("", 1, "input"), buffer("", 2, "output")))
    launches = (
        Launch("forward 0", "aten.mm.out", extern=True, operands=("m", "n"), call=0),
        Launch("forward 0", "b"),
    )
    found = replace(
        launched(reader, launches=launches),
        externs=(ExternCall("aten.mm.out", "forward 0", 1, (product,)),),
    )
    assert find_cold_shares(found, CACHE)[0] == pytest.approx(share(3 * MB))


def test_graphs_do_not_share_names() -> None:
    writer = named("a", buffer("y", 1, "output"))
    reader = replace(named("b", buffer("y", 1, "input")), graph="backward 0")
    launches = (Launch("forward 0", "a"), Launch("backward 0", "b"))
    assert find_cold_shares(launched(writer, reader, launches=launches), CACHE)[1] == 1.0


def test_an_operator_of_unknown_tensors_pushes_out_sixteen_megabytes() -> None:
    """A kernel that touches nothing pushes out nothing."""
    writer = named("a", buffer("y", 1, "output"))
    reader = named("b", buffer("y", 1, "input"))
    nothing = named("c")
    extern = Launch("forward 0", "aten.mm.out", extern=True, operands=("p", "q"))
    launches = tuple(Launch("forward 0", name) for name in "acb")
    found = launched(writer, reader, nothing, launches=(launches[0], extern, *launches[1:]))
    assert find_cold_shares(found, CACHE)[1] == pytest.approx(share(17 * MB), rel=1e-9)
    found = launched(writer, reader, nothing, launches=launches)
    assert find_cold_shares(found, CACHE)[1] == pytest.approx(share(1 * MB), rel=1e-9)


def test_a_kernel_that_is_launched_twice_has_the_average() -> None:
    """The second launch finds what the first one read; one that reads nothing is all cold."""
    reader = named("a", buffer("x", 3, "input"))
    writer = named("b", buffer("y", 1, "output"))
    launches = tuple(Launch("forward 0", name) for name in "aba")
    found = find_cold_shares(launched(reader, writer, launches=launches), CACHE)
    assert list(found) == pytest.approx([(1 + share(4 * MB)) / 2, 1.0])


def test_a_tensor_that_is_named_twice_is_moved_once() -> None:
    """An operator multiplies m by itself, and a kernel has z in two of its arguments."""
    writer = named("a", buffer("y", 1, "output"))
    doubled = named("c", buffer("z", 4, "input"), buffer("z", 4, "output"))
    reader = named("b", buffer("y", 1, "input"))
    product = OperatorCall((buffer("", 40, "input"), buffer("", 40, "input")))
    launches = (
        Launch("forward 0", "a"),
        Launch("forward 0", "aten.mm.out", extern=True, operands=("m", "m"), call=0),
        Launch("forward 0", "c"),
        Launch("forward 0", "b"),
    )
    found = launched(writer, doubled, reader, launches=launches)
    found = replace(found, externs=(ExternCall("aten.mm.out", "forward 0", 1, (product,)),))
    assert find_cold_shares(found, CACHE)[2] == pytest.approx(share((1 + 40 + 4) * MB))
