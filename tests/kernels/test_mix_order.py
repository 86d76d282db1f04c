"""The mix-order reduction's plans and the probe's cliff, pure, and its kernels through Triton's
interpreter."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Candidate, KernelFamily, Problem

planner: Any = import_module("perfcli.kernels.mix_order.plan")
probe: Any = import_module("perfcli.kernels.mix_order.probe")
written: Any = import_module("perfcli.kernels.mix_order.source")
mix_order: Any = import_module("perfcli.kernels.mix_order").mix_order

H200 = targets.get("h200")
FAMILY = registry.load_declared("kernels", "mix-order", KernelFamily)


# torch 2.11's rules by hand; the first is the launch of pytorch #179494's trace.
@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (98304, 512, planner._Setting(2, 4, 1, 64)),
        (65536, 512, planner._Setting(2, 4, 1, 32)),
        (32768, 768, planner._Setting(2, 1, 1, 16)),
        (32768, 2048, planner._Setting(8, 1, 1, 16)),
        (1000000, 256, planner._Setting(1, 4, 1, 128)),
    ],
)
def test_inductors_launch(rows: int, columns: int, expected: Any) -> None:
    assert planner._inductor_setting(rows, columns, H200) == expected


@pytest.mark.parametrize(
    ("reads", "dtype", "warps", "block"),
    [
        (3, "bfloat16", 2, 4),
        (5, "bfloat16", 2, 4),
        (7, "bfloat16", 2, 2),
        (9, "bfloat16", 2, 2),
        (11, "bfloat16", 2, 1),
        (5, "float32", 4, 4),
        (9, "float32", 4, 4),
        (11, "float32", 4, 2),
    ],
)
def test_our_launch_holds_fewer_rows_as_reads_grow(
    reads: int, dtype: str, warps: int, block: int
) -> None:
    setting = planner._spill_free_setting(98304, 512, reads, dtype, H200)
    assert (setting.num_warps, setting.block) == (warps, block)


@pytest.mark.parametrize("count", range(2, 20))
def test_each_read_is_loaded_once(count: int) -> None:
    reads = written._reads_of(count)
    assert len(reads.names) == len(set(reads.names)) == count
    source = written._mix_order_source(count)
    assert [source.count(f"tl.load({name}_ptr") for name in reads.names] == [1] * count


def test_what_the_probe_fixes_is_launched() -> None:
    asked = {"warps": 8, "block": 2, "stages": 3, "rows_per_block": 32}
    problem = replace(mix_order(98304, 512, 7), settings={"reads": 7, **asked})
    fused, finish = FAMILY.plan(problem, H200, None).launches
    assert (fused.function, fused.num_warps, fused.grid) == ("mix_order_7", 8, (3072, 1, 1))
    assert fused.constants == {"COLUMNS": 512, "BLOCK": 2, "STAGES": 3}
    assert finish.function == "column_sum_finish"


def test_too_many_reads_are_said_to_spill() -> None:
    assert "too many not to spill" in FAMILY.plan(mix_order(32768, 16384, 9), H200, None).why


def test_bytes_are_counted_by_hand() -> None:
    problem = mix_order(1000, 64, 5)  # two norms
    assert FAMILY.moved_bytes(problem) == 6 * 1000 * 64 * 2 + 4 * 2 * (1000 + 2 * 64)


@pytest.mark.parametrize(
    ("problem", "variant", "words"),
    [
        (mix_order(64, 512, 1), None, "expected 2 to 32 reads, found 1"),
        (mix_order(64, 512, 33), None, "expected 2 to 32 reads, found 33"),
        (mix_order(64, 16385), None, "at most 16384 columns"),
        (mix_order(64, 512, dtype="int8"), None, "expected a dtype of bfloat16"),
        (replace(mix_order(64, 512), row_stride=520), None, "expected contiguous rows"),
        (mix_order(64, 512), "split", "no variant 'split'"),
    ],
)
def test_bad_requests_are_refused(problem: Problem, variant: str | None, words: str) -> None:
    with pytest.raises(PerfcliError, match=words):
        FAMILY.plan(problem, H200, variant)


def row(reads: int, words: int | None, seconds: float | None = None, warps: int = 2) -> Any:
    return probe._ProbeRow(
        reads, "float32", warps, 4, 1, 255, words, 0, 8, seconds, 1000 * (reads + 1)
    )


def test_the_cliff_is_where_it_spills_and_where_it_is_slow() -> None:
    # Seconds per byte 1, 1, 1.05, 2: the H200's shape, where spilling costs and 5 % does not.
    rows = [row(9, 110, 20.0), row(3, 0, 4.0), row(7, 4, 8.4), row(5, 0, 6.0), row(3, 0, warps=4)]
    assert probe.cliffs(rows) == (
        probe._Cliff("float32", 2, 4, 1, 5, 7, 4, 9, 2.0),
        probe._Cliff("float32", 4, 4, 1, 3, None, 0, None, None),
    )


def test_a_launch_that_always_spills_has_no_clean_reads() -> None:
    (cliff,) = probe.cliffs([row(3, 8), row(5, 16)])
    assert (cliff.most_clean_reads, cliff.spills_from, cliff.spilled_words) == (None, 3, 8)


def test_spills_of_one_number_of_reads_alone_are_no_cliff() -> None:
    (cliff,) = probe.cliffs([row(5, 0), row(7, 2), row(9, 0)])
    assert (cliff.most_clean_reads, cliff.spills_from, cliff.spilled_words) == (9, None, 0)


def test_a_thread_has_what_the_multiprocessor_leaves_it() -> None:
    problem = probe.settings(reads=(3,), warps=(16,), blocks=(1,), stages=(1,))[0]
    launch = FAMILY.plan(problem, H200, "inductor").launches[0]
    # 65,536 registers over 16 × 32 threads
    assert probe.row_of(problem, launch, Candidate({}, 16, 1), None, H200).most_registers == 128


def test_what_did_not_compile_is_not_known() -> None:
    problem = probe.settings(reads=(11,), warps=(2,), blocks=(4,), dtypes=("float32",))[0]
    launch = FAMILY.plan(problem, H200, "inductor").launches[0]
    made = probe.row_of(problem, launch, Candidate({}, 2, 1, error="refused"))
    assert (made.reads, made.launch, made.registers) == (11, ("float32", 2, 4, 1), None)
    assert (made.warps_per_sm, made.error) == (None, "refused")
    assert made.full_bytes == 12 * 98304 * 512 * 4
    assert probe.cliffs([made])[0].spills_from is None


def test_residency_is_in_warps() -> None:
    problem = probe.settings(reads=(3,), warps=(4,), blocks=(1,), dtypes=("float32",))[0]
    launch = FAMILY.plan(problem, H200, "inductor").launches[0]
    compiled = Candidate({}, 4, 1, registers=128, stack_bytes=0, shared_bytes=0, blocks_per_sm=4)
    assert probe.row_of(problem, launch, compiled, 2.0).warps_per_sm == 16


def quick(number: int) -> bool:
    """About a second each: the boundary set is for ``kernels check``."""
    problem: Problem = FAMILY.cases[number].problem
    work = problem.elements * int(str(problem.settings["reads"]))
    return work <= 1 << 17 and problem.rows < 200 and problem.dtype != "float16"


@pytest.mark.torch
def test_kernels_agree_with_float64(warm_process: WarmProcess) -> None:
    numbers = [n for n in range(len(FAMILY.cases)) if quick(n)]
    runner = Path(__file__).with_name("cases_interpreted.py")
    found = warm_process.interpret(runner, "mix-order", numbers)
    assert len(found) == len(numbers) > 5
    assert [each for each in zip(numbers, found, strict=True) if each[1][0] != "right"] == []
