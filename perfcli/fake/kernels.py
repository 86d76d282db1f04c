"""Makes up answers about hand-written kernels that nobody compiled, ran or timed: deterministic, so
that the command line is tested without torch.

What is planted follows the first semicolon of ``PERFCLI_FAKE``: ``1;wrong=3`` (case 3 is wrong),
``failed=3``, ``refused=3``, ``spill=NAME`` (the kernel of that name spills), ``refuses=NAME``
(Triton does not compile it), ``dies=N`` (the worker dies of problem N), ``missing=quack``,
``slow=1.2`` (ours takes as many times a copy).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.facts.occupancy import occupancy
from perfcli.handwritten.benching import time_rounds
from perfcli.model import Candidate, KernelLaunch, Machine, Problem
from perfcli.model.kernel_work import (
    BenchAsk,
    Benched,
    BenchRequest,
    CheckedCase,
    CheckRequest,
    DescribedLaunch,
    DescribeRequest,
    LaunchesRequest,
    LaunchToCompile,
    Operand,
    OutputError,
    PlannedCase,
    TimedContender,
)

COPY_BANDWIDTH = 4e12
TIMES = {"copy": 1.0, "eager": 2.5, "inductor": 1.5, "inductor-max-autotune": 1.25}
TIMES |= {"liger": 1.1, "quack": 1.05}
"""As long as a copy; ours and variants: 1.03, a little more for each."""
_NAMES = ("wrong", "failed", "refused", "spill", "refuses", "dies", "missing", "slow")


class FakeKernels:
    """Makes up what a ``roles.KernelWorker`` would answer."""

    def __init__(self, plan: str = "1") -> None:
        planted = plan.partition(";")[2]
        self._planted = dict(part.split("=") for part in planted.split(";") if part)
        if unknown := self._planted.keys() - set(_NAMES):
            raise PerfcliError(f"PERFCLI_FAKE plans {', '.join(_NAMES)}, not {unknown}")
        self._benched = 0

    def compiled(self, request: LaunchesRequest) -> Iterator[tuple[int, Candidate]]:
        for number, asked in reversed(list(enumerate(request.launches))):
            yield number, self._candidate(asked)

    def _candidate(self, asked: LaunchToCompile) -> Candidate:
        launch, target = asked.launch, asked.target
        if self._planted.get("refuses") == launch.function:
            return Candidate({}, launch.num_warps, launch.num_stages, error="ValueError: planted")
        shared = launch.shared_bytes or 16
        resident = occupancy(target, 32, shared, launch.num_warps)
        return Candidate(
            config={},
            num_warps=launch.num_warps,
            num_stages=launch.num_stages,
            registers=32,
            stack_bytes=24 if self._planted.get("spill") == launch.function else 0,
            shared_bytes=shared,
            global_loads={"128": 2, "32": 1},
            global_stores={"128": 2},
            tma_loads=sum(kind.startswith("tensordesc") for kind in launch.arguments.values()),
            blocks_per_sm=resident.blocks_per_sm,
            occupancy=resident.fraction,
            occupancy_limit=resident.limit,
        )

    def described(self, request: DescribeRequest) -> tuple[DescribedLaunch, ...]:
        return tuple(_describe(launch, request.problem) for launch in request.plan.launches)

    def checked(
        self, request: CheckRequest, compiling: Callable[[int, int], None]
    ) -> Iterator[tuple[int, CheckedCase]]:
        if request.target is not None:
            compiling(len(request.cases), len(request.cases))
        for number, planned in reversed(list(enumerate(request.cases))):
            yield number, self._checked(number, planned)

    def _checked(self, number: int, planned: PlannedCase) -> CheckedCase:
        if planned.plan is None:
            return CheckedCase("refused", "", reason=planned.refusal)
        variant, fate = planned.plan.variant, str(number)
        if self._planted.get("failed") == fate:
            return CheckedCase("failed", variant, reason="RuntimeError: planted")
        if self._planted.get("refused") == fate:
            return CheckedCase("refused", variant, reason="planted")
        output = OutputError("y", 0.5, 0.75, "1.5", "1", (3, 17), 0, 100)
        if self._planted.get("wrong") == fate:
            wrong = replace(output, error=1.0, wrong=12)
            return CheckedCase("wrong", variant, (wrong,))
        return CheckedCase("right", variant, (output,))

    def benched(
        self, request: BenchRequest, ask: BenchAsk, preparing: Callable[[str], None]
    ) -> Benched:
        self._benched += 1
        if self._planted.get("dies") == str(self._benched - 1):
            raise WorkerFailed("the worker was killed by SIGSEGV while timing")
        missing = self._planted.get("missing")
        clock = _Clock(request.seed, ask, float(self._planted.get("slow", "1.03")))
        for contender in ask.contenders:
            preparing(contender.name)
        preparing("")
        launches = {c.name: print for c in ask.contenders if c.name != missing}
        seconds, _ = time_rounds(launches, clock, ask.rounds, ask.budget_seconds, request.seed)
        timed = tuple(
            TimedContender(c.name, error=f"{c.name} is not installed")
            if c.name == missing
            else TimedContender(c.name, seconds[c.name], largest_error=0.001, ready_seconds=0.5)
            for c in ask.contenders
        )
        machine = Machine("NVIDIA H200", "2.13.0", "3.7.1")
        rounds = max(map(len, seconds.values()), default=0)
        return Benched(ask.problem, ask.moved_bytes, timed, machine, rounds)

    def close(self) -> None:
        return


class _Clock:
    """Makes up the times of a clock on which every contender takes its share of a copy, ± 0.2 %."""

    def __init__(self, seed: int, ask: BenchAsk, ours: float) -> None:
        self._draw = random.Random(seed)
        self._copy = ask.moved_bytes / COPY_BANDWIDTH
        own = [c.name for c in ask.contenders if c.plan is not None]
        self._times = TIMES | {name: ours + 0.1 * n for n, name in enumerate(own)}
        self._now = 0.0

    def seconds(self, name: str, launch: Callable[[], object]) -> float:
        taken = self._copy * self._times[name] * self._draw.uniform(0.998, 1.002)
        self._now += taken + 0.001
        return taken

    def now(self) -> float:
        return self._now


def _describe(launch: KernelLaunch, problem: Problem) -> DescribedLaunch:
    """Return a launch that reads its first pointer and writes its last; both are as large as the
    problem."""
    pointers = [name for name, kind in launch.arguments.items() if kind.startswith(("*", "tensor"))]
    arguments = [*launch.arguments, *(f"{name}: tl.constexpr" for name in launch.constants)]
    lines = [
        f"def {launch.function}({', '.join(arguments)}):",
        f"    x = tl.load({pointers[0]})",
        f"    tl.store({pointers[-1]}, x)",
    ]
    shape, stride = (problem.rows, problem.columns), (problem.stride, 1)
    size = problem.elements * (4 if problem.dtype == "float32" else 2)
    operands = tuple(
        Operand(name, name, problem.dtype, shape, stride, size, name == pointers[0])
        for name in (pointers[0], pointers[-1])
    )
    return DescribedLaunch("\n".join(["@triton.jit", *lines]) + "\n", operands)
