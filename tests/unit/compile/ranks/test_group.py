"""One rank of a process group, in a real worker. What is expected was counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perfcli.errors import UserCodeFailed
from perfcli.model import Run

Compile = Callable[..., Run]


@pytest.mark.torch
def test_a_rank_computes_its_share_and_adds_up(compile_run: Compile) -> None:
    """Of 1024 columns each of 8 ranks has 128. The sums are 64 × 256 numbers of 4 bytes: a rank
    sends 7/8 of them twice."""
    run = compile_run("tensor_parallel.py", world=8)
    calls = {extern.op: extern.calls for extern in run.externs}
    products = [call.work for op, found in calls.items() if "mm" in op for call in found]
    sizes = sorted((w.sizes["m"], w.sizes["k"], w.sizes["n"]) for w in products if w)
    assert sizes == [(64, 128, 256), (64, 256, 128)]
    (sums,) = [call.work for op, found in calls.items() if "all_reduce" in op for call in found]
    assert sums is not None
    assert (sums.family, sums.variant, sums.sizes["ranks"]) == ("collective", "all_reduce", 8)
    assert sums.sizes["sent"] == 2 * 7 / 8 * 64 * 256 * 4
    assert run.world == 8


@pytest.mark.torch
def test_a_model_that_needs_ranks_says_how_many_to_give(compile_run: Compile) -> None:
    with pytest.raises(UserCodeFailed) as raised:
        compile_run("tensor_parallel.py")
    assert "--world" in str(raised.value)
    assert "\n" not in str(raised.value)
