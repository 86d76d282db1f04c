"""One side of a measurement, in its worker process: gets ready, then answers questions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from perfcli.errors import WrongResult
from perfcli.model import Ask, MeasureRequest, Prepared, Turn


class MeasuredSide:
    """One side's step, and what has been learnt of it. ``report`` is told of phases."""

    def __init__(self, request: MeasureRequest, report: Callable[[str], None]) -> None:
        self.request = request
        self._report = report
        self._step: Any = None

    def prepare(self) -> Prepared:
        """Everything that is done once, before anything is timed."""
        from perfcli.measure import checking, memory
        from perfcli.measure import step as steps

        if self.request.cpus:
            os.sched_setaffinity(0, self.request.cpus)
        self._report("import")
        _import_torch()
        self._report("trace")
        self._step = step = steps.prepare(self.request)
        check = checking.check(step) if self.request.check else None
        if check is not None and check.failure:
            raise WrongResult(f"the {self.request.side}'s outputs are wrong: {check.failure}")
        with steps.out_of_memory(self.request.side, self.request.compile):
            launches = self._profiled_once()
            return Prepared(
                side=self.request.side,
                process=0,
                machine=self._machine(),
                step_seconds=self._step_seconds(),
                compile_seconds=round(step.compile_seconds, 3),
                launches=launches,
                launch_count=len(launches) or None,
                memory=memory.use_of(step),
                check=check,
                notes=tuple(step.built.notes),
            )

    def turn(self, ask: Ask) -> Turn:
        """Warms up again, the other side ran in between, then times."""
        from perfcli.measure import step as steps

        with steps.out_of_memory(self.request.side, self.request.compile):
            for _ in range(ask.warmup):
                self._step.run()
            self._step.wait()
            return self._kernels(ask.steps) if ask.kind == "kernels" else self._steps(ask.steps)

    def _steps(self, count: int) -> Turn:
        from perfcli.measure import clock

        seconds, wall = clock.time_steps(self._step, count)
        return Turn(seconds, wall)

    def _kernels(self, count: int) -> Turn:
        raise NotImplementedError

    def _profiled_once(self) -> tuple[Any, ...]:
        return ()

    def _machine(self) -> Any:
        raise NotImplementedError

    def _step_seconds(self) -> float:
        """The median of a few steps."""
        seconds = sorted(self._steps(3).seconds)
        return seconds[1]


def _import_torch() -> None:
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401
