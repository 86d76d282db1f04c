"""``perfcli kernels probe``: what is swept, where the cliff is, with made-up workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FEW = ("-p", "reads=3,5", "-p", "warps=2,4", "-p", "block=4", "-p", "stages=1")


def test_launches_are_a_table_and_torchs_own_has_bars(perfcli: Any) -> None:
    result = perfcli("kernels", "probe", "mix-order", *FEW, "-p", "dtype=bf16")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "mix-order reduction of 98304 × 512 on h100 (sm_90)"
    rows = [line.split() for line in lines if line.startswith("bfloat16  ")]
    assert rows == [
        ["bfloat16", "2", "4", "1", "32", "32"],
        ["bfloat16", "4", "4", "1", "32", "32"],
    ]
    own = lines.index("bfloat16 · 2 warps, 4 rows at a time, 1 stage (torch 2.11's launch)")
    # 32 of 255 registers in 32 cells: four of them
    assert [line.split() for line in lines[own + 1 : own + 3]] == [
        ["3", "reads", "████", "32"],
        ["5", "reads", "████", "32"],
    ]
    assert lines[-1] == "bfloat16, any launch: no cliff up to 5 reads"


def test_the_cliff_is_said_in_words(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1;spill=mix_order_5")
    result = perfcli("kernels", "probe", "mix-order", *FEW, "-p", "dtype=float32", "--quiet")
    assert result.out == (
        "float32, 2 warps, 4 rows at a time, 1 stage: from 5 reads on it spills "
        "(6 words at 32 registers)\n"
        "float32, 4 warps, 4 rows at a time, 1 stage: from 5 reads on it spills "
        "(6 words at 32 registers)\n"
    )
    result = perfcli("kernels", "probe", "mix-order", *FEW)
    assert "5 reads  ████                               32 + 6 spilled  ◂ cliff" in result.out


def test_a_launch_that_does_not_compile_is_said(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1;refuses=mix_order_5")
    result = perfcli("kernels", "probe", "mix-order", *FEW)
    assert "refused" in result.out
    assert "ValueError: planted" in result.out


def test_times_are_per_byte_and_in_the_document(perfcli: Any, tmp_path: Path) -> None:
    chart = tmp_path / "probe.svg"
    argv = ("--device", "cuda", "--json", "-", "--svg", str(chart), "-p", "rows=1024")
    result = perfcli("kernels", "probe", "mix-order", *FEW, *argv, "-p", "dtype=bf16")
    document = json.loads(result.out)
    assert document["problem"]["rows"] == 1024
    # Of a worker that is made up: 1.03 times a copy of (reads + 1) × 1024 × 512 × 2 B at 4 TB/s.
    for launch in document["launches"]:
        full = (launch["reads"] + 1) * 1024 * 512 * 2
        assert launch["full_bytes"] == full
        assert launch["seconds"] == pytest.approx(1.03 * full / 4e12, rel=0.02)
    assert {cliff["slow_from"] for cliff in document["cliffs"]} == {None}
    drawn = chart.read_text()
    assert drawn.count("<polyline") == 4  # two launches, registers and times
    assert "nanoseconds per 1,000 bytes" in drawn


def test_without_a_gpu_nothing_is_timed(perfcli: Any) -> None:
    result = perfcli("kernels", "probe", "mix-order", *FEW, "--target", "mi300x", "--json", "-")
    launches = json.loads(result.out)["launches"]
    assert {launch["seconds"] for launch in launches} == {None}
    # 4 × 512 × 64 vector registers of a compute unit over 2 × 64 threads: more than can be named
    assert {launch["most_registers"] for launch in launches} == {512}


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["column-sum"], "column-sum is no probe: perfcli kernels probe mix-order"),
        (["mix-order", "-p", "warp=2"], "the probe has no parameter 'warp': did you mean warps?"),
        (["mix-order", "-p", "warps=3"], "parameter warps needs a power of 2, not 3"),
        (["mix-order", "-p", "reads=x"], "parameter reads needs a whole number from 1 on"),
        (["mix-order", "-p", "reads=1"], "expected 2 to 32 reads, found 1"),
        (["mix-order", "-p", "dtype=int8"], "expected a dtype of bfloat16"),
        (["mix-order", "-p", "rows=1,2"], "the probe takes one number of rows, not 1,2"),
        (["mix-order", "--case", "nan"], "--case says nothing to probe"),
        (["mix-order", "--target", "h100", "--target", "a100"], "one --target at a time"),
        (["mix-order", "--target", "h100", "--device", "cuda"], "leave out --target"),
    ],
)
def test_what_cannot_be_is_refused(perfcli: Any, argv: list[str], complaint: str) -> None:
    result = perfcli("kernels", "probe", *argv)
    assert result.code == 2
    assert complaint in result.complaint
