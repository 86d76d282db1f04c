"""The regression that perfcli was made to find, on an H200. The bars are from a measurement with
another program: 23 backward kernels by default and hardly a spill; without the read limit 20,
the worst with 17 loads, 255 registers and 368 bytes of stack."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import pytest

from perfcli.model import Candidate, KernelFacts, Run

pytest.importorskip("torch")

RELEASE = tuple(map(int, importlib.metadata.version("torch").split(".")[:2]))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(RELEASE < (2, 13), reason="the read limit is an option since torch 2.13"),
]

Compile = Callable[..., Run]
MAX_READS = "triton.mix_order_reduction_max_reads"
PARAMS = (("layers", 3), ("batch", 48), ("learned", True), ("mode", "training"))


def example(compile_run: Compile, *options: tuple[str, Any]) -> Run:
    return compile_run("gqa-transformer", "h200", params=PARAMS, options=options)


def backward(run: Run) -> list[KernelFacts]:
    return [kernel for kernel in run.kernels if kernel.graph.startswith("backward")]


def best(kernel: KernelFacts) -> Candidate:
    assert kernel.best is not None, f"{kernel.name} has no binary"
    return kernel.best


def test_by_default_nothing_spills_to_speak_of(compile_run: Compile) -> None:
    run = example(compile_run)
    stacks = {kernel.name: best(kernel).stack_bytes for kernel in run.kernels}
    assert None not in stacks.values()
    assert {name: size for name, size in stacks.items() if size is None or size > 16} == {}
    assert len(backward(run)) == 23
    assert any(kernel.kind == "mix-order-reduction" for kernel in run.kernels)


def test_without_the_read_limit_one_kernel_spills_heavily(compile_run: Compile) -> None:
    run = example(compile_run, (MAX_READS, 1000))
    assert len(backward(run)) == 20
    worst = max(run.kernels, key=lambda kernel: kernel.spilled_words or 0)
    assert worst.kind == "mix-order-reduction"
    assert worst.source_facts is not None
    assert worst.source_facts.loads >= 17
    assert best(worst).registers == 255
    assert (best(worst).stack_bytes or 0) > 300
