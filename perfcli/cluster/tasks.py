"""Looks after the tasks of one call. Ray places them, and repeats those of a machine that is lost;
here it is said what they need, and which machines can't take them."""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from perfcli import units
from perfcli.cluster.connection import Cluster, ClusterNode, connect, list_nodes
from perfcli.cluster.measuring import MeasureOrder
from perfcli.cluster.parcel import Parcel, address, find_root, pack
from perfcli.cluster.task import TaskRequest, TaskResult, describe_software, fill, read_outcome
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.loading.references import find_file
from perfcli.machine import environment
from perfcli.model import CompileRequest
from perfcli.worker.needs import USUAL_NEEDS, Needs, count_gpus

MOST_RETRIES = 5
"""Times that a task is begun anew after its machine or process was lost."""
AHEAD = 2
"""Tasks that wait for each core: more would only fill the object store with results."""
LOOK_SECONDS = 2.0
"""Between two looks whether the machines are still there."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Says where and how tasks are run. ``plan`` is what is made up instead of being compiled;
    ``warn`` hears of machines that are not used."""

    cluster: Cluster
    needs: Needs = USUAL_NEEDS
    timeout_seconds: float | None = None
    plan: str = ""
    warn: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Batch:
    """Holds the requests of one task, which have one interpreter and one device. ``base`` is what
    they have in common, where only their code is generated."""

    requests: tuple[CompileRequest, ...]
    base: CompileRequest | None = None
    generates: bool = False
    measures: MeasureOrder | None = None


Done: TypeAlias = "tuple[TaskResult, ...] | PerfcliError"


class Tasks:
    """Runs batches on the machines of a cluster."""

    def __init__(self, terms: Terms, batches: Sequence[Batch]) -> None:
        self._terms = terms
        self._batches = batches
        self._ray = connect(terms.cluster)
        self._remote = self._ray.remote(_fill_here)
        self._pending: dict[Any, int] = {}
        self._unfit: dict[str | None, dict[str, str]] = {}
        """By interpreter, the ids of machines that can't take its requests, and why."""
        self._parcels: dict[Path, tuple[Parcel, Any]] = {}
        """By folder, the user's files, and where the object store has them."""
        self._nodes: list[ClusterNode] = []
        self._look_again = 0.0
        self._names: dict[str, str] = {}

    def run(self) -> Generator[tuple[int, Done, str], None, None]:
        """Yield each batch's number, what came of it and on which machine, as they come. What is
        not done when the caller stops is cancelled."""
        waiting = deque(range(len(self._batches)))
        try:
            while waiting or self._pending:
                while waiting and len(self._pending) < self._count_room():
                    number = waiting.popleft()
                    if refusal := self._begin(number):
                        yield number, refusal, ""
                for number, done, place in self._collect():
                    if done is None:  # from a machine that can't take it
                        waiting.appendleft(number)
                    else:
                        yield number, done, place
        finally:
            for reference in self._pending:
                self._ray.cancel(reference, force=True)

    def _count_room(self) -> int:
        """Return how many tasks may be under way."""
        cores = sum(node.resources.get("CPU", 0) for node in self._list_nodes())
        return max(2, AHEAD * int(cores))

    def _list_nodes(self) -> list[ClusterNode]:
        """Return the machines as they were a moment ago."""
        now = time.monotonic()
        if now >= self._look_again:
            before, self._nodes = self._nodes, list_nodes(self._ray)
            self._look_again = now + LOOK_SECONDS
            self._names = {node.id: node.name for node in self._nodes} | self._names
            for node in before:
                if node.id not in {each.id for each in self._nodes}:
                    self._terms.warn(
                        f"{self._names[node.id]} of the cluster is gone: what it was at is begun "
                        "anew elsewhere"
                    )
        return self._nodes

    def _begin(self, number: int) -> PerfcliError | None:
        """Begin a task; return why that is not possible, None where it is."""
        try:
            if refusal := self._refuse(self._batches[number].requests[0]):
                return refusal
            self._submit(number)
        except PerfcliError as error:
            return error
        return None

    def _refuse(self, request: CompileRequest) -> WorkerFailed | None:
        """Return why no machine can take a request; None where one can."""
        unfit = self._unfit.get(request.variant.python, {})
        fit = [node for node in self._list_nodes() if node.id not in unfit]
        if not fit:
            reasons = "; ".join(f"{self._names[each]}: {why}" for each, why in unfit.items())
            return WorkerFailed(
                f"no machine of the cluster can compile {request.scenario} ({reasons})"
            )
        largest = max(fit, key=lambda node: node.memory_bytes)
        where = f"the largest machine of the cluster, {largest.name},"
        if too_much := self._terms.needs.refuse(request, largest.memory_bytes, where):
            return too_much
        if not any(node.resources.get("GPU", 0) >= count_gpus(request) for node in fit):
            return WorkerFailed(
                f"{request.scenario} needs a GPU, and no machine of the cluster has one"
            )
        return None

    def _submit(self, number: int) -> None:
        batch, terms = self._batches[number], self._terms
        first = batch.requests[0]
        root, sha, archive = "", "", None
        # Inside a task one core is there: Ray counts those that others use.
        requests = tuple(replace(request, jobs=1) for request in batch.requests)
        base = batch.base
        if folder := _find_files(first):
            if folder not in self._parcels:
                parcel = pack(folder)
                self._parcels[folder] = (parcel, self._ray.put(parcel.archive))
            parcel, archive = self._parcels[folder]
            root, sha = str(folder), parcel.sha
            requests = tuple(address(request, parcel) for request in requests)
            base = address(base, parcel) if base is not None else None
        python = first.variant.python
        order = TaskRequest(
            requests,
            base,
            batch.generates,
            None if terms.plan else _describe_once(python, first.device != "cpu"),
            environment.relevant_variables(os.environ),
            root,
            sha,
            terms.timeout_seconds,
            terms.plan,
            batch.measures,
        )
        unfit = self._unfit.get(python)
        task = self._remote.options(
            name=f"perfcli {first.scenario}",
            num_cpus=1,
            num_gpus=count_gpus(first),
            memory=terms.needs.memory_of(first),
            max_retries=MOST_RETRIES,
            label_selector={"ray.io/node-id": f"!in({','.join(unfit)})"} if unfit else None,
        )
        self._pending[task.remote(msgspec.json.encode(order), archive)] = number

    def _collect(self) -> list[tuple[int, Done | None, str]]:
        """Wait for results; return each with its number and its machine. None instead of a result:
        it has to be asked of another machine."""
        if not self._pending:
            return []
        ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=LOOK_SECONDS)
        if not ready and not self._list_nodes():
            raise WorkerFailed("all machines of the cluster are gone; what was finished is kept")
        return [self._read(self._pending.pop(reference), reference) for reference in ready]

    def _read(self, number: int, reference: Any) -> tuple[int, Done | None, str]:
        request = self._batches[number].requests[0]
        try:
            node, content = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return number, self._explain(request, error), ""
        outcome = read_outcome(content)
        name = self._names.get(node, node[:6])
        if not outcome.unfit:
            return number, outcome.results, name
        unfit = self._unfit.setdefault(request.variant.python, {})
        if node not in unfit:
            unfit[node] = outcome.unfit
            self._terms.warn(f"{name} of the cluster is not used: {outcome.unfit}")
        return number, None, name

    def _explain(self, request: CompileRequest, error: Exception) -> PerfcliError:
        """Return what is wrong with a task that has no outcome."""
        lines = [line for line in str(error).splitlines() if line.strip()]
        last = units.printable(lines[-1].strip())[:200] if lines else ""
        kind = type(error).__name__
        if "perfcli" in last and "ModuleNotFoundError" in last:
            return WorkerFailed(f"a machine of the cluster has no perfcli: {last}")
        if kind == "OutOfMemoryError":
            needs = self._terms.needs
            needed = needs.write(request, needs.memory_of(request))
            return WorkerFailed(
                f"Ray ended {request.scenario}, as its machine ran out of memory: declare what it "
                f"needs (--memory, more than {needed})"
            )
        return WorkerFailed(f"Ray lost {request.scenario} ({kind}: {last})")


_describe_once = functools.cache(describe_software)


def _find_files(request: CompileRequest) -> Path | None:
    """Return the folder of the user's files that a request needs; None for a shipped scenario."""
    path = find_file(request.scenario)
    if path:
        return find_root(Path(path))
    return find_root(Path.cwd() / "_") if request.script is not None else None


def _fill_here(order: bytes, archive: bytes | None) -> tuple[str, bytes]:
    """Carry out an order, and say on which machine: the only function that Ray is given."""
    import ray

    return ray.get_runtime_context().get_node_id(), fill(order, archive)
