"""Lists problems of RMSNorm that are checked, and those that are timed. Pure.

Row lengths and counts are the ends of what PyTorch's, QuACK's and Liger's own tests cover: one
under, at and over powers of two, no multiple of 16 bytes, more than a block has.
"""

from __future__ import annotations

from perfcli.model import Case, Data, Problem

FORWARD = ("two-read", "full-tile", "register-tiled", "cooperative", "split")
BACKWARD = ("fused", "ring", "split")
BACKWARD_SIZES = (
    (1, 1192, "bfloat16"),
    (199, 2760, "float32"),
    (263, 1023, "bfloat16"),
    (264, 1128, "float16"),
    (37, 4097, "bfloat16"),
)
RING_SIZES = (
    (64, 65533, "bfloat16"),
    (40, 20001, "float16"),
    (300, 67101, "float32"),
    (5, 103560, "bfloat16"),
)
"""Long rows; of the first, only some reach the last program."""
CLUSTERED_GRADIENTS = (
    (300, 2709, "bfloat16"),
    (40, 6056, "float16"),
    (199, 4097, "float32"),
    (70, 20001, "bfloat16"),
    (1, 1192, "bfloat16"),
)
"""Rows that two blocks share: three sizes whose rows start anywhere, one of whole vectors, and a
single row."""
ROWS_AND_COLUMNS = (
    (1, 192),
    (7, 760),
    (37, 1023),
    (199, 1128),
    (7, 4097),
    (263, 8192),
    (264, 8193),
)
PLANNED_ROWS = (
    (20005, 611, "bfloat16"),
    (306, 17033, "bfloat16"),
    (458, 10803, "bfloat16"),
    (374, 700, "float16"),
    (10, 30941, "bfloat16"),
)
"""Planned: two rows to a program; weights that are shifted, and loaded from the start; rows of
small problems, which are read as they lie, in one program and in several."""
CLUSTERED = (
    (700, 20001, "bfloat16"),
    (500, 17000, "float16"),
    (300, 40004, "float32"),
    (2000, 6387, "bfloat16"),
    (6, 30941, "bfloat16"),
    (40, 1023, "float16"),
)
"""Many rows, which clusters take in turn, of odd and even widths, one of which starts between
sectors of memory; a few, and short ones, which have one tile."""
LONG = ((7, 50257), (3, 131072), (2, 262144))
DATA: tuple[Data, ...] = (
    "large",
    "nan",
    "infinite",
    "minus-infinity-masked",
    "signed-zero",
    "constant",
)


def _forward() -> list[Case]:
    cases = [
        Case(Problem("rmsnorm", rows, columns, dtype), variant)
        for variant in (None, *FORWARD)
        for dtype in ("bfloat16", "float32")
        for rows, columns in ROWS_AND_COLUMNS
    ]
    cases += [
        Case(Problem("rmsnorm", rows, columns, dtype), "peeled")
        for rows, columns, dtype in (
            (37, 1023, "bfloat16"),
            (7, 4097, "float16"),
            (37, 8193, "float32"),
            (7, 50257, "bfloat16"),
        )
    ]
    cases += [
        Case(Problem("rmsnorm", rows, columns, dtype), "tma")
        for rows, columns, dtype in (
            (1, 192, "bfloat16"),
            (37, 760, "bfloat16"),
            (7, 1128, "float32"),
            (263, 8192, "float16"),
        )
    ]
    cases += [
        Case(Problem("rmsnorm", rows, columns), variant)
        for variant in (None, "two-read", "cooperative", "split")
        for rows, columns in LONG
    ]
    cases += [Case(Problem("rmsnorm", 8192, columns)) for columns in (192, 1024)]
    cases += [Case(Problem("rmsnorm", *size)) for size in PLANNED_ROWS]
    cases += [Case(Problem("rmsnorm", *size), "cluster") for size in CLUSTERED]
    cases.append(Case(Problem("rmsnorm", 199, 1128, "float16", settings={"eps": 1e-3})))
    return cases


def _residual() -> list[Case]:
    return [
        Case(Problem("rmsnorm-residual", rows, columns, dtype), variant)
        for variant in (None, *FORWARD)
        for rows, columns, dtype in (
            (37, 760, "bfloat16"),
            (7, 1023, "float32"),
            (7, 4097, "float16"),
            (3, 8193, "bfloat16"),
        )
    ] + [
        Case(Problem("rmsnorm-residual", 37, 1023), "peeled"),
        Case(Problem("rmsnorm-residual", 37, 1128), "tma"),
        *(Case(Problem("rmsnorm-residual", *size), "cluster") for size in CLUSTERED),
    ]


def _backward() -> list[Case]:
    cases = [
        Case(Problem(operation, rows, columns, dtype), variant)
        for operation in ("rmsnorm-backward", "rmsnorm-residual-backward")
        for variant in BACKWARD
        for rows, columns, dtype in BACKWARD_SIZES
    ]
    cases += [
        Case(Problem("rmsnorm-backward", rows, columns))
        for rows, columns in ((8192, 192), (37, 8192), (7, 8193), (3, 50257))
    ]
    cases += [Case(Problem("rmsnorm-backward", *size), "ring") for size in RING_SIZES]
    return cases + [
        Case(Problem(operation, *size), "cluster")
        for operation in ("rmsnorm-backward", "rmsnorm-residual-backward")
        for size in CLUSTERED_GRADIENTS
    ]


def _special() -> list[Case]:
    """Return cases whose values, layouts and sizes are not as usual."""
    forward = [
        Case(Problem("rmsnorm", 8, 1023), variant, data)
        for variant in (*FORWARD, "peeled", "cluster")
        for data in DATA
    ]
    backward = [
        Case(Problem("rmsnorm-backward", 8, 760, "float32"), variant, data)
        for variant in (*BACKWARD, "cluster")
        for data in DATA
    ]
    layouts = [
        Case(Problem(operation, 7, 1128), variant, layout=layout)
        for operation, variant in (
            *(("rmsnorm", v) for v in (*FORWARD, None)),
            ("rmsnorm-residual", None),
            *(("rmsnorm-backward", v) for v in BACKWARD),
        )
        for layout in ("padded-rows", "misaligned")
    ]
    layouts.append(Case(Problem("rmsnorm", 7, 1128), "tma", layout="padded-rows"))
    layouts.append(Case(Problem("rmsnorm", 7, 4097, row_stride=4105), "peeled"))
    empty = [
        Case(Problem(operation, rows, columns))
        for operation in ("rmsnorm", "rmsnorm-residual", "rmsnorm-backward")
        for rows, columns in ((0, 1024), (7, 0))
    ]
    short = [Case(Problem("rmsnorm", 7, columns)) for columns in (1, 2, 17)]
    return [*forward, *backward, *layouts, *empty, *short]


CASES: tuple[Case, ...] = (*_forward(), *_residual(), *_backward(), *_special())

BENCHMARKS: tuple[Problem, ...] = (
    *(Problem("rmsnorm", 32768, 512 << i) for i in range(6)),
    Problem("rmsnorm", 16384, 32768),
    Problem("rmsnorm", 8192, 65536),
    Problem("rmsnorm", 4096, 131072),
    Problem("rmsnorm", 2048, 262144),
    Problem("rmsnorm", 32768, 50257),
    Problem("rmsnorm-residual", 32768, 2048),
    Problem("rmsnorm-residual", 32768, 8192),
    *(Problem("rmsnorm-backward", 32768, 1024 << i) for i in range(4)),
    Problem("rmsnorm-backward", 16384, 14336),
    Problem("rmsnorm-backward", 131072, 1283),
    Problem("rmsnorm-backward", 4096, 50257),
    Problem("rmsnorm-backward", 1024, 128256),
    Problem("rmsnorm-backward", 16, 7168),
)
