"""What bench/modes.py compiles: matrix products, convolutions, flex attention and small models."""

from __future__ import annotations

from typing import Any


def large_products() -> Any:
    """Matrix products that compute for long."""
    return _multiply("bfloat16", (4096, 4096, 4096), (2048, 11008, 4096), (2048, 768, 3072))


def small_products() -> Any:
    """Products of few rows, of a long inner dimension, and of sizes that are no multiples."""
    return _multiply("bfloat16", (16, 4096, 4096), (512, 512, 16384), (1000, 1000, 1000))


def other_products() -> Any:
    """Products of other types (float32 as TF32), of a transposed operand, and with a bias."""
    import torch

    torch.set_float32_matmul_precision("high")
    half, full = _pair("float16", 1024, 1024, 1024), _pair("float32", 2048, 2048, 2048)
    turned = _full("bfloat16", 4096, 1024).T, _full("bfloat16", 4096, 2048)
    biased = _full("bfloat16", 3072), *_pair("bfloat16", 1024, 3072, 768)

    def run(pairs: Any, biased: Any) -> Any:
        return [a @ b for a, b in pairs], torch.addmm(*biased)

    return run, ([half, full, turned], biased)


def batches() -> Any:
    """Batches of products."""
    import torch

    pairs = [
        (_full("bfloat16", b, m, k), _full("bfloat16", b, k, n))
        for b, m, n, k in ((64, 512, 64, 512), (16, 1024, 1024, 128))
    ]

    def run(pairs: Any) -> Any:
        return [torch.bmm(a, b) for a, b in pairs]

    return run, (pairs,)


def convolutions() -> Any:
    """Convolutions, channels last."""
    import torch

    shapes = ((32, 64, 56, 64, 3, 1), (16, 256, 14, 512, 1, 1), (8, 128, 28, 256, 3, 2))
    layers = torch.nn.ModuleList(
        torch.nn.Conv2d(c, out, taps, stride=stride, padding=taps // 2, bias=False)
        for _, c, _, out, taps, stride in shapes
    )
    layers = layers.cuda().half().to(memory_format=torch.channels_last)
    images = [
        _full("float16", n, c, size, size).to(memory_format=torch.channels_last)
        for n, c, size, *_ in shapes
    ]

    def run(images: Any) -> Any:
        with torch.no_grad():
            return [layer(image) for layer, image in zip(layers, images, strict=True)]

    return run, (images,)


def attention() -> Any:
    """Flex attention, causal, of two widths."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    def causal(score: Any, _b: Any, _h: Any, q: Any, k: Any) -> Any:
        return torch.where(q >= k, score, float("-inf"))

    inputs = [
        tuple(_full("bfloat16", *shape) for _ in range(3))
        for shape in ((4, 16, 2048, 64), (2, 8, 1024, 128))
    ]

    def run(inputs: Any) -> Any:
        return [flex_attention(*each, score_mod=causal) for each in inputs]

    return run, (inputs,)


def block() -> Any:
    """One block of a transformer, with attention of the library."""
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int = 1024, heads: int = 16) -> None:
            super().__init__()
            self.heads = heads
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, w = x.shape
            parts = self.qkv(self.first(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    return Block().cuda().bfloat16().requires_grad_(False), (_full("bfloat16", 4, 512, 1024),)


def gated() -> Any:
    """A gated MLP: two products share their input, silu and a product follow."""
    from torch import nn

    class Gated(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(1024, 2816, bias=False)
            self.up = nn.Linear(1024, 2816, bias=False)
            self.down = nn.Linear(2816, 1024, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    return Gated().cuda().bfloat16().requires_grad_(False), (_full("bfloat16", 2048, 1024),)


def decode() -> Any:
    """Eight tokens through three layers: memory decides."""
    from torch import nn

    model = nn.Sequential(
        nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 2048), nn.ReLU(), nn.Linear(2048, 32000)
    )
    return model.cuda().bfloat16().requires_grad_(False), (_full("bfloat16", 8, 2048),)


def _multiply(dtype: str, *shapes: tuple[int, int, int]) -> Any:
    """Return products of rows, columns and inner dimensions, with nothing to fuse into them."""

    def run(pairs: Any) -> Any:
        return [a @ b for a, b in pairs]

    return run, ([_pair(dtype, *shape) for shape in shapes],)


def _pair(dtype: str, m: int, n: int, k: int) -> Any:
    return _full(dtype, m, k), _full(dtype, k, n)


def _full(dtype: str, *shape: int) -> Any:
    import torch

    return torch.randn(*shape, device="cuda", dtype=getattr(torch, dtype))
