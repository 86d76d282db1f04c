"""Eight models for ``two_clocks_on_device.py``: four that keep an H200 busy, and four whose steps
wait for their host. ``extra`` adds one kernel that goes over so many floats, and changes nothing
else: what is planted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfcli.model import Mode

    Made = tuple[Any, Any, Mode]

NAMES = ("softmax", "rmsnorm-training", "transformer", "convolutions", "gnn", "tiny", "olmo", "mlp")
BUSY = NAMES[:4]


def build(name: str = "softmax", extra: int = 0) -> Any:
    """Return the model, its inputs and its mode."""
    import torch

    from perfcli.model import Workload

    model, inputs, mode = _MAKE[name](torch)
    return Workload(_add(torch, model, extra), inputs, mode=mode)


def _add(torch: Any, model: Any, extra: int) -> Any:
    """Return the model with one more kernel."""
    if not extra:
        return model

    class Planted(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.register_buffer("planted", torch.ones(extra))

        def forward(self, *inputs: Any) -> Any:
            self.planted.mul_(0.5)
            return self.model(*inputs)

    return Planted()


def _softmax(torch: Any) -> Made:
    class Softmax(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.softmax(x, -1)

    return Softmax(), (torch.randn(16384, 50257, dtype=torch.bfloat16),), "forward"


def _rmsnorm(torch: Any) -> Made:
    model = torch.nn.Sequential(*(torch.nn.RMSNorm(4096) for _ in range(2))).bfloat16()
    return model, (torch.randn(32768, 4096, dtype=torch.bfloat16),), "training"


def _transformer(torch: Any) -> Made:
    layers = [_layer(torch, 2048, 16) for _ in range(2)]
    x = torch.randn(8, 2048, 2048, dtype=torch.bfloat16)
    return torch.nn.Sequential(*layers).bfloat16(), (x,), "training"


def _layer(torch: Any, width: int, heads: int) -> Any:
    """Return a layer as Llama's and Olmo's: attention and a gated product, normed."""
    nn = torch.nn

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.out = nn.Linear(width, width, bias=False)
            self.up = nn.Linear(width, 6 * width, bias=False)
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.norms[0](x)).view(batch, length, 3, heads, -1)
            q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
            gate, up = self.up(self.norms[1](x)).chunk(2, -1)
            return x + self.down(nn.functional.silu(gate) * up)

    return Layer()


def _convolutions(torch: Any) -> Made:
    nn = torch.nn

    def block() -> Any:
        return (nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(8, 128), nn.SiLU())

    model = nn.Sequential(nn.Conv2d(3, 128, 3, padding=1), *block(), *block(), *block())
    return model.bfloat16(), (torch.randn(32, 3, 128, 128, dtype=torch.bfloat16),), "training"


def _gnn(torch: Any) -> Made:
    nn = torch.nn

    class Layers(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(128, 128) for _ in range(6)])

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            for layer in self.layers:
                sent = torch.zeros_like(x).index_add_(0, target, x[source])
                x = x + torch.relu(layer(sent))
            return x

    edges = torch.randint(4000, (2, 40000))
    return Layers(), (torch.randn(4000, 128), edges[0], edges[1]), "training"


def _tiny(torch: Any) -> Made:
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(4)]
    return torch.nn.Sequential(*layers), (torch.randn(32, 64),), "forward"


def _olmo(torch: Any) -> Made:
    layers = [_layer(torch, 512, 8) for _ in range(2)]
    x = torch.randn(2, 256, 512, dtype=torch.bfloat16)
    return torch.nn.Sequential(*layers).bfloat16(), (x,), "training"


def _mlp(torch: Any) -> Made:
    layers: list[Any] = []
    for _ in range(12):
        layers += [torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 1024), torch.nn.GELU()]
    return torch.nn.Sequential(*layers), (torch.randn(256, 1024),), "training"


_MAKE = dict(
    zip(
        NAMES,
        (_softmax, _rmsnorm, _transformer, _convolutions, _gnn, _tiny, _olmo, _mlp),
        strict=True,
    )
)
