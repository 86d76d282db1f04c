"""Defines what the command line asks of whoever compiles: requests in, bundles out, as they come.

Three implementations: ``process.ProcessExecutor`` starts workers here, ``cluster.ClusterExecutor``
has a Ray cluster do so, ``fake.FakeExecutor`` makes up deterministic bundles so that the whole
command line is tested without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from perfcli.errors import PerfcliError
from perfcli.model import (
    Ask,
    Bundle,
    Candidate,
    CompileRequest,
    Generated,
    KernelFacts,
    KernelText,
    MeasureRequest,
    Prepared,
    Turn,
)
from perfcli.model.kernel_work import (
    BenchAsk,
    Benched,
    BenchRequest,
    CheckedCase,
    CheckRequest,
    DescribedLaunch,
    DescribeRequest,
    LaunchesRequest,
)

Phase = Literal["import", "trace", "choices", "kernels", "check", "warm", "done"]


PHASES = {
    "import": "importing torch",
    "trace": "building and tracing the model",
    "choices": "compiling implementations to choose from",
    "kernels": "compiling kernels",
    "check": "checking outputs",
    "warm": "warming up",
    "done": "done",
}
"""What a worker does meanwhile, as users read it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Says how far one request has come. ``total`` is None where it is not known yet."""

    request: int
    """Index into the requests given to ``compile``."""
    phase: Phase
    done: int = 0
    total: int | None = None
    text: str = ""
    note: str = ""
    """What is to be said at once; then it says nothing of how far the request has come."""
    place: str = ""
    """The machine of a cluster that is at it."""


Compiled: TypeAlias = "Bundle | PerfcliError"


class Executor(Protocol):
    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Iterator[tuple[int, Compiled]]:
        """Yield each request's number and what came of it, as they come. A request that fails is
        an error (UserCodeFailed, CompileFailed, WorkerFailed), never raised.

        ``Run.id``, ``created``, ``fingerprint`` are the caller's to fill in. ``progress`` is called
        in the caller's thread.
        """
        ...


Made: TypeAlias = "Generated | PerfcliError"


class Generator(Protocol):
    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        """Return each request's number and what came of it, as they come; so many are compiled at
        once as they have ``jobs``. A request that fails is an error, never raised.

        ``base`` is what most of them have in common: what they share with it is compiled once.
        Where it is one of them, others may be left out: those that differ from it in nothing that
        was read (``Generated.unread``).
        """
        ...

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        """Return the kernels with their candidates, as the whole compilation has them; with the
        work of each where ``weighs`` asks for it. Raises CompileFailed where Triton refuses one,
        WorkerFailed where the worker died."""
        ...

    def close(self) -> None:
        """End its processes; may be called again."""
        ...


class KernelWorker(Protocol):
    def compiled(self, request: LaunchesRequest) -> Iterator[tuple[int, Candidate]]:
        """Return each launch's number and what it became, as they come. Raises WorkerFailed where
        the worker died or hung."""
        ...

    def described(self, request: DescribeRequest) -> tuple[DescribedLaunch, ...]:
        """Return each launch of the plan: what it runs, and the tensors that it is given."""
        ...

    def checked(
        self, request: CheckRequest, compiling: Callable[[int, int], None]
    ) -> Iterator[tuple[int, CheckedCase]]:
        """Return each case's number and what came of it, as they come. A case that takes the device
        or the worker with it is a failed one; the rest is run in a new worker. ``compiling`` hears
        how much of what cases need is compiled ahead, and of how much."""
        ...

    def benched(
        self, request: BenchRequest, ask: BenchAsk, preparing: Callable[[str], None]
    ) -> Benched:
        """Return one problem, timed. ``preparing`` hears which contender is being made ready, and
        an empty text when the rounds begin. Raises WorkerFailed where the worker died or hung; the
        next problem gets a new one."""
        ...

    def close(self) -> None:
        """End its processes; may be called again."""
        ...


@dataclass(frozen=True, slots=True)
class Interlude:
    """Says what is done while requests are compiled, which waits meanwhile."""

    is_due: Callable[[], bool]
    """Asked again and again, until it is once."""
    run: Callable[[], None]
    comes_first: Callable[[], bool] = lambda: False
    """Whether those who get ready for it need the processors more."""


class MeasuringWorker(Protocol):
    """Measures one variant, compiled and warm in a process of its own."""

    def prepare(self) -> Prepared:
        """Wait until it is compiled, checked and warm. Raises UserCodeFailed, CompileFailed,
        WrongResult, OutOfMemory, or WorkerFailed where it died, hung or sent nonsense."""
        ...

    def turn(self, ask: Ask) -> Turn:
        """Time ``ask.steps`` steps. Raises as ``prepare``."""
        ...

    def close(self) -> None:
        """End the process, whatever it does; may be called again."""
        ...


class AheadWorker(MeasuringWorker, Protocol):
    """One that can be asked whether it is ready."""

    def is_prepared(self) -> bool:
        """Return whether ``prepare``, which may be called more than once, returns or raises at
        once."""
        ...

    def kill(self) -> None:
        """End its processes from another thread: who waits for an answer gets WorkerFailed."""
        ...


StartAhead = Callable[[MeasureRequest, Callable[[Phase], None]], AheadWorker]
StartWorker = Callable[[MeasureRequest, Callable[[Phase], None]], MeasuringWorker]
"""Starts a worker and returns at once, so that both sides of a pair compile at the same time;
``prepare`` waits. The function is told of phases while it does."""
