"""What is said of a device that is full, and where threads run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.errors import CompileFailed, OutOfMemory, UserCodeFailed
from perfcli.measure import step as steps
from perfcli.measure.step import translate_out_of_memory
from perfcli.model import CompileRequest, Variant

torch = pytest.mark.torch

TORCH_SAYS = (
    "CUDA out of memory. Tried to allocate 84.33 GiB. GPU 0 has a total capacity of 139.80 GiB of "
    "which 54.95 GiB is free. Including non-PyTorch memory, this process has 84.84 GiB memory in "
    "use. Of the allocated memory 84.33 GiB is allocated by PyTorch"
)


REQUEST = CompileRequest("softmax", {}, None, Variant("default"), "cpu", None)
ALLOCATOR_SAYS = (
    "[enforce fail at alloc_cpu.cpp:126] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)"
)
# Threads that already wait when the process is pinned, as those of OpenMP do.
PINNING = """
import json, os, threading
from perfcli.measure.step import _pin as pin

done = threading.Event()
for _ in range(3):
    threading.Thread(target=done.wait, daemon=True).start()
tids = [int(tid) for tid in os.listdir("/proc/self/task")]
pin([max(os.sched_getaffinity(0))])
print(json.dumps([sorted(os.sched_getaffinity(tid)) for tid in tids]))
done.set()
"""


def test_threads_that_already_live_are_pinned_as_well() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PINNING], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [[max(os.sched_getaffinity(0))]] * 4


def first_step(failure: BaseException) -> None:
    """A step whose first launch fails so, as ``prepare`` runs it."""

    def launch() -> Any:
        raise failure

    capture = SimpleNamespace(latest=lambda: "graph forward 0")
    step: Any = SimpleNamespace(launch=launch, wait=lambda: None, capture=capture)
    with translate_out_of_memory("base", REQUEST):
        steps._run_first(step)


def from_inductor(error: Exception) -> Exception:
    from torch._dynamo.exc import BackendCompilerFailed

    def inductor() -> None: ...

    made: Exception = BackendCompilerFailed(inductor, error, None)
    return made


@torch
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RuntimeError(ALLOCATOR_SAYS), "DefaultCPUAllocator: can't allocate memory: you tried"),
        (RuntimeError(TORCH_SAYS), "CUDA out of memory. Tried to allocate 84.33 GiB"),
        (MemoryError("64 bytes are needed"), "64 bytes are needed"),
    ],
)
def test_a_first_step_without_room(error: Exception, says: str, wrapped: bool) -> None:
    with pytest.raises(OutOfMemory) as raised:
        first_step(from_inductor(error) if wrapped else error)
    assert says in str(raised.value)
    assert str(raised.value).startswith("the base's softmax does not fit into memory: ")
    assert "inductor" not in str(raised.value)


@torch
def test_a_first_step_that_fails_otherwise() -> None:
    with pytest.raises(CompileFailed, match="Inductor could not compile graph forward 0"):
        first_step(from_inductor(RuntimeError("no such loop")))
    with pytest.raises(UserCodeFailed, match="failed while it was traced: RuntimeError: shapes"):
        first_step(RuntimeError("shapes do not match"))


@torch
def test_building_without_room() -> None:
    with (
        pytest.raises(OutOfMemory, match="CUDA out of memory"),
        translate_out_of_memory("base", REQUEST),
    ):
        raise UserCodeFailed("the scenario raised") from RuntimeError(TORCH_SAYS)


@torch
def test_a_later_step_that_fails() -> None:
    failing = translate_out_of_memory("base", REQUEST)
    with pytest.raises(UserCodeFailed, match="failed while it ran: index 9"), failing:
        raise RuntimeError("index 9 is out of range\nmore")
    with pytest.raises(ValueError, match="odd"), translate_out_of_memory("base", REQUEST):
        raise ValueError("odd")


@torch
def test_a_later_step_shows_the_users_frames_alone() -> None:
    def forward() -> None:
        import torch

        torch.nn.functional.relu(torch.ones(2), inplace=torch.zeros(3) > 1)

    with pytest.raises(UserCodeFailed) as raised, translate_out_of_memory("base", REQUEST):
        forward()
    files = re.findall(r'File "(.+?)"', raised.value.detail)
    assert set(files) == {__file__}


@torch
def test_how_much_was_free_is_told_in_whole_sentences() -> None:
    request = CompileRequest("softmax", {}, None, Variant("default"), "cuda", None)
    with pytest.raises(OutOfMemory) as raised, translate_out_of_memory("head", request):
        raise RuntimeError(TORCH_SAYS)
    assert str(raised.value) == (
        "the head's softmax does not fit into memory: CUDA out of memory. Tried to allocate "
        "84.33 GiB. GPU 0 has a total capacity of 139.80 GiB of which 54.95 GiB is free"
    )


# A first step as on a GPU, of which only what launches anything is left out: once to warm up, since
# options stay set, then as it is, then with a failure.
PREPARING = """
import fcntl, json
from types import SimpleNamespace
from perfcli.compile.importing import import_inductor
import_inductor()
from torch._inductor import async_compile, compile_fx, graph, scheduler, select_algorithm
from torch._inductor.fx_passes import pad_mm
from torch._inductor.runtime import benchmarking, triton_heuristics
from perfcli.errors import UserCodeFailed
from perfcli.machine import targets
from perfcli.measure import step
from perfcli.measure.phases import Phases
from perfcli.measure.turnstile import Turnstile
from perfcli.model import CompileRequest, MeasureRequest, Variant

owners = [
    async_compile.AsyncCompile, triton_heuristics.CachingAutotuner, graph.GraphLowering,
    scheduler.Scheduler, scheduler.WhyNoFuse, compile_fx, compile_fx._InProcessFxCompile,
    select_algorithm.AlgorithmSelectorCache, pad_mm, benchmarking.InductorBenchmarker,
]
names = [owner.__name__.rpartition(".")[2] for owner in owners]
kinds = {fcntl.LOCK_UN: "left", fcntl.LOCK_SH: "shared", fcntl.LOCK_EX: "alone"}

def look():
    return [dict(vars(owner)) for owner in owners]

def compare(before):
    pairs = zip(names, before, look(), strict=True)
    return sorted(f"{n}.{k}" for n, old, new in pairs for k in {*old, *new}
                  if old.get(k) is not new.get(k))

def first(made):
    replaced.append(compare(before))
    if fails:
        raise RuntimeError("no such layer")

def prepare():
    turnstile = Turnstile("device", lambda: None)
    try:
        step.prepare(request, Phases("base", lambda phase: None), turnstile)
    except UserCodeFailed as error:
        said.append(str(error))
    held.append(kinds[turnstile._held])
    turnstile.leave()

step._use_device = lambda request: None
step.build_users_workload = lambda asked: SimpleNamespace(workload=None)
step.tracing.compile_call = lambda workload, dynamic: None
step._run_first = first
step.Step.warm = lambda self: None
compiled = CompileRequest("softmax", {}, None, Variant("default"), "cuda", targets.get("h100"))
request = MeasureRequest(compiled, "base", 1)
replaced, left, held, said, before, fails = [], [], [], [], look(), False
for fails in (False, False, True):
    before = look()
    prepare()
    left.append(compare(before))
print(json.dumps({"replaced": replaced[1:], "left": left[1:], "held": held[1:], "said": said}))
"""


@torch
def test_all_that_a_first_step_replaces_in_torch_is_put_back(tmp_path: Path) -> None:
    folders = {f"{name}_CACHE_DIR": str(tmp_path / name) for name in ("TRITON", "TORCHINDUCTOR")}
    done = subprocess.run(
        [sys.executable, "-c", PREPARING],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **folders},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["left"] == [[], []]
    assert found["held"] == ["shared", "left"]
    assert found["said"] == ["the model failed while it ran: no such layer"]
    for replaced in found["replaced"]:
        assert {
            *("AsyncCompile.triton", "CachingAutotuner.precompile"),
            *("CachingAutotuner.benchmark_all_configs", "WhyNoFuse.__call__"),
            *("compile_fx.compile_fx", "_InProcessFxCompile.codegen_and_compile"),
            *("AlgorithmSelectorCache.__call__", "pad_mm._should_pad"),
            *("InductorBenchmarker.benchmark_gpu", "GraphLowering._compile_to_module"),
        } <= set(replaced)
