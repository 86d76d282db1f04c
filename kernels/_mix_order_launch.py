"""The launches of a mix-order reduction. Pure."""

from __future__ import annotations

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target

from ._column_sum_launch import TRITON_TYPE, finish_launch
from ._column_sum_plan import equal_splits
from ._mix_order_plan import Setting, next_power_of_2, read_count
from ._mix_order_source import reads_of


def fused_plan(
    problem: Problem, target: Target, setting: Setting, variant: str, why: str
) -> LaunchPlan:
    """One block per ``rows_per_block`` rows, then the sum of the blocks' weight gradients."""
    reads = reads_of(read_count(problem))
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
        function=f"mix_order_{read_count(problem)}",
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
