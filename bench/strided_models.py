"""Defines models that read or write with strides, for ``bench/sectors_on_device.py``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def strided(rows: int = 512) -> Any:
    """Return what takes every 16th column."""

    def run(x: Tensor) -> Tensor:
        return x[:, ::16].float() * 2.0 + 1.0

    return run, (torch.randn(rows, 16384, dtype=torch.bfloat16),)


def selected(rows: int = 1 << 18) -> Any:
    """Return what takes two columns of sixteen."""

    def run(x: Tensor) -> Tensor:
        return x[..., 0] + x[..., 5]

    return run, (torch.randn(rows, 16),)


def transposed(size: int = 2048) -> Any:
    """Return what adds a matrix to the transpose of another."""

    def run(x: Tensor, y: Tensor) -> Tensor:
        return x.t() + y

    return run, (torch.randn(size, size), torch.randn(size, size))


def blocked(rows: int = 4096) -> Any:
    """Return the layout of scales that block-scaled products need."""

    def run(x: Tensor) -> Tensor:
        rows, columns = x.shape
        tiles = x.view(rows // 128, 128, columns // 4, 4).permute(0, 2, 1, 3)
        return tiles.reshape(-1, 4, 32, 4).transpose(1, 2).reshape(-1, 32, 16).flatten()

    return run, (torch.randint(0, 255, (rows, 512), dtype=torch.uint8),)


def scaled(size: int = 2048) -> Any:
    """Return the largest magnitude of each 32 elements along the slow axis, and what is scaled by
    it."""

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        blocks = x.t().contiguous().reshape(-1, 32).float()
        scale = torch.exp2(torch.floor(torch.log2(blocks.abs().amax(dim=1, keepdim=True))))
        return (blocks / scale).to(torch.float8_e4m3fn).reshape(size, size), scale

    return run, (torch.randn(size, size, dtype=torch.bfloat16),)


def upsampled(batch: int = 4) -> Any:
    """Return images of twice the size, channels last and first."""

    def run(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (
            functional.interpolate(x, scale_factor=2, mode="nearest") + 1.0,
            functional.interpolate(y, scale_factor=2, mode="nearest") * 2.0,
        )

    images = torch.randn(batch, 32, 64, 64)
    return run, (images, images.to(memory_format=torch.channels_last))
