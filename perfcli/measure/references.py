"""Makes the runs that a check needs, each from the same state and seed, and only where it is
wanted."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from perfcli.compile.building import optimizers_of
from perfcli.measure import judging, results, room
from perfcli.measure.judging import ErrorLimits
from perfcli.measure.results import Results
from perfcli.measure.snapshot import Snapshot
from perfcli.measure.step import Step
from perfcli.model import Workload

EAGER = "the model run eagerly"
FLOAT64 = "the model run eagerly in float64"
SCENARIOS = "the scenario's reference in float64"
COPIES = 4
"""Intermediate values as large as all inputs and weights that an eager run may hold at once."""
BYTES_FLOAT64 = 8


class Runs:
    """Makes runs of one step. What fails to run is None; ``why`` says what happened to it."""

    def __init__(self, step: Step, before: Snapshot) -> None:
        self._step = step
        self._before = before
        self._workload: Workload = step.built.workload
        self._computed: set[str] = set()
        """Names of the dtypes in which the ranks' eager run computed."""
        self.why = ""

    @property
    def among_ranks(self) -> bool:
        """Return whether each run is one of all ranks of a process group."""
        return self._step.request.rank is not None

    def compiled(self) -> Results:
        """Run the compiled workload. Raises whatever the step raises."""
        return self._run(self._step.compiled, self._workload)

    @functools.cached_property
    def eager(self) -> Results | None:
        call = self._workload.call
        if self.among_ranks:
            # Nothing else tells in which dtypes FSDP2 computes, and a float64 run cannot help.
            call = judging.note_dtypes(call, self._computed)
        return self._tried(EAGER, 0, lambda: self._run(call, self._workload))

    @functools.cached_property
    def reference(self) -> Results | None:
        """Run the scenario's own reference, which has outputs only."""
        if self._workload.reference is None:
            return None
        return self._tried(SCENARIOS, BYTES_FLOAT64, self._run_reference)

    @functools.cached_property
    def float64(self) -> Results | None:
        if optimizers_of(self._workload.call):
            self.why = f"{FLOAT64} would need an optimizer in float64"
            return None
        return self._tried(FLOAT64, BYTES_FLOAT64, self._run_float64)

    def expected(self, compiled: Results) -> tuple[Results | None, str]:
        """Return what to hold the compiled results against, and its name; or why there is
        nothing."""
        reference = self.reference
        if reference is not None and _fits(reference, compiled):
            if self._workload.mode != "training" or self.eager is None:
                return reference, SCENARIOS
            merged = replace(self.eager, outputs=reference.outputs)
            return merged, f"{SCENARIOS}, gradients by {EAGER}"
        if self.eager is None:
            return None, f"not compared: {self.why}"
        return self.eager, f"{EAGER} ({self.why})" if self.why else EAGER

    def exact(self, compiled: Results) -> tuple[Results | None, str]:
        """Return the nearest to the truth that there is, for a closer look."""
        reference = self.reference
        if reference is not None and _fits(reference, compiled):
            if self._workload.mode != "training" or self.float64 is None:
                return reference, SCENARIOS
            return replace(self.float64, outputs=reference.outputs), SCENARIOS
        return self.float64, FLOAT64

    def again(self) -> Results | None:
        """Run eagerly once more, to see whether it repeats itself."""
        return self._tried(EAGER, 0, lambda: self._run(self._workload.call, self._workload))

    def limits(self, compiled: Results) -> ErrorLimits:
        built = self._step.built
        dtypes = judging.dtypes_at_work(built, compiled.outputs.values()) | self._computed
        return ErrorLimits(
            judging.output_tolerance(built.scenario.tolerance, dtypes),
            judging.tolerance(judging.GRADIENTS, dtypes),
            judging.INTEGERS if dtypes else 0.0,
        )

    def _run(self, call: Callable[..., Any], workload: Workload) -> Results:
        self._before.restore()
        return results.collect_results(call, workload, self._before, self._step.request.seed)

    def _run_reference(self) -> Results:
        import torch

        self._before.restore()
        torch.manual_seed(self._step.request.seed)
        workload = results.double_inputs(self._workload)
        assert workload.reference is not None
        with torch.no_grad():
            result = workload.reference(*workload.inputs, **workload.kwargs)
        return Results(results.tensors(result))

    def _run_float64(self) -> Results:
        self._before.restore()
        with results.convert_to_float64(self._workload) as workload:
            return results.collect_results(
                workload.call, workload, self._before, self._step.request.seed
            )

    def _tried(self, what: str, itemsize: int, run: Callable[[], Results]) -> Results | None:
        try:
            if self._step.device == "cpu":
                room.require(COPIES * self._bytes(itemsize), room.available())
            return run()
        except Exception as error:
            # Frames of the failed run would keep its tensors alive.
            traceback.clear_frames(error.__traceback__)
            full = room.is_out_of_memory(error)
            how = "does not fit into memory" if full else f"failed: {_headline(error)}"
            self.why = f"{what} {how}"
        room.give_back(self._step.device)
        return None

    def _bytes(self, itemsize: int) -> int:
        values = self._before.values.values()
        return sum(t.numel() * (itemsize or t.element_size()) for t in values)


def _fits(reference: Results, compiled: Results) -> bool:
    """Return whether the reference gives the same tensors; some give the loss alone."""
    return reference.outputs.keys() == compiled.outputs.keys() and not any(
        judging.mismatch(compiled.outputs[name], theirs)
        for name, theirs in reference.outputs.items()
    )


def _headline(error: Exception) -> str:
    text = str(error).strip()
    first = text.splitlines()[0][:200] if text else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
