"""Memory of a schedule, where Inductor has an estimate and where it has none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.compile.capture.memory import estimate_memory
from perfcli.model import Run

pytestmark = pytest.mark.torch


def test_a_schedule_that_cannot_be_planned_has_no_peak() -> None:
    assert estimate_memory(SimpleNamespace(), {}) is None


@pytest.mark.parametrize(
    "options",
    [
        (("max_fusion_size", 64),),
        # Realises each term of the sum while lowering; the scheduler fuses them all again.
        (("realize_acc_reads_threshold", 2), ("realize_acc_reads_size_threshold", 2 * 64**2 * 4)),
    ],
)
def test_buffers_inside_a_kernel_take_no_memory(
    options: tuple[Any, ...], compile_run: Callable[..., Run]
) -> None:
    """What is alive when the one kernel runs that adds up all but the last product (that one is
    added by its own matrix product): nine products of 64 × 64 float32 and the input. Its result
    takes the place of one of them."""
    run = compile_run("accumulate", preset="smoke", options=options)
    assert len(run.kernels) == 1
    (graph,) = run.graphs
    assert graph.peak_memory_bytes == 10 * 64**2 * 4
    assert max(graph.live_bytes) == graph.peak_memory_bytes
