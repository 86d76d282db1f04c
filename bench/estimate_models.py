"""Defines architectures for ``bench/estimate.py``, other than those that constants were fitted to.

Each function is a scenario, ``perfcli run bench/estimate_models.py:convnext``, with random weights
and no more than torch. They train, in bfloat16 throughout or in float32 under autocast.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

ARCHITECTURES = ("convnext", "layerscale", "experts", "decoder", "graph", "relative")


def _train(model: nn.Module, *inputs: Any, autocast: str | None = None) -> Any:
    from perfcli.model import Workload

    return Workload(
        lambda *given: model(*given).float().square().mean(),
        inputs,
        mode="training",
        autocast=autocast,
    )


class _ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(batch: int = 16, size: int = 160) -> Any:
    """Return depthwise convolutions with norms over channels, in two stages."""
    first, second = [nn.Sequential(*(_ConvNeXtBlock(w) for _ in range(2))) for w in (96, 192)]
    model = nn.Sequential(
        nn.Conv2d(3, 96, 4, 4), first, nn.GroupNorm(1, 96), nn.Conv2d(96, 192, 2, 2), second
    )
    return _train(model, torch.randn(batch, 3, size, size), autocast="bfloat16")


class _ScaledBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.scales = nn.ParameterList(torch.full((width,), 0.1) for _ in range(2))
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        joint = self.joint(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        q, k, v = joint.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.scales[0] * self.out(y)
        y = self.down(functional.dropout(functional.gelu(self.up(self.norms[1](x))), 0.1))
        return x + self.scales[1] * y


def layerscale(batch: int = 16, size: int = 224, width: int = 384) -> Any:
    """Return a vision transformer with LayerScale and patches of 14: 257 tokens with the class
    token."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 14, 14)
            self.first = nn.Parameter(torch.zeros(1, 1, width))
            self.places = nn.Parameter(torch.zeros(1, (size // 14) ** 2 + 1, width))
            self.blocks = nn.Sequential(*(_ScaledBlock(width, 6) for _ in range(2)))
            self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1000))

        def forward(self, x: Tensor) -> Tensor:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
            return torch.as_tensor(self.head(self.blocks(x)[:, 0]))

    return _train(Model(), torch.randn(batch, 3, size, size), autocast="bfloat16")


def experts(tokens: int = 8192, width: int = 512, count: int = 8) -> Any:
    """Return a mixture of experts: every token passes all of them, weighed by its top two."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.router = nn.RMSNorm(width), nn.Linear(width, count, bias=False)
            self.up = nn.Parameter(torch.randn(count, width, 2 * width) * 0.02)
            self.down = nn.Parameter(torch.randn(count, width, width) * 0.02)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            shares = self.router(y).float().softmax(-1)
            best, places = shares.topk(2, -1)
            best = best / best.sum(-1, keepdim=True)
            weights = torch.zeros_like(shares).scatter(1, places, best)
            a, b = torch.einsum("td,edf->etf", y, self.up).chunk(2, -1)
            made = torch.einsum("etf,efd->etd", functional.silu(a) * b, self.down)
            y = (made * weights.t().unsqueeze(-1).to(made.dtype)).sum(0)
            load = shares.mean(0) * (weights > 0).float().mean(0)
            return x + y + load.sum().to(x.dtype)

    return _train(Model().bfloat16(), torch.randn(tokens, width, dtype=torch.bfloat16))


class _Residual(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, before), nn.GroupNorm(32, after)])
        self.convs = nn.ModuleList(
            [nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)]
        )
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            y = conv(functional.silu(norm(y)))
        return torch.as_tensor(self.skip(x) + y)


def decoder(batch: int = 4, size: int = 32) -> Any:
    """Return the decoder of an image autoencoder: GroupNorm, SiLU, convolutions, doubling twice."""
    up = nn.Upsample(scale_factor=2.0)
    model = nn.Sequential(
        nn.Conv2d(4, 256, 3, padding=1), _Residual(256, 256), up, _Residual(256, 128), up,
        _Residual(128, 64), nn.GroupNorm(32, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1),
    )  # fmt: skip
    return _train(model, torch.randn(batch, 4, size, size), autocast="bfloat16")


def graph(nodes: int = 20000, edges: int = 160000, width: int = 128) -> Any:
    """Return messages along the edges of a graph, gathered and added, with normalised attention."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
            self.scores = nn.ModuleList(nn.Linear(2 * width, 1) for _ in range(2))
            self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))

        def forward(self, x: Tensor, source: Tensor, sink: Tensor) -> Tensor:
            for layer, score, norm in zip(self.layers, self.scores, self.norms, strict=True):
                y = layer(x)
                pairs = torch.cat([y[source], y[sink]], -1)
                share = torch.exp(functional.leaky_relu(score(pairs)).clamp(max=5))
                total = torch.zeros(nodes, 1, device=x.device).index_add(0, sink, share)
                sent = y[source] * share / total[sink]
                x = x + functional.relu(norm(torch.zeros_like(y).index_add(0, sink, sent)))
            return x

    ends = [torch.randint(0, nodes, (edges,)) for _ in range(2)]
    return _train(Model(), torch.randn(nodes, width), *ends)


class _Relative(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.joint = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.wide = nn.ModuleList(nn.Linear(width, 1024, bias=False) for _ in range(2))
        self.down = nn.Linear(1024, width, bias=False)
        self.heads = heads

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        batch, length, _ = x.shape
        joint = self.joint(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        q, k, v = joint.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2) + bias).float().softmax(-1).to(v.dtype)
        scores = functional.dropout(scores, 0.1)
        x = x + self.out((scores @ v).transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        gated = functional.gelu(self.wide[0](y), approximate="tanh") * self.wide[1](y)
        return torch.as_tensor(x + self.down(gated))


def relative(batch: int = 8, length: int = 512, width: int = 512) -> Any:
    """Return a T5-like encoder: a bias by distance, and softmax without a library's attention."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.bias = nn.Embedding(8192, width), nn.Embedding(64, 8)
            self.blocks = nn.ModuleList(_Relative(width, 8) for _ in range(2))
            self.norm = nn.RMSNorm(width)

        def forward(self, words: Tensor) -> Tensor:
            x = self.words(words)
            place = torch.arange(length, device=words.device)
            apart = (place[:, None] - place[None, :]).clamp(-31, 31) + 31
            bias = self.bias(apart).permute(2, 0, 1)
            for block in self.blocks:
                x = block(x, bias)
            return torch.as_tensor(self.norm(x))

    return _train(Model().bfloat16(), torch.randint(0, 8192, (batch, length)))
