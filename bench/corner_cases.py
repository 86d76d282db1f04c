"""Small models with what public ones are full of, one thing each; see fidelity.py.

Each function is a user's scenario: ``bench/corner_cases.py:resnet``. Device and precision are left
to whoever runs them.
"""

from __future__ import annotations

from typing import Any


def resnet(batch: int = 8) -> Any:
    """Convolutions in channels-last, batch norm with running statistics, pooling."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])

        def forward(self, x: Any) -> Any:
            y = functional.relu(self.norms[0](self.first(x)))
            return functional.relu(x + self.norms[1](self.second(y)))

    stem = [nn.Conv2d(3, 32, 7, 2, 3), Block(32), nn.MaxPool2d(2), Block(32)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    model = nn.Sequential(*stem, *head).to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, 64, 64).to(memory_format=torch.channels_last)
    return model, (images,)


def recurrent(batch: int = 16) -> Any:
    """An LSTM, which Dynamo leaves to cuDNN, after compiled layers."""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(100, 64)
            self.norm = nn.LayerNorm(64)
            self.lstm = nn.LSTM(64, 128, 2, batch_first=True)

        def embedded(self, x: Any) -> Any:
            return self.norm(self.embed(x)).tanh()

        def forward(self, x: Any) -> Any:
            out, _ = self.lstm(torch.compile(self.embedded)(x))
            return out[:, -1].log_softmax(-1)

    return Tagger(), (torch.randint(0, 100, (batch, 32)),)


def encoder(batch: int = 4) -> Any:
    """torch's own transformer encoder: its fused path, dropout, masks."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return nn.TransformerEncoder(layer, 2), (torch.randn(batch, 64, 128),)


def flex(batch: int = 2) -> Any:
    """flex_attention with a causal block mask: template kernels."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return query >= key

    mask = create_block_mask(causal, None, None, 1024, 1024, device="cuda")

    def attend(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=mask)

    shape = (batch, 8, 1024, 64)
    qkv = [torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    return attend, tuple(qkv)


def conditional(rows: int = 256) -> Any:
    """torch.cond: both branches are compiled."""
    import torch
    from torch import nn

    linear = nn.Linear(64, 64)

    def forward(x: Any) -> Any:
        def softmax(x: Any) -> Any:
            return (linear(x).softmax(-1),)

        def scaled(x: Any) -> Any:
            return (x.relu() * 3,)

        return torch.cond(x.sum() > 0, softmax, scaled, (x,))[0]

    return forward, (torch.randn(rows, 64),)


def broken_loop(rows: int = 64) -> Any:
    """A graph break inside a loop, with work around it."""
    import torch
    from torch import nn

    linear = nn.Linear(64, 64)

    def step(x: Any) -> Any:
        return linear(x).softmax(-1) * x.tanh()

    def forward(x: Any) -> Any:
        for _ in range(3):
            x = step(x)
            torch._dynamo.graph_break()
        return x

    return forward, (torch.randn(rows, 64),)


def routed(rows: int = 32) -> Any:
    """Rows sent to experts by value: nonzero and item() between graphs."""
    import torch
    from torch import nn

    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 3)
            self.experts = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])

        def route(self, x: Any) -> Any:
            return self.gate(x).softmax(-1).argmax(-1)

        def forward(self, x: Any) -> Any:
            best = torch.compile(self.route)(x)
            out = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                chosen = (best == number).nonzero(as_tuple=True)
                out[chosen] = torch.nn.functional.gelu(expert(x[chosen]))
            return out

    return Router(), (torch.randn(rows, 64),)
