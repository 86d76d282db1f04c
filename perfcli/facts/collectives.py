"""Tells collective operations from others, and counts what one rank sends and receives in one."""

from __future__ import annotations

import math
import re

from perfcli.model import RANKS_PER_MACHINE, OperatorWork

_NAMES = {
    "all_reduce": "all_reduce",
    "allreduce": "all_reduce",
    "all_gather": "all_gather",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "wait": "wait",
}
"""How the name of an operator begins, and what it does."""
_LIBRARIES = ("_c10d_functional.", "_c10d_functional_autograd.", "_dtensor.shard_dim_", "c10d.")


_KERNELS = re.compile(r"(?:^|\s)(?:nccl|rccl|mscclpp|nvshmem|sglang::cross_device)", re.IGNORECASE)
"""How the names of their kernels begin, behind a type or the operator that launches them."""


def is_collective_kernel(name: str) -> bool:
    """Return whether a kernel, as a profiler names it, waits for those of other ranks."""
    return _KERNELS.search(name) is not None


def name_collective(operator: str) -> str:
    """Return ``all_reduce`` for ``_c10d_functional.all_reduce_.default``; empty for an operator
    that is no collective."""
    name = operator.removeprefix("torch.ops.")
    library = next((each for each in _LIBRARIES if name.startswith(each)), None)
    if library is None:
        return ""
    name = name.removeprefix(library).removeprefix("_")
    return next((kind for begin, kind in _NAMES.items() if name.startswith(begin)), "")


def count_collective(
    name: str, size: int, ranks: int, dtype: str = "bf16", machines: int | None = None
) -> OperatorWork:
    """Return the work of one rank, which is the root where there is one. ``size``: the bytes of
    the whole, which for a gather is the output and for a scatter the input. ``machines``: those
    that the ranks are on; as few as hold them if it is not given.

    What is sent is what an algorithm must send that uses every link alike: an all-reduce sends all
    but a rank's own share twice, once to add it up and once to spread the sum; gather, scatter
    and exchange send it once; broadcast and reduce pass the whole on.
    """
    if name == "wait":  # it moves nothing itself
        return OperatorWork("collective", dtype, 0.0, 0.0, 0.0, {"ranks": float(ranks)}, name)
    others = (ranks - 1) / ranks
    whole = float(ranks > 1)
    rounds = {"all_reduce": 2.0 * others, "broadcast": whole, "reduce": whole}
    sent = rounds.get(name, others) * size
    share = size / ranks
    read = share if name in ("all_gather", "gather") else size
    written = share if name in ("reduce_scatter", "scatter") else size
    machines = machines or math.ceil(ranks / RANKS_PER_MACHINE)
    sizes = {"ranks": float(ranks), "machines": float(machines), "sent": sent, "received": sent}
    return OperatorWork("collective", dtype, 0.0, float(read), float(written), sizes, name)
