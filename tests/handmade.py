"""Hand-made runs for tests: only what a test cares about has to be said."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from perfcli.facts.occupancy import occupancy
from perfcli.model import (
    Bundle,
    Candidate,
    Environment,
    GraphFacts,
    KernelFacts,
    Launch,
    Origin,
    Run,
    Scalar,
    SourceFacts,
    Target,
    Variant,
)
from perfcli.storing import runfile

H100 = Target(
    name="h100",
    description="NVIDIA H100 SXM",
    vendor="nvidia",
    capability=(9, 0),
    sm_count=132,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    max_threads_per_block=1024,
    max_blocks_per_sm=32,
    warp_size=32,
    shared_bytes_per_sm=233472,
    shared_bytes_per_block=49152,
    shared_bytes_per_block_optin=232448,
    reserved_shared_bytes_per_block=1024,
    l2_bytes=52428800,
    memory_bytes=80 * 10**9,
    bandwidth=3.35e12,
    peak_flops={"bf16": 989e12},
    source="made up for tests",
)
ENVIRONMENT = Environment(
    torch="2.13.0", triton="3.7.1", python="3.11.9", ptxas="12.8", platform="linux", perfcli="0.1.0"
)


def rewrite(path: Path, document: Mapping[str, Any]) -> None:
    """Store an edited run as perfcli would have written it, with its checksum."""
    made = msgspec.json.decode(msgspec.json.encode(document["run"]), type=Run)
    runfile.write(Bundle(made, document["blobs"]), path)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def origins(*nodes: str) -> tuple[Origin, ...]:
    """Each node its own operator, so that only equal nodes have anything in common."""
    return tuple(Origin(node=node, op=f"aten.{node}.default") for node in nodes)


def candidate(warps: int = 4, *, registers: int | None = 32, **more: Any) -> Candidate:
    """One launch configuration on the H100: what fits on a multiprocessor follows from it."""
    given: dict[str, Any] = {
        "config": {"XBLOCK": 128},
        "num_stages": 1,
        "stack_bytes": 0,
        "shared_bytes": 0,
        "tma_loads": 0,
    }
    given.update(more)
    if registers is not None:
        fits = occupancy(H100, registers, given["shared_bytes"], warps)
        given.setdefault("blocks_per_sm", fits.blocks_per_sm)
        given.setdefault("occupancy", fits.fraction)
        given.setdefault("occupancy_limit", fits.limit)
    return Candidate(num_warps=warps, registers=registers, **given)


def kernel(
    name: str,
    *nodes: str,
    loads: int = 2,
    stores: int = 1,
    registers: int | None = 32,
    stack: int = 0,
    shared: int = 0,
    launches: int = 1,
    graph: str = "forward 0",
    text: str = "",
    read: int | None = 1000,
    written: int | None = 500,
    **more: Any,
) -> KernelFacts:
    """One kernel; ``text`` stands for its source and binary (default: its own name)."""
    facts = SourceFacts(loads, 0, stores, 0, 0, 0, 0, (), {}, loads, stores)
    body = digest(text or name)
    candidate = Candidate(
        {"XBLOCK": 128},
        num_warps=4,
        num_stages=1,
        registers=registers,
        stack_bytes=stack,
        shared_bytes=shared,
        occupancy=0.5,
        binary_hash=digest("binary " + (text or name)),
    )
    moved = (read or 0) + (written or 0)
    given: dict[str, Any] = {
        "kind": "pointwise",
        "language": "triton",
        "origins": origins(*nodes),
        "source": body,
        "source_hash": body,
        "source_facts": facts,
        "lower_bound_seconds": moved / H100.bandwidth if moved else None,
        "candidates": (candidate,) if registers is not None else (),
    }
    given.update(more)
    return KernelFacts(
        name=name, graph=graph, launches=launches, bytes_read=read, bytes_written=written, **given
    )


def run(
    kernels: Iterable[KernelFacts],
    *,
    id: str = "base",
    params: Mapping[str, Scalar] | None = None,
    variant: Variant | None = None,
    peak: int | None = None,
    **more: Any,
) -> Run:
    kernels = tuple(kernels)
    names = dict.fromkeys(k.graph for k in kernels)
    given: dict[str, Any] = {
        "created": "2026-11-21T12:00:00.000000Z",
        "scenario": "rmsnorm",
        "mode": "training",
        "dynamic": False,
        "device": "cuda",
        "target": H100,
        "environment": ENVIRONMENT,
        "externs": (),
        "launches": tuple(Launch(k.graph, k.name) for k in kernels for _ in range(k.launches)),
        "graphs": tuple(
            GraphFacts(name, _direction(name), int(name.split()[1]), 10, peak) for name in names
        ),
    }
    given.update(more)
    return Run(
        id=id,
        params=params or {"rows": 32},
        variant=variant or Variant(id),
        kernels=kernels,
        **given,
    )


def _direction(name: str) -> Any:
    return name.split()[0]
