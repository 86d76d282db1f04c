"""Hand-made kernels that reduce: softmaxes as Inductor makes them, whole and split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handmade import ENVIRONMENT, digest, kernel

from perfcli.model import Access, Buffer, Candidate, KernelFacts, Origin, SourceFacts

OLD = replace(ENVIRONMENT, torch="2.11.0+cu130")
ONLINE = Origin("prepare_softmax_online_default", "prims.prepare_softmax_online.default")


def matrix(
    rows: int, columns: int, *, argument: str = "in_ptr0", name: str = "arg0_1", **more: Any
) -> Buffer:
    """A contiguous bfloat16 matrix that is read."""
    given: dict[str, Any] = {"role": "input", "dtype": "bfloat16", "stride": (columns, 1), **more}
    itemsize = 4 if given["dtype"] == "float32" else 2
    return Buffer(
        argument=argument,
        name=name,
        shape=(rows, columns),
        bytes=rows * columns * itemsize,
        **given,
    )


def source(sweeps: int = 1, *, online: bool | None = False, masked: bool = False) -> SourceFacts:
    """Of a kernel that loads ``in_ptr0`` in so many loops."""
    loads = tuple(
        Access("load", "in_ptr0", line, line, 1, masked=masked) for line in range(1, sweeps + 1)
    )
    return SourceFacts(
        sweeps, sweeps, 0, 0, 0, 1, sweeps, loads, {"in_ptr0": sweeps}, 1, 1, online_softmax=online
    )


def reduction(
    name: str,
    buffers: tuple[Buffer, ...],
    sizes: dict[str, int],
    *,
    facts: SourceFacts | None = None,
    origins: tuple[Origin, ...] = (ONLINE,),
    blocks: int | None = 4,
    widths: dict[str, int] | None = None,
    **more: Any,
) -> KernelFacts:
    """A looped reduction with the launch configuration that Inductor gives long rows."""
    candidate = Candidate(
        {"XBLOCK": 1, "R0_BLOCK": 2048},
        num_warps=16,
        num_stages=1,
        registers=32,
        blocks_per_sm=blocks,
        global_loads=widths or {},
        binary_hash=digest("binary " + name),
    )
    given: dict[str, Any] = {
        "kind": "reduction",
        "graph": "inference 0",
        "origins": origins,
        "buffers": buffers,
        "sizes": sizes,
        "source_facts": facts or source(),
        "candidates": (candidate,),
        **more,
    }
    return kernel(name, **given)


def split_softmax(rows: int, columns: int, *, online: bool = False) -> list[KernelFacts]:
    """Its maximum and sum over ``columns`` in chunks of 8192, as torch 2.11 splits it."""
    chunks = columns // 8192
    whole = matrix(rows, columns)
    sizes = {"x": rows * chunks, "r0_": 8192}
    stages = []
    for number in range(1 if online else 2):
        name = f"triton_red_fused_softmax_{2 * number}"
        stages.append(reduction(name, (whole,), sizes, facts=source(online=online)))
        partial = matrix(rows, chunks, name=f"buf{number}", dtype="float32")
        stages.append(
            reduction(
                f"triton_per_fused_softmax_{2 * number + 1}",
                (partial,),
                {"x": rows, "r0_": chunks},
                kind="persistent-reduction",
                facts=source(online=online),
            )
        )
    return stages
