"""Holds what stays the same from a command's first step to its last: how runs are obtained, and
where remarks about it go. What is real and what ``--fake`` makes up is decided here."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from perfcli.cluster.connection import Cluster
from perfcli.console.notes import STARTING, Notes
from perfcli.machine import environment
from perfcli.machine.environment import Interpreter
from perfcli.model import StartPhase
from perfcli.worker.needs import USUAL_NEEDS, Needs
from perfcli.worker.roles import Executor, Generator, Interlude

if TYPE_CHECKING:
    from perfcli.cluster.tasks import Terms

FAKE = "PERFCLI_FAKE"

Probe = Callable[[str | None], Interpreter]
"""Asks an interpreter, by its path or command, what it has installed."""


@dataclass(frozen=True, slots=True)
class Context:
    """Says how runs are obtained: passed down unchanged by whoever does not look into it."""

    notes: Notes
    fresh: bool = False
    """Whether runs are compiled again though they are stored."""
    timeout: float | None = None
    """Seconds that a worker has."""
    fake: bool = False
    jobs: int | None = None
    """Kernels that are compiled at once; None: as many as there are cores."""
    trust: bool = False
    """Whether a stored run may start the programs that its file names."""
    written: Mapping[Path, str] = field(default_factory=dict)
    """The options that name files to write, by the place of each: none of these is to be read."""

    cluster: Cluster | None = None
    """Where runs are compiled, if not on this machine."""
    needs: Needs = USUAL_NEEDS
    """What a compilation takes of the machine that it is on."""

    began: float = field(default_factory=time.monotonic)
    phases: list[StartPhase] = field(default_factory=list, repr=False, compare=False)
    """What the time since then went to, as far as a measurement is told."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note how long the block takes."""
        began, used = time.monotonic(), time.process_time()
        yield
        seconds, processor = time.monotonic() - began, time.process_time() - used
        self.phases.append(
            StartPhase(
                "command",
                name,
                round(began - self.began, 3),
                round(seconds, 3),
                round(processor, 3),
            )
        )

    @property
    def fake_plan(self) -> str:
        """Return what is to be made up instead of compiled and measured; empty: nothing."""
        return read_fake_plan(self.fake)

    def start_executor(self, interlude: Interlude | None = None) -> Executor:
        """Return what compiles runs; the interlude is for who compiles here."""
        if self.cluster is not None:
            from perfcli.cluster.executor import ClusterExecutor

            return ClusterExecutor(self.terms)
        if plan := self.fake_plan:
            from perfcli.fake.executor import FakeExecutor

            return FakeExecutor(plan)
        from perfcli.worker.process import ProcessExecutor

        return ProcessExecutor(self.timeout, self.needs, interlude)

    def start_generator(self) -> Generator:
        """Return what compiles many variants as far as a search needs them."""
        here = self._start_generator_here()
        if self.cluster is None:
            return here
        from perfcli.cluster.executor import ClusterGenerator

        return ClusterGenerator(self.terms, here)

    def _start_generator_here(self) -> Generator:
        if plan := self.fake_plan:
            from perfcli.fake.executor import FakeGenerator

            return FakeGenerator(plan)
        from perfcli.worker.template import TemplateProcess

        return TemplateProcess(self.timeout)

    @property
    def first_step(self) -> str:
        """Return what a compilation waits for first."""
        return STARTING if self.cluster is None else "connecting to the cluster"

    @property
    def terms(self) -> Terms:
        """Return where and how tasks are run."""
        from perfcli.cluster.tasks import Terms

        assert self.cluster is not None
        return Terms(self.cluster, self.needs, self.timeout, self.fake_plan, self.notes.warn)

    def choose_probe(self, device: str | None = None) -> Probe:
        """Return what asks interpreters. C++ kernels for the CPU need no triton."""
        if self.fake_plan:
            from perfcli.fake.executor import fake_interpreter

            return fake_interpreter
        return functools.partial(environment.probe, needs_triton=device != "cpu")


def read_fake_plan(fake: bool = False) -> str:
    """Return what PERFCLI_FAKE, or else ``--fake``, says is to be made up; empty: nothing."""
    plan = os.environ.get(FAKE, "1" if fake else "")
    return "" if plan == "0" else plan
