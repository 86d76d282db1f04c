"""Launches kernels of other projects for the same problems, where they are installed.

Seen with liger-kernel 0.8.5 and quack-kernels 0.6.5. Where a backward function takes what a forward
of its own saved, it is not here; nor is Liger's cross-entropy, whose forward overwrites the logits.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.model import Problem

NAMES = ("liger", "quack")
_PACKAGES = {"liger": "liger_kernel", "quack": "quack"}

Tensors = Mapping[str, Any]
Peer = Callable[[Problem, Tensors], Callable[[], Any]]


def _list_installed() -> tuple[str, ...]:
    return tuple(name for name in NAMES if importlib.util.find_spec(_PACKAGES[name]) is not None)


def has_operation(name: str, operation: str) -> bool:
    """Return whether this peer has the operation, installed or not."""
    return (name, operation) in _PEERS


def launch_of(name: str, problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    """Return what launches the peer's kernel. Raises PerfcliError where it is not installed, or has
    no such operation."""
    if name not in _list_installed():
        raise PerfcliError(f"{_PACKAGES[name]} is not installed")
    peer = _PEERS.get((name, problem.operation))
    if peer is None:
        raise PerfcliError(f"{name} has no {problem.operation}")
    return peer(problem, tensors)


def _liger_softmax(_problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    apply = importlib.import_module("liger_kernel.ops.softmax").LigerSoftmaxFunction.apply
    return lambda: apply(tensors["x"])


def _quack_softmax(_problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    softmax = importlib.import_module("quack.softmax").softmax
    return lambda: softmax(tensors["x"])


def _quack_softmax_backward(_problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    backward = importlib.import_module("quack.softmax").softmax_bwd
    return lambda: backward(tensors["dy"], tensors["y"])


def _quack_cross_entropy(_problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    forward = importlib.import_module("quack.cross_entropy").cross_entropy_fwd
    return lambda: forward(tensors["x"], tensors["target"], return_lse=True)


def _quack_cross_entropy_backward(_problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    backward = importlib.import_module("quack.cross_entropy").cross_entropy_bwd
    saved = [tensors[name] for name in ("x", "target", "dloss", "lse")]
    return lambda: backward(*saved)


def _liger_rmsnorm(problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    apply = importlib.import_module("liger_kernel.ops.rms_norm").LigerRMSNormFunction.apply
    eps = _eps(problem)
    # weight offset 0, statistics in float32, not in place
    return lambda: apply(tensors["x"], tensors["weight"], eps, 0.0, "llama", False)


def _liger_layernorm(problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    apply = importlib.import_module("liger_kernel.ops.layer_norm").LigerLayerNormFunction.apply
    eps = _eps(problem, 1e-5)
    return lambda: apply(tensors["x"], tensors["weight"], tensors["bias"], eps)


def _quack_rmsnorm(problem: Problem, tensors: Tensors) -> Callable[[], Any]:
    rmsnorm = importlib.import_module("quack.rmsnorm").rmsnorm
    eps = _eps(problem)
    return lambda: rmsnorm(tensors["x"], tensors["weight"], eps=eps)


def _eps(problem: Problem, usual: float = 1e-6) -> float:
    eps = problem.settings.get("eps")
    return usual if eps is None else float(eps)


_PEERS: Mapping[tuple[str, str], Peer] = {
    ("liger", "softmax"): _liger_softmax,
    ("quack", "softmax"): _quack_softmax,
    ("quack", "softmax-backward"): _quack_softmax_backward,
    ("quack", "cross-entropy"): _quack_cross_entropy,
    ("quack", "cross-entropy-backward"): _quack_cross_entropy_backward,
    ("liger", "rmsnorm"): _liger_rmsnorm,
    ("liger", "layernorm"): _liger_layernorm,
    ("quack", "rmsnorm"): _quack_rmsnorm,
}
