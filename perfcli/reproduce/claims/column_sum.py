"""Claims about outer reductions over several inputs: what fits into shared memory.

nvFuser's rules are those of ``reduction_outer_tma`` in PR #6036 at 2f60a736: tiles of 128 × 128 are
halved, rows first, until all inputs fit beside what is reserved. The reduction's workspace comes on
top of them when the kernel is launched.
"""

from __future__ import annotations

from perfcli.model import Problem, Target
from perfcli.reproduce.claim import Claim, Launches, Source
from perfcli.reproduce.condition import Facts

_SOURCE = Source("NVIDIA/Fuser #6036", "https://github.com/NVIDIA/Fuser/pull/6036", seed=3)
_ROWS, _COLUMNS = 16, 32
"""Threads of a block along both axes, and the smallest tile."""
_LARGEST = 128
_ACCUMULATOR_BYTES = 4
_MOST_GROUPED = 4
_BARRIER_BYTES = 128


def size_tiles(inputs: int, item_bytes: int, limit: int) -> tuple[int, int]:
    """Return rows and columns of nvFuser's tile."""
    each = (limit - _reserve(item_bytes)) // max(inputs, 1)
    rows, columns = _LARGEST, _LARGEST
    while rows * columns * item_bytes > each and rows > _ROWS:
        rows //= 2
    while rows * columns * item_bytes > each and columns > _COLUMNS:
        columns //= 2
    return rows, columns


def _reserve(item_bytes: int) -> int:
    """Return the bytes that nvFuser leaves to what is no input: a value per thread, in units of
    128 bytes, and 128 for barriers."""
    return -(-_ROWS * _COLUMNS * item_bytes // 128) * 128 + _BARRIER_BYTES


def need_shared_bytes(inputs: int, item_bytes: int, limit: int) -> int:
    """Return what nvFuser's kernel takes when it is launched: the tiles, and for each thread an
    accumulator of each element that is reduced in one go."""
    rows, columns = size_tiles(inputs, item_bytes, limit)
    grouped = min(columns // _COLUMNS, _MOST_GROUPED)
    workspace = _ACCUMULATOR_BYTES * grouped * _ROWS * _COLUMNS
    return inputs * rows * columns * item_bytes + workspace


def _nvfuser(problem: Problem, target: Target) -> Facts:
    inputs = int(str(problem.settings["inputs"]))
    item = 4 if problem.dtype == "float32" else 2
    limit = target.shared_bytes_per_block_optin
    _, columns = size_tiles(inputs, item, limit)
    return {
        "needed_bytes": float(need_shared_bytes(inputs, item, limit)),
        "limit_bytes": float(limit),
        "vector": float(columns // _COLUMNS),
    }


def _problem(rows: int, columns: int, inputs: int, dtype: str = "float32") -> Problem:
    return Problem("column-sum", rows, columns, dtype, settings={"inputs": inputs})


_SIZES = (256, 4096, 65536)
_CASES = (
    *(_problem(rows, columns, 1) for rows in _SIZES for columns in _SIZES),
    *(_problem(4096, 1024, n, dtype) for dtype in ("float32", "float16") for n in (2, 3, 5)),
)
"""The list of its test."""


def _budget(inputs: int) -> Claim:
    problems = tuple(_problem(4096, 1024, inputs, dtype) for dtype in ("float32", "float16"))
    return Claim(
        name=f"outer-{inputs}-inputs",
        says=f"the tiles of {inputs} inputs leave no room for the reduction's workspace, and the "
        "launch fails, in float or in half",
        source=_SOURCE,
        holds="nvFuser, PR head 2f60a736",
        shown_by=Launches("column-sum", "tma", problems, _nvfuser),
        symptom="side.fitting < side.cases",
        expects=("good.fitting == good.cases", "good.spilled_words == 0"),
        shows=("bad.needed_bytes", "bad.limit_bytes", "good.needed_bytes"),
    )


CLAIMS = (
    Claim(
        name="outer-cases",
        says="column sums of 1, 2, 3 and 5 inputs can be tiled by TMA: the 15 cases of the test",
        source=_SOURCE,
        holds="nvFuser, PR head 2f60a736",
        shown_by=Launches("column-sum", "tma", _CASES, _nvfuser),
        expects=(
            "bad.fitting == bad.cases",
            "good.fitting == good.cases",
            "good.spilled_words == 0",
        ),
    ),
    *(_budget(inputs) for inputs in (7, 14, 28, 56, 112)),
    Claim(
        name="outer-vector-of-1",
        says="with so many inputs that the tile shrinks to 16 × 32 each thread's vector has one "
        "element, which can't be vectorised (2f60a736 leaves it unvectorised)",
        source=_SOURCE,
        holds="nvFuser, PR as it was reviewed",
        shown_by=Launches("column-sum", "tma", (_problem(4096, 1024, 112),), _nvfuser),
        symptom="side.vector == 1",
        expects=("good.vector * 4 >= 16",),
    ),
)
