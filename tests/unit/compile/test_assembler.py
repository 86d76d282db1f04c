"""ptxas is given so much time and no more, and what takes long is told. The assembler is a shell
that waits for ever."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import handmade
import pytest

pytest.importorskip("torch")

from perfcli.compile.binaries import binaries as compiling
from perfcli.compile.binaries import cache
from perfcli.compile.binaries.assembler import Assembler, AssemblerTooSlow, allowed_seconds
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.binaries.pool import KernelPool
from perfcli.compile.capture.collecting import _say_given_up
from perfcli.compile.capture.definition import Definition
from perfcli.model import Candidate

pytestmark = pytest.mark.torch

FOREVER = (sys.executable, "-S", "-c", "import threading; threading.Event().wait()")


def make(seconds: float = 0.1, patience: float = 0.05) -> tuple[Assembler, list[str]]:
    made, told = Assembler(seconds, patience), list[str]()
    made.tell = told.append
    return made, told


@pytest.fixture(params=[True, False], ids=["pidfd", "no pidfd"])
def _however(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError("a sandbox")

    if not request.param:
        monkeypatch.setattr("perfcli.compile.binaries.assembler.os.pidfd_open", refuse)


@pytest.mark.usefixtures("_however")
def test_one_that_takes_too_long_is_told_of_then_stopped() -> None:
    made, told = make()
    made.begin("triton_poi_fused_flip_0", "XBLOCK=1024, 4 warps")
    started = time.monotonic()
    with pytest.raises(AssemblerTooSlow, match=r"^ptxas did not finish within 0\.1 s$"):
        made.run(FOREVER, check=True)
    assert 0.1 <= time.monotonic() - started < 5
    assert told == [
        "ptxas has been assembling triton_poi_fused_flip_0 for 0.05 s (XBLOCK=1024, 4 warps); it "
        "is given up after 0.1 s",
        "ptxas did not finish within 0.1 s and was stopped: triton_poi_fused_flip_0 (XBLOCK=1024, "
        "4 warps) is given up",
    ]


def test_the_next_configuration_of_that_kernel_gets_a_quarter() -> None:
    made, told = make(0.08, 1.0)
    for kernel, limit in (("a", "0.08"), ("a", "0.02"), ("b", "0.08")):
        made.begin(kernel)
        with pytest.raises(AssemblerTooSlow, match=f"within {limit} s"):
            made.run(FOREVER)
    assert [text.split(": ")[1] for text in told] == [f"{k} is given up" for k in "aab"]


@pytest.mark.usefixtures("_however")
def test_one_that_ends_in_time_is_as_it_was() -> None:
    made, told = make(30.0, 30.0)
    made.begin("a")
    assert made.run(("true",), check=True, close_fds=False).returncode == 0
    with pytest.raises(subprocess.CalledProcessError) as raised:
        made.run(("sh", "-c", "exit 3"), check=True, close_fds=False)
    assert raised.value.returncode == 3
    assert made.CalledProcessError is subprocess.CalledProcessError
    assert told == []


def test_triton_runs_ptxas_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = pytest.importorskip("triton.backends.nvidia.compiler")
    monkeypatch.setattr(compiler, "subprocess", subprocess)
    made, _ = make()
    made.install()
    assert compiler.subprocess is made
    assert "subprocess.run(ptxas_cmd" in Path(compiler.__file__).read_text()


@pytest.mark.parametrize(("text", "seconds"), [("600", 600), ("", 120), ("-1", 120), ("x", 120)])
def test_the_limit_is_two_minutes_unless_a_variable_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv("PERFCLI_PTXAS_SECONDS", text)
    assert allowed_seconds() == seconds


class Tuner:
    """Inductor's autotuner, as far as it is asked: it leaves out what the assembler refuses."""

    def __init__(self, slow: set[int], warps: tuple[int, ...] = (4, 8)) -> None:
        self.slow, self.inductor_meta = slow, {"dynamic_disable_pipelining": False}
        self.configs = [
            SimpleNamespace(kwargs={"XBLOCK": 64}, num_warps=n, num_stages=1) for n in warps
        ]
        self.compile_results: list[Any] = []

    def _precompile_config(self, config: Any) -> Any:
        if config.num_warps in self.slow:
            compiling._ASSEMBLER.run(FOREVER)
        kernel = SimpleNamespace(asm={}, metadata=SimpleNamespace(shared=0))
        return SimpleNamespace(config=config, kernel=kernel)

    def precompile(self, warm_cache_only: bool) -> None:
        from torch._inductor.runtime.triton_heuristics import PTXASError

        assert warm_cache_only
        found = []
        for config in self.configs:
            try:
                found.append(self._precompile_config(config))
            except PTXASError as error:
                last = error
        if not found:
            raise RuntimeError(f"No valid triton configs. {last}")
        self.compile_results = found

    def _dynamic_scale_rblock(self) -> None:
        config = SimpleNamespace(kwargs={"XBLOCK": 32}, num_warps=16, num_stages=1)
        self.compile_results.append(self._precompile_config(config))


def compile_with(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Compiled, list[str]]:
    made, told = make(0.1, 1.0)
    monkeypatch.setattr(compiling, "_ASSEMBLER", made)

    def load(definition: Definition, target: Any) -> Any:
        kernel = compiling._Kernel(tuner, "", "", target)
        compiling._give_up_slow(kernel, definition.name)
        return kernel

    def candidate(_kernel: Any, result: Any, _facts: Any) -> Candidate:
        return Candidate(result.config.kwargs, result.config.num_warps, 1, registers=32)

    monkeypatch.setattr(compiling, "_load", load)
    facts = SimpleNamespace(registers=32, sass="")
    monkeypatch.setattr(compiling._Kernel, "binaries", lambda self, results: list(results))
    monkeypatch.setattr(compiling, "read_cubins", lambda binaries, tools: [facts for _ in binaries])
    monkeypatch.setattr(compiling._Kernel, "candidate", candidate)
    monkeypatch.setattr(compiling, "attach_texts", lambda candidate, *rest: candidate)
    definition = Definition("triton_poi_fused_flip_0", "triton", "source", "pointwise")
    (compiled,) = compiling.compile_kernels([definition], handmade.H100, tmp_path)
    return compiled, told


def test_everything_but_the_configuration_that_takes_too_long_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled, told = compile_with(Tuner({8}), monkeypatch, tmp_path)
    known = {c.num_warps: (c.registers, c.error) for c in compiled.candidates}
    assert known == {
        4: (32, ""),
        16: (32, ""),
        8: (None, "ptxas did not finish within 0.1 s"),
    }
    assert (compiled.error, len(told)) == ("", 1)
    assert _say_given_up(compiled) == (
        "ptxas was stopped at 1 of 3 launch configurations after 120 s: their registers and spills "
        "are not known"
    )


def test_a_kernel_without_any_configuration_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled, _ = compile_with(Tuner({4, 8}), monkeypatch, tmp_path)
    assert [c.registers for c in compiled.candidates] == [None, None]
    assert (compiled.error, compiled.alternatives) == ("", ())


def test_a_configuration_that_is_added_later_may_be_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled, _ = compile_with(Tuner({16}), monkeypatch, tmp_path)
    assert [(c.num_warps, bool(c.error)) for c in compiled.candidates] == [
        (4, False),
        (8, False),
        (16, True),
    ]


def test_what_was_given_up_is_tried_again_with_more_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compile_with(Tuner({8}), monkeypatch, tmp_path)
    again, _ = compile_with(Tuner(set()), monkeypatch, tmp_path)
    assert any(c.error for c in again.candidates)  # the same limit: it would take as long
    monkeypatch.setenv("PERFCLI_PTXAS_SECONDS", "600")
    more, _ = compile_with(Tuner(set()), monkeypatch, tmp_path)
    assert not any(c.error for c in more.candidates)
    assert cache.read(next(tmp_path.rglob("*.json.z"))) == more


def test_other_failures_are_failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tuner = Tuner(set())
    monkeypatch.setattr(tuner, "precompile", lambda warm_cache_only: 1 / 0)
    assert "ZeroDivisionError" in compile_with(tuner, monkeypatch, tmp_path)[0].error


def test_the_pool_tells_while_a_result_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def slow(definitions: Sequence[Definition], _target: Any, _cache: Path) -> list[Compiled]:
        (definition,) = definitions
        compiling._ASSEMBLER.begin(definition.name)
        with pytest.raises(AssemblerTooSlow):
            compiling._ASSEMBLER.run(FOREVER)
        return [Compiled((), {})]

    def prepare(tell: Any) -> None:
        compiling._ASSEMBLER.tell = tell

    made, _ = make(0.1, 0.05)
    monkeypatch.setattr(compiling, "_ASSEMBLER", made)
    monkeypatch.setattr("perfcli.compile.binaries.pool.compile_kernels", slow)
    monkeypatch.setattr("perfcli.compile.binaries.pool.prepare_process", prepare)
    told: list[str] = []
    pool = KernelPool(1, handmade.H100, tmp_path, told.append)
    try:
        definition = Definition("triton_poi_0", "triton", "source", "pointwise")
        pool.submit(definition)
        assert pool.result(definition).compiled == Compiled((), {})
    finally:
        pool.close(wait=True)
    assert len(told) == 2
    assert all("triton_poi_0" in text for text in told)
