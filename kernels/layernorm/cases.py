"""Lists problems of LayerNorm that are checked, and those that are timed. Pure.

Sizes are rmsnorm's, and widths of models: 2880, 5120, 7168, 14336 columns.
"""

from __future__ import annotations

from perfcli.model import Case, Problem

from ..rmsnorm.cases import (
    BACKWARD,
    BACKWARD_SIZES,
    CLUSTERED,
    CLUSTERED_GRADIENTS,
    DATA,
    PLANNED_ROWS,
    RING_SIZES,
    ROWS_AND_COLUMNS,
)

MANY_SHORT = (700_000, 192)
"""Planned: gradients by programs of several rows and several warps."""
FORWARD = ("full-tile", "register-tiled", "cooperative")


def _forward() -> list[Case]:
    widths = ((7, 2880), (3, 5120), (2, 14336))
    cases = [
        Case(Problem("layernorm", rows, columns, dtype), variant)
        for variant in (None, *FORWARD)
        for dtype in ("bfloat16", "float32")
        for rows, columns in (*ROWS_AND_COLUMNS[:5], *widths)
    ]
    cases += [
        Case(Problem("layernorm", rows, columns, dtype), variant)
        for variant in ("peeled", "cooperative")
        for rows, columns, dtype in (
            (37, 1023, "bfloat16"),
            (7, 4097, "float16"),
            (9, 8193, "float32"),
        )
    ]
    cases += [
        Case(Problem("layernorm-residual", rows, columns, dtype), variant)
        for variant in (None, *FORWARD)
        for rows, columns, dtype in (
            (37, 760, "bfloat16"),
            (7, 1023, "float32"),
            (7, 4097, "float16"),
        )
    ]
    cases += [
        Case(Problem("layernorm", rows, columns)) for rows, columns in ((7, 50257), (2, 262144))
    ]
    cases += [
        Case(Problem(operation, *size))
        for operation in ("layernorm", "layernorm-residual")
        for size in PLANNED_ROWS
    ]
    cases += [
        Case(Problem(operation, *size), "cluster")
        for operation in ("layernorm", "layernorm-residual")
        for size in CLUSTERED
    ]
    cases += [
        Case(Problem("layernorm", 8, 1023), variant, data)
        for variant in (*FORWARD, "peeled", "cluster")
        for data in DATA
    ]
    cases += [
        Case(Problem("layernorm", 7, 1128), variant, layout=layout)
        for variant in (None, *FORWARD)
        for layout in ("padded-rows", "misaligned")
    ]
    cases += [
        Case(Problem("layernorm", rows, columns))
        for rows, columns in ((0, 64), (7, 0), (7, 1), (7, 17))
    ]
    return cases


def _backward() -> list[Case]:
    cases = [
        Case(Problem(operation, rows, columns, dtype), variant)
        for operation in ("layernorm-backward", "layernorm-residual-backward")
        for variant in BACKWARD
        for rows, columns, dtype in BACKWARD_SIZES
    ]
    cases += [
        Case(Problem("layernorm-backward", rows, columns))
        for rows, columns in (
            (8192, 192),
            (3, 50257),
            (0, 64),
            (7, 0),
            (7, 1),
            (300, 2880),
            MANY_SHORT,
        )
    ]
    cases += [
        Case(Problem("layernorm-backward", 8, 760, "float32"), variant, data)
        for variant in (*BACKWARD[::2], "cluster")
        for data in DATA
    ]
    cases += [Case(Problem("layernorm-backward", *size), "ring") for size in RING_SIZES]
    cases += [
        Case(Problem(operation, *size), "cluster")
        for operation in ("layernorm-backward", "layernorm-residual-backward")
        for size in CLUSTERED_GRADIENTS
    ]
    return cases + [
        Case(Problem("layernorm-backward", 7, 1128), variant, layout=layout)
        for variant in (*BACKWARD, "cluster")
        for layout in ("padded-rows", "misaligned")
    ]


CASES: tuple[Case, ...] = (*_forward(), *_backward())

BENCHMARKS: tuple[Problem, ...] = (
    *(Problem("layernorm", 32768, 512 << i) for i in range(6)),
    Problem("layernorm", 32768, 2880),
    Problem("layernorm", 16384, 14336),
    Problem("layernorm", 4096, 131072),
    Problem("layernorm", 4096, 50257),
    Problem("layernorm-residual", 16384, 7168),
    *(Problem("layernorm-backward", 32768, columns) for columns in (1024, 2880, 4096, 8192)),
    Problem("layernorm-backward", 16384, 14336),
    Problem("layernorm-backward", 1024, 128256),
)
