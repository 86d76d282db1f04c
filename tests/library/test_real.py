"""``perfcli.inspect`` on what real tests hold: closures, local modules, Triton kernels, all for a
GPU that is not there. What a kernel loads and stores is known from what it computes."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from warm import WarmFork, WarmProcess

import perfcli
from perfcli.errors import PerfcliError, UserCodeFailed, WorkerFailed
from perfcli.library import Kernels
from perfcli.library.packing import pack

pytestmark = pytest.mark.torch

torch: Any = pytest.importorskip("torch")
triton: Any = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

F = torch.nn.functional
SCALE = 2.0


@pytest.fixture(autouse=True, scope="module")
def no_fake(warm_process: WarmProcess) -> Any:
    """Real compilations, in forks of a process that has torch imported; only a script starts one of
    its own."""
    from perfcli.library import close

    close()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PERFCLI_FAKE", raising=False)
        patch.setattr("perfcli.worker.given.WarmWorker", partial(WarmFork, warm_process))
        yield
    close()


def inspected(fn: Any, *args: Any, **more: Any) -> Kernels:
    return perfcli.inspect(fn, args, target="h100", jobs=2, timeout=300, **more)


def rows() -> Any:
    return torch.empty(64, 256)


def helped(x: Any) -> Any:
    return scaled(x) + 1


def scaled(x: Any) -> Any:
    return x * SCALE


@triton.jit  # type: ignore[untyped-decorator]
def _double(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def double(x: Any) -> Any:
    out = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class Scale(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(256))

    def forward(self, x: Any) -> Any:
        return x * self.weight

    def twice(self, x: Any) -> Any:
        return self.forward(self(x))


class Shifted(Scale):
    def forward(self, x: Any) -> Any:
        return super().forward(x) + 1


def closure() -> Callable[..., Any]:
    weight, shift = torch.empty(256), 0.5

    def over(x: Any) -> Any:
        return x * weight + shift

    return over


def local_module() -> Any:
    class Local(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(256))

        def forward(self, x: Any) -> Any:
            return F.relu(x * self.weight)

    return Local()


def nested(tables: Any, rest: Any, flag: bool = False, scale: float = 1.0) -> Any:
    return tables["a"] + tables["b"][0] * scale + (rest[0] if flag else rest[1])


CASES: dict[str, tuple[Any, int, int]] = {
    # what to call with rows(), loads, stores
    "closure": (closure, 2, 1),
    "lambda": (lambda: lambda x: x.sin() * SCALE, 1, 1),
    "functions that call others": (lambda: helped, 1, 1),
    "local module": (local_module, 2, 1),
    "subclass": (Shifted, 2, 1),
    "method": (lambda: Scale().twice, 2, 1),
    "partial": (lambda: functools.partial(F.softmax, dim=-1), 1, 1),
    "triton": (lambda: double, 1, 1),
    "compiled": (lambda: torch.compile(lambda x: x.cos()), 1, 1),
    "compiled inside": (lambda: torch.nn.Sequential(torch.compile(Scale()), Scale()), 3, 1),
    "no_grad": (lambda: torch.no_grad()(lambda x: x.exp()), 1, 1),
    "operator": (lambda: torch.ops.aten.relu.default, 1, 1),
}


@pytest.mark.parametrize(("make", "loads", "stores"), CASES.values(), ids=CASES)
def test_what_tests_hold(make: Callable[[], Any], loads: int, stores: int) -> None:
    k = inspected(make(), rows())
    assert (k.launches, k.loads, k.stores, k.spilled_words) == (1, loads, stores, 0)
    # 64 × 256 float32 read and written, and what is 256 long.
    assert k.bytes_moved == 2 * 64 * 256 * 4 + (loads - 1) * 256 * 4
    assert k[0].locations == () or any("test_real.py" in line for line in k[0].locations)


def test_nested_and_plain_arguments() -> None:
    k = inspected(nested, {"a": rows(), "b": [rows()]}, (rows(), rows()), kwargs={"scale": 3.0})
    assert (k.launches, k.loads, k.stores) == (1, 3, 1)


def test_training() -> None:
    def tanh(a: Any, b: Any) -> Any:
        return (a * b).tanh()

    k = inspected(tanh, rows().requires_grad_(), rows(), mode="training")
    # Backward: the gradient and both factors give a's gradient.
    assert [(each.graph.split()[0], each.loads, each.stores) for each in k] == [
        ("forward", 2, 1),
        ("backward", 3, 1),
    ]


def test_autocast_and_dtypes() -> None:
    def product(a: Any, b: Any) -> Any:
        return F.relu(a @ b)

    with torch.autocast("cpu", torch.bfloat16):
        k = inspected(product, rows(), torch.empty(256, 128))
    (relu,) = (each for each in k if "relu" in each.name)
    assert {buffer.dtype for buffer in relu.facts.buffers} == {"bfloat16"}


def test_the_same_call_is_compiled_once() -> None:
    fn = closure()
    once, again = inspected(fn, rows()), inspected(fn, rows())
    assert once.run.id == again.run.id
    longer = inspected(fn, torch.empty(128, 256))
    assert longer.bytes_moved > once.bytes_moved
    kept = inspected(fn, rows(), options={"triton.persistent_reductions": False})
    assert kept.run.id != once.run.id
    assert kept.run.variant.name == "triton.persistent_reductions=false"


def test_parameters_are_not_sent() -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, device="meta") for _ in range(6)])
    assert sum(p.numel() for p in model.parameters()) > 10**8
    assert len(pack(model, (rows(),), {}).text) < 10_000
    real = torch.nn.Linear(1024, 1024)
    assert len(pack(real, (rows(),), {}).text) < 4_000


def test_nothing_but_generated_kernels_is_counted() -> None:
    k = inspected(torch.mm, rows(), torch.empty(256, 8))
    assert (len(k), k.loads, k.spilled_words, k.extern_calls) == (0, 0, 0, 1)


def test_what_patching_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that can be imported is imported by the worker; by_value sends it as it is here."""
    (tmp_path / "patched_layers.py").write_text("def layer(x):\n    return x.softmax(-1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    layers = importlib.import_module("patched_layers")

    class Block(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return layers.layer(x)

    monkeypatch.setattr(layers, "layer", lambda x: x + 1)
    imported = inspected(Block(), rows())
    sent = inspected(Block(), rows(), by_value=[sys.modules[__name__], layers])
    assert [k[0].kind for k in (imported, sent)] == ["persistent-reduction", "pointwise"]


STRAY = """
import threading
LOCK = threading.Lock()
FACTOR = 3
def block(x):
    return inner(x) * FACTOR
def inner(x):
    return x.sigmoid()
"""


def test_a_module_that_nobody_can_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stray_helpers.py").write_text(STRAY)
    spec = importlib.util.spec_from_file_location("stray_helpers", tmp_path / "stray_helpers.py")
    assert spec is not None
    assert spec.loader is not None
    helpers = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "stray_helpers", helpers)
    spec.loader.exec_module(helpers)
    k = inspected(lambda x: helpers.block(x), rows())
    assert (k.launches, k.loads, k.stores) == (1, 1, 1)


@pytest.mark.parametrize("mode", ["forward", "training"])
def test_the_kernels_are_those_of_the_same_scenario(
    mode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_workers: None
) -> None:
    """Sent as an object or built in a worker: byte for byte the same binaries."""
    from perfcli.loading import registry

    monkeypatch.chdir(tmp_path)  # a compiled scenario is stored
    scenario = registry.scenario("rmsnorm")
    params = registry.resolve_params(scenario, "smoke", {"mode": mode})
    workload = registry.build(scenario, params)
    sent = inspected(workload.call, *workload.inputs, kwargs=workload.kwargs, mode=mode)
    built = perfcli.inspect("rmsnorm", target="h100", preset="smoke", params={"mode": mode})
    assert [k.facts.binary_hash for k in sent] == [k.facts.binary_hash for k in built]
    assert None not in [k.facts.binary_hash for k in sent]
    assert [k.code for k in sent] == [k.code for k in built]


def test_what_can_not_be_sent() -> None:
    held = [threading.Lock()]

    class Locked(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.held = held

        def forward(self, x: Any) -> Any:
            return x + 1

    with pytest.raises(PerfcliError, match=r"Locked\.held\[0\] \(of type lock\) can't be sent"):
        inspected(Locked(), rows())
    generator = torch.Generator()
    with pytest.raises(PerfcliError, match=r"generator in <lambda> \(of type Generator\)"):
        inspected(lambda x: x + torch.rand(1, generator=generator), rows())
    with pytest.raises(PerfcliError, match=r"argument 0\['s'\] .* layout torch.sparse_coo"):
        inspected(lambda t: t["s"], {"s": rows().to_sparse()})


def test_what_is_not_compiled_has_no_numbers() -> None:
    with pytest.raises(PerfcliError, match="nothing of lambda was compiled"):
        inspected(torch.compiler.disable(lambda x: x + 1), rows())


def test_the_functions_own_fault() -> None:
    with pytest.raises(UserCodeFailed, match="same reduction dim") as caught:
        inspected(lambda a, b: a @ b, rows(), rows())
    assert "test_real.py" in caught.value.detail


class _Ends:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


class _Hangs:
    def __reduce__(self) -> Any:
        return time.sleep, (600,)


def test_a_worker_that_dies_or_hangs_is_replaced() -> None:
    with pytest.raises(WorkerFailed, match="ended with exit code 3"):
        inspected(scaled, _Ends())
    assert inspected(scaled, rows()).loads == 1
    with pytest.raises(WorkerFailed, match=r"did not finish within 1 s"):
        perfcli.inspect(scaled, _Hangs(), target="h100", timeout=1)
    assert inspected(helped, torch.empty(8, 8)).loads == 1


SCRIPT = """
from __future__ import annotations
from dataclasses import dataclass
import torch
import perfcli

@dataclass
class Config:
    width: int = 256

class Block(torch.nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.weight = torch.nn.Parameter(torch.empty(config.width))
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.config.width

if __name__ == "__main__":
    k = perfcli.inspect(Block(Config()), torch.empty(64, 256), target="h100")
    print(int(k.loads), int(k.stores), k[0].locations)
"""


def test_from_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = str(Path(perfcli.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.startswith("2 1 (")
    assert "script.py:17" in done.stdout


def test_two_variants_get_an_estimated_verdict(warm_workers: None) -> None:
    """One softmax of 268 MB, read and written once, takes at least 160 µs at the H100's 3.35 TB/s,
    and none takes ten times as long; two of them over columns take longer than one over rows."""
    x = torch.empty(16384, 4096)

    def once(x: Any) -> Any:
        return F.softmax(x, -1)

    def twice(x: Any) -> Any:
        return F.softmax(F.softmax(x * SCALE, 0) * SCALE, 0)

    base, head = (
        perfcli.inspect(fn, (x,), target="h100", jobs=2, timeout=300) for fn in (once, twice)
    )
    assert 160e-6 < base.estimated_seconds < 1600e-6
    compared = head.compare(base)
    assert compared.outcome == "worse"
    estimate = compared.comparison.estimate
    assert estimate is not None
    assert estimate.verdict == "slower"
    assert estimate.ratio is not None
    assert estimate.low is not None
    assert 1.02 < estimate.low < estimate.ratio
    assert compared.reason.startswith("estimated step ")
    assert head.compare(head).outcome == "same"
    columns = base.to_frame()["estimated_seconds"]
    assert sum(columns) == pytest.approx(base.estimated_seconds)
