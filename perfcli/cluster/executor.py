"""Compiles requests as tasks of a Ray cluster, and generates code for searches there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from perfcli.cluster.connection import connect, list_nodes
from perfcli.cluster.measuring import MeasureOrder
from perfcli.cluster.task import TaskResult
from perfcli.cluster.tasks import Batch, Tasks, Terms
from perfcli.errors import PerfcliError
from perfcli.interleave.pair import PairPlan
from perfcli.model import CompileRequest, KernelFacts, KernelText, Measurement
from perfcli.worker.roles import Compiled, Made, Progress
from perfcli.worker.roles import Generator as CodeGenerator


@dataclass(frozen=True, slots=True)
class ClusterExecutor:
    """Compiles as a ``roles.Executor``: on whichever machine has a core and the memory for it.

    A machine whose torch, triton, Python or perfcli is another one than the caller's is not used.
    """

    terms: Terms

    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Generator[tuple[int, Compiled], None, None]:
        tasks = Tasks(self.terms, [Batch((request,)) for request in requests])
        with closing(tasks.run()) as arriving:
            for number, done, place in arriving:
                made = done if isinstance(done, PerfcliError) else done[0].bundle
                failed = "failed" if isinstance(made, PerfcliError) else ""
                progress(Progress(number, "done", text=failed, place=place))
                yield number, _restore(made, requests[number])


def measure_pairs(
    terms: Terms, pairs: Sequence[tuple[Measurement, PairPlan]]
) -> Generator[tuple[int, Measurement | PerfcliError], None, None]:
    """Yield what is measured of each plan, by its number, as they come: each by a task with a GPU
    of its own."""
    batches = [
        Batch(
            (plan.base.compile, plan.head.compile),
            measures=MeasureOrder(opening, plan.base, plan.head),
        )
        for opening, plan in pairs
    ]
    with closing(Tasks(terms, batches).run()) as arriving:
        for number, done, _ in arriving:
            yield number, done if isinstance(done, PerfcliError) else done[0].measured


@dataclass(frozen=True, slots=True)
class ClusterGenerator:
    """Generates code as a ``roles.Generator``: each core of the cluster takes a part of what is
    asked. Binaries, of one variant at a time, are compiled by ``here``."""

    terms: Terms
    here: CodeGenerator

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        parts = self._divide(len(requests))
        batches = [Batch(tuple(requests[n] for n in part), base, True) for part in parts]
        with closing(Tasks(self.terms, batches).run()) as arriving:
            for number, done, _ in arriving:
                if isinstance(done, PerfcliError):
                    yield from ((place, done) for place in parts[number])
                    continue
                for result in done:
                    place = parts[number][result.number]
                    yield place, _restore_code(result, requests[place])

    def _divide(self, count: int) -> list[range]:
        """Return the numbers of the requests that go together: as many parts as there are cores, so
        that what requests have in common is compiled as seldom as can be."""
        nodes = list_nodes(connect(self.terms.cluster))
        cores = int(sum(node.resources.get("CPU", 0) for node in nodes))
        parts = max(1, min(cores, count))
        return [range(n, count, parts) for n in range(parts)]

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        return self.here.with_binaries(kernels, request, weighs)

    def close(self) -> None:
        self.here.close()


def _restore(made: Compiled, request: CompileRequest) -> Compiled:
    """Return what was made with the question as it was asked."""
    if isinstance(made, PerfcliError):
        return made
    variant = request.variant
    own = replace(made.run, scenario=request.scenario, variant=variant, script=request.script)
    return replace(made, run=own)


def _restore_code(result: TaskResult, request: CompileRequest) -> Made:
    made = result.generated
    if isinstance(made, PerfcliError):
        return made
    bundle = _restore(made.bundle, request)
    assert not isinstance(bundle, PerfcliError)
    return replace(made, bundle=bundle)
