"""What ``mix_order_reads.py`` compiles and times: a ladder of mix-order reductions with more and
more reads, and models whose backward has some with many."""

from __future__ import annotations

from typing import Any

from cures_cases import LIMIT, Case, Side

ELEMENTS = 98304 * 512
"""Of each matrix of the ladder: the batch and width of pytorch #179494."""

ON = Side("no limit")
OFF = Side("off", options={"triton.mix_order_reduction": False})
AT_MOST_10 = Side("at most 10", options={LIMIT: 10})
AT_MOST_14 = Side("at most 14", options={LIMIT: 14})

PIPELINED = Side(
    "no limit, pipelined", options={"triton.mix_order_reduction_allow_multi_stages": True}
)
"""As torch 2.13 does by default: the next rows wait in shared memory, not in registers."""


def _step(reads: int, sums: int, dtype: str, columns: int) -> Case:
    rows = ELEMENTS // columns
    sizes = {"reads": reads, "sums": sums, "dtype": dtype, "columns": columns, "rows": rows}
    sides = (ON, OFF, PIPELINED) if columns == 512 and sums == 1 else (ON, OFF)
    return Case("ladder", "mix-order", sides, sizes)


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
        for n in reads[2::2]
    ]
    return (*whole, *widths)


LADDER = _steps()


FOUR_WARPS = Side("no limit, 4 warps", warps=4)
ONE_ROW = Side("no limit, 1 row", xblock=1)


def _model(*sides: Side, **params: Any) -> Case:
    return Case("model", "gqa-transformer", (ON, *sides), {"layers": 3, "batch": 48, **params})


MODELS = (
    _model(OFF, AT_MOST_10, learned=True, dtype="float32", layers=11),
    _model(OFF, PIPELINED, scales="true", residual_mix="true", dtype="float32", layers=11),
    _model(OFF, AT_MOST_10, AT_MOST_14, learned=True, dtype="float32"),
    _model(FOUR_WARPS, ONE_ROW, PIPELINED, learned=True, dtype="float32", norms="written-out"),
    _model(OFF, AT_MOST_10, learned=True, dtype="float32", norms="operator"),
    _model(OFF, ONE_ROW, scales="true", residual_mix="true", dtype="float32"),
    _model(OFF, AT_MOST_10, scales="true", residual_mix="true", skips=True, controls="float32"),
    _model(OFF, AT_MOST_10, learned=True),
)
"""Eleven layers first: they take longest to compile. One model stands here twice (learned weights
mean norms that are written out), so that its variants are compiled by two processes."""


def name_of(case: Case) -> str:
    return " ".join([case.scenario, *(f"{n}={v}" for n, v in case.params.items())])
