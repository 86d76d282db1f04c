"""One side of a measurement, in its worker process: gets ready, then answers questions."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

from perfcli.measure import clock
from perfcli.model import Ask, Machine, MeasureRequest, Prepared, Turn

if TYPE_CHECKING:
    from perfcli.measure.step import Step

PLANNING_STEPS = 5


class MeasuredSide:
    """One side's step, and what has been learnt of it. ``report`` is told of phases."""

    def __init__(self, request: MeasureRequest, report: Callable[[str], None]) -> None:
        self.request = request
        self._report = report
        self._made: Step | None = None

    @property
    def _step(self) -> Step:
        assert self._made is not None, "prepare() comes first"
        return self._made

    def prepare(self) -> Prepared:
        """Everything that is done once, before anything is timed."""
        request = self.request
        self._report("import")
        _import_torch()
        from perfcli.measure import step as steps

        self._report("trace")
        self._made = step = steps.prepare(request)
        with steps.out_of_memory(request.side, request.compile):
            return Prepared(
                side=request.side,
                process=0,
                machine=Machine("", ""),
                step_seconds=statistics.median(self._timed(PLANNING_STEPS).seconds),
                compile_seconds=round(step.compile_seconds, 3),
                notes=step.built.notes,
            )

    def turn(self, ask: Ask) -> Turn:
        """Warms up again, since the other side ran in between, then times."""
        from perfcli.measure import step as steps

        with steps.out_of_memory(self.request.side, self.request.compile):
            for _ in range(ask.warmup):
                self._step.run()
            self._step.wait()
            return self._timed(ask.steps)

    def _timed(self, count: int) -> Turn:
        return clock.time_steps(self._step, count)


def _import_torch() -> None:
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401
