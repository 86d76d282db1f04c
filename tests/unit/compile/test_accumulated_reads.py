"""The limit of the bytes that one kernel reads at once: fusions, memory, results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from warm import WarmProcess, make_request

from perfcli.model import Run

Compile = Callable[..., Run]
pytestmark = pytest.mark.torch
NAME = "patch.accumulated_reads_size"
TENSOR = 64 * 64 * 4
FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_a_running_sum_holds_a_few_terms_at_a_time(compile_run: Compile) -> None:
    """Ten products, of which matrix products add the first one. Four tensors are three products
    and the sum; the first kernel also reads the input, which takes its memory anyway."""
    plain = compile_run("accumulate", preset="smoke")
    limited = compile_run("accumulate", preset="smoke", options=((NAME, 4 * TENSOR),))
    assert len(plain.kernels) == 1
    loads = [kernel.source_facts.loads for kernel in limited.kernels if kernel.source_facts]
    assert len(loads) == len(limited.kernels) > 1
    assert max(loads) <= 5
    (before,), (after,) = plain.graphs, limited.graphs
    assert before.peak_memory_bytes == 10 * TENSOR
    # 4 tensors, and what torch 2.13 counts for the result, which takes the place of one of them.
    assert after.peak_memory_bytes is not None
    assert after.peak_memory_bytes <= 5 * TENSOR
    assert limited.counters[NAME] > 0
    (note,) = limited.patch_notes
    assert note == f"{NAME}={4 * TENSOR} refused {limited.counters[NAME]} fusions"


def test_a_limit_that_nothing_reaches_changes_no_code(compile_run: Compile) -> None:
    plain = compile_run("accumulate", preset="smoke")
    limited = compile_run("accumulate", preset="smoke", options=((NAME, 100 * TENSOR),))
    assert [kernel.source_hash for kernel in limited.kernels] == [
        kernel.source_hash for kernel in plain.kernels
    ]
    assert limited.patch_notes == (f"{NAME}={100 * TENSOR} acted nowhere",)


@pytest.mark.parametrize("name", ["inputs", "consumed"])
def test_what_needs_no_more_memory_is_fused(compile_run: Compile, name: str) -> None:
    """A graph's inputs; and a reader of a sum beside the sum, which reads no more than it alone.
    One byte is less than any of them."""
    plain = compile_run(f"accumulated.py:{name}")
    limited = compile_run(f"accumulated.py:{name}", options=((NAME, 1),))
    assert len(plain.kernels) == len(limited.kernels) == 1
    assert NAME not in limited.counters


def test_results_are_those_of_float64_and_undone_it_leaves_nothing(
    warm_process: WarmProcess, cache_of_the_run: Path
) -> None:
    """Run on the CPU, with NaN and infinities: compiled without, with, and again without it."""
    request = make_request(cache_of_the_run, "cpu")
    plain, limited, again = warm_process.call(request, FIXTURES / "accumulated_results.py")
    assert [each[:2] for each in (plain, limited, again)] == [
        [True, False],
        [True, True],
        [True, False],
    ]
    assert limited[2] != plain[2]
    assert _without_numbers(again[2]) == _without_numbers(plain[2])


def _without_numbers(code: str) -> str:
    """Leave out the comments of a module, which number the graphs that a process compiled."""
    return "\n".join(line for line in code.splitlines() if not line.lstrip().startswith("# AOT ID"))
