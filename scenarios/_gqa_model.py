"""Repeats the model of pytorch #179494, line by line, with what its author trained added on
request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def written_out_rms_norm(x: Any, _shape: tuple[int], weight: Any = None) -> Any:
    """Compute RMSNorm as decoder libraries write it: in float32, rounded to the input's type."""
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + torch.finfo(y.dtype).eps)
    if weight is not None:
        y = y * weight
    return y.type_as(x)


@dataclass(frozen=True)
class Additions:
    """Holds what the listing has not, or has differently."""

    norm_weights: bool
    """Norms have a learned weight."""
    scales: bool
    """Both branches of a block have a learned scale per channel."""
    residual_mix: bool
    """Each block mixes its input with the embedding, per channel."""
    skips: bool
    """The blocks of the second half add the outputs of those of the first, the last one first,
    each with a learned scale per channel."""
    controls: Any
    """The type of all these scales, weights and mixes, which are cast to that of the residual
    stream where they are used. None: of the other parameters."""
    residual: Any
    """The type of the embedding, and so of the residual stream. None: of the other parameters."""
    rms_norm: Callable[..., Any]
    """``F.rms_norm``, or the same written out."""

    def control(self, values: Any) -> nn.Parameter:
        return nn.Parameter(values.to(self.controls))


class _RMSNorm(nn.Module):
    def __init__(self, dim: int, additions: Additions) -> None:
        super().__init__()
        self.rms_norm = additions.rms_norm
        self.weight = additions.control(torch.ones(dim)) if additions.norm_weights else None

    def forward(self, x: Any) -> Any:
        weight = None if self.weight is None else self.weight.to(x.dtype)
        return self.rms_norm(x, (x.size(-1),), weight)


class _MLP(nn.Module):
    def __init__(self, dim: int, mult: int = 4) -> None:
        super().__init__()
        hidden = int(dim * mult)
        self.fc = nn.Linear(dim, hidden, bias=False)
        self.proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Any) -> Any:
        return self.proj(F.leaky_relu(self.fc(x), negative_slope=0.5).square())


class _Attention(nn.Module):
    def __init__(
        self, dim: int, num_heads: int, num_kv_heads: int, rms_norm: Callable[..., Any]
    ) -> None:
        super().__init__()
        self.rms_norm = rms_norm
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = dim // num_heads
        self.c_q = nn.Linear(dim, dim, bias=False)
        self.c_k = nn.Linear(dim, num_kv_heads * self.head_dim, bias=False)
        self.c_v = nn.Linear(dim, num_kv_heads * self.head_dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Any) -> Any:
        B, T, D = x.shape
        q = self.c_q(x).reshape(B, T, self.num_heads, self.head_dim)
        k = self.c_k(x).reshape(B, T, self.num_kv_heads, self.head_dim)
        v = self.c_v(x).reshape(B, T, self.num_kv_heads, self.head_dim)
        q = self.rms_norm(q, (q.size(-1),))
        k = self.rms_norm(k, (k.size(-1),))
        q = q.transpose(1, 2)
        k = k.transpose(1, 2).repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        v = v.transpose(1, 2).repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, D))


class _Block(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, additions: Additions) -> None:
        super().__init__()
        self.attn_norm = _RMSNorm(dim, additions)
        self.mlp_norm = _RMSNorm(dim, additions)
        self.attn = _Attention(dim, heads, kv_heads, additions.rms_norm)
        self.mlp = _MLP(dim)
        self.attn_scale = additions.control(torch.ones(dim)) if additions.scales else None
        self.mlp_scale = additions.control(torch.ones(dim)) if additions.scales else None
        mix = torch.stack((torch.ones(dim), torch.zeros(dim)))
        self.resid_mix = additions.control(mix) if additions.residual_mix else None

    def forward(self, x: Any, x0: Any) -> Any:
        if self.resid_mix is not None:
            mix = self.resid_mix.to(x.dtype)
            x = mix[0] * x + mix[1] * x0
        x = _add_scaled(x, self.attn(self.attn_norm(x)), self.attn_scale)
        return _add_scaled(x, self.mlp(self.mlp_norm(x)), self.mlp_scale)


def _add_scaled(x: Any, branch: Any, scale: Any) -> Any:
    return x + (branch if scale is None else scale.to(x.dtype) * branch)


class Model(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_layers: int,
        heads: int,
        kv_heads: int,
        additions: Additions,
    ) -> None:
        super().__init__()
        self.rms_norm = additions.rms_norm
        self.tok_emb = nn.Embedding(vocab_size, dim, dtype=additions.residual)
        self.blocks = nn.ModuleList(
            [_Block(dim, heads, kv_heads, additions) for _ in range(num_layers)]
        )
        self.norm = _RMSNorm(dim, additions)
        self.head = nn.Linear(dim, vocab_size, bias=False)
        self.early = num_layers // 2 if additions.skips else 0
        skips = torch.ones(self.early, dim)
        self.skip_weights = additions.control(skips) if self.early else None

    def forward(self, x: Any, y: Any) -> Any:
        h = self.tok_emb(x)
        h = self.rms_norm(h, (h.size(-1),))
        h0 = h
        early: list[Any] = []
        for number, block in enumerate(self.blocks):
            place = number - len(self.blocks) + self.early
            if self.skip_weights is not None and place >= 0:
                h = _add_scaled(h, early.pop(), self.skip_weights[place])
            h = block(h, h0)
            if number < self.early:
                early.append(h)
        h = self.norm(h)
        logits = self.head(h)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
