"""``DistributedDataParallel`` in a real worker, counted by hand by the rule of ``reducer.cpp``;
bench/distributed.py holds the same against a real process group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perfcli.model import Run

Compile = Callable[..., Run]
MEBI = 1024 * 1024


@pytest.mark.torch
def test_graphs_are_split_where_buckets_end_and_each_is_sent_once(compile_run: Compile) -> None:
    """Of four layers of 4 MiB the last one fills the first bucket, of 1 MiB, and the others the
    second, of 25 MiB. The first is sent while the backward pass of the others goes on, and the end
    of that waits for both. The buffers of a normalisation (4 KiB each, and a count) are sent
    before the forward pass."""
    run = compile_run("data_parallel.py", world=8)
    order = [
        launch.name if launch.name.startswith("c10d.") else launch.graph for launch in run.launches
    ]
    steps = [name for number, name in enumerate(order) if number == 0 or name != order[number - 1]]
    buffers = ["c10d.broadcast_", "c10d.wait"] * 2
    forward = ["forward 0", "forward 1"]
    backward = ["backward 1", "c10d.allreduce_", "backward 0", "c10d.allreduce_", "c10d.wait"]
    assert steps == buffers + forward + backward
    calls = {extern.op: extern.calls for extern in run.externs}
    works = [call.work for call in calls["c10d.allreduce_"]]
    assert [work and work.sizes["sent"] for work in works] == [
        2 * 7 / 8 * 4 * MEBI,
        2 * 7 / 8 * 12 * MEBI,
    ]
    sent = [call.work and call.work.sizes["sent"] for call in calls["c10d.broadcast_"]]
    assert sent == [2 * 4096, 8]


@pytest.mark.torch
def test_graphs_break_for_the_reasons_of_a_real_group(compile_run: Compile) -> None:
    """Dynamo names the logger of C++, and a context manager of DDP in two places; none of it is in
    perfcli. The same were counted in a group of two ranks (gloo, torch 2.13, whose models have
    buffers, too) and on two H200s (torch 2.11)."""
    run = compile_run("data_parallel.py", world=8)
    assert run.graph_breaks == {
        "Unsupported method call": 1,
        "Attempted to call function marked as skipped": 2,
    }
    places = [place.location for found in run.break_places.values() for place in found]
    assert places
    assert not [place for place in places if "compile/ranks/" in place]


@pytest.mark.torch
def test_what_torch_compiles_nothing_of_is_said(compile_run: Compile) -> None:
    """A real group of one rank (gloo, torch 2.13) has no graph either; with a group of its own and
    with the one that is there from the start."""
    run = compile_run("data_parallel.py:sequential", world=8)
    assert (len(run.kernels), len(run.graphs)) == (0, 0)
    (note,) = [note for note in run.notes if "DistributedDataParallel" in note]
    assert note.startswith("torch.compile compiles nothing of DistributedDataParallel(nn.Sequen")
