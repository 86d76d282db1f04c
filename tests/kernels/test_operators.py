"""The operators of torch through Triton's interpreter, and on a GPU where one is: numbers and
gradients against float64, what torch asks of an operator, torch.compile, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from warm import WarmProcess, make_request

from perfcli.machine import targets

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
HOST = {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    # Their keys know operators by name alone.
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
    # To ask what vector instructions there are takes a compilation for each kind.
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
EVERY = (
    "softmax",
    "log_softmax",
    "cross_entropy",
    "rms_norm",
    "rms_norm_residual",
    "column_sum",
    "linear_cross_entropy",
    "layer_norm",
    "layer_norm_residual",
)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT), **variables},
        check=False,
    )


@pytest.fixture(scope="module")
def wrong(once: Callable[..., dict[str, str]], cache_of_the_run: Path) -> Mapping[str, str]:
    """Of each check, what went wrong; empty: nothing."""
    variables = {**HOST, "TRITON_INTERPRET": "1", "PERFCLI_CACHE_DIR": str(cache_of_the_run)}
    return once("operator checks", lambda: checked("operator_checks.py", **variables))


def checked(program: str, **variables: str) -> dict[str, str]:
    done = run(str(Path(__file__).with_name(program)), **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.gpu
@pytest.mark.skipif(not targets.has_gpu(), reason="needs a GPU")
def test_all_of_it_on_the_gpu() -> None:
    found = checked("operator_checks.py")
    assert len(found) > 40
    assert not any(found.values()), {name: what for name, what in found.items() if what}


def of(wrong: Mapping[str, str], *words: str) -> dict[str, str]:
    found = {name: what for name, what in wrong.items() if any(word in name for word in words)}
    assert found, f"no check speaks of {words}"
    return found


@pytest.mark.parametrize("operator", EVERY)
def test_numbers_and_gradients_are_those_of_float64(
    operator: str, wrong: Mapping[str, str]
) -> None:
    kinds = ("float32", "bfloat16", "float16")
    checks = {n: w for n, w in of(wrong, *kinds).items() if n.startswith(operator)}
    assert len(checks) >= 3
    assert not any(checks.values()), checks


@pytest.mark.parametrize("kind", ["gradcheck", "opcheck", "compiled"])
def test_torch_is_content(kind: str, wrong: Mapping[str, str]) -> None:
    checks = of(wrong, kind)
    assert len(checks) >= 3
    assert not any(checks.values()), {n: w for n, w in checks.items() if w}


def test_corners_and_refusals(wrong: Mapping[str, str]) -> None:
    names = (
        "corners",
        "short rows",
        "modes",
        "autocast",
        "refused",
        "one d",
        "targets fit",
        "known",
        "something",
        "no second",
    )
    assert not any(of(wrong, *names).values()), of(wrong, *names)


@pytest.fixture
def called(warm_process: WarmProcess, cache_of_the_run: Path) -> Callable[[str], dict[str, str]]:
    """Returns of each check of a program what went wrong, in a fork that has torch for the CPU."""
    request = make_request(cache_of_the_run, "cpu")
    caller = Path(__file__).with_name("called_checks.py")
    return lambda program: warm_process.call(request, caller, program)


def test_later_calls_do_what_the_first_one_did(called: Callable[[str], dict[str, str]]) -> None:
    found = called("replay_checks")
    assert len(found) > 14
    assert not any(found.values()), {name: what for name, what in found.items() if what}


def test_calls_pass_the_dispatcher_where_nothing_else_has_a_say(
    called: Callable[[str], dict[str, str]],
) -> None:
    """And an operator of which nobody can run the kernels says so."""
    found = called("direct_checks")
    assert len(found) > 6
    assert not any(found.values()), {name: what for name, what in found.items() if what}


CERTAIN = """
import torch, perfcli.operators
from torch.nn import functional as F
loss = perfcli.operators.register().linear_cross_entropy
generator = torch.Generator().manual_seed(3)
weight = torch.randn(10, 64, generator=generator).bfloat16()
target = torch.arange(8)
for compute in (loss, lambda x, w, t: F.cross_entropy((x @ w.T).float(), t)):
    x = (0.3 * weight[target].float()).bfloat16().requires_grad_()
    compute(x, weight, target).backward()
    print(float(x.grad.float().norm()))
"""


def test_the_gradient_of_targets_that_are_nearly_certain_is_next_to_nothing() -> None:
    """Forward and backward round logits alike, in Triton's own interpreter, too: else it is off by
    a part of each logit."""
    done = run("-c", CERTAIN, CUDA_VISIBLE_DEVICES="", TRITON_INTERPRET="1")
    ours, theirs = map(float, done.stdout.split())
    assert theirs < 1e-5
    assert ours < 2 * theirs


def test_importing_operators_imports_no_torch() -> None:
    program = "import sys, perfcli.operators; print('torch' in sys.modules)"
    assert run("-c", program).stdout == "False\n"
