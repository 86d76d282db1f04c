"""A kernel as a table of the file, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from perfcli.gate.baseline import operators
from perfcli.gate.baseline.operators import Node
from perfcli.model import Buffer, Candidate, KernelFacts, SourceFacts, TimeEstimate
from perfcli.names import stem

BINARY_DIGITS = 12
_NUMBERS = {
    "registers": "registers",
    "stack": "stack_bytes",
    "arrays": "local_array_bytes",
    "shared": "shared_bytes",
    "blocks": "blocks_per_sm",
    "occupancy": "occupancy",
    "tma_loads": "tma_loads",
    "tma_stores": "tma_stores",
}
_USUALLY = {"arrays": 0, "tma_loads": 0, "tma_stores": 0}


def _table_candidates(candidate: Candidate) -> dict[str, Any]:
    """Stack in bytes per thread, shared memory in bytes per block; ``loads`` and ``stores`` are
    global ones by the bits that a thread moves at once."""
    numbers = {name: getattr(candidate, field) for name, field in _NUMBERS.items()}
    values: dict[str, Any] = {
        "config": " ".join(f"{name}={value}" for name, value in sorted(candidate.config.items())),
        "warps": candidate.num_warps,
        "stages": candidate.num_stages,
        **{name: v for name, v in numbers.items() if v is not None and v != _USUALLY.get(name)},
        "limit": candidate.occupancy_limit,
        "loads": _widths(candidate.global_loads),
        "stores": _widths(candidate.global_stores),
        "binary": (candidate.binary_hash or "")[:BINARY_DIGITS],
        "failed": bool(candidate.error) or None,
    }
    return {name: value for name, value in values.items() if value not in (None, "")}


def _widths(counts: Mapping[str, int]) -> str:
    """Return ``128x3 64x7``."""
    by_width = sorted(counts.items(), key=lambda item: -int(item[0]))
    return " ".join(f"{bits}x{number}" for bits, number in by_width)


def _candidate(table: Mapping[str, Any]) -> Candidate:
    """Raise KeyError, TypeError and ValueError for what is no line of ours."""
    config = (text.partition("=") for text in table["config"].split())
    known = "registers" in table
    usual = _USUALLY if known else {}
    numbers = {field: table.get(name, usual.get(name)) for name, field in _NUMBERS.items()}
    return Candidate(
        config={name: int(value) for name, _, value in config},
        num_warps=table["warps"],
        num_stages=table["stages"],
        **numbers,
        occupancy_limit=table.get("limit", ""),
        global_loads=_counts(table.get("loads", "")),
        global_stores=_counts(table.get("stores", "")),
        binary_hash=table.get("binary"),
        error="did not compile" if table.get("failed") else "",
    )


def _counts(text: str) -> dict[str, int]:
    parts = (each.partition("x") for each in text.split())
    return {bits: int(number) for bits, _, number in parts}


CODE_DIGITS = 16
"""Of a hash of code in the file: two kernels of one model share one by chance in 10^17."""
_COUNTS = ("loads", "loads_in_loops", "stores", "vector_loads", "vector_stores")
_BYTES = ("bytes_read", "bytes_written", "bytes_swept", "lower_bound_seconds")


def _table(
    kernel: KernelFacts, label: str, reads: Sequence[str], nodes: Sequence[Node]
) -> dict[str, Any]:
    """Return what the file keeps of a kernel; what is not known has no line.

    ``reads``: the labels of the kernels that make what it reads.
    """
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
        "finishing_bytes": kernel.finishing_bytes or None,
        "estimated_us": _microseconds(kernel.estimate) if kernel.estimate else None,
        "finishing_us": _round_micros(kernel.estimate.finishing) or None
        if kernel.estimate
        else None,
        "reads": sorted(reads) or None,
        "configurations": [_table_candidates(each) for each in kernel.candidates] or None,
        "operators": operators._described(nodes) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _microseconds(estimate: TimeEstimate) -> list[float]:
    """Return the estimate of one launch, and its interval."""
    seconds = (estimate.seconds, estimate.low, estimate.high)
    return [_round_micros(each) for each in seconds]


def _round_micros(seconds: float) -> float:
    return float(f"{seconds * 1e6:.4g}")


def _estimate(table: Mapping[str, Any]) -> TimeEstimate | None:
    if "estimated_us" not in table:
        return None
    seconds, low, high = (each * 1e-6 for each in table["estimated_us"])
    return TimeEstimate(seconds, low, high, finishing=table.get("finishing_us", 0.0) * 1e-6)


def _facts(table: Mapping[str, Any]) -> KernelFacts:
    """Return the kernel of a table, without origins. Raises KeyError, TypeError and ValueError
    where the table is not one of ours."""
    graph = table["graph"]
    made = [_buffer(name, graph, "input") for name in table.get("reads", ())]
    return KernelFacts(
        name=table["name"],
        kind=table["kind"],
        language=table.get("language", "triton"),
        graph=graph,
        launches=table["launches"],
        origins=tuple(map(operators._origin, operators._read(graph, table.get("operators", ())))),
        source="",
        source_hash=table["code"],
        source_facts=_source_facts(table),
        bytes_read=table.get("bytes_read"),
        bytes_written=table.get("bytes_written"),
        bytes_swept=table.get("bytes_swept"),
        lower_bound_seconds=table.get("lower_bound_seconds"),
        finishing_bytes=table.get("finishing_bytes", 0),
        candidates=tuple(map(_candidate, table.get("configurations", ()))),
        buffers=(*made, _buffer(table["name"], graph, "output")),
        sizes=table["sizes"],
        dynamic_sizes=tuple(table.get("dynamic_sizes", ())),
        estimate=_estimate(table),
    )


def _buffer(maker: str, graph: str, role: Any) -> Buffer:
    """Return what a kernel hands on to others: that it does is all that is kept."""
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


def _read_by(kernels: Sequence[KernelFacts], labels: Sequence[str]) -> list[list[str]]:
    """Return, for each kernel, the labels of those that make what it reads."""
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


def _labels(kernels: Sequence[KernelFacts]) -> list[str]:
    """Return a label for each, unique among them: ``triton_red_fused_add``,
    ``triton_red_fused_add#2``."""
    seen: Counter[str] = Counter()
    found = []
    for kernel in kernels:
        name = stem(kernel.name)
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found


def _in_order(kernels: Sequence[KernelFacts]) -> list[int]:
    """Return the indices in the order of the file: by graph, name, size, layer; then by code."""

    def place(index: int) -> tuple[object, ...]:
        kernel = kernels[index]
        direction, _, number = kernel.graph.partition(" ")
        # forward before backward, as they run
        graph = (direction == "backward", int(number) if number.isdigit() else 0, kernel.graph)
        sizes = sorted(kernel.sizes.items())
        modules = sorted({_natural(origin.module) for origin in kernel.origins})
        name = stem(kernel.name)
        return (graph, name, sizes, kernel.launches, modules, kernel.source_hash, index)

    return sorted(range(len(kernels)), key=place)


def _natural(module: str) -> tuple[tuple[int, str], ...]:
    """Return ``blocks.10`` behind ``blocks.9``."""
    parts = module.split(".")
    return tuple((int(part) if part.isdecimal() else -1, part) for part in parts)
