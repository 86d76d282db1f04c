from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade_estimate import weighed_kernel, work

from perfcli.calibrate import measuring, steps
from perfcli.calibrate.corpus import _list_cases
from perfcli.calibrate.steps import _TimedKernel, _TimedStep
from perfcli.machine import environment, targets
from perfcli.machine.environment import Interpreter
from perfcli.model import LaunchWork, OperatorWork, Target
from perfcli.model.kernel_work import (
    ColdAndHot,
    CorpusCase,
    CorpusCode,
    CorpusRequest,
    OperatorCase,
    OperatorsRequest,
    TimedOperator,
)
from perfcli.predict.calibration import encode_calibration, read_calibration, shipped
from perfcli.predict.calibration_files import VARIABLE, own_folder
from perfcli.predict.operators import OperatorTable, shipped_table_for
from perfcli.workflow.fingerprint import Job

H200 = targets.get("h200")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an H200 that is not there."""
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PERFCLI_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(targets, "has_gpu", lambda: True)
    monkeypatch.setattr(targets, "this_gpu", lambda: H200)
    python = Interpreter("/x", "3.12.3", "2.11.0", tmp_path, "3.6.0", tmp_path, None, "0" * 64)
    monkeypatch.setattr(environment, "probe", lambda python_, **_: python)


def count(ttgir: str, sass: str, case: CorpusCase) -> LaunchWork:
    return replace(work(), grid=case.grid)


class Worker:
    """Times cases: 2 µs and a little more for each block."""

    interrupts_after: int | None = None

    def answer(
        self, request: CorpusRequest, python: str
    ) -> Iterator[CorpusCode | tuple[int, ColdAndHot]]:
        yield CorpusCode(tuple(range(len(request.cases))), 32, 0, 0, "ttgir", "sass")
        for number, case in enumerate(request.cases):
            if number == self.interrupts_after:
                raise KeyboardInterrupt
            micros = 2 + case.grid[0] * case.grid[1] * 0.01
            yield number, ((micros * 1.2,), (micros,))

    def time_operators(
        self, request: OperatorsRequest, python: str
    ) -> Iterator[dict[str, float] | tuple[int, tuple[TimedOperator, ...]]]:
        """Products take a picosecond for each multiplication, and two microseconds."""
        yield {"operator": 11.0, "convolution": 22.0, "attention": 33.0}
        for number, case in enumerate(request.cases):
            if case.family == "product" and case.settings["dtype"] == "bf16":
                self.products += 1
                yield number, (timed_product(case),)
            else:
                yield number, ()

    products = 0

    def time_steps(self, jobs: Sequence[Job], cache_bytes: float) -> list[_TimedStep | None]:
        self.steps += [job.request.scenario for job in jobs]
        return [
            _TimedStep(
                job.request.scenario,
                job.fingerprint,
                {},
                tuple(
                    _TimedKernel("triton_a", kernel.candidates[0], kernel.buffers, 1.0, 1e-5)
                    for kernel in [weighed_kernel("triton_a", "mul")] * 3
                ),
                0,
            )
            for job in jobs
        ]

    def __init__(self) -> None:
        self.steps: list[str] = []


def thin_table(target: Target) -> OperatorTable:
    """The table that comes with perfcli, with a few calls of each class."""
    table = shipped_table_for(target)
    assert table is not None
    given = {name: {**each, "rows": each["rows"][::40]} for name, each in table.given.items()}
    return replace(table, given=given)


def timed_product(case: OperatorCase) -> TimedOperator:
    m, n, k, b = (int(case.settings[name]) for name in "mnkb")
    sizes = {"m": m, "n": n, "k": k, "batch": b, "left": 0, "right": 1, "align": 8,
             "batched": b > 1, "bias": 0, "added": 0}  # fmt: skip
    work = OperatorWork(
        "product", "bf16", 2.0 * b * m * n * k, 0.0, 0.0, {n: float(v) for n, v in sizes.items()}
    )
    micros = 2 + b * m * n * k * 3e-9
    return TimedOperator(work, ((micros,), (micros,)))


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    monkeypatch.setattr("perfcli.worker.kernels.time_corpus", made.answer)
    monkeypatch.setattr("perfcli.worker.kernels.time_operators", made.time_operators)
    monkeypatch.setattr(steps, "_time_batch", made.time_steps)
    monkeypatch.setattr("perfcli.calibrate.run._start_pool", lambda jobs: ThreadPoolExecutor(1))
    monkeypatch.setattr("perfcli.calibrate.run.shipped_table_for", thin_table)
    monkeypatch.setattr(measuring, "_start_pool", lambda jobs: ThreadPoolExecutor(1))
    monkeypatch.setattr(measuring, "_count", count)
    return made


def test_it_writes_a_calibration_that_can_be_read(perfcli: Any) -> None:
    result = perfcli("calibrate", "--smoke", "-o", "mine.json")
    assert result.code == 0, result.err
    assert "NVIDIA H200 (h200): measured with torch 2.11.0, triton 3.6.0" in result.out
    assert "written: mine.json" in result.out
    made = read_calibration(Path("mine.json"))
    assert made.target == H200
    assert made.constants.keys() == shipped()["h200"].constants.keys()


def test_it_says_how_many_kernels_could_not_be_counted(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_most(ttgir: str, sass: str, case: CorpusCase) -> LaunchWork | None:
        return None if case.kernel == "chase" else count(ttgir, sass, case)

    chases = sum(case.kernel == "chase" for case in _list_cases(smoke=True))
    assert chases > 1
    monkeypatch.setattr(measuring, "_count", count_most)
    result = perfcli("calibrate", "--smoke", "-o", "mine.json", "--json", "-")
    assert result.code == 0, result.err
    assert f"{chases} kernels left out: perfcli could not count what they ask of" in result.err
    document = json.loads(result.out)
    assert document["perfcli"] == "calibration"
    assert document["calibration"]["target"]["name"] == "h200"


def test_an_interrupted_one_goes_on(perfcli: Any, worker: Worker) -> None:
    worker.interrupts_after = 100
    result = perfcli("calibrate", "--smoke", "-o", "mine.json")
    assert result.code == 130
    assert "interrupted after 100 of 158 kernels" in result.complaint
    assert not Path("mine.json").exists()
    worker.interrupts_after = 58  # what is left is 58 cases: it gets through
    assert perfcli("calibrate", "--smoke", "-o", "mine.json").code == 0


def test_a_smoke_test_replaces_nothing(perfcli: Any) -> None:
    result = perfcli("calibrate", "--smoke")
    assert result.code == 2
    assert "give -o FILE" in result.complaint


def test_without_a_gpu_nothing_is_calibrated(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "has_gpu", lambda: False)
    result = perfcli("calibrate")
    assert result.code == 2
    assert "no NVIDIA GPU found here to calibrate" in result.complaint


def test_check_and_what_measures_do_not_go_together(perfcli: Any) -> None:
    assert perfcli("calibrate", "--check", "x", "--smoke").code == 2
    assert "go with --check" in perfcli("calibrate", "--csv", "a.csv").complaint
    assert perfcli("calibrate", "--calibration", "x").code == 2


def plain(**changes: Any) -> str:
    return json.dumps({**json.loads(encode_calibration(shipped()["h200"])), **changes})


def test_a_run_uses_the_file_that_is_given(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    Path("mine.json").write_text(plain(date="2031-12-24"))
    command = ("run", "gqa-transformer", "-p", "layers=1", "--target", "h200", "--json", "-")
    before = json.loads(perfcli(*command).out)
    slow = {**shipped()["h200"].constants, "launch": 1000.0}
    Path("slow.json").write_text(plain(constants=slow))
    after = json.loads(perfcli(*command, "--calibration", "slow.json").out)
    times = [
        [kernel["estimate"]["seconds"] for kernel in each["run"]["kernels"]]
        for each in (before, after)
    ]
    for one, other in zip(*times, strict=True):
        assert other - one == pytest.approx(1e-6 * (1000 - shipped()["h200"].constants["launch"]))


def test_a_damaged_file_is_one_line(perfcli: Any) -> None:
    Path("mine.json").write_text("{}")
    result = perfcli("run", "softmax", "--calibration", "mine.json")
    assert result.code == 2
    assert result.complaint == (
        "perfcli: mine.json is no calibration file: it has no format; expected what perfcli "
        'calibrate writes, an object with "format": 1, target, constants and residuals'
    )
    Path("mine.json").write_text('{"format": 99}')
    result = perfcli("run", "softmax", "--calibration", "mine.json")
    assert "mine.json has format 99, this perfcli reads 1" in result.complaint


def test_check_needs_a_measurement(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    perfcli("run", "gqa-transformer", "-p", "layers=1", "--target", "h200", "-q")
    (run,) = Path(".perfcli/runs").glob("*.json")
    result = perfcli("calibrate", "--check", run.stem)
    assert result.code == 2
    assert "was not measured here: perfcli compare --device cuda measures it" in result.complaint
    before = run.read_bytes()
    result = perfcli("calibrate", "--check", run.stem, "--json", str(run))
    assert (result.code, f"--json {run} would overwrite" in result.complaint) == (2, True)
    assert run.read_bytes() == before


def test_targets_say_where_estimates_come_from(perfcli: Any) -> None:
    lines = perfcli("targets").out.splitlines()
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "calibrated, torch 2.11.0" in rows["h200"] and "2026-11-22" in rows["h200"]
    assert "derived from h200" in rows["h100"]
    assert "none" in rows["mi300x"] and "(hand-written kernels only)" in rows["mi300x"]
    own_folder().mkdir(parents=True)
    (own_folder() / "h200.json").write_text(plain(torch="2.14.0"))
    assert "calibrated, torch 2.14.0" in perfcli("targets").out
    document = json.loads(perfcli("targets", "--json", "-").out)
    assert {t["name"]: t["derived_from"] for t in document["targets"]}["b200"] == "h200"


def test_targets_of_another_vendor_than_the_chosen_file_have_no_estimates(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.json").write_text(plain(date="2031-12-24"))
    monkeypatch.setenv(VARIABLE, "mine.json")
    result = perfcli("targets")
    assert result.code == 0
    rows = {line.split()[0]: line for line in result.out.splitlines()[1:]}
    assert "2031-12-24" in rows["h200"] and "none" in rows["mi300x"]
    Path("mine.json").write_text("{")
    assert "is no calibration file" in perfcli("targets").complaint


def test_scripts_are_refused_at_once(perfcli: Any) -> None:
    Path("train.py").write_text("import torch\nf = torch.compile(abs)\nf(1)\n")
    result = perfcli("calibrate", "--also", "train.py")
    assert result.code == 2
    assert "train.py is a script, and steps of scripts are not timed" in result.complaint
