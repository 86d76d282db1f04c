"""What ``mix_order_reads.py`` compiles and times: a ladder of mix-order reductions with more and
more reads, and models whose backward has some with many."""

from __future__ import annotations

from typing import Any

from cures_cases import LIMIT, Case, Side

ELEMENTS = 98304 * 512
"""Of each matrix of the ladder: the batch and width of pytorch #179494."""

ON = Side("no limit")
OFF = Side("off", options={"triton.mix_order_reduction": False})
AT_MOST = tuple(Side(f"at most {n}", options={LIMIT: n}) for n in (6, 10, 14))


def _step(reads: int, sums: int, dtype: str, columns: int) -> Case:
    rows = ELEMENTS // columns
    sizes = {"reads": reads, "sums": sums, "dtype": dtype, "columns": columns, "rows": rows}
    return Case("ladder", "mix-order", (ON, OFF), sizes)


def _steps() -> tuple[Case, ...]:
    reads = (3, 5, 7, 9, 11, 13, 16, 20, 24)
    whole = [
        _step(n, sums, dtype, 512)
        for dtype in ("float32", "bfloat16")
        for sums in (1, 4)
        for n in reads
        if sums < n
    ]
    widths = [
        _step(n, 1, dtype, columns)
        for dtype in ("float32", "bfloat16")
        for columns in (256, 1024, 2048, 4096)
        for n in reads[1::2]
    ]
    return (*whole, *widths)


LADDER = _steps()


def _model(*sides: Side, **params: Any) -> Case:
    size = {"layers": 3, "batch": 48}
    return Case("model", "gqa-transformer", (ON, OFF, *sides), {**size, **params})


_LAUNCHES = (Side("no limit, 4 warps", warps=4), Side("no limit, 1 row", xblock=1))

MODELS = (
    _model(*AT_MOST, learned=True, dtype="float32"),
    _model(*AT_MOST[1:2], *_LAUNCHES, learned=True, dtype="float32", norms="written-out"),
    _model(*AT_MOST, learned=True, dtype="float32", norms="operator"),
    _model(*AT_MOST[1:2], *_LAUNCHES, scales="true", residual_mix="true", dtype="float32"),
    _model(*AT_MOST[1:2], learned=True),
    _model(*AT_MOST[1:2], scales="true", residual_mix="true", skips=True, controls="float32"),
    _model(*AT_MOST[1:2], learned=True, dtype="float32", layers=11),
)


def name_of(case: Case) -> str:
    return " ".join([case.scenario, *(f"{n}={v}" for n, v in case.params.items())])
