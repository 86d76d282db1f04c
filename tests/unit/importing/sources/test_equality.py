"""Kernels of generated modules equal those that perfcli compiles from the model itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from warm import WarmProcess

from perfcli.console.notes import Notes
from perfcli.importing.sources.reading import SourceOptions, read_sources
from perfcli.machine.environment import clean_environment, probe
from perfcli.model import CompileRequest, KernelFacts, Run
from perfcli.worker import protocol
from perfcli.workflow.request import Question, Side, make_jobs

pytestmark = pytest.mark.torch

FIXTURES = Path(__file__).parents[3] / "fixtures"
WRITER = FIXTURES / "write_wrappers.py"


def request_of(scenario: str, *params: str, dynamic: bool = False) -> CompileRequest:
    question = Question(scenario, params, target="h100", dynamic=dynamic)
    (job,) = make_jobs(question, [Side()], probe, jobs=2)
    return job.request


def import_wrappers(request: CompileRequest, folder: Path, process: WarmProcess) -> Run:
    """Have Inductor write its modules, and make a run of them."""
    wrappers = folder / "wrappers"
    wrappers.mkdir()
    asked = json.loads(protocol.encode(protocol.plain(request)))
    process.call(request, WRITER, str(wrappers), asked)
    options = SourceOptions(request.target, jobs=2, cache_dir=request.cache_dir)
    return read_sources([wrappers], options, Notes(quiet=True)).run


def without_origins(kernel: KernelFacts) -> KernelFacts:
    """The comment above a kernel names the nodes of its first use, and no line of the model. What
    the scheduler refused, and which buffer a graph returns or is part of a whole, stands nowhere in
    a module."""
    buffers = tuple(replace(b, graph_output=None, part_of="") for b in kernel.buffers)
    return replace(kernel, origins=(), refused=None, buffers=buffers)


@pytest.mark.parametrize(
    ("scenario", "params", "dynamic"),
    [
        ("rmsnorm", ("rows=4096", "columns=2048", "mode=training"), False),
        ("softmax", ("rows=64", "columns=131072"), True),
        (str(FIXTURES / "models" / "operator_calls.py"), (), False),
    ],
    ids=["rmsnorm", "dynamic softmax", "operators"],
)
def test_kernels_and_calls_equal_those_of_a_run(
    scenario: str,
    params: tuple[str, ...],
    dynamic: bool,
    tmp_path: Path,
    warm_process: WarmProcess,
    warm_kernels: None,
) -> None:
    assert_equal(request_of(scenario, *params, dynamic=dynamic), tmp_path, warm_process)


def test_a_process_of_its_own_compiles_the_kernel_of_a_user(
    tmp_path: Path, warm_process: WarmProcess
) -> None:
    request = request_of(str(FIXTURES / "models" / "written_kernel.py"))
    assert_equal(request, tmp_path, warm_process)


def assert_equal(request: CompileRequest, folder: Path, process: WarmProcess) -> None:
    """What is written of results that nobody uses is not told by a module."""
    compiled = process.compile(request).run
    imported = import_wrappers(request, folder, process)
    assert (imported.mode, imported.dynamic) == (compiled.mode, compiled.dynamic)
    assert [k.name for k in imported.kernels] == [k.name for k in compiled.kernels]
    for ours, theirs in zip(imported.kernels, compiled.kernels, strict=True):
        assert without_origins(ours) == without_origins(theirs)
    assert imported.launches == compiled.launches
    assert [(e.op, e.count) for e in imported.externs] == [
        (e.op, e.count) for e in compiled.externs
    ]
    for mine, its in zip(imported.externs, compiled.externs, strict=True):
        for call, same in zip(mine.calls, its.calls, strict=True):
            assert call.work is not None
            assert same.work is not None
            assert replace(call.work, written=0) == replace(same.work, written=0)


MODEL = """
import torch
from torch import nn

def scenario():
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64))
    return model, (torch.randn(8, 32),), "training"
"""
# With the vector instructions that another test found to work: to ask for them takes 9 s. Kernels
# do nothing: what is read are texts, and a C++ compiler takes longer than all else.
TRAINING = """
import os, torch, model
from torch._inductor.codecache import CppPythonBindingsCodeCache
from perfcli.compile import cpp_cache
cpp_cache.keep_cpp_work(os.environ["PERFCLI_CACHE_DIR"])
nothing = lambda *arguments: None
CppPythonBindingsCodeCache.load_pybinding_async = lambda *_, **__: lambda: nothing
torch.set_num_threads(1)
module, inputs, _ = model.scenario()
torch.compile(module)(*inputs).sum().backward()
"""


def test_what_torch_leaves_of_a_cpu_model_equals_a_run(
    tmp_path: Path, warm_process: WarmProcess
) -> None:
    """A real TORCH_TRACE folder, debug folder and cache, written by this torch."""
    (tmp_path / "model.py").write_text(MODEL)
    places = {
        "TORCH_TRACE": str(tmp_path / "trace"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "TORCH_COMPILE_DEBUG": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    subprocess.run(
        [sys.executable, "-c", TRAINING],
        env=clean_environment(os.environ, places),
        cwd=tmp_path,
        check=True,
        timeout=500,
        capture_output=True,
    )
    folders = [tmp_path / name for name in ("trace", "torch_compile_debug", "cache")]
    options = SourceOptions(None)
    runs = [read_sources([each], options, Notes(quiet=True)).run for each in folders]
    question = Question(f"{tmp_path / 'model.py'}:scenario", device="cpu", threads=1)
    (job,) = make_jobs(question, [Side()], probe, jobs=1)
    expected = warm_process.compile(job.request).run
    assert [k.graph for k in expected.kernels] == ["forward 0", "backward 0", "backward 0"]
    for run in runs:
        assert (run.mode, run.device, run.notes) == ("training", "cpu", ())
        assert [(k.graph, k.source_hash) for k in run.kernels] == [
            (k.graph, k.source_hash) for k in expected.kernels
        ]
        assert [k.source_facts for k in run.kernels] == [k.source_facts for k in expected.kernels]
        assert [(each.name, each.graph) for each in run.launches] == [
            (each.name, each.graph) for each in expected.launches
        ]
    trace, debug, _ = runs
    assert trace.environment.torch == debug.environment.torch == expected.environment.torch
    assert trace.settings == expected.settings
    first = trace.kernels[0].origins
    assert {"rsqrt", "var_mean"} <= {origin.node for origin in first}
    assert trace.kernels[0].origins == debug.kernels[0].origins
