# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202, C901 (arguments of kernels have no Python types)
"""The generated kernels that a calibration times: each walks along one of the things that can hold
a launch up.

They do what Inductor's kernels do, in the same words of Triton, with nothing else around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl


@triton.jit
def _row_sum(x, out, stride, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr, rows):
    """Sum rows in a loop, as a looped reduction does."""
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    acc = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for r in tl.range(0, n, RBLOCK):
        k = r + tl.arange(0, RBLOCK)[None, :]
        m = (k < n) & (row < rows)
        acc = tl.where(m, acc + tl.load(x + row * stride + k, m, other=0.0).to(tl.float32), acc)
    tl.store(out + row, tl.sum(acc, 1)[:, None], row < rows)


@triton.jit
def _row_sum_persistent(x, out, stride, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr, rows):
    """Normalise rows that are held as a whole, as a persistent reduction does."""
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    k = tl.arange(0, RBLOCK)[None, :]
    m = (k < n) & (row < rows)
    v = tl.load(x + row * stride + k, m, other=0.0).to(tl.float32)
    mean = tl.sum(v, 1)[:, None] / n
    d = tl.where(m, v - mean, 0.0)
    var = tl.sum(d * d, 1)[:, None] / n
    y = d * tl.rsqrt(var + 1e-5)
    tl.store(out + row * stride + k, y.to(out.dtype.element_ty), m)


@triton.jit
def _column_sum(
    x, out, stride, rows, cols, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr, SPLIT: tl.constexpr
):
    """Sum columns, in parts where ``SPLIT`` is more than 1."""
    c = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    part = tl.program_id(1)
    acc = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    per = (rows + SPLIT - 1) // SPLIT
    for r in tl.range(0, per, RBLOCK):
        k = r + tl.arange(0, RBLOCK)[None, :]
        row = part * per + k
        m = (k < per) & (row < rows) & (c < cols)
        acc = tl.where(m, acc + tl.load(x + row * stride + c, m, other=0.0).to(tl.float32), acc)
    tl.store(out + part * cols + c, tl.sum(acc, 1)[:, None], c < cols)


@triton.jit
def _two_sweeps(x, out, stride, n, RBLOCK: tl.constexpr, XBLOCK: tl.constexpr, rows):
    """Normalise rows that are swept over twice."""
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    acc = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for r in tl.range(0, n, RBLOCK):
        k = r + tl.arange(0, RBLOCK)[None, :]
        m = (k < n) & (row < rows)
        v = tl.load(x + row * stride + k, m, other=0.0, eviction_policy="evict_last").to(tl.float32)
        acc = tl.where(m, acc + v * v, acc)
    s = tl.rsqrt(tl.sum(acc, 1)[:, None] / n + 1e-5)
    for r in tl.range(0, n, RBLOCK):
        k = r + tl.arange(0, RBLOCK)[None, :]
        m = (k < n) & (row < rows)
        v = tl.load(x + row * stride + k, m, other=0.0, eviction_policy="evict_first").to(
            tl.float32
        )
        tl.store(out + row * stride + k, (v * s).to(out.dtype.element_ty), m)


@triton.jit
def _chase(index, out, n, stride, XBLOCK: tl.constexpr):
    """Load from where the load before it says: rounds that cannot overlap."""
    at = (tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)) * stride
    for _ in tl.range(0, n):
        at = tl.load(index + at)
    tl.store(out + tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK), at)


@triton.jit
def _strided_copy(x, out, n, load_stride, store_stride, XBLOCK: tl.constexpr):
    """Copy elements that lie ``load_stride`` apart to places ``store_stride`` apart."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    tl.store(out + i * store_stride, tl.load(x + i * load_stride, m), m)


@triton.jit
def _wrapped_copy(x, out, n, width, pitch, offset, XBLOCK: tl.constexpr):
    """Read rows of an odd length or a pitch: a division and a remainder per element."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    at = (i // width) * pitch + (i % width) + offset
    tl.store(out + i, tl.load(x + at, m), m)


@triton.jit
def _scatter_rows(x, out, n, width, pitch, offset, XBLOCK: tl.constexpr):
    """Write rows of an odd length or a pitch."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    at = (i // width) * pitch + (i % width) + offset
    tl.store(out + at, tl.load(x + i, m), m)


@triton.jit
def _transpose(x, out, rows, cols, XBLOCK: tl.constexpr, YBLOCK: tl.constexpr):
    """Transpose a matrix by tiles."""
    y = tl.program_id(1) * YBLOCK + tl.arange(0, YBLOCK)[:, None]
    c = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[None, :]
    m = (y < rows) & (c < cols)
    v = tl.load(x + y * cols + c, m)
    tl.store(out + c * rows + y, v, m)


@triton.jit
def _many_inputs(p0, p1, p2, p3, p4, p5, p6, p7, out, n, COUNT: tl.constexpr, XBLOCK: tl.constexpr):
    """Add up to eight tensors."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    v = tl.load(p0 + i, m).to(tl.float32)
    if COUNT > 1:
        v += tl.load(p1 + i, m).to(tl.float32)
    if COUNT > 2:
        v += tl.load(p2 + i, m).to(tl.float32)
    if COUNT > 3:
        v += tl.load(p3 + i, m).to(tl.float32)
    if COUNT > 4:
        v += tl.load(p4 + i, m).to(tl.float32)
    if COUNT > 5:
        v += tl.load(p5 + i, m).to(tl.float32)
    if COUNT > 6:
        v += tl.load(p6 + i, m).to(tl.float32)
    if COUNT > 7:
        v += tl.load(p7 + i, m).to(tl.float32)
    tl.store(out + i, v.to(out.dtype.element_ty), m)


@triton.jit
def _broadcast_row(x, w, out, n, width, XBLOCK: tl.constexpr):
    """Scale by a row that every program reads."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    v = tl.load(x + i, m).to(tl.float32) * tl.load(
        w + i % width, m, eviction_policy="evict_last"
    ).to(tl.float32)
    tl.store(out + i, v.to(out.dtype.element_ty), m)


@triton.jit
def _arithmetic(
    x,
    out,
    n,
    KIND: tl.constexpr,
    STEPS: tl.constexpr,
    LOOP: tl.constexpr,
    trips,
    XBLOCK: tl.constexpr,
):
    """Run one kind of arithmetic, in a loop or as straight code."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    v = tl.load(x + i, m, other=0.0).to(tl.float32)
    w = v + 1.0
    if LOOP:
        for _ in tl.range(0, trips):
            for _s in tl.static_range(STEPS):
                if KIND == "fma":
                    v = v * 1.0001 + w
                elif KIND == "exp":
                    v = tl.exp(v)
                elif KIND == "rsqrt":
                    v = tl.rsqrt(v + w)
                elif KIND == "div":
                    v = w / (v + 1.5)
                elif KIND == "int":
                    q = v.to(tl.int32, bitcast=True)
                    v = ((q ^ (q << 5)) + 12345).to(tl.float32, bitcast=True)
                elif KIND == "conv":
                    v = v.to(tl.bfloat16).to(tl.float32) + w
                elif KIND == "f2i":
                    v = v.to(tl.int32).to(tl.float32) + w
    else:
        for s in tl.static_range(STEPS):
            if KIND == "fma":
                v = v * 1.0001 + (w + s)
            elif KIND == "exp":
                v = tl.exp(v) + s
            elif KIND == "rsqrt":
                v = tl.rsqrt(v + w)
            elif KIND == "div":
                v = w / (v + 1.5 + s)
            elif KIND == "int":
                q = v.to(tl.int32, bitcast=True)
                v = ((q ^ (q << 5)) + 12345 + s).to(tl.float32, bitcast=True)
            elif KIND == "conv":
                v = v.to(tl.bfloat16).to(tl.float32) + w
            elif KIND == "f2i":
                v = v.to(tl.int32).to(tl.float32) + w
    tl.store(out + i, v, m)


@triton.jit
def _held(x, out, stride, n, COPIES: tl.constexpr, RBLOCK: tl.constexpr):
    """Hold ``COPIES`` whole rows in registers, which spill where the rows are too long."""
    row = tl.program_id(0)
    k = tl.arange(0, RBLOCK)
    m = k < n
    a = tl.load(x + row * stride + k, m, other=0.0).to(tl.float32)
    b = a
    c = a
    if COPIES > 1:
        b = tl.load(x + (row + 1) * stride + k, m, other=0.0).to(tl.float32)
    if COPIES > 2:
        c = tl.load(x + (row + 2) * stride + k, m, other=0.0).to(tl.float32)
    s = tl.sum(a * a + b, 0)
    t = tl.sum(b * s + c, 0)
    u = tl.sum(c * t + a, 0)
    y = a * s + b * t + c * u
    tl.store(out + row * stride + k, y.to(out.dtype.element_ty), m)


@triton.jit
def _atomics(x, out, n, distinct, XBLOCK: tl.constexpr):
    """Add to ``distinct`` addresses."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    v = tl.load(x + i, m).to(tl.float32)
    tl.atomic_add(out + (i.to(tl.int64) * 7919) % distinct, v, m, sem="relaxed")


@triton.jit
def _atomic_rows(x, out, rows, width, per, XBLOCK: tl.constexpr):
    """Add rows into one row that all programs share."""
    c = tl.arange(0, XBLOCK)
    m = c < width
    acc = tl.full([XBLOCK], 0, tl.float32)
    for r in tl.range(0, per):
        acc += tl.load(x + (tl.program_id(0) * per + r) * width + c, m, other=0.0).to(tl.float32)
    tl.atomic_add(out + c, acc, m, sem="relaxed")


@triton.jit
def _gather(index, x, out, n, width, XBLOCK: tl.constexpr):
    """Read rows by a loaded index, as an embedding does."""
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    m = i < n
    row = tl.load(index + i // width, m)
    tl.store(out + i, tl.load(x + row * width + i % width, m), m)


@triton.jit
def _softmax_loop(x, out, stride, n, RBLOCK: tl.constexpr, XBLOCK: tl.constexpr, rows):
    """Take the softmax of rows that are swept over twice."""
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    peak = tl.full([XBLOCK, RBLOCK], float("-inf"), tl.float32)
    total = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for r in tl.range(0, n, RBLOCK):
        k = r + tl.arange(0, RBLOCK)[None, :]
        m = (k < n) & (row < rows)
        v = tl.load(x + row * stride + k, m, other=float("-inf"), eviction_policy="evict_last").to(
            tl.float32
        )
        new = tl.maximum(peak, v)
        total = total * tl.exp(peak - new) + tl.exp(v - new)
        peak = tl.where(m, new, peak)
    top = tl.max(peak, 1)[:, None]
    total = tl.sum(total * tl.exp(peak - top), 1)[:, None]
    for r in tl.range(0, n, RBLOCK):
        k = r + tl.arange(0, RBLOCK)[None, :]
        m = (k < n) & (row < rows)
        v = tl.load(x + row * stride + k, m, other=0.0, eviction_policy="evict_first").to(
            tl.float32
        )
        tl.store(out + row * stride + k, (tl.exp(v - top) / total).to(out.dtype.element_ty), m)


@triton.jit
def _mix_rows(x, w, out, part, per, n, RBLOCK: tl.constexpr):
    """Normalise rows and sum columns in one pass, as a mix-order reduction does."""
    k = tl.arange(0, RBLOCK)
    m = k < n
    acc = tl.full([RBLOCK], 0, tl.float32)
    g = tl.load(w + k, m, other=0.0)
    for r in tl.range(0, per):
        row = tl.program_id(0) * per + r
        v = tl.load(x + row * n + k, m, other=0.0).to(tl.float32)
        s = tl.sum(v * g, 0) / n
        y = v * tl.rsqrt(s * s + 1e-5)
        tl.store(out + row * n + k, y.to(out.dtype.element_ty), m)
        acc += y * v
    tl.store(part + tl.program_id(0) * n + k, acc, m)


@triton.jit
def _loop_store(x, w, out, stride, n, inner, RBLOCK: tl.constexpr):
    """Store and reduce in one loop, with two small tables."""
    row = tl.program_id(0)
    acc = tl.full([RBLOCK], 0, tl.float32)
    for r in tl.range(0, n, RBLOCK):
        k = r + tl.arange(0, RBLOCK)
        m = k < n
        v = tl.load(x + row * stride + k, m, other=0.0, eviction_policy="evict_first").to(
            tl.float32
        )
        a = tl.load(w + k // inner, m, other=0.0, eviction_policy="evict_last")
        b = tl.load(w + 4096 + k // inner, m, other=0.0, eviction_policy="evict_last")
        y = v * a + b
        tl.store(out + row * stride + k, y.to(out.dtype.element_ty), m)
        acc += y
    tl.store(w + 8192 + row, tl.sum(acc, 0))


KERNELS: Mapping[str, Any] = {
    "row_sum": _row_sum,
    "row_sum_persistent": _row_sum_persistent,
    "column_sum": _column_sum,
    "two_sweeps": _two_sweeps,
    "chase": _chase,
    "strided_copy": _strided_copy,
    "wrapped_copy": _wrapped_copy,
    "scatter_rows": _scatter_rows,
    "transpose": _transpose,
    "many_inputs": _many_inputs,
    "broadcast_row": _broadcast_row,
    "arithmetic": _arithmetic,
    "held": _held,
    "atomics": _atomics,
    "atomic_rows": _atomic_rows,
    "gather": _gather,
    "softmax_loop": _softmax_loop,
    "mix_rows": _mix_rows,
    "loop_store": _loop_store,
}
"""By the names that ``calibrate.corpus`` calls them."""
