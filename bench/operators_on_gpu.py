"""Measures library operators of many shapes on a GPU: ``python operators_on_gpu.py OUT [SECONDS]``.

Needs torch only. Each call runs with its inputs out of the L2 cache ("cold") and again ("hot");
the times are those of its kernels by CUPTI. One JSON object a line; ``bench/operator_fit.py``
fits them.
"""

from __future__ import annotations

import functools
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Case = tuple[str, dict[str, Any]]
Call = Callable[[], Any]
DTYPES = {
    "bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32,
}  # fmt: skip
MOST_FLOPS = {"bf16": 3e12, "fp16": 3e12, "tf32": 1.2e12, "fp32": 2.5e11}
REPETITIONS, CHUNK = 5, 60
aten = torch.ops.aten

# --- what is measured ------------------------------------------------------------------------

WIDTHS = (64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1152, 1280, 1536, 2048, 2304, 2560,
          3072, 4096, 5120, 8192, 11008, 14336)  # fmt: skip
WORDS = (10, 100, 1000, 4096, 8192, 30522, 32000, 32128, 50257, 50304, 51865, 128256)
TOKENS = (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096, 8192, 16384, 32768, 65536,
          3136, 3152, 6304, 12608, 1568, 9232, 12000, 1232, 6144, 33, 100, 1000, 3000)  # fmt: skip
LENGTHS = (64, 128, 196, 197, 256, 384, 512, 577, 1024, 1024, 1500, 2048, 2048, 4096, 8192)
LAYERS = ((56, 64), (56, 128), (56, 96), (28, 128), (28, 256), (28, 192), (14, 256), (14, 512),
          (14, 384), (7, 512), (7, 1024), (7, 768), (112, 32), (112, 64), (64, 64), (32, 128),
          (16, 256), (8, 512), (128, 64), (128, 32), (48, 128), (96, 64), (40, 256), (20, 512),
          (64, 320), (32, 640), (16, 1280), (256, 64))  # fmt: skip


def draw_product(draw: random.Random) -> Case | None:
    dtype = draw.choices(tuple(DTYPES), (62, 8, 14, 16))[0]
    op, batch, sides = "mm", 1, (0, 1)
    kind = draw.random()
    if kind < 0.5:
        tokens, inner, outer = draw.choice(TOKENS), draw.choice(WIDTHS), draw.choice(WIDTHS)
        if draw.random() < 0.18:
            outer = draw.choice(WORDS)
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
        length, width = draw.choice(LENGTHS[:11]), draw.choice((32, 64, 64, 80, 96, 128))
        m, n, k = draw.choice([(length, length, width), (length, width, length)])
        if draw.random() < 0.4:
            m, n, k = (_size(draw, 8, 4096) for _ in range(3))
        sides = draw.choice([(0, 1), (0, 0), (0, 0), (1, 0)])
    moved = DTYPES[dtype].itemsize * batch * (m * k + k * n + m * n)
    if 2 * batch * m * n * k > MOST_FLOPS[dtype] or moved > 1.5e9:
        return None
    sizes = {"b": batch, "m": m, "n": n, "k": k, "ta": sides[0], "tb": sides[1]}
    return "mm", {"op": op, "dt": dtype, **sizes}


def _size(draw: random.Random, low: int, high: int) -> int:
    """Draw a size: even in its logarithm, and often a multiple of 8 or 64."""
    value = math.exp(draw.uniform(math.log(low), math.log(high)))
    step = draw.choice((64, 64, 64, 128, 8, 8, 8, 16, 1, 2))
    return max(1, round(value / step) * step if value > step else round(value))


def draw_attention(draw: random.Random) -> Case | None:
    back = draw.choice(("flash", "flash", "efficient", "cudnn", "cudnn", "cudnn"))
    batch, heads = draw.choice((1, 2, 4, 8, 16, 32, 64)), draw.choice((4, 6, 8, 12, 16, 32))
    length, width = draw.choice(LENGTHS), draw.choice((32, 64, 64, 64, 80, 96, 128, 128))
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
    return "sdpa", {"back": back, "dt": dtype, **sizes, **more}


def draw_convolution(draw: random.Random) -> Case | None:
    dtype = draw.choice(("bf16",) * 7 + ("fp16",) + ("tf32",) * 3)
    side, width = draw.choice(LAYERS)
    case = {"ci": width, "co": width, "hw": side, "k": 3, "st": 1, "g": 1, "tr": 0, "nd": 2}
    kinds = {
        "plain": {"st": draw.choice((1, 1, 1, 2)), "co": width * draw.choice((1, 1, 2))},
        "any": {"ci": draw.choice(WIDTHS[:17]), "co": draw.choice(WIDTHS[:17]),
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
    return "conv", {"dt": dtype, "n": n, **case, "pad": pad, "dil": 1, "cl": last}


def corpus(seed: int) -> list[Case]:
    draw = random.Random(seed)
    wanted = ((draw_product, 2400), (draw_attention, 320), (draw_convolution, 900))
    cases: list[Case] = []
    for one, count in wanted:
        drawn: list[Case] = []
        while len(drawn) < count:
            case = one(draw)
            drawn += [case] if case else []
        cases += drawn
    draw.shuffle(cases)  # so that stopping early loses some of each
    return cases


# --- calls -----------------------------------------------------------------------------------


def random_tensor(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, device="cuda")


def build(family: str, p: dict[str, Any]) -> Iterator[tuple[str, Call]]:
    """Yield what a case calls."""
    dtype = DTYPES[p["dt"]]
    torch.backends.cuda.matmul.allow_tf32 = p["dt"] == "tf32"
    makers = {"mm": _build_product, "sdpa": _build_attention, "conv": _build_convolution}
    yield from makers[family](p, dtype)


def _build_product(p: dict[str, Any], dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    lead = (p["b"],) if p["op"] in ("bmm", "baddbmm") else ()
    pairs = ((p["m"], p["k"], p["ta"]), (p["k"], p["n"], p["tb"]))
    left, right = (
        random_tensor(*lead, columns, rows, dtype=dtype).transpose(-1, -2)
        if turned
        else random_tensor(*lead, rows, columns, dtype=dtype)
        for rows, columns, turned in pairs
    )
    out = torch.empty(*lead, p["m"], p["n"], dtype=dtype, device="cuda")
    added = {"addmm": (p["n"],), "baddbmm": (p["b"], 1, p["n"])}.get(p["op"])
    operands = [random_tensor(*added, dtype=dtype)] if added else []
    yield "", lambda: getattr(torch, p["op"])(*operands, left, right, out=out)


def _build_attention(p: dict[str, Any], dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    backend = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }[p["back"]]

    def make(length: int) -> torch.Tensor:
        shape = (p["b"], length, p["h"], p["d"]) if p["bshd"] else (p["b"], p["h"], length, p["d"])
        made = random_tensor(*shape, dtype=dtype)
        return (made.transpose(1, 2) if p["bshd"] else made).requires_grad_()

    query, key, value = make(p["s"]), make(p["kv"]), make(p["kv"])
    mask = random_tensor(p["b"], p["h"], p["s"], p["kv"], dtype=dtype) if p["mask"] else None

    def forward() -> torch.Tensor:
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(
                query, key, value, mask, p["drop"], bool(p["causal"])
            )

    yield "fwd", forward
    out = forward()
    gradient = torch.randn_like(out)
    inputs = (query, key, value)
    yield "bwd", lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True)


def _build_convolution(p: dict[str, Any], dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    dims, groups = p["nd"], p["g"]
    channels = (p["ci"], p["co"] // groups) if p["tr"] else (p["co"], p["ci"] // groups)
    image = random_tensor(p["n"], p["ci"], *[p["hw"]] * dims, dtype=dtype)
    weight = random_tensor(*channels, *[p["k"]] * dims, dtype=dtype)
    if p["cl"]:
        image, weight = (t.contiguous(memory_format=torch.channels_last) for t in (image, weight))
    sizes = [[p[name]] * dims for name in ("st", "pad", "dil")]
    given = (*sizes, bool(p["tr"]), [0] * dims, groups)
    yield "fwd", lambda: aten.convolution(image, weight, None, *given)
    gradient = torch.randn_like(aten.convolution(image, weight, None, *given))
    for name, mask in (("bwd", [True, True, False]), ("bwdw", [False, True, False])):
        arguments = (gradient, image, weight, None, *given, mask)
        yield name, functools.partial(aten.convolution_backward, *arguments)


# --- times -----------------------------------------------------------------------------------


class Segments:
    """Puts calls between two kernels that only spin, and finds what ran between them."""

    def __init__(self) -> None:
        self.labels: list[Any] = []
        self._other = torch.randn(80_000_000, device="cuda")  # 320 MB

    def run(self, label: Any, call: Call, cold: bool) -> None:
        if cold:
            torch.max(self._other)
        torch.cuda._sleep(50)
        try:
            call()
        finally:
            torch.cuda._sleep(50)
            self.labels.append(label)

    def read(self, events: Any) -> list[tuple[Any, float]]:
        """Return labels with microseconds."""
        on_device = [e for e in events if e.device_type() == torch.autograd.DeviceType.CUDA]
        found: list[float] = []
        inside = False
        for event in sorted(on_device, key=lambda e: e.start_ns()):
            if "spin_kernel" in event.name():
                inside = not inside
                found += [0.0] if inside else []
            elif inside and "Sync" not in event.name():
                found[-1] += event.duration_ns() / 1e3
        if len(found) != len(self.labels):
            raise RuntimeError(f"{len(found)} calls in the profile of {len(self.labels)}")
        return list(zip(self.labels, found, strict=True))


def measure(cases: list[Case], segments: Segments) -> list[dict[str, Any]]:
    segments.labels = []
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    with torch.autograd.profiler.profile(use_cpu=False, use_device="cuda") as profile:
        for number, (family, p) in enumerate(cases):
            try:
                for name, call in build(family, p):
                    rows[number, name] = {"f": family, "sub": name, "p": p, "cold": [], "hot": []}
                    call()
                    call()
                    for how in ("cold", "hot"):
                        for _ in range(REPETITIONS):
                            segments.run((number, name, how), call, how == "cold")
            except RuntimeError as error:  # a library that does not take these sizes
                if "CUDA error" in str(error):
                    raise
        torch.cuda.synchronize()
    for (number, name, how), micros in segments.read(profile.kineto_results.events()):
        rows[number, name][how].append(round(micros, 3))
    return [row for row in rows.values() if len(row["hot"]) == REPETITIONS]


def time_host() -> Iterator[dict[str, Any]]:
    """Yield what the host needs for a call, in microseconds."""
    half = torch.bfloat16
    a, c = random_tensor(64, 64, dtype=half), random_tensor(64, dtype=half)
    q, out = random_tensor(1, 2, 64, 64, dtype=half), torch.empty_like(a)
    x, w = random_tensor(1, 8, 8, 8, dtype=half), random_tensor(8, 8, 3, 3, dtype=half)
    given = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    calls: dict[str, Call] = {
        "addmm": lambda: torch.addmm(c, a, a, out=out),
        "cudnn": lambda: aten._scaled_dot_product_cudnn_attention(q, q, q, None, True, 0.0, True),
        "conv": lambda: aten.convolution(x, w, None, *given),
    }
    for name, call in calls.items():
        for _ in range(20):
            call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            call()
        yield {"f": "host", "op": name, "us": (time.perf_counter() - start) / 200 * 1e6}


def main() -> None:
    path, limit = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 240.0
    start = time.monotonic()
    with path.open("w") as file:

        def write(row: dict[str, Any]) -> None:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")

        gpu = torch.cuda.get_device_name()
        date = time.strftime("%Y-%m-%d")
        write({"f": "machine", "gpu": gpu, "torch": torch.__version__, "date": date})
        busy = random_tensor(8192, 8192, dtype=torch.bfloat16)
        while time.monotonic() - start < 2:  # until its clocks are up
            busy @ busy
            torch.cuda.synchronize()
        for row in time_host():
            write(row)
        cases, segments = corpus(20261122), Segments()
        for at in range(0, len(cases), CHUNK):
            if time.monotonic() - start > limit:
                break
            for row in measure(cases[at : at + CHUNK], segments):
                write(row)


if __name__ == "__main__":
    main()
