"""One kernel of a made-up run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from perfcli.blobs import blob_id, pack
from perfcli.model import (
    Access,
    Buffer,
    Candidate,
    KernelFacts,
    KernelKind,
    LineCounts,
    Origin,
    SourceFacts,
)

_ROWS, _COLUMNS = 48 * 2048, 512
_MATRIX_BYTES = 2 * _ROWS * _COLUMNS


@dataclass(frozen=True, slots=True)
class Plan:
    """A kernel to be made up."""

    name: str
    layer: int
    graph: str
    loads: int
    stores: int
    ops: tuple[str, ...]
    kind: KernelKind = "reduction"
    stack: int = 0
    """Bytes per thread at 4 warps; half of it at 8."""


def made_up_kernel(plan: Plan, blobs: dict[str, str]) -> KernelFacts:
    """The planned kernel in two launch configurations; its texts are added to ``blobs``."""
    lines = _source(plan)
    moved = (plan.loads + plan.stores) * _MATRIX_BYTES
    return KernelFacts(
        name=plan.name,
        kind=plan.kind,
        language="triton",
        graph=plan.graph,
        launches=1,
        origins=tuple(_origins(plan)),
        source=_keep("\n".join(lines) + "\n", blobs),
        source_hash=_digest("\n".join(lines[2:]) + plan.graph + str([plan.layer, *plan.ops])),
        source_facts=_source_facts(plan),
        bytes_read=plan.loads * _MATRIX_BYTES,
        bytes_written=plan.stores * _MATRIX_BYTES,
        lower_bound_seconds=moved / 3.35e12,
        candidates=tuple(_candidate(plan, warps, blobs) for warps in (4, 8)),
        buffers=tuple(_buffers(plan)),
        sizes={"x": _ROWS, "r0_": _COLUMNS},
    )


def _source(plan: Plan) -> list[str]:
    return [
        "@triton.jit",
        f"def {plan.name}(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):",
        *(f"    tmp{n} = tl.load(in_ptr{n} + x0)" for n in range(plan.loads)),
        *(f"    tl.store(out_ptr{n} + x0, tmp{n})" for n in range(plan.stores)),
    ]


def _source_facts(plan: Plan) -> SourceFacts:
    loads = [Access("load", f"in_ptr{n}", 3 + n, 1, 1) for n in range(plan.loads)]
    first = 3 + plan.loads
    stores = [Access("store", f"out_ptr{n}", first + n, 0, 0) for n in range(plan.stores)]
    return SourceFacts(
        loads=plan.loads,
        loads_in_loops=plan.loads,
        stores=plan.stores,
        stores_in_loops=0,
        atomics=0,
        reductions=len(plan.ops),
        loops=1,
        accesses=(*loads, *stores),
        passes={access.pointer: 1 for access in loads},
        buffers_read=plan.loads,
        buffers_written=plan.stores,
    )


def _origins(plan: Plan) -> Iterator[Origin]:
    for number, op in enumerate(plan.ops):
        yield Origin(
            node=f"{op}_{plan.layer}",
            op=f"aten.{op}.Tensor",
            module=f"blocks.{plan.layer}",
            shape=(48, 2048, _COLUMNS),
            location=f"model.py:{20 + number}",
            code=f"x = {op}(x)",
        )


def _buffers(plan: Plan) -> Iterator[Buffer]:
    matrix = ("bfloat16", (_ROWS, _COLUMNS), (_COLUMNS, 1), _MATRIX_BYTES)
    for n in range(plan.loads):
        name = f"primals_{20 * plan.layer + n}"
        yield Buffer(f"in_ptr{n}", name, "input", *matrix, graph_input=True)
    for n in range(plan.stores):
        yield Buffer(f"out_ptr{n}", f"buf_{plan.name}_{n}", "output", *matrix)


def _candidate(plan: Plan, warps: int, blobs: dict[str, str]) -> Candidate:
    spilled = plan.stack * 4 // warps
    local = spilled // 4
    role = plan.name.rsplit("_", 1)[0]
    of = f"of {plan.name}, {warps} warps\n"
    return Candidate(
        config={"XBLOCK": 1, "R0_BLOCK": _COLUMNS},
        num_warps=warps,
        num_stages=1,
        registers=255 if plan.stack else 16 + 2 * plan.loads,
        stack_bytes=spilled,
        shared_bytes=112928 if plan.stack else 1024,
        local_loads=local,
        local_stores=local,
        local_loads_in_loops=local,
        local_stores_in_loops=0,
        global_loads={"128": plan.loads},
        global_stores={"128": plan.stores},
        lines={str(3 + n): _line(n, local if n == 0 else 0) for n in range(plan.loads)},
        blocks_per_sm=8,
        occupancy=0.125 if plan.stack else 0.5,
        occupancy_limit="registers",
        binary_hash=_digest(f"{plan.loads} {plan.stores} {plan.stack} {warps} {role}"),
        ttgir=_keep(f"// ttgir {of}", blobs),
        ptx=_keep(f"// ptx {of}", blobs),
        sass=_keep(f"// sass {of}", blobs),
    )


def _line(number: int, local_loads: int) -> LineCounts:
    text = f"tmp{number} = tl.load(in_ptr{number} + x0)" if local_loads else ""
    return LineCounts(1, 0, local_loads, 0, text)


def _keep(text: str, blobs: dict[str, str]) -> str:
    blobs[blob_id(text)] = pack(text)
    return blob_id(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
