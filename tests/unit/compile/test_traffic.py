"""Bytes where Inductor has an estimate, and where it has none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.compile.capture.buffers import Operands
from perfcli.compile.capture.traffic import UNKNOWN, Finishing, Use, _Moved, mean, read_use
from perfcli.diff.metrics import totals
from perfcli.model import Access, Buffer, Run, SourceFacts

MATRIX = 8192 * 4096 * 4


def buffer(argument: str, role: Any, bytes: int) -> Buffer:
    return Buffer(argument, argument, role, "float32", (bytes // 4,), (1,), bytes)


def facts(*accesses: tuple[Any, str]) -> SourceFacts:
    found = tuple(Access(kind, pointer, 1, 0, 0) for kind, pointer in accesses)
    return SourceFacts(1, 0, 1, 0, 0, 0, 0, found, {}, 1, 1)


def test_a_kernel_without_an_estimate() -> None:
    assert mean([read_use(SimpleNamespace())], None) == UNKNOWN
    assert (UNKNOWN.read, UNKNOWN.written) == (None, None)


def test_an_estimate_that_fails_is_unknown_not_zero() -> None:
    def estimate() -> int:
        raise AssertionError("no hint for u0")

    use = read_use(SimpleNamespace(estimate_kernel_num_bytes=estimate))
    assert mean([use], None) == UNKNOWN


def test_what_is_only_written_is_not_read() -> None:
    """Inductor counts what is overwritten in place twice; the source says that it is not loaded."""
    buffers = (buffer("in_out_ptr0", "inplace", 400), buffer("in_ptr0", "input", 300))
    use = Use(Operands(buffers), 400 + 400 + 300)
    stored = facts(("load", "in_ptr0"), ("store", "in_out_ptr0"))
    assert mean([use], stored) == _Moved(300, 400, {"in_ptr0": 300})
    loaded = facts(("load", "in_ptr0"), ("load", "in_out_ptr0"), ("store", "in_out_ptr0"))
    assert mean([use], loaded) == _Moved(700, 400, {"in_out_ptr0": 400, "in_ptr0": 300})
    # A source that does not tell which argument it loads leaves the estimate as it is.
    assert mean([use], facts(("load", ""), ("store", "in_out_ptr0"))).read == 700


def test_a_workspace_counts_as_the_source_uses_it() -> None:
    buffers = (buffer("in_ptr0", "input", 300), buffer("ws_ptr", "workspace", 80))
    use = Use(Operands(buffers), 300, Finishing(("aten.sum.dim_IntList",), 90))
    stored = mean([use], facts(("load", "in_ptr0"), ("store", "ws_ptr")))
    assert (stored.read, stored.written, stored.finishing) == (300, 80, 90)
    both = mean([use], facts(("load", "in_ptr0"), ("store", "ws_ptr"), ("load", "ws_ptr")))
    assert (both.read, both.written) == (380, 80)


def test_uses_of_one_text_are_averaged() -> None:
    uses = [Use(Operands((buffer("in_ptr0", "input", n),)), n) for n in (100, 300)]
    assert mean(uses, facts(("load", "in_ptr0"))) == _Moved(200, 0, {"in_ptr0": 200})
    assert mean([*uses, Use()], facts(("load", "in_ptr0"))) == UNKNOWN


@pytest.mark.torch
def test_dropout_reads_its_input_once(compile_run: Callable[..., Run]) -> None:
    """The random mask is a buffer of the kernel's own, overwritten by the result."""
    (kernel,) = compile_run("bytes_moved.py:dropout").kernels
    assert (kernel.bytes_read, kernel.bytes_written) == (MATRIX + 8, MATRIX)  # and the seed


@pytest.mark.torch
def test_what_follows_a_mix_order_kernel(compile_run: Callable[..., Run]) -> None:
    """LayerNorm of 16384 × 2048 in bfloat16, its backward: weight and bias get one partial
    gradient for each of 1024 blocks of 16 rows, in float32."""
    run = compile_run("bytes_moved.py:layer_norm")
    rows, columns = 16384, 2048
    (kernel,) = (k for k in run.kernels if k.kind == "mix-order-reduction")
    blocks = rows // 16
    workspace = 2 * blocks * columns * 4
    assert workspace == 16_777_216
    matrix, column, row = rows * columns * 2, rows * 4, columns * 2
    # gradient and input, their mean and inverse root for each row, and the weight
    assert kernel.bytes_read == 2 * matrix + 2 * column + row
    assert kernel.bytes_written == matrix + workspace
    # Each half of the workspace is summed up into a row of float32.
    finishing = workspace + 2 * columns * 4
    assert kernel.finishing_bytes == finishing
    after = [launch.name for launch in run.launches if launch.graph == kernel.graph]
    assert after[:3] == [kernel.name, "aten.sum.dim_IntList", "aten.sum.dim_IntList"]
    finishing_calls = [launch.name for launch in run.launches if launch.finishing]
    assert finishing_calls == ["aten.sum.dim_IntList"] * 2
    assert run.externs == ()
    (backward,) = (g for g in run.graphs if g.name == kernel.graph)
    # The gradient of the input, mean and inverse root of the forward, and the workspace.
    assert backward.live_bytes[0] == matrix + 2 * column + workspace
    assert backward.peak_memory_bytes == backward.live_bytes[0]
    total = {change.metric: change.head for change in totals(run, run)}
    moved = sum(k.launches * (k.bytes_moved or 0) for k in run.kernels) + finishing
    assert total["bytes_moved"] == moved
    assert total["lower_bound_seconds"] == pytest.approx(moved / 3.35e12)
