"""How a mix-order kernel is launched: Inductor's own rule, ours, or what a probe asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfcli.model import Problem, Scalar, Target

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
MOST_COLUMNS = 16384
_MOST_VALUES_PER_THREAD = 128


@dataclass(frozen=True, slots=True)
class Setting:
    """One launch configuration of the loop: ``block`` rows at a time, ``rows_per_block`` in all."""

    num_warps: int
    block: int
    num_stages: int
    rows_per_block: int


def inductor_setting(rows: int, columns: int, target: Target) -> Setting:
    """What torch 2.11 chooses: ``MixOrderReduction`` (scheduler.py) for the rows per block, and
    ``heuristics/triton_codegen/reduction.py`` for the rest."""
    per_block = min(max(last_power_of_2(rows // (8 * target.sm_count)), 16), 128)
    block = min(max(per_block // 32, 4 if columns <= 512 else 1), 16)
    warps = min(max(columns // 128, 1), 8)
    if columns <= 1024:
        warps = max(warps // 2, 1)
    return Setting(last_power_of_2(warps), block, 1, per_block)


def spill_free_setting(rows: int, columns: int, reads: int, target: Target) -> Setting:
    """Inductor's, with fewer rows at a time and then more warps, until a thread holds no more than
    128 values of the loop's full-size reads and accumulators."""
    setting = inductor_setting(rows, columns, target)
    most_warps = target.max_threads_per_block // target.warp_size
    while values_per_thread(setting, columns, reads, target) > _MOST_VALUES_PER_THREAD:
        if setting.block > 1:
            setting = replace(setting, block=setting.block // 2)
        elif setting.num_warps < most_warps:
            setting = replace(setting, num_warps=setting.num_warps * 2)
        else:
            break
    return setting


def values_per_thread(setting: Setting, columns: int, reads: int, target: Target) -> int:
    """Full-size values that one thread holds at a time, if every read is loaded at once."""
    threads = setting.num_warps * target.warp_size
    return -(-setting.block * next_power_of_2(columns) * reads // threads)


def asked_for(setting: Setting, settings: Mapping[str, Scalar]) -> Setting:
    """``setting`` with what a probe fixes: ``warps``, ``block``, ``stages``, ``rows_per_block``."""
    names = {"warps": "num_warps", "block": "block", "stages": "num_stages"}
    names["rows_per_block"] = "rows_per_block"
    given = {names[key]: int(str(settings[key])) for key in names if key in settings}
    return replace(setting, **given)


def read_count(problem: Problem) -> int:
    return int(problem.settings.get("reads", 3) or 0)


def last_power_of_2(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)


def next_power_of_2(number: int) -> int:
    return 1 << (max(number, 1) - 1).bit_length()
