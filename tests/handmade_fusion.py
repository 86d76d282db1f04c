"""Hand-made kernels that pass tensors on: what each loads and stores is said in megabytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from handmade import candidate, kernel, origins, run

from perfcli.machine import targets
from perfcli.model import Buffer, KernelFacts, LaunchWork, Run, Traffic, WarpWork
from perfcli.predict.step import estimate_run

BLOCKS = 4096
POINTS = BLOCKS * 1024


def tensor(name: str, role: str, **more: Any) -> Buffer:
    """A float32 tensor with an element for each point: 16.8 MB."""
    given: dict[str, Any] = {
        "argument": f"{'out' if role == 'output' else 'in'}_ptr_{name}",
        "dtype": "float32",
        "shape": (BLOCKS, 1024),
        "stride": (1024, 1),
        "bytes": 4 * POINTS,
        "graph_input": name.startswith("arg"),
        "graph_output": name.startswith("result"),
    }
    return Buffer(name=name, role=role, **{**given, **more})  # type: ignore[arg-type]


def moving(loads: Sequence[str], stores: int, instructions: float = 8.0) -> LaunchWork:
    """Blocks of four warps that load and store whole lines, 4 kB of each tensor."""
    lines = 32.0
    traffic = Traffic(
        requests=lines * len(loads), lines=lines * len(loads), load_sectors=128 * len(loads),
        new_sectors=128 * len(loads), store_requests=lines * stores, store_sectors=128 * stores,
        warp_store_sectors=128 * stores, block_store_sectors=128 * stores,
        touched=dict.fromkeys(loads, 128.0), swept=dict.fromkeys(loads, 1.0),
    )  # fmt: skip
    warp = WarpWork({"fp32": instructions * 8}, 40.0, float(len(loads)), 0.0, 300, 8, 8)
    return LaunchWork((BLOCKS, 1, 1), 4, traffic, warp, warp)


def passing(
    name: str,
    *nodes: str,
    reads: Sequence[str],
    writes: Sequence[str],
    instructions: float = 8.0,
    buffers: Sequence[Buffer] | None = None,
    **more: Any,
) -> KernelFacts:
    """A pointwise kernel that reads and writes tensors of these names."""
    if buffers is None:
        buffers = [tensor(n, "input") for n in reads] + [tensor(n, "output") for n in writes]
    loads = [b.argument for b in buffers if b.is_read]
    stores = sum(b.is_written for b in buffers)
    config = candidate(blocks_per_sm=8, registers=32, work=moving(loads, stores, instructions))
    given: dict[str, Any] = {
        "origins": origins(*nodes),
        "sizes": {"x": POINTS},
        "read": sum(b.bytes for b in buffers if b.is_read),
        "written": sum(b.bytes for b in buffers if b.is_written),
        "operations": POINTS,
        "buffers": tuple(buffers),
        "candidates": (config,),
    }
    return kernel(name, **{**given, **more})


def step(*kernels: KernelFacts, **more: Any) -> Run:
    weighed = run(list(kernels), weighed=True, **more)
    return estimate_run(replace(weighed, target=targets.get("h200")))
