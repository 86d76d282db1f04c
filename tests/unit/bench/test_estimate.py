"""The program behind the accuracy tables, on times that are made of the estimates."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from estimate import (
    MODELS,
    Timed,
    Variant,
    find_candidate,
    join,
    list_architectures,
    report,
    spread,
)
from handmade_estimate import weighed_kernel, weighed_run

from perfcli.machine import targets
from perfcli.predict.step import estimate_step


def variant(model: str, option: str, factor: float = 1.0, blocks: int = 4096) -> Variant:
    """Two kernels, of which the second takes so many times its estimate."""
    kernels = (
        weighed_kernel("triton_a_0", "mul"),
        weighed_kernel("triton_b_0", "sum", blocks=blocks, text=f"{option}{blocks}"),
    )
    run = replace(weighed_run(*kernels), target=targets.get("h200"))
    step = estimate_step(run)
    assert step is not None
    micros = [e.seconds * 1e6 for e in step.kernels if e is not None]
    timed = [
        Timed(k.name, k.graph, True, t, 1, (b, 1, 1), (128, 1, 1), 32)
        for k, t, b in zip(kernels, (micros[0], micros[1] * factor), (4096, blocks), strict=True)
    ]
    return Variant(model, option, run, tuple(timed))


def test_a_kernel_is_joined_with_the_configuration_that_ran() -> None:
    made = variant("one", "default")
    joined = join(made)
    assert sorted(joined) == [0, 1]
    kernel = made.run.kernels[0]
    assert find_candidate(kernel, joined[0]) == kernel.candidates[0]
    for other in ({"grid": (4095, 1, 1)}, {"block": (256, 1, 1)}, {"registers": 48}):
        assert find_candidate(kernel, replace(joined[0], **other)) is None


def test_registers_are_allotted_by_eight() -> None:
    made = variant("one", "default")
    kernel = made.run.kernels[0]
    candidate = replace(kernel.candidates[0], registers=27)
    seen = replace(made.timed[0], registers=32)
    assert find_candidate(replace(kernel, candidates=(candidate,)), seen) == candidate


def test_the_report_has_the_errors_that_were_planted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = [
        variant("one", "default", 1.25),
        variant("one", "slow", 1.25, blocks=40960),
        variant("two", "default", 1.25),
    ]
    path = tmp_path / "measured.json.xz"
    path.write_bytes(lzma.compress(msgspec.json.encode(variants)))
    report([path], None)
    out = capsys.readouterr().out
    # Half of the kernels take 1.25 times their estimate: estimated 20 % too little.
    assert "| all | 6 | 10.0 / 20 |" in out
    assert "1 pairs of options; speaks 1, sign right 1" in out
    assert "real changes ≥ 20%: it says so in 1 of 1" in out


def test_architectures_are_read_without_running_their_file() -> None:
    assert "convnext" in list_architectures(MODELS)


def test_the_spread_of_no_errors_is_a_dash() -> None:
    assert spread([]) == "–"
    assert spread([0.1, -0.3]) == "20.0 / 30"
