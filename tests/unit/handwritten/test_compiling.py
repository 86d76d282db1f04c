"""One real kernel compiled for four architectures, and launches that do not fit their kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.handwritten import compiling
from perfcli.handwritten.compiling import compile_launch
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Candidate, KernelLaunch, Problem
from perfcli.model.kernel_work import LaunchToCompile

pytestmark = pytest.mark.torch

FAMILY = str(Path(__file__).parents[2] / "fixtures" / "kernels" / "row_sum.py")


@pytest.fixture(autouse=True)
def own_triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


def asked(target: str, problem: Problem | None = None, **changes: Any) -> LaunchToCompile:
    family = registry.family(FAMILY)
    device = targets.get_for_kernels(target)
    plan = family.plan(problem or Problem("sum", 64, 2048), device, None)
    launch: KernelLaunch = replace(plan.launches[0], **changes)
    return LaunchToCompile(family.code, launch, device)


@pytest.mark.parametrize("target", ["a100", "h200", "b200", "mi300x"])
def test_a_row_of_bfloat16_is_loaded_16_bytes_at_a_time(target: str, tmp_path: Path) -> None:
    made = compile_launch(asked(target), FAMILY, tmp_path)
    assert made.error == ""
    # 2,048 elements of 2 B over 4 warps: 2 loads of 16 B a thread, 1 in a wave of 64
    assert made.global_loads == {"128": 1 if target == "mi300x" else 2}
    assert made.global_stores == {"32": 1}
    assert (made.spilled_words, made.occupancy, made.occupancy_limit) == (0, 1.0, "warps")
    # one float32 for each warp of the block
    assert made.shared_bytes == 16
    assert 0 < (made.registers or 0) < 64
    assert made.num_warps == 4


def test_without_divisibility_loads_are_as_narrow_as_an_element(tmp_path: Path) -> None:
    made = compile_launch(asked("h100", divisible_by_16=()), FAMILY, tmp_path)
    assert made.global_loads == {"16": 16}


def test_only_a_launch_that_starts_early_is_compiled_for_it(tmp_path: Path) -> None:
    alone, early = asked("h100"), asked("h100", overlaps=True)
    assert "launch_pdl" not in alone.launch.options
    assert early.launch.options["launch_pdl"] is True
    assert compile_launch(early, FAMILY, tmp_path).error == ""


def test_what_was_compiled_is_kept_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile_launch(asked("h100"), FAMILY, tmp_path)

    def never(*_: object) -> Candidate:
        raise PerfcliError("compiled again")

    monkeypatch.setattr(compiling, "_compile", never)
    assert compile_launch(asked("h100"), FAMILY, tmp_path) == first
    for other in (asked("h200"), asked("h100", num_warps=8), asked("h100", divisible_by_16=())):
        with pytest.raises(PerfcliError, match="compiled again"):
            compile_launch(other, FAMILY, tmp_path / "other")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"constants": {"BLOCK": 1000}}, "power of 2"),
        ({"constants": {}}, r"lacks \['BLOCK'\]"),
        ({"constants": {"BLOCK": 1024, "TILE": 1}}, r"besides \['TILE'\]"),
        ({"function": "nothing"}, "KeyError: 'nothing'"),
    ],
)
def test_a_launch_that_triton_refuses_says_why(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    made = compile_launch(asked("h100", **changes), FAMILY, tmp_path)
    assert re.search(reason, made.error)
    assert made.registers is None


def test_a_thread_gets_no_more_registers_than_the_launch_says(tmp_path: Path) -> None:
    wide = Problem("sum", 64, 32768)
    free = compile_launch(asked("h100", wide), FAMILY, tmp_path)
    bound = compile_launch(asked("h100", wide, maxnreg=24), FAMILY, tmp_path)
    assert (free.registers or 0) > 24
    assert bound.error == ""
    assert bound.registers == 24
