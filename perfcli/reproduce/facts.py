"""Reads off a run, and off two runs, the numbers that claims are about."""

from __future__ import annotations

from perfcli.diff.beside import totals_of
from perfcli.diff.metrics import launched_kernels
from perfcli.model import Comparison, KernelFacts, Run
from perfcli.reproduce.condition import Facts


def read_facts(run: Run) -> Facts:
    """Return the numbers of one step of a run; sizes in bytes."""
    kernels = launched_kernels(run.kernels)
    totals = totals_of(run)
    peak = run.peak_memory_bytes
    largest = max((b.bytes for kernel in kernels for b in kernel.buffers), default=0)
    sources = [kernel.source_facts for kernel in kernels]
    mixed = [kernel for kernel in kernels if kernel.kind == "mix-order-reduction"]
    return {
        "kernels": float(len(kernels)),
        "launches": float(totals.launches),
        "loads": _sum_loads(kernels),
        "bytes_moved": totals.bytes_moved,
        "bytes_swept": totals.bytes_swept,
        "passes": totals.passes,
        "load_bits": min(map(_widest_load, kernels), default=None, key=lambda bits: bits or 0.0),
        "registers": totals.registers,
        "spilled_words": totals.spilled_words,
        "shared_bytes": totals.shared_bytes,
        "online": float(sum(bool(facts and facts.online_softmax) for facts in sources)),
        "persistent": float(sum(kernel.kind == "persistent-reduction" for kernel in kernels)),
        "held_copies": float(sum(_count_held(kernel) for kernel in kernels)),
        "most_reads": max((_reads(kernel) for kernel in kernels), default=0.0),
        "mix_order": float(len(mixed)),
        "mix_order_reads": max(map(_reads, mixed), default=0.0),
        "mix_order_spills": _worst_spill(mixed),
        "peak_bytes": peak,
        "peak_tensors": peak / largest if peak is not None and largest else None,
    }


def read_pair(comparison: Comparison) -> Facts:
    """Return what only both runs together tell, as 0 or 1: ``slower`` by the measured time, else by
    the estimated one; ``worse`` by whatever ``compare`` looks at."""
    return {
        "same_code": float(not comparison.changed_groups),
        "worse": None if comparison.outcome == "unknown" else float(comparison.outcome == "worse"),
        "slower": _slower(comparison),
    }


def _slower(comparison: Comparison) -> float | None:
    verdict = comparison.estimate.verdict if comparison.estimate else "unsure"
    if comparison.timing is not None:
        verdict = comparison.timing.deciding.verdict
    return None if verdict == "unsure" else float(verdict == "slower")


def _sum_loads(kernels: list[KernelFacts]) -> float | None:
    known = [kernel.source_facts.loads for kernel in kernels if kernel.source_facts]
    return float(sum(known)) if len(known) == len(kernels) else None


def _widest_load(kernel: KernelFacts) -> float | None:
    """Return the bits of the widest load of any launch configuration: which one the device takes is
    not known."""
    widths = [int(bits) for c in kernel.candidates for bits, n in c.global_loads.items() if n]
    return float(max(widths)) if widths else None


def _count_held(kernel: KernelFacts) -> int:
    held = kernel.kind == "persistent-reduction" and kernel.source_facts
    return len(kernel.source_facts.held_copies) if held and kernel.source_facts else 0


def _reads(kernel: KernelFacts) -> float:
    return float(sum(buffer.is_read for buffer in kernel.buffers))


def _worst_spill(kernels: list[KernelFacts]) -> float | None:
    spills = [kernel.spilled_words for kernel in kernels]
    known = [float(words) for words in spills if words is not None]
    return max(known, default=0.0) if len(known) == len(spills) else None
