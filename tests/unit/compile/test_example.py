"""The regression that perfcli was made to find, on an H100. The bars are from a measurement with
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
PARAMS = (("layers", 3), ("batch", 48), ("learned", True))


def example(compile_run: Compile, *options: tuple[str, Any]) -> Run:
    return compile_run("gqa-transformer", preset="full", params=PARAMS, options=options)


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


def test_other_configurations_of_that_kernel_do_not_spill(compile_run: Compile) -> None:
    run = example(compile_run, (MAX_READS, 1000))
    worst = max(run.kernels, key=lambda kernel: kernel.spilled_words or 0)
    # The best of Inductor's is XBLOCK 4 with 2 warps; one thing changed in each.
    own = best(worst)
    spilled = {(c.config["XBLOCK"], c.num_warps): c.spilled_words for c in worst.alternatives}
    x, warps = own.config["XBLOCK"], own.num_warps
    assert spilled[(1, warps)] == 0
    assert spilled[(x, 2 * warps)] == 0
    assert all(c.error == "" for c in worst.alternatives)
    known = {(c.config["XBLOCK"], c.config["NUM_STAGES"], c.num_warps) for c in worst.candidates}
    tried = [(c.config["XBLOCK"], c.config["NUM_STAGES"], c.num_warps) for c in worst.alternatives]
    assert len(set(tried)) == len(tried) <= 8
    assert known.isdisjoint(tried)


def test_lines_that_spill_are_quoted(compile_run: Compile) -> None:
    run = example(compile_run, (MAX_READS, 1000))
    worst = max(run.kernels, key=lambda kernel: kernel.spilled_words or 0)
    lines = best(worst).lines
    quoted = {number: counts.text for number, counts in lines.items() if counts.text}
    assert quoted
    assert set(quoted) == {n for n, c in lines.items() if c.local_loads or c.local_stores}
    assert any(text.startswith("tmp") for text in quoted.values())


def test_default_kernels_that_are_fine_are_left_alone(compile_run: Compile) -> None:
    run = example(compile_run)
    for kernel in run.kernels:
        low = (best(kernel).occupancy or 0) <= 0.125
        assert bool(kernel.alternatives) == bool(best(kernel).spilled_words or low), kernel.name
