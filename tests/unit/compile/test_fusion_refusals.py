"""What the scheduler says of kernels that it did not fuse, and of which kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.compile.capture.buffers import Operands
from perfcli.compile.capture.captured import CapturedGraph, CapturedKernel
from perfcli.compile.capture.fusion_refusals import note_operations, tell_refusals
from perfcli.compile.capture.traffic import Use
from perfcli.model import Buffer, GraphFacts, Run


def named(name: str) -> Any:
    return SimpleNamespace(get_name=lambda: name)


def kernel(name: str, reads: str, writes: str) -> CapturedKernel:
    buffers = (
        Buffer("in_ptr0", reads, "input", "float32", (8,), (1,), 32),
        Buffer("out_ptr0", writes, "output", "float32", (8,), (1,), 32),
    )
    return CapturedKernel(name, None, uses=[Use(Operands(buffers))])  # type: ignore[arg-type]


def graph() -> CapturedGraph:
    """Three kernels, each of which reads what the one before it wrote."""
    made = CapturedGraph(GraphFacts("forward 0", "forward", 0, 4))
    for number, nodes in enumerate((["op0_op1"], ["op2"], ["op13"])):
        name = f"triton_poi_{number}"
        made.kernels[name] = kernel(name, f"buf{number}", f"buf{number + 1}")
        note_operations(made, name, [*map(named, nodes), object()])
    return made


def test_a_reason_belongs_to_the_kernel_that_reads() -> None:
    made = graph()
    made.refusals = {
        ("op1", "op2"): ("numel mismatch (%s, %s)", (8, 16)),
        ("op13", "op2"): ("exceeds max fusion", ()),
        ("op0", "op1"): ("in one kernel in the end", ()),
        ("op0", "op13"): ("have nothing to do with each other", ()),
        ("op2", "op99"): ("unknown", ()),
        ("op1_op2", "op13"): ("of two kernels", ()),
    }
    assert tell_refusals(made) == {
        "triton_poi_1": {"triton_poi_0": "numel mismatch (8, 16)"},
        "triton_poi_2": {"triton_poi_1": "exceeds max fusion"},
    }


def test_the_last_reason_counts() -> None:
    made = graph()
    made.refusals = {("op0", "op2"): ("first", ()), ("op0_op1", "op2"): ("100 %d last", ())}
    assert tell_refusals(made) == {"triton_poi_1": {"triton_poi_0": "100 %d last"}}


@pytest.mark.torch
def test_the_installed_scheduler_says_why(compile_run: Callable[..., Run]) -> None:
    """A softmax in kernels of one operation each: its statistics, then the quotient."""
    params = (("rows", 256), ("columns", 4096))
    run = compile_run("softmax", "h200", params=params, options=(("max_fusion_size", 1),))
    *statistics, quotient = run.kernels
    assert [kernel.refused for kernel in statistics] == [{}] * len(statistics)
    reason = "exceeds max fusion"
    assert quotient.refused == {kernel.name: reason for kernel in statistics}
    returned = [b.graph_output for k in run.kernels for b in k.buffers if b.is_written]
    assert False in returned and returned[-1] is True
