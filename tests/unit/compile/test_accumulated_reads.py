"""The limit of the bytes that one kernel reads at once: fusions, memory, results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from perfcli.model import Run

Compile = Callable[..., Run]
pytestmark = pytest.mark.torch
NAME = "patch.accumulated_reads_size"
TENSOR = 64 * 64 * 4


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


RUN = """
import json, sys
import torch
import torch._inductor.config as inductor
from perfcli.compile.patches import installed
inductor.fx_graph_cache = False
inductor.compile_threads = 1
torch._functorch.config.enable_autograd_cache = False

def accumulate(x, weight):
    total = x
    for _ in range(7):
        x = x @ weight
        total = total + x
    return total, total.amax(-1)

x, weight = torch.randn(33, 33), torch.randn(33, 33) * 33**-0.5
x[3, 4], x[5, 6], x[7, 8] = float("nan"), float("inf"), float("-inf")
found = []
for limit in (None, 4 * 33 * 33 * 4, None):
    torch._dynamo.reset()
    undo = installed.install("patch.accumulated_reads_size", limit)
    with torch.no_grad():
        results, (code,) = torch._inductor.utils.run_and_get_code(
            torch.compile(accumulate), x, weight
        )
    acted = installed.counters()
    undo()
    wide = accumulate(x.double(), weight.double())
    close = [
        torch.allclose(a.double(), b, rtol=1e-4, atol=1e-4, equal_nan=True)
        for a, b in zip(results, wide)
    ]
    found.append([all(close), bool(acted), code])
print(json.dumps(found))
"""


def test_results_are_those_of_float64_and_undone_it_leaves_nothing() -> None:
    """Run on the CPU, with NaN and infinities: compiled without, with, and again without it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    plain, limited, again = json.loads(done.stdout.splitlines()[-1])
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
