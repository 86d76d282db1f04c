"""Implementations chosen by estimate where Inductor would time them."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console
from warm import WarmProcess

from perfcli.compile.session import Session
from perfcli.compile.stand_in.choices import _as_timed
from perfcli.machine import targets
from perfcli.model import (
    CompileRequest,
    Implementation,
    OptionValue,
    Run,
    Selection,
    SelectionUse,
    TimeEstimate,
    Variant,
)
from perfcli.predict.step import estimate_run
from perfcli.worker.roles import PHASES

PROGRAM = """
import torch


def build():
    weight = torch.randn(3072, 768, device="cuda", dtype=torch.bfloat16)
    inputs = torch.randn(2048, 3072, device="cuda", dtype=torch.bfloat16)
    return (lambda x: torch.relu(x @ weight) + 1), (inputs,)
"""
FEW = "BLOCK_K=64, BLOCK_M=(64|128), BLOCK_N=(64|128).*num_warps=8|BLOCK_K=16, BLOCK_M=64"
"""Three of the templates of a product: each takes seconds to compile."""
MEASURED = Path(__file__).parents[2] / "fixtures" / "h200_templates.json"
"""What an H200 took for all of them."""
SETTINGS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps")


@pytest.fixture(scope="module")
def tuned(
    cache_of_the_run: Path, warm_process: WarmProcess, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    file = tmp_path_factory.mktemp("choices") / "product.py"
    file.write_text(PROGRAM)
    options: dict[str, OptionValue] = {
        "max_autotune": True,
        "test_configs.autotune_choice_desc_regex": FEW,
        "triton.cudagraphs": True,
    }
    return warm_process.compile(
        CompileRequest(
            scenario=f"{file}:build",
            params={},
            preset=None,
            variant=Variant("", options),
            device="cuda",
            target=targets.get("h200"),
            jobs=2,
            cache_dir=str(cache_of_the_run),
        )
    ).run


@pytest.mark.torch
def test_templates_are_compiled_estimated_and_fused(tuned: Run) -> None:
    (selection,) = tuned.selections
    assert selection.operator == "mm"
    assert selection.operands == ("bfloat16 [2048, 3072]", "bfloat16 [3072, 768]")
    templates = [each for each in selection.implementations if each.kind == "template"]
    assert len(templates) == 3
    for each in templates:
        assert each.candidate
        assert each.candidate.registers
        assert each.candidate.shared_bytes
        assert each.estimate
    (use,) = selection.uses
    (kernel,) = tuned.kernels
    assert (use.graph, use.kernel) == (kernel.graph, kernel.name)
    assert kernel.kind == "template"
    assert "relu" in kernel.name
    assert any("taken as estimated" in note for note in tuned.notes)


@pytest.mark.torch
def test_the_order_is_that_of_a_device(tuned: Run) -> None:
    """22.1, 27.4 and 112.7 µs; the first is chosen."""
    (selection,) = tuned.selections
    rows = json.loads(MEASURED.read_text())["templates"]
    measured = {tuple(row[name] for name in SETTINGS): row["micros"] for row in rows}
    found = [
        (measured[tuple(each.config[name] for name in SETTINGS)], each.seconds)
        for each in selection.implementations
    ]
    assert sorted(micros for micros, _ in found) == [22.1, 27.4, 112.7]
    assert sorted(found) == sorted(found, key=lambda each: each[1] or 0.0)
    (use,) = selection.uses
    assert found[use.chosen][0] == 22.1


@pytest.mark.torch
def test_compiling_what_is_chosen_from_is_counted(tuned: Run) -> None:
    assert tuned.compile_work
    assert tuned.compile_work.choosing_seconds > 0


def test_compiling_what_is_chosen_from_is_a_phase_of_its_own() -> None:
    heard: list[tuple[str, int, int | None]] = []
    request = CompileRequest(
        "softmax", {}, None, Variant(""), device="cpu", target=None, jobs=1, cache_dir=""
    )
    session = Session(request, lambda *event: heard.append(event))
    for done, seconds in enumerate((0.0, 1.5, 2.0)):
        session.hear_of_choices(done, 2, seconds)
    assert heard == [("choices", 0, 2), ("choices", 1, 2), ("trace", 0, None)]
    assert session.choosing_seconds == 3.5
    assert PHASES["choices"] == "compiling implementations to choose from"


@pytest.mark.torch
def test_the_kernel_has_the_estimate_that_it_was_chosen_by(tuned: Run) -> None:
    (use,) = tuned.selections[0].uses
    (kernel,) = estimate_run(tuned).kernels
    assert kernel.estimate
    assert use.estimate
    assert kernel.estimate.seconds == use.estimate.seconds


@pytest.mark.torch
def test_recording_it_copies_its_inputs(tuned: Run) -> None:
    """The weight is a closed-over tensor, which moves like any input: 4.5 MiB, beside 12 MiB. The
    result is 3 MiB, and nothing else is live."""
    (graph,) = tuned.recorded_graphs
    assert graph.parts == 1
    assert (graph.copied + graph.static) == 2
    assert graph.copied_bytes + graph.static_bytes == 2048 * 3072 * 2 + 3072 * 768 * 2
    assert graph.output_bytes == 2048 * 768 * 2
    assert graph.kept_bytes == graph.copied_bytes + graph.output_bytes


def named(seconds: float, host: float = 0.0) -> Implementation:
    estimate = TimeEstimate(seconds, seconds / 1.5, seconds * 1.5)
    return Implementation("mm", "operator", estimate=estimate, host_seconds=host)


def test_the_device_decides_where_the_host_is_timed() -> None:
    """Inductor takes the first of those that are timed alike: the slowest of three here."""
    micros = {10.8: 11.6, 7.1: 11.6, 9.0: 11.6, 2.26: 20.3}
    timed = {t: _as_timed(named(t * 1e-6).estimate, h * 1e-6) for t, h in micros.items()}  # type: ignore[arg-type]
    assert min(timed, key=timed.__getitem__) == 7.1
    assert timed[2.26] == pytest.approx(20.3e-3, rel=1e-5)


def test_how_many_are_as_good() -> None:
    """10 µs may be 15: 22 µs may be 14.7, 23 µs no less than 15.3."""
    each = (named(10e-6), named(22e-6), named(23e-6), Implementation("other", "graph"))
    assert Selection("mm", (), each).within == 2
    # The host takes 20 µs for the first: it is timed as that, and the second is expected to win.
    assert Selection("mm", (), (named(10e-6, host=20e-6), named(12e-6))).within == 1
    # Both are timed as 20 µs: the shorter one is expected to win, by 15 µs at most.
    tied = (named(16e-6, host=20e-6), named(10e-6, host=20e-6), named(31e-6))
    assert Selection("mm", (), tied).within == 2


def test_implementations_are_listed_by_the_time_that_is_shown() -> None:
    """9 µs of the device win, though an operator takes it 2: the host takes 20 for that."""
    each = (named(10e-6, host=11e-6), named(9e-6, host=11e-6), named(2e-6, host=20e-6))
    selection = Selection("mm", (), each, (SelectionUse("forward 0", 1, "triton_mm"),))
    draw = import_module("perfcli.reports._screen.selections")._draw_selection
    console = Console(width=120)
    with console.capture() as shown:
        for part in draw(selection, "triton_mm"):
            console.print(part)
    lines = shown.get().splitlines()
    times = [line.split("mm")[1].split("(")[0].strip() for line in lines if " µs (" in line]
    assert times == ["2 µs", "9 µs", "10 µs"]
    assert [line.startswith("▸") for line in lines if " µs (" in line] == [False, True, False]
    assert any("counted at least: operator 20 µs" in line for line in lines)
