"""Peels the loops of Inductor's Triton reductions (``peeled_loops``), as no release of torch does.

A peeled kernel also gets a launch configuration in which each thread has at least as many elements
as one load of 16 bytes brings; Inductor gives softmax 16 warps for tiles of 2048, four elements per
thread. A device times it against Inductor's own, which all stay.

Read against torch 2.11.0, 2.12.1 and 2.13.0; compiled with 2.11.0 and 2.13.0.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from perfcli.compile.patches.patching import Patching
from perfcli.compile.patches.peeled_loops import MARK, has_masked_loops, peel_loops

_LANES = 32


def apply(patching: Patching, _: bool) -> None:
    from torch._inductor.codegen import triton
    from torch._inductor.runtime import triton_helpers, triton_heuristics

    for name in ("exp", "maximum", "max2"):
        patching.find(triton_helpers, name)
    kernel = patching.find(triton, "TritonKernel")
    _peel_kernels(patching, kernel, patching.find(kernel, "codegen_kernel", "self", "name"))
    propose = patching.find(
        triton_heuristics,
        "_reduction_configs",
        "size_hints",
        "inductor_meta",
        "triton_meta",
        "num_dynamic",
    )
    _add_configurations(patching, triton_heuristics, propose)


def _peel_kernels(patching: Patching, kernel: Any, generate: Any) -> None:
    seen: set[str] = set()

    @functools.wraps(generate)
    def codegen_kernel(self: Any, name: str | None = None) -> Any:
        source = generate(self, name)
        if not has_masked_loops(source):
            return source
        peeled = peel_loops(source)
        if source not in seen:  # Inductor asks more than once for some kernels
            seen.add(source)
            patching.leave() if peeled is None else patching.count()
        return source if peeled is None else peeled

    patching.replace(kernel, "codegen_kernel", codegen_kernel)


def _add_configurations(patching: Patching, heuristics: Any, propose: Any) -> None:
    @functools.wraps(propose)
    def _reduction_configs(**given: Any) -> Any:
        configs = propose(**given)
        vector = given["inductor_meta"].get(MARK, 0)
        return configs + [c for each in configs for c in _with_fewer_warps(each, vector)]

    patching.replace(heuristics, "_reduction_configs", _reduction_configs)


def _with_fewer_warps(config: Any, vector: int) -> list[Any]:
    """Return the configuration with so few warps that each thread has a whole vector; nothing where
    it has."""
    elements = config.kwargs.get("XBLOCK", 1) * config.kwargs.get("R0_BLOCK", 1)
    warps = max(1, elements // (_LANES * max(vector, 1)))
    if warps >= config.num_warps:
        return []
    fewer = copy.copy(config)
    fewer.num_warps = warps
    return [fewer]
