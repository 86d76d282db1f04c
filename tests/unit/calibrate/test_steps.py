"""Kernels of steps: joined to what they ask for, kept, and left out where they fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_estimate import weighed_kernel, weighed_run

from perfcli.calibrate import steps
from perfcli.console.notes import Notes
from perfcli.errors import CompileFailed, OutOfMemory, PerfcliError
from perfcli.machine import targets
from perfcli.machine.environment import Interpreter
from perfcli.model import CompileRequest, KernelFacts, Launch, MeasuredLaunch, Variant
from perfcli.predict.reuse import find_cold_shares
from perfcli.workflow.fingerprint import Job

H200 = targets.get("h200")
CACHE = 36e6


def two_configurations(name: str = "triton_a_0", text: str = "a") -> KernelFacts:
    made = weighed_kernel(name, "mul", text=text)
    (only,) = made.candidates
    wide = replace(only, config={"XBLOCK": 512}, num_warps=8)
    return replace(made, candidates=(replace(only, config={"XBLOCK": 128}), wide))


def launched(kernel: KernelFacts, config: str) -> MeasuredLaunch:
    return MeasuredLaunch(kernel.name, kernel.graph, source_hash=kernel.source_hash, config=config)


def test_a_launch_is_joined_by_its_source_and_configuration() -> None:
    kernel, other = two_configurations(), two_configurations("triton_b_1", "b")
    warps = kernel.candidates[0].num_warps
    ran = launched(other, "XBLOCK=512 num_warps=8 num_stages=1")
    assert steps._find_configuration([kernel, other], ran) == (1, 1)
    first = launched(other, f"XBLOCK=128 num_warps={warps} num_stages=1")
    assert steps._find_configuration([kernel, other], first) == (1, 0)
    for unknown in ("XBLOCK=512 num_warps=4 num_stages=1", "", "XBLOCK=1024 num_warps=8"):
        assert steps._find_configuration([kernel, other], launched(other, unknown)) is None
    foreign = replace(ran, source_hash="0" * 64)
    assert steps._find_configuration([kernel, other], foreign) is None


def test_of_kernels_with_one_source_the_one_of_the_same_name_is_taken() -> None:
    kernel = two_configurations()
    again = replace(kernel, graph="backward 1")
    ran = replace(launched(again, "XBLOCK=512 num_warps=8 num_stages=1"))
    assert steps._find_configuration([kernel, again], ran) == (1, 1)


def test_what_can_not_be_counted_is_not_joined() -> None:
    kernel = two_configurations()
    unknown = replace(kernel, candidates=tuple(replace(c, work=None) for c in kernel.candidates))
    ran = launched(kernel, "XBLOCK=512 num_warps=8 num_stages=1")
    assert steps._find_configuration([unknown], ran) is None


def test_launches_of_one_kernel_have_their_average_and_others_are_counted() -> None:
    kernel, other = two_configurations(), two_configurations("triton_b_1", "b")
    run = weighed_run(
        kernel, other, launches=tuple(Launch(k.graph, k.name) for k in (kernel, other, kernel))
    )
    told = "XBLOCK=512 num_warps=8 num_stages=1"
    seen = [
        launched(kernel, told), launched(other, told), launched(kernel, told),
        MeasuredLaunch("aten::mm sgemm", generated=False), launched(other, "XBLOCK=7"),
    ]  # fmt: skip
    kernels, left_out = steps._join_kernels(run, seen, [1e-5, 4e-5, 3e-5, 9e-5, 8e-5], CACHE)
    assert left_out == 1
    assert [each.name for each in kernels] == ["triton_a_0", "triton_b_1"]
    assert [each.seconds for each in kernels] == pytest.approx([2e-5, 4e-5])
    assert [each.candidate.config for each in kernels] == [{"XBLOCK": 512}] * 2
    assert [each.cold for each in kernels] == list(find_cold_shares(run, CACHE))


# --- what is kept ------------------------------------------------------------------------------


def make_job(name: str) -> Job:
    request = CompileRequest(name, {}, None, Variant("default"), "cuda", H200, False, 2, "/tmp")
    python = Interpreter("/x", "3.12.3", "2.11.0", Path("/t"), "3.6.0", None, None, "0" * 64)
    return Job(request, f"fingerprint of {name}", python)


def timed(job: Job, sources: dict[str, str] | None = None) -> steps._TimedStep:
    return steps._TimedStep(job.request.scenario, job.fingerprint, sources or {}, (), 0)


class Batches:
    """Stands in for what times scenarios together; some fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[list[str]] = []
        self.failures: dict[str, PerfcliError] = {}
        self.crowded: set[str] = set()
        self.sources: dict[str, str] = {}
        monkeypatch.setattr(steps, "_time_batch", self.time)

    def time(
        self, jobs: Sequence[Job], cache_bytes: float
    ) -> list[steps._TimedStep | PerfcliError]:
        names = [job.request.scenario for job in jobs]
        self.asked.append(names)
        return [
            OutOfMemory("full")
            if name in self.crowded and len(jobs) > 1
            else self.failures.get(name) or timed(job, self.sources)
            for name, job in zip(names, jobs, strict=True)
        ]


JOBS = [make_job(name) for name in ("softmax", "layernorm", "rmsnorm")]


def time_all(path: Path) -> list[str]:
    found = steps._time_steps(JOBS, path, CACHE, Notes(quiet=True), lambda done, total: None)
    return [each.scenario for each in found]


def test_what_is_finished_is_not_timed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, path = Batches(monkeypatch), tmp_path / "steps.jsonl"
    batches.failures["layernorm"] = CompileFailed("Triton refuses it")
    assert time_all(path) == ["softmax", "rmsnorm"]
    batches.failures.clear()
    assert time_all(path) == ["softmax", "layernorm", "rmsnorm"]
    assert batches.asked == [["softmax", "layernorm", "rmsnorm"], ["layernorm"]]


def test_a_model_whose_file_was_edited_is_timed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, path = Batches(monkeypatch), tmp_path / "steps.jsonl"
    batches.sources = {str(tmp_path / "model.py"): "0" * 64}
    time_all(path)
    time_all(path)
    assert len(batches.asked) == 2


def test_what_fails_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = Batches(monkeypatch)
    batches.failures["layernorm"] = CompileFailed("Triton refuses it")
    assert time_all(tmp_path / "steps.jsonl") == ["softmax", "rmsnorm"]
    assert "warning: layernorm is left out: Triton refuses it" in capsys.readouterr().err


def test_what_does_not_fit_beside_others_is_tried_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = Batches(monkeypatch)
    batches.crowded = {"layernorm"}
    assert time_all(tmp_path / "steps.jsonl") == ["softmax", "layernorm", "rmsnorm"]
    assert batches.asked == [["softmax", "layernorm", "rmsnorm"], ["layernorm"]]
