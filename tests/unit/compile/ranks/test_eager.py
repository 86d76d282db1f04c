"""Collectives outside of compiled graphs, in a real worker, counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perfcli.model import Run

Compile = Callable[..., Run]
LAYER = 4 * 1024 * 1024
"""Bytes of a layer's parameters."""


@pytest.mark.torch
def test_layers_are_gathered_twice_and_gradients_scattered_once(compile_run: Compile) -> None:
    """A rank receives 7/8 of each layer before its forward pass and again before its backward
    pass, and sends 7/8 of its gradients. The second layer is gathered while the first one computes:
    nothing of the step has to be done before."""
    run = compile_run("fully_sharded.py", world=8)
    calls = {extern.op: extern for extern in run.externs if "c10d._" in extern.op}
    gathers, scatters = calls["c10d._allgather_base_"], calls["c10d._reduce_scatter_base_"]
    assert (gathers.count, scatters.count) == (4, 2)
    works = [call.work for extern in (gathers, scatters) for call in extern.calls]
    assert {work and work.sizes["sent"] for work in works} == {7 / 8 * LAYER}
    sides = {(b.role, b.bytes) for call in gathers.calls for b in call.buffers}
    assert sides == {("input", LAYER // 8), ("output", LAYER)}
    named = [launch for launch in run.launches if launch.name in calls]
    assert named[0].name == named[1].name == "c10d._allgather_base_"
    assert (named[0].after, named[1].after) == (0, 0)
    order = list(run.launches)
    last = max(number for number, launch in enumerate(order) if "scatter" in launch.name)
    assert order[last].after == last
    assert order[-1].name == "c10d.wait"
