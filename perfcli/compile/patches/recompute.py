"""Lets persistent reductions keep rows of half precision as 16-bit values (``half_inputs``), and
lets Inductor use them for longer rows, as no release of torch does.

Up to 1024 columns Inductor's reductions are persistent: they hold a row in registers. Longer rows
are read twice. Rows of up to 4096 columns are held here, where that saves reads as Inductor itself
estimates them, in launch configurations of 8, 16 and 32 elements per thread. RMSNorm of 8192
columns reads its row the second time from L1, at the speed of a copy: held, it took 1 to 3 % longer
(H200, torch 2.11.0, 2026-11-23).

Read against torch 2.11.0, 2.12.1 and 2.13.0; compiled with 2.11.0 and 2.13.0.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from perfcli.compile.capture.buffers import _hint
from perfcli.compile.patches.half_inputs import MARK, holds_rows, keep_halves
from perfcli.compile.patches.kernel_text import rewrite_kernels
from perfcli.compile.patches.patching import Patching

_LONGEST = 4096
"""Columns of the longest rows that are held."""
_USUAL = 1024
"""Columns up to which Inductor's reductions are persistent."""
_SAVED = 1.3
"""How many times the bytes a loop has to read: as much as Inductor asks for to hold a row
(``add_persistent_rblock``)."""
_MOST_ACCESSES = 10
"""Loads and stores per element, as there."""
_FULL = 0.75
"""The part of a power of two that a row has to fill: threads work on the rest in vain."""
_LANES = 32


def apply(patching: Patching, _: bool) -> None:
    from torch._inductor import choices
    from torch._inductor.codegen import triton
    from torch._inductor.runtime import triton_heuristics

    chooser = patching.find(choices, "InductorChoices")
    decide = patching.find(
        chooser, "should_use_persistent_reduction", "features", "cooperative_reduction"
    )
    kernel = patching.find(triton, "TritonKernel")
    generate = patching.find(kernel, "codegen_kernel", "self", "name")
    propose = patching.find(
        triton_heuristics,
        "_persistent_reduction_configs",
        "size_hints",
        "reduction_hint",
        "inductor_meta",
        "triton_meta",
    )
    _hold_longer_rows(patching, chooser, decide)
    keep = functools.partial(keep_halves, usual=_USUAL)
    rewrite_kernels(patching, kernel, generate, holds_rows, keep)
    _choose_configurations(patching, triton_heuristics, propose)


def _hold_longer_rows(patching: Patching, chooser: Any, decide: Any) -> None:
    @functools.wraps(decide)
    def should_use_persistent_reduction(features: Any, cooperative_reduction: bool) -> Any:
        if decide(features, cooperative_reduction):
            return True
        return not cooperative_reduction and _is_worth_holding(features)

    patching.replace(
        chooser, "should_use_persistent_reduction", staticmethod(should_use_persistent_reduction)
    )


def _is_worth_holding(features: Any) -> bool:
    """Return whether a reduction reads rows of half precision that are longer than Inductor's
    persistent ones, often enough, and of a length that suits."""
    from torch._inductor import config
    from torch._inductor.runtime.hints import ReductionHint

    columns = features.reduction_numel
    if (
        not config.triton.persistent_reductions
        or features.get_reduction_hint() != ReductionHint.INNER
        or not getattr(columns, "is_Integer", isinstance(columns, int))
        or not _USUAL < columns <= _LONGEST
        or columns < _FULL * _next_power(int(columns))
        or not _reads_half(features)
    ):
        return False
    stats = features.memory_stats()
    looped, held = (_hint(each.memory.bytes) for each in (stats.looped, stats.persistent))
    accesses = stats.persistent.memory.dim[0].count_per_thread
    return looped >= _SAVED * max(held, 1) and accesses <= _MOST_ACCESSES


def _reads_half(features: Any) -> bool:
    """Return whether one of the full-size buffers that are read has half precision."""
    import torch
    from torch._inductor.virtualized import V

    size = features.numel * features.reduction_numel
    return any(
        V.graph.get_dtype(dep.name) in (torch.bfloat16, torch.float16)
        and V.graph.get_numel(dep.name) == size
        for node in features.scheduler_nodes()
        for dep in node.read_writes.reads
        if V.graph.try_get_buffer(dep.name) is not None
    )


def _next_power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _choose_configurations(patching: Patching, heuristics: Any, propose: Any) -> None:
    @functools.wraps(propose)
    def _persistent_reduction_configs(
        size_hints: Any,
        reduction_hint: Any = False,
        inductor_meta: Any = None,
        triton_meta: Any = None,
    ) -> Any:
        configs = propose(size_hints, reduction_hint, inductor_meta, triton_meta)
        columns = size_hints.get("r0_", 0)
        if columns <= _USUAL or MARK not in (inductor_meta or {}):
            return configs
        chosen = []
        for elements in inductor_meta[MARK]:
            config = copy.deepcopy(configs[0])
            config.kwargs["XBLOCK"] = 1
            config.num_warps = max(1, columns // (_LANES * elements))
            chosen.append(config)
        return chosen

    patching.replace(heuristics, "_persistent_reduction_configs", _persistent_reduction_configs)
