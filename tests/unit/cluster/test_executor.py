"""What the executor of a cluster says of its tasks, without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from handmade import H100

from perfcli.cluster import executor
from perfcli.cluster.connection import Cluster
from perfcli.cluster.tasks import Terms
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.model import CompileRequest, Variant
from perfcli.worker.roles import Progress


class _Failing:
    def __init__(self, *_: Any) -> None:
        pass

    def run(self) -> Iterator[tuple[int, PerfcliError, str]]:
        yield 0, WorkerFailed("it needs more memory"), ""


def test_what_failed_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "Tasks", _Failing)
    request = CompileRequest("softmax", {}, None, Variant("v"), "cuda", H100)
    told: list[Progress] = []
    made = executor.ClusterExecutor(Terms(Cluster())).compile([request], told.append)
    ((_, error),) = made
    assert isinstance(error, WorkerFailed)
    assert [(each.phase, each.text) for each in told] == [("done", "failed")]
