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
def test_a_dimension_of_a_mesh_may_reach_across_machines(compile_run: Compile) -> None:
    """Of 64 ranks each machine has the next 8, which are one row of the mesh; a column is one rank
    of each machine. Either sums up 64 MiB."""
    run = compile_run("mesh.py", world=64)
    (sums,) = [extern.calls for extern in run.externs if "all_reduce" in extern.op]
    works = [call.work for call in sums if call.work]
    assert [work.sizes["ranks"] for work in works] == [8, 8]
    assert [work.sizes["machines"] for work in works] == [1, 8]
    assert {work.sizes["sent"] for work in works} == {2 * 7 / 8 * 64 * 1024 * 1024}


@pytest.mark.torch
def test_a_model_that_needs_ranks_says_how_many_to_give(compile_run: Compile) -> None:
    with pytest.raises(UserCodeFailed) as raised:
        compile_run("tensor_parallel.py")
    assert "--world" in str(raised.value)
    assert "\n" not in str(raised.value)
