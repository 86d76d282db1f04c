"""Defines models of two layers for ``bench/startup.py --pairs``, as ``perfcli compare`` takes them:
``bench/start_models.py:olmo``. They train, with random weights and no more than torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def _train(layers: nn.Module, *inputs: Any) -> Any:
    from perfcli.model import Workload

    layers = layers.to(torch.bfloat16)
    inputs = tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs)
    return Workload(lambda *x: layers(*x).float().square().mean(), inputs, mode="training")


class _Attention(nn.Module):
    """Attention with rotated positions and norms of queries and keys, where ``rotates``."""

    def __init__(self, width: int, heads: int, rotates: bool) -> None:
        super().__init__()
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2)) if rotates else None
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.joint(x).chunk(3, -1)
        if self.norms is not None:
            q, k = (norm(y) for norm, y in zip(self.norms, (q, k), strict=True))
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v))
        if self.norms is not None:
            half, length = q.shape[-1] // 2, q.shape[-2]
            speeds = 10000.0 ** -(torch.arange(half, device=x.device) / half)
            angles = torch.outer(torch.arange(length, device=x.device), speeds).repeat(1, 2)
            q, k = (self._rotate(y, angles.cos(), angles.sin()) for y in (q, k))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return (x * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)


class _Layer(nn.Module):
    """One of GPT-2 (norms before, GELU), or of Olmo 2 (norms after, SwiGLU)."""

    def __init__(self, width: int, olmo: bool) -> None:
        super().__init__()
        make = nn.RMSNorm if olmo else nn.LayerNorm
        self.norms = nn.ModuleList(make(width) for _ in range(2))
        self.attention = _Attention(width, width // 64, olmo)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gate = nn.Linear(width, 4 * width) if olmo else None

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            x = x + self.attention(self.norms[0](x))
            return x + self.down(functional.gelu(self.up(self.norms[1](x))))
        x = x + self.norms[0](self.attention(x))
        return x + self.norms[1](self.down(functional.silu(self.gate(x)) * self.up(x)))


def transformer(batch: int = 8, length: int = 512, width: int = 768) -> Any:
    layers = nn.Sequential(*(_Layer(width, olmo=False) for _ in range(2)))
    return _train(layers, torch.randn(batch, length, width))


def olmo(batch: int = 8, length: int = 512, width: int = 1024) -> Any:
    layers = nn.Sequential(*(_Layer(width, olmo=True) for _ in range(2)))
    return _train(layers, torch.randn(batch, length, width))


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.convolutions[0](x)))
        return functional.relu(x + self.norms[1](self.convolutions[1](y)))


def residual(batch: int = 16, length: int = 56, width: int = 128) -> Any:
    return _train(
        nn.Sequential(_Residual(width), _Residual(width)), torch.randn(batch, width, length, length)
    )


class _Graph(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))

    def forward(self, x: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        for layer in self.layers:
            gathered = torch.zeros_like(x).index_add(0, targets, x[sources])
            x = functional.relu(layer(torch.cat((x, gathered), -1)))
        return x


def graph(batch: int = 16, length: int = 1024, width: int = 128) -> Any:
    nodes = batch * length
    ends = torch.randint(nodes, (2, 8 * nodes))
    return _train(_Graph(width), torch.randn(nodes, width), *ends)
