"""A kernel as a table of the file, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfcli.baseline import candidates, operators
from perfcli.baseline.operators import Node
from perfcli.model import Buffer, KernelFacts, SourceFacts

CODE_DIGITS = 16
"""Of a hash of code in the file: two kernels of one model share one by chance in 10^17."""
_COUNTS = ("loads", "loads_in_loops", "stores", "vector_loads", "vector_stores")
_BYTES = ("bytes_read", "bytes_written", "bytes_swept", "lower_bound_seconds")


def table(
    kernel: KernelFacts, label: str, reads: Sequence[str], nodes: Sequence[Node]
) -> dict[str, Any]:
    """What the file keeps of a kernel; what is not known has no line. ``reads``: the labels of
    the kernels that make what it reads."""
    facts = kernel.source_facts
    counts = {name: getattr(facts, name) for name in _COUNTS} if facts else {}
    values: dict[str, Any] = {
        "name": label,
        "kind": kernel.kind,
        "language": kernel.language if kernel.language != "triton" else None,
        "graph": kernel.graph,
        "launches": kernel.launches,
        "sizes": dict(sorted(kernel.sizes.items())),
        "dynamic_sizes": sorted(kernel.dynamic_sizes) or None,
        "code": kernel.source_hash[:CODE_DIGITS],
        "spilled_words": kernel.spilled_words,
        "registers": kernel.best.registers if kernel.best else None,
        **counts,
        **{name: getattr(kernel, name) for name in _BYTES},
        "reads": sorted(reads) or None,
        "configurations": [candidates.table(each) for each in kernel.candidates] or None,
        "operators": operators.described(nodes) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def facts(table: Mapping[str, Any]) -> KernelFacts:
    """The kernel of a table, without origins. Raises KeyError, TypeError and ValueError where the
    table is not one of ours."""
    graph = table["graph"]
    made = [_buffer(name, graph, "input") for name in table.get("reads", ())]
    return KernelFacts(
        name=table["name"],
        kind=table["kind"],
        language=table.get("language", "triton"),
        graph=graph,
        launches=table["launches"],
        origins=tuple(map(operators.origin, operators.read(graph, table.get("operators", ())))),
        source="",
        source_hash=table["code"],
        source_facts=_source_facts(table),
        bytes_read=table.get("bytes_read"),
        bytes_written=table.get("bytes_written"),
        bytes_swept=table.get("bytes_swept"),
        lower_bound_seconds=table.get("lower_bound_seconds"),
        candidates=tuple(map(candidates.candidate, table.get("configurations", ()))),
        buffers=(*made, _buffer(table["name"], graph, "output")),
        sizes=table["sizes"],
        dynamic_sizes=tuple(table.get("dynamic_sizes", ())),
    )


def _buffer(maker: str, graph: str, role: Any) -> Buffer:
    """What a kernel hands on to others: that it does is all that is kept."""
    return Buffer("", f"{graph} {maker}", role, "", (), (), 0)


def _source_facts(table: Mapping[str, Any]) -> SourceFacts | None:
    if "loads" not in table:
        return None
    return SourceFacts(
        loads=table["loads"],
        loads_in_loops=table["loads_in_loops"],
        stores=table["stores"],
        stores_in_loops=0,
        atomics=0,
        reductions=0,
        loops=0,
        accesses=(),
        passes={},
        buffers_read=0,
        buffers_written=0,
        vector_loads=table.get("vector_loads"),
        vector_stores=table.get("vector_stores"),
    )


def read_by(kernels: Sequence[KernelFacts], labels: Sequence[str]) -> list[list[str]]:
    """For each kernel, the labels of those that make what it reads."""
    makers = {
        (kernel.graph, buffer.name): label
        for kernel, label in zip(kernels, labels, strict=True)
        for buffer in kernel.buffers
        if buffer.is_written
    }
    return [
        sorted(
            {
                maker
                for buffer in kernel.buffers
                if buffer.is_read
                and (maker := makers.get((kernel.graph, buffer.name))) not in (None, label)
            }
        )
        for kernel, label in zip(kernels, labels, strict=True)
    ]
