"""The launches that a calibration times: kernels of ``kernels/_corpus.py`` over a range of
strides, widths, grids, loops, dtypes and launch configurations.

Every mechanism that the formulas know is walked along alone: chains of dependent loads, blocks
from one to a hundred thousand, partly written sectors, special functions, straight code, spills,
atomics. Some products are thinned out, so that all of it takes a few minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from perfcli.model.kernel_work import CorpusCase

_BYTES = {"bf16": 2, "fp32": 4, "i8": 1, "i32": 4, "chain": 4, "rows": 8}
_MOST_BYTES = 1 << 30
"""Of one tensor."""
_SMOKE = 12
"""One case of so many is taken for a smoke test."""


def _list_cases(smoke: bool = False) -> tuple[CorpusCase, ...]:
    """Return all cases, or the few that show that everything works."""
    cases = tuple(case for make in _MAKERS for case in make())
    return cases[::_SMOKE] if smoke else cases


def _bytes_of(kind: str, elements: int) -> int:
    """Return the bytes of a tensor of a case."""
    return _BYTES[kind] * elements


def _case(
    kernel: str,
    grid: tuple[int, ...],
    warps: int,
    tensors: list[tuple[str, str, int]],
    scalars: Mapping[str, int],
    **constants: Any,
) -> CorpusCase:
    x, y, z = (*grid, 1, 1)[:3]
    return CorpusCase(kernel, (x, y, z), warps, tuple(tensors), scalars, constants)


def _up(number: int, step: int) -> int:
    return -(-number // step)


def _power(number: int) -> int:
    """Return the least power of two that is not smaller."""
    return 1 << (number - 1).bit_length()


def _sum_rows() -> Iterator[CorpusCase]:
    sizes = product((1, 16, 132, 1056, 8448), (1, 4, 16, 64, 512), (512, 2048), (1, 8))
    for (rows, trips, r, x), w, dtype in product(sizes, (4, 8, 16), ("bf16", "fp32")):
        n = trips * r // x
        odd = x == 8 and (rows < 16 or w == 16)
        odd = odd or (dtype == "fp32" and (w != 8 or r == 512)) or (r == 512 and w == 16)
        if odd or rows * n > min(_MOST_BYTES // _BYTES[dtype], 3e8):
            continue
        if (rows * 7 + trips * 3 + r + x * 5 + w) % 3:
            tensors = [("x", dtype, rows * n), ("out", "fp32", rows)]
            scalars = {"stride": n, "n": n, "rows": rows}
            grid = (_up(rows, x),)
            yield _case("row_sum", grid, w, tensors, scalars, XBLOCK=x, RBLOCK=r // x)


def _normalise_rows() -> Iterator[CorpusCase]:
    sizes = product((64, 1024, 32768), (256, 1024, 3000, 8192), (1, 4), (2, 4, 8))
    for (rows, n, x, w), dtype in product(sizes, ("bf16", "fp32")):
        r = _power(n)
        if rows * n * 4 > _MOST_BYTES or x * r > 8192 or (x == 4 and dtype == "fp32"):
            continue
        tensors = [("x", dtype, rows * n), ("out", dtype, rows * n)]
        scalars = {"stride": n, "n": n, "rows": rows}
        yield _case("row_sum_persistent", (_up(rows, x),), w, tensors, scalars, XBLOCK=x, RBLOCK=r)


def _sum_columns() -> Iterator[CorpusCase]:
    sizes = product((64, 768, 4096), (512, 8192, 65536), (8, 32, 64, 128), (8, 32), (1, 16, 128))
    for (cols, rows, x, r, split), w, dtype in product(sizes, (4, 8), ("bf16", "fp32")):
        if rows * cols * _BYTES[dtype] > _MOST_BYTES or x * r > 4096 or rows // split < r:
            continue
        if (cols * x * 3 + rows + split * 5 + r) % 4 or (dtype == "fp32" and w == 8):
            continue
        tensors = [("x", dtype, rows * cols), ("out", "fp32", split * cols)]
        scalars = {"stride": cols, "rows": rows, "cols": cols}
        grid = (_up(cols, x), split)
        yield _case("column_sum", grid, w, tensors, scalars, XBLOCK=x, RBLOCK=r, SPLIT=split)


def _sweep_twice() -> Iterator[CorpusCase]:
    sizes = product((16, 264, 4096), (4096, 20000, 65536), (1024, 2048, 4096), (4, 8, 16))
    for rows, n, r, w in sizes:
        if rows * n * 2 > _MOST_BYTES:
            continue
        tensors = [("x", "bf16", rows * n), ("out", "bf16", rows * n)]
        scalars = {"stride": n, "n": n, "rows": rows}
        yield _case("two_sweeps", (rows,), w, tensors, scalars, RBLOCK=r, XBLOCK=1)
        if r == 2048:
            yield _case("softmax_loop", (rows,), w, tensors, scalars, RBLOCK=r, XBLOCK=1)


def _chase() -> Iterator[CorpusCase]:
    for blocks, n, stride, x in product((1, 16, 132, 1056), (1, 8, 64), (1, 16, 1024), (32, 128)):
        if blocks * x * stride * 4 <= _MOST_BYTES:
            tensors = [("index", "chain", blocks * x * stride), ("out", "i32", blocks * x)]
            scalars = {"n": n, "stride": stride}
            yield _case("chase", (blocks,), x // 32, tensors, scalars, XBLOCK=x)


def _copy_strided() -> Iterator[CorpusCase]:
    sizes = product((1, 2, 4, 8, 32, 512), (1, 2, 4, 32), (256, 1024), ("bf16", "fp32", "i8"))
    for (load, store, x, dtype), n in product(sizes, (1 << 16, 1 << 21, 1 << 24)):
        if (load > 1 and store > 1) or (n == 1 << 16 and dtype != "bf16"):
            continue
        if n * max(load, store) * _BYTES[dtype] <= _MOST_BYTES:
            yield _copy(n, x, 4, dtype, load, store)


def _copy_plain() -> Iterator[CorpusCase]:
    sizes = product((32, 64, 128, 512, 2048, 4096), (1, 4, 8), ("bf16", "fp32", "i8"))
    for (x, w, dtype), n in product(sizes, (1 << 12, 1 << 18, 1 << 22, 1 << 26)):
        if x >= 16 * w and n // x <= 300000 and (dtype != "i8" or x == 512):
            yield _copy(n, x, w, dtype, 1, 1)


def _copy(n: int, x: int, warps: int, dtype: str, load: int, store: int) -> CorpusCase:
    tensors = [("x", dtype, n * load), ("out", dtype, n * store)]
    scalars = {"n": n, "load_stride": load, "store_stride": store}
    return _case("strided_copy", (_up(n, x),), warps, tensors, scalars, XBLOCK=x)


def _wrap_rows() -> Iterator[CorpusCase]:
    n = 1 << 23
    sizes = product((7, 50, 193, 768, 50257), (0, 3), (0, 1), (256, 1024), ("bf16", "fp32"))
    for width, gap, offset, x, dtype in sizes:
        whole = (n // width + 2) * (width + gap) + 8
        scalars = {"n": n, "width": width, "pitch": width + gap, "offset": offset}
        for kernel, read, made in (("wrapped_copy", whole, n), ("scatter_rows", n, whole)):
            tensors = [("x", dtype, read), ("out", dtype, made)]
            yield _case(kernel, (_up(n, x),), 4, tensors, scalars, XBLOCK=x)


def _transpose() -> Iterator[CorpusCase]:
    sizes = product((16, 32, 64), (16, 32, 64), (4, 8), ("bf16", "fp32"), (1024, 4096))
    for x, y, w, dtype, rows in sizes:
        cols = 4096
        tensors = [("x", dtype, rows * cols), ("out", dtype, rows * cols)]
        scalars = {"rows": rows, "cols": cols}
        grid = (cols // x, rows // y)
        yield _case("transpose", grid, w, tensors, scalars, XBLOCK=x, YBLOCK=y)


def _add_many() -> Iterator[CorpusCase]:
    sizes = product((1, 2, 4, 8), (256, 512, 1024, 2048), (4, 8), ("bf16", "fp32"))
    for (count, x, w, dtype), n in product(sizes, (1 << 17, 1 << 20, 1 << 24)):
        if (x, w) not in ((256, 8), (2048, 4)):
            inputs = [(f"p{i}", dtype, n if i < count else 16) for i in range(8)]
            tensors = [*inputs, ("out", dtype, n)]
            grid = (_up(n, x),)
            yield _case("many_inputs", grid, w, tensors, {"n": n}, COUNT=count, XBLOCK=x)


def _broadcast() -> Iterator[CorpusCase]:
    for width, x, n in product((64, 768, 4096, 65536), (512, 1024), (1 << 18, 1 << 24)):
        tensors = [("x", "bf16", n), ("w", "fp32", width), ("out", "bf16", n)]
        yield _case("broadcast_row", (_up(n, x),), 4, tensors, {"n": n, "width": width}, XBLOCK=x)


def _calculate() -> Iterator[CorpusCase]:
    kinds = ("fma", "exp", "rsqrt", "div", "int", "conv", "f2i")
    for kind, steps, n, x in product(kinds, (4, 16), (1 << 14, 1 << 20), (256, 1024)):
        for trips in (16, 128):
            yield _arithmetic(kind, steps, n, x, trips, loop=True)
    for kind, steps, n in product(
        ("fma", "exp", "div", "int"), (64, 256, 1024), (1 << 14, 1 << 20)
    ):
        yield _arithmetic(kind, steps, n, 512, 1, loop=False)


def _arithmetic(kind: str, steps: int, n: int, x: int, trips: int, *, loop: bool) -> CorpusCase:
    tensors = [("x", "fp32", n), ("out", "fp32", n)]
    scalars = {"n": n, "trips": trips}
    return _case(
        "arithmetic", (_up(n, x),), 4, tensors, scalars,
        KIND=kind, STEPS=steps, LOOP=loop, XBLOCK=x,
    )  # fmt: skip


def _hold_rows() -> Iterator[CorpusCase]:
    for copies, n, w, rows in product((1, 2, 3), (4096, 8192, 16384), (2, 4, 8, 16), (132, 4096)):
        tensors = [("x", "bf16", (rows + 2) * n), ("out", "bf16", rows * n)]
        scalars = {"stride": n, "n": n}
        yield _case("held", (rows,), w, tensors, scalars, COPIES=copies, RBLOCK=n)


def _add_atomically() -> Iterator[CorpusCase]:
    for distinct, n, x in product((1, 32, 1024, 1 << 16, 1 << 22), (1 << 16, 1 << 21), (128, 512)):
        if distinct > 1 or n <= 1 << 16:
            tensors = [("x", "fp32", n), ("out", "fp32", distinct)]
            scalars = {"n": n, "distinct": distinct}
            yield _case("atomics", (_up(n, x),), 4, tensors, scalars, XBLOCK=x)
    for rows, width, per in product((4096, 65536), (256, 1024), (8, 64)):
        tensors = [("x", "bf16", rows * width), ("out", "fp32", width)]
        scalars = {"rows": rows, "width": width, "per": per}
        yield _case("atomic_rows", (rows // per,), 4, tensors, scalars, XBLOCK=width)


def _look_up() -> Iterator[CorpusCase]:
    for rows, width, x in product((2048, 65536), (64, 768), (256, 1024)):
        n = rows * width
        tensors = [("index", "rows", rows), ("x", "bf16", 4096 * width), ("out", "bf16", n)]
        yield _case("gather", (_up(n, x),), 4, tensors, {"n": n, "width": width}, XBLOCK=x)


def _mix_orders() -> Iterator[CorpusCase]:
    sizes = product((4096, 32768), (768, 1024, 4096, 8192), (1, 8, 64), (2, 4, 8))
    for (rows, n, per, w), dtype in product(sizes, ("bf16", "fp32")):
        if rows * n * 4 > _MOST_BYTES or rows // per < 16:
            continue
        tensors = [
            ("x", dtype, rows * n), ("w", "fp32", n), ("out", dtype, rows * n),
            ("part", "fp32", (rows // per) * n),
        ]  # fmt: skip
        yield _case("mix_rows", (rows // per,), w, tensors, {"per": per, "n": n}, RBLOCK=_power(n))


def _store_in_loops() -> Iterator[CorpusCase]:
    sizes = product((16, 64, 128, 528), (16384, 131072), (1 << 20, 16384, 1024), (2048, 4096))
    for (rows, n, inner, r), w in product(sizes, (8, 16)):
        if rows * n * 6 > _MOST_BYTES:
            continue
        tensors = [("x", "fp32", rows * n), ("w", "fp32", 16384), ("out", "bf16", rows * n)]
        scalars = {"stride": n, "n": n, "inner": inner}
        yield _case("loop_store", (rows,), w, tensors, scalars, RBLOCK=r)


_MAKERS = (
    _sum_rows, _normalise_rows, _sum_columns, _sweep_twice, _chase, _copy_strided, _copy_plain,
    _wrap_rows, _transpose, _add_many, _broadcast, _calculate, _hold_rows, _add_atomically,
    _look_up, _mix_orders, _store_in_loops,
)  # fmt: skip
