from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import run
from handmade_reductions import ONLINE, matrix, reduction, source

from perfcli.model import Finding, KernelFacts, Origin
from perfcli.rules.read_again import RULE

ROWS = 8192


def kernel(columns: int, sweeps: int = 2, **more: Any) -> KernelFacts:
    """Reads a matrix so many times and writes it once."""
    whole = matrix(ROWS, columns)
    given: dict[str, Any] = {
        "facts": source(sweeps),
        "read": whole.bytes,
        "written": whole.bytes,
        "bytes_swept": (sweeps + 1) * whole.bytes,
        **more,
    }
    sizes = {"x": ROWS, "r0_": columns}
    return reduction("triton_red_fused_rms_norm_0", (whole,), sizes, **given)


def found(kernel: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(run([kernel], **more)))


def test_rows_that_l2_cannot_hold() -> None:
    (finding,) = found(kernel(65536))
    assert finding.severity == "warning"
    assert finding.headline == (
        "triton_red_fused_rms_norm_0 reads its input 2 times: 3.22 GB where 2.15 GB would do"
    )
    assert finding.evidence == (
        "in_ptr0 (1.07 GB) is swept 2 times",
        "read once, the kernel would move 33.3 % less, 321 µs of memory traffic",
        "69.2 MB of it are in use at once, more than the L2 cache's 52.4 MB",
    )
    assert finding.amount == ROWS * 65536 * 2
    assert finding.cures == ()


def test_the_launch_configuration_that_needs_least_counts() -> None:
    wide = kernel(65536)
    fewer = replace(wide.candidates[0], blocks_per_sm=2)
    (finding,) = found(replace(wide, candidates=(*wide.candidates, fewer)))
    assert finding.severity == "info"
    assert "34.6 MB of it are in use at once, much of the L2 cache's 52.4 MB" in (finding.evidence)


def test_rows_that_l2_holds_are_fine() -> None:
    assert found(kernel(8192)) == []


@pytest.mark.parametrize("setting", [True, False])
def test_online_softmax_that_is_off_is_the_cause(setting: bool) -> None:
    settings = {"online_softmax": setting}
    (finding,) = found(kernel(65536, 3, origins=(ONLINE,)), settings=settings)
    assert finding.severity == ("warning" if setting else "error")
    options = [dict(cure.options) for cure in finding.cures]
    assert options == ([] if setting else [{"online_softmax": True}])


def test_a_softmaxs_backward_takes_no_maximum() -> None:
    backward = Origin("sum_1", "aten._softmax_backward_data.default")
    (finding,) = found(kernel(65536, 2, origins=(backward,)), settings={"online_softmax": False})
    assert (finding.severity, finding.cures) == ("warning", ())


@pytest.mark.parametrize(
    "harmless",
    [
        kernel(65536, 1),
        kernel(65536, bytes_swept=None),
        kernel(65536, bytes_swept=2 * ROWS * 65536 * 2 + 1000),
        kernel(65536, blocks=None),
        replace(kernel(65536), candidates=()),
    ],
    ids=["read once", "sweeps not known", "a few bytes", "occupancy not known", "no binary"],
)
def test_what_is_fine_or_not_known(harmless: KernelFacts) -> None:
    assert found(harmless) == []


def test_without_a_target_there_is_no_cache_to_compare_with() -> None:
    assert found(kernel(65536), target=None) == []
