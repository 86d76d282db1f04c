"""Knows what perfcli does not follow: models of several processes, which are refused by name.

Seen with torch 2.13: ``DistributedDataParallel`` asks for a process group when it is made, and
``fully_shard`` (FSDP2) makes a module's class one that derives from ``FSDPModule``.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any

from perfcli.errors import UserCodeFailed

# By a part of the path of the file of torch that has it.
_WRAPPERS = {
    "torch/nn/parallel/distributed.py": "DistributedDataParallel",
    "torch/distributed/fsdp/": "FSDP",
    "torch/distributed/_composable/fsdp/": "FSDP",
}
_CLASSES = {"DistributedDataParallel": "DistributedDataParallel", "FSDPModule": "FSDP"}
_CLASSES["FullyShardedDataParallel"] = "FSDP"


def refuse_wrapped(name: str, modules: Iterable[Any]) -> None:
    """Raise UserCodeFailed where a module, or one inside of it, is wrapped for several
    processes."""
    for module in modules:
        for part in module.modules():
            for base in type(part).__mro__:
                if base.__name__ in _CLASSES and base.__module__.startswith("torch."):
                    raise _refused(name, _CLASSES[base.__name__])


def refuse_failure(name: str, error: BaseException) -> None:
    """Raise UserCodeFailed where building failed inside of a wrapper for several processes."""
    cause: BaseException | None = error
    while cause is not None:
        for frame in traceback.extract_tb(cause.__traceback__):
            for path, wrapper in _WRAPPERS.items():
                if path in frame.filename:
                    raise _refused(name, wrapper, error) from error
        cause = cause.__cause__


def _refused(name: str, wrapper: str, error: BaseException | None = None) -> UserCodeFailed:
    return UserCodeFailed(
        f"{name} wraps its model in {wrapper}, which perfcli does not compile yet: return the "
        "model itself; each process runs its kernels, and the communication between them",
        detail=getattr(error, "detail", ""),
    )
