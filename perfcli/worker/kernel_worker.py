"""What the command line asks about hand-written kernels of whoever can import torch.

Two implementations: ``hand_written.KernelProcess`` starts workers, ``fake_kernels.FakeKernels``
makes up answers for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from perfcli.model import Candidate
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


class KernelWorker(Protocol):
    def compiled(self, request: LaunchesRequest) -> Iterator[tuple[int, Candidate]]:
        """Each launch's number and what it became, as they come.

        Raises WorkerFailed where the worker died or hung.
        """
        ...

    def described(self, request: DescribeRequest) -> tuple[DescribedLaunch, ...]:
        """Each launch of the plan: what it runs, and the tensors that it is given."""
        ...

    def checked(
        self, request: CheckRequest, compiling: Callable[[int, int], None]
    ) -> Iterator[tuple[int, CheckedCase]]:
        """Each case's number and what came of it, as they come. A case that takes the device or
        the worker with it is a failed one; the rest is run in a new worker. ``compiling`` hears how
        much of what cases need is compiled ahead, and of how much."""
        ...

    def benched(
        self, request: BenchRequest, ask: BenchAsk, preparing: Callable[[str], None]
    ) -> Benched:
        """One problem, timed. ``preparing`` hears which contender is being made ready, and an
        empty text when the rounds begin.

        Raises WorkerFailed where the worker died or hung; the next problem gets a new one.
        """
        ...

    def close(self) -> None:
        """Ends its processes; may be called again."""
        ...
