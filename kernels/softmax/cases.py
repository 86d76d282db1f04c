"""Lists what the softmax family is tested and timed on."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Case, Data, Problem

from .choice import BACKWARD
from .plan import OPERATIONS, VARIANT_OPERATIONS

# Boundary sizes of tiles, vectors and splits, and of other people's suites: QuACK (192 … 262144),
# PyTorch's test_online_softmax (1024 … 50304), Liger (1023), vocabularies (50257, 128256); 263 and
# 264 rows are on both sides of Inductor's split on 132 SMs. 1031 rows stand for 8192, which take
# the interpreter minutes.
SHAPES = (
    (1, 1),
    (5, 2),
    (199, 192),
    (37, 760),
    (7, 1023),
    (263, 1128),
    (1031, 100),
    (37, 4097),
    (7, 8192),
    (7, 8193),
    (13, 50257),
    (2, 50304),
    (2, 128256),
    (1, 131072),
    (1, 262157),
    (0, 64),
)
LONG = (263, 50304)
_CACHED, _TILED = 16384, 8192
DTYPES = ("bfloat16", "float16", "float32")
FORWARD = tuple(name for name in OPERATIONS if name not in BACKWARD)
_MASKS: tuple[Data, ...] = (
    "nan",
    "infinite",
    "minus-infinity-masked",
    "lowest-masked",
    "signed-zero",
    "constant",
    "large",
)


def _can(variant: str, problem: Problem) -> bool:
    """Return whether a row is not too long for the registers of one block."""
    if variant == "tiled":
        return problem.columns <= _TILED
    return variant != "cached" or problem.columns <= _CACHED


def _plain() -> Iterator[Case]:
    """Yield every variant of every operation on all shapes; the dtypes go round."""
    for operation in OPERATIONS:
        for number, (rows, columns) in enumerate(SHAPES):
            for turn, variant in enumerate(_variants(operation)):
                dtype = DTYPES[(number + turn) % 3]
                problem = Problem(operation, rows, columns, dtype)
                if _can(variant, problem):
                    yield Case(problem, variant)
        for dtype in DTYPES:
            yield Case(Problem(operation, 37, 1023, dtype))
            yield Case(Problem(operation, 2, 50257, dtype))


def _variants(operation: str) -> tuple[str, ...]:
    return tuple(name for name, can in VARIANT_OPERATIONS.items() if operation in can)


def _special() -> Iterator[Case]:
    """Yield masked rows, NaN, infinities, in every variant; forward (the gradients of −∞ are NaN or
    0 by the same formulas)."""
    for operation in FORWARD:
        for variant in _variants(operation):
            for number, data in enumerate(_MASKS):
                columns = (1128, 4097)[number % 2]
                yield Case(Problem(operation, 9, columns, DTYPES[number % 3]), variant, data)
    for operation in BACKWARD:
        yield Case(Problem(operation, 9, 1023), None, "nan")
        yield Case(Problem(operation, 9, 1023), "peeled", "signed-zero")


def _layouts() -> Iterator[Case]:
    for operation in OPERATIONS:
        for variant in _variants(operation):
            padded = Problem(operation, 7, 4097, "bfloat16", row_stride=4104)
            yield Case(padded, variant, layout="padded-rows")
            wide = Problem(operation, 7, 4096, "float32", row_stride=4112)
            yield Case(wide, variant, layout="padded-rows")
            yield Case(Problem(operation, 7, 4099, "float16"), variant, layout="misaligned")


def _empty() -> Iterator[Case]:
    for operation in ("softmax", "log-softmax-backward"):
        yield Case(Problem(operation, 3, 0))


CASES = (
    *_plain(),
    *_special(),
    *_layouts(),
    *_empty(),
    # Of more than 8 MiB, in parts of rows and with several rows to a block.
    Case(Problem("cross-entropy-backward", 4200, 1023, "bfloat16"), "tiled"),
    Case(Problem("cross-entropy-backward", 30000, 301, "bfloat16"), "tiled"),
    Case(Problem("softmax", *LONG)),
    Case(Problem("softmax-backward", *LONG)),
)

ROWS = ((512, 32768), (1024, 32768), (2048, 32768), (4096, 32768), (8192, 32768), (16384, 32768))
LONG_ROWS = ((32768, 16384), (65536, 8192), (131072, 4096), (262144, 2048), (50257, 32768))
BENCHMARKS = (
    *(Problem("softmax", rows, columns) for columns, rows in (*ROWS, *LONG_ROWS)),
    Problem("softmax", 8, 1048576, "float32"),
    Problem("softmax", 4, 1048576),
    Problem("softmax", 1, 1048589),
    Problem("softmax", 64, 131072),
    Problem("softmax", 263, 50304),
    *(Problem("softmax-backward", rows, columns) for columns, rows in ROWS[1:5]),
    Problem("log-softmax", 32768, 4096),
    Problem("log-softmax-backward", 32768, 4096),
    Problem("softmax", 65536, 5120, "float16"),
    Problem("softmax", 8192, 151936),
    Problem("softmax", 300, 201088),
    Problem("softmax-backward", 8192, 151936),
    Problem("softmax-backward", 300, 201088),
    Problem("softmax-backward", 4096, 128255, "float16"),
    Problem("cross-entropy", 32768, 4096),
    Problem("cross-entropy", 8192, 128256),
    Problem("cross-entropy", 300, 201088),
    Problem("cross-entropy-backward", 8192, 128256),
)
"""The shapes of the bars, then one or two of each other operation."""
