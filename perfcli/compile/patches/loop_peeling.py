"""Peels the loops of Inductor's Triton reductions (``peeled_loops``), as no release of torch does.

A peeled kernel also gets launch configurations in which each thread has as many elements as one
load of 16 bytes brings, with tiles of half, the same and twice the size; Inductor gives softmax 16
warps for tiles of 2048, four elements per thread. A device times them against Inductor's own, which
all stay.

Read against torch 2.11.0, 2.12.1 and 2.13.0; compiled with 2.11.0 and 2.13.0.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any

from perfcli.compile.patches.kernel_text import rewrite_kernels
from perfcli.compile.patches.patching import Patching
from perfcli.compile.patches.peeled_loops import MARK, has_masked_loops, peel_loops

_LANES = 32


def apply(patching: Patching, _: bool) -> None:
    from torch._inductor.codegen import triton
    from torch._inductor.runtime import triton_helpers, triton_heuristics

    for name in ("exp", "maximum", "max2"):
        patching.find(triton_helpers, name)
    kernel = patching.find(triton, "TritonKernel")
    generate = patching.find(kernel, "codegen_kernel", "self", "name")
    propose = patching.find(
        triton_heuristics,
        "_reduction_configs",
        "size_hints",
        "inductor_meta",
        "triton_meta",
        "num_dynamic",
    )
    rewrite_kernels(patching, kernel, generate, has_masked_loops, peel_loops)
    _add_configurations(patching, triton_heuristics, propose)


def _add_configurations(patching: Patching, heuristics: Any, propose: Any) -> None:
    @functools.wraps(propose)
    def _reduction_configs(**given: Any) -> Any:
        configs = propose(**given)
        vector = given["inductor_meta"].get(MARK)
        if vector is None:
            return configs
        longest = given["size_hints"].get("r0_", 0)
        return configs + [c for each in configs for c in _fit_threads(each, vector, longest)]

    patching.replace(heuristics, "_reduction_configs", _reduction_configs)


def _fit_threads(config: Any, vector: int, longest: int) -> Iterator[Any]:
    """Yield the configuration with a whole vector per thread, for tiles of several sizes; nothing
    where each thread has one."""
    elements = config.kwargs.get("XBLOCK", 1) * config.kwargs["R0_BLOCK"]
    if elements >= _LANES * config.num_warps * vector:
        return
    for scale in (1.0, 2.0, 0.5):
        fitted = copy.deepcopy(config)
        fitted.kwargs["R0_BLOCK"] = int(config.kwargs["R0_BLOCK"] * scale)
        fitted.num_warps = int(elements * scale) // (_LANES * vector)
        if fitted.num_warps and fitted.kwargs["R0_BLOCK"] <= longest:
            yield fitted
