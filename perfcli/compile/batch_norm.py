"""Batch norm asks cuDNN how much memory it wants to keep for the backward pass.

Seen with torch 2.11 to 2.15 (``_decomp.decompositions._get_batch_norm_reserve_tensor``). The
tensor is dropped as dead code before kernels are generated: only that it exists matters.
"""

from __future__ import annotations

from perfcli.compile.standins import replace


def install() -> None:
    import torch

    replace(torch._C, "_get_cudnn_batch_norm_reserve_space_size", lambda *_: 0)
