"""Plans how a mix-order kernel is launched: by Inductor's own rule, by ours, or as a probe asks.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Scalar, Target

from .._elements import ITEM_BYTES, TRITON_TYPE, VECTOR_BYTES, next_power_of_2
from ..column_sum.plan import (
    equal_splits,
    finish_launch,
    last_power_of_2,
)
from .source import _reads_of

MOST_COLUMNS = 16384


@dataclass(frozen=True, slots=True)
class _Setting:
    """Describes one launch configuration of the loop: ``block`` rows at a time, ``rows_per_block``
    in all."""

    num_warps: int
    block: int
    num_stages: int
    rows_per_block: int


def _inductor_setting(rows: int, columns: int, target: Target) -> _Setting:
    """Return what torch 2.11 chooses: by ``MixOrderReduction`` (scheduler.py) for the rows per
    block, and by ``heuristics/triton_codegen/reduction.py`` for the rest."""
    per_block = min(max(last_power_of_2(rows // (8 * target.sm_count)), 16), 128)
    block = min(max(per_block // 32, 4 if columns <= 512 else 1), 16)
    warps = min(max(columns // 128, 1), 8)
    if columns <= 1024:
        warps = max(warps // 2, 1)
    return _Setting(last_power_of_2(warps), block, 1, per_block)


def _spill_free_setting(
    rows: int, columns: int, reads: int, dtype: str, target: Target
) -> _Setting:
    """Return as many warps as a row has vectors of 16 bytes for, up to 8: then a thread holds the
    same columns of every row, and the outer sum needs no exchange between warps (with twice as many
    the kernel took 1.8 times as long: 98304 × 512 bfloat16, 5 reads, H200, triton 3.6.0). Fewer
    rows at a time, and only then more warps, until everything fits in registers."""
    setting = _inductor_setting(rows, columns, target)
    vectors = next_power_of_2(columns) * ITEM_BYTES[dtype] // VECTOR_BYTES
    setting = replace(setting, num_warps=min(max(vectors // target.warp_size, 1), 8))
    most_warps = target.max_threads_per_block // target.warp_size
    while not _fits_in_registers(setting, columns, reads, target):
        if setting.block > 1:
            setting = replace(setting, block=setting.block // 2)
        elif setting.num_warps < most_warps:
            setting = replace(setting, num_warps=setting.num_warps * 2)
        else:
            break
    return setting


def _fits_in_registers(setting: _Setting, columns: int, reads: int, target: Target) -> bool:
    """Return whether what a thread holds is likely to fit: for each of its columns every read of
    ``block`` rows, a weight and an accumulator of each norm. Compiled for sm_90 by triton 3.6 and
    3.7 nothing is spilled up to 192 such values of 256 registers, and 80 of 128: the line through
    both."""
    threads = setting.num_warps * target.warp_size
    norms = len(_reads_of(reads).norms)
    values = next_power_of_2(columns) * (setting.block * reads + 2 * norms) // threads
    registers = min(256, target.registers_per_sm // threads)
    return values <= registers * 7 // 8 - 32


def _asked_for(setting: _Setting, settings: Mapping[str, Scalar]) -> _Setting:
    """Return ``setting`` with what a probe fixes: ``warps``, ``block``, ``stages``,
    ``rows_per_block``."""
    names = {"warps": "num_warps", "block": "block", "stages": "num_stages"}
    names["rows_per_block"] = "rows_per_block"
    given = {names[key]: int(str(settings[key])) for key in names if key in settings}
    return replace(setting, **given)


def _read_count(problem: Problem) -> int:
    return int(problem.settings.get("reads", 3) or 0)


def _fused_plan(
    problem: Problem, target: Target, setting: _Setting, variant: str, why: str
) -> LaunchPlan:
    """Plan one block per ``rows_per_block`` rows, then the sum of the blocks' weight gradients."""
    reads = _reads_of(_read_count(problem))
    norms = range(len(reads.norms))
    item = TRITON_TYPE[problem.dtype]
    wanted_blocks = -(-problem.rows // setting.rows_per_block)
    splits = equal_splits(problem.rows, wanted_blocks, setting.block)
    sizes = {
        "rows": problem.rows,
        "columns": problem.columns,
        "rows_per_block": splits.rows,
    }
    pointers = (
        {f"{name}_ptr": f"*{item}" for name in reads.names}
        | {f"weight{s}": "*fp32" for s in norms}
        | {f"rstd{s}": "*fp32" for s in norms}
        | {"dx": f"*{item}", "partial": "*fp32"}
    )
    fused = KernelLaunch(
        function=f"mix_order_{_read_count(problem)}",
        grid=(splits.count, 1, 1),
        arguments=pointers | dict.fromkeys(sizes, "i32"),
        constants={
            "COLUMNS": next_power_of_2(problem.columns),
            "BLOCK": setting.block,
            "STAGES": setting.num_stages,
        },
        num_warps=setting.num_warps,
        divisible_by_16=(*pointers, *(n for n, value in sizes.items() if value % 16 == 0)),
    )
    sums = len(norms) * problem.columns
    finish = finish_launch(splits.count, sums, "float32", target)
    return LaunchPlan(variant, (fused, finish), why, workspace_bytes=splits.count * sums * 4)
