"""Draws the calls of library operators that a calibration times: matrix products, attention,
convolutions and copies, of the sizes that models have and of sizes at random.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import product

from perfcli.model.kernel_work import OperatorCase

_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4}
_MOST_FLOPS = {"bf16": 3e12, "fp16": 3e12, "tf32": 1.2e12, "fp32": 2.5e11}
"""Of one call: none takes more than a few milliseconds."""
_COUNTS = {"product": 560, "attention": 90, "convolution": 210}
_SEED = 20261123
_SMOKE = 20
"""One case of so many is taken for a smoke test."""

_WIDTHS = (64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1152, 1280, 1536, 2048, 2304, 2560,
          3072, 4096, 5120, 8192, 11008, 14336)  # fmt: skip
_WORDS = (10, 100, 1000, 4096, 8192, 30522, 32000, 32128, 50257, 50304, 51865, 128256)
_TOKENS = (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096, 8192, 16384, 32768, 65536,
          3136, 3152, 6304, 12608, 1568, 9232, 12000, 1232, 6144, 33, 100, 1000, 3000)  # fmt: skip
_LENGTHS = (64, 128, 196, 197, 256, 384, 512, 577, 1024, 1024, 1500, 2048, 2048, 4096, 8192)
_LAYERS = ((56, 64), (56, 128), (56, 96), (28, 128), (28, 256), (28, 192), (14, 256), (14, 512),
          (14, 384), (7, 512), (7, 1024), (7, 768), (112, 32), (112, 64), (64, 64), (32, 128),
          (16, 256), (8, 512), (128, 64), (128, 32), (48, 128), (96, 64), (40, 256), (20, 512),
          (64, 320), (32, 640), (16, 1280), (256, 64))  # fmt: skip


def _draw_product(draw: random.Random) -> OperatorCase | None:
    dtype = draw.choices(tuple(_BYTES), (62, 8, 14, 16))[0]
    op, batch, sides = "mm", 1, (0, 1)
    kind = draw.random()
    if kind < 0.5:
        tokens, inner, outer = draw.choice(_TOKENS), draw.choice(_WIDTHS), draw.choice(_WIDTHS)
        if draw.random() < 0.18:
            outer = draw.choice(_WORDS)
        m, k, n, sides = draw.choice(
            [(tokens, inner, outer, (0, 1))] * 2
            + [(tokens, outer, inner, (0, 0)), (outer, tokens, inner, (1, 0))]
        )
        op = draw.choice(("mm", "addmm")) if sides == (0, 1) else "mm"
    elif kind < 0.78:
        m, n, k = (_size(draw, low, high) for low, high in ((16, 65536), (8, 32768), (8, 32768)))
        sides = draw.choice([(0, 1), (0, 1), (0, 0), (0, 0), (1, 0), (1, 0), (1, 1)])
    else:
        op = draw.choice(("bmm", "bmm", "bmm", "bmm", "bmm", "baddbmm"))
        batch = draw.choice((2, 3, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024))
        length, width = draw.choice(_LENGTHS[:11]), draw.choice((32, 64, 64, 80, 96, 128))
        m, n, k = draw.choice([(length, length, width), (length, width, length)])
        if draw.random() < 0.4:
            m, n, k = (_size(draw, 8, 4096) for _ in range(3))
        sides = draw.choice([(0, 1), (0, 0), (0, 0), (1, 0)])
    moved = _BYTES[dtype] * batch * (m * k + k * n + m * n)
    if 2 * batch * m * n * k > _MOST_FLOPS[dtype] or moved > 1.5e9:
        return None
    sizes = {"b": batch, "m": m, "n": n, "k": k, "ta": sides[0], "tb": sides[1]}
    return OperatorCase("product", {"op": op, "dtype": dtype, **sizes})


def _size(draw: random.Random, low: int, high: int) -> int:
    """Draw a size: even in its logarithm, and often a multiple of 8 or 64."""
    value = math.exp(draw.uniform(math.log(low), math.log(high)))
    step = draw.choice((64, 64, 64, 128, 8, 8, 8, 16, 1, 2))
    return max(1, round(value / step) * step if value > step else round(value))


def _draw_attention(draw: random.Random) -> OperatorCase | None:
    back = draw.choice(("flash", "flash", "efficient", "cudnn", "cudnn", "cudnn"))
    batch, heads = draw.choice((1, 2, 4, 8, 16, 32, 64)), draw.choice((4, 6, 8, 12, 16, 32))
    length, width = draw.choice(_LENGTHS), draw.choice((32, 64, 64, 64, 80, 96, 128, 128))
    causal = draw.random() < 0.55
    keys = length if causal or draw.random() < 0.8 else draw.choice((77, 128, 512, 1024, 2048))
    dtype = draw.choice(("bf16", "bf16", "fp16")) if back != "efficient" else "fp32"
    if back == "efficient" and draw.random() < 0.5:
        dtype = "bf16"
    mask = back == "efficient" and not causal and draw.random() < 0.4 and keys % 8 == 0
    flops = 4 * batch * heads * length * keys * width
    most = 8e11 if dtype != "fp32" else 1e11
    if not 1e8 < flops < most or (mask and batch * heads * length * keys > 3e8):
        return None
    drop = 0.1 if back != "cudnn" and draw.random() < 0.1 else 0.0
    sizes = {"b": batch, "h": heads, "s": length, "kv": keys, "d": width, "causal": int(causal)}
    more = {"mask": int(mask), "drop": drop, "bshd": int(draw.random() < 0.8)}
    return OperatorCase("attention", {"library": back, "dtype": dtype, **sizes, **more})


def _draw_convolution(draw: random.Random) -> OperatorCase | None:
    dtype = draw.choice(("bf16",) * 7 + ("fp16",) + ("tf32",) * 3)
    side, width = draw.choice(_LAYERS)
    case = {"ci": width, "co": width, "hw": side, "k": 3, "st": 1, "g": 1, "tr": 0, "nd": 2}
    kinds = {
        "plain": {"st": draw.choice((1, 1, 1, 2)), "co": width * draw.choice((1, 1, 2))},
        "any": {"ci": draw.choice(_WIDTHS[:17]), "co": draw.choice(_WIDTHS[:17]),
                "k": draw.choice((1, 3, 3, 5)), "st": draw.choice((1, 1, 2))},
        "point": {"k": 1, "co": draw.choice((width * 4, width // 4, width * 2, width)),
                  "st": draw.choice((1, 1, 1, 2))},
        "depthwise": {"g": width, "k": draw.choice((3, 3, 5, 7)), "st": draw.choice((1, 1, 1, 2))},
        "grouped": {"g": draw.choice((2, 4, 32, 32)), "st": draw.choice((1, 1, 2))},
        "transposed": {"tr": 1, "k": 2, "st": 2, "co": width // 2},
        "stem": {"ci": draw.choice((3, 3, 1, 4)), "hw": draw.choice((64, 128, 224)),
                 "k": draw.choice((3, 7)), "st": draw.choice((1, 2)), "co": 64},
        "one": {"nd": 1, "hw": draw.choice((500, 1500, 3000, 8192)), "k": draw.choice((1, 3, 5))},
        "three": {"nd": 3, "hw": draw.choice((8, 16, 32)), "ci": 64, "co": draw.choice((64, 128))},
    }  # fmt: skip
    case |= kinds[draw.choices(tuple(kinds), (30, 12, 16, 16, 6, 5, 6, 5, 4))[0]]
    if draw.random() < 0.05:
        window = draw.choice((4, 14, 16, 32))
        case |= {"ci": 3, "co": draw.choice((96, 384, 768)), "hw": 224, "k": window, "st": window}
        case |= {"g": 1, "tr": 0, "nd": 2}
    pad = 0 if case["tr"] or case["k"] in (1, case["st"]) else case["k"] // 2
    n = draw.choice((1, 2, 4, 8, 8, 16, 16, 16, 32, 32, 64, 128))
    pixels = case["hw"] ** case["nd"]
    made = (case["hw"] * case["st"] if case["tr"] else case["hw"] // case["st"]) ** case["nd"]
    products = case["ci"] * case["co"] // case["g"] * case["k"] ** case["nd"]
    moved = n * max(case["ci"] * pixels, case["co"] * made)
    if 2 * n * max(pixels if case["tr"] else made, 1) * products > 6e11 or moved > 3e8:
        return None
    last = int(case["nd"] == 2 and draw.random() < 0.68)
    return OperatorCase("convolution", {"dtype": dtype, "n": n, **case, "pad": pad, "cl": last})


def _draw_moves() -> Iterator[OperatorCase]:
    """Yield calls that move bytes and compute nothing."""
    sizes = ((1 << 10, 64), (1 << 12, 1024), (1 << 10, 1 << 15), (1 << 14, 1024), (1 << 16, 2048))
    names = ("copy", "copy_", "cat", "index", "index_put", "scatter_add", "sort", "topk", "cumsum",
             "embedding_dense_backward")  # fmt: skip
    for name, (rows, width), dtype in product(names, sizes, ("bf16", "fp32")):
        if not (name in ("sort", "topk", "cumsum") and rows * width > 1 << 26):
            yield OperatorCase("other", {"op": name, "dtype": dtype, "rows": rows, "width": width})


def _list_operator_cases(smoke: bool = False, seed: int = _SEED) -> tuple[OperatorCase, ...]:
    """Return all calls in a random order, or the few that show that everything works."""
    draw = random.Random(seed)
    makers = {
        "product": _draw_product, "attention": _draw_attention, "convolution": _draw_convolution,
    }  # fmt: skip
    cases = list(_draw_moves())
    for family, count in _COUNTS.items():
        drawn: list[OperatorCase] = []
        while len(drawn) < count:
            case = makers[family](draw)
            drawn += [case] if case else []
        cases += drawn
    draw.shuffle(cases)
    return tuple(cases[::_SMOKE] if smoke else cases)
