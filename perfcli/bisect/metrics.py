"""Defines what can be bisected: one number per variant, exact or timed.

Lower is better in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfcli.diff.metrics import KERNEL_METRICS, fold
from perfcli.errors import PerfcliError
from perfcli.model import Device, KernelFacts, Run
from perfcli.names import suggestion
from perfcli.predict.step import estimate_step

Kind = Literal["code", "binary", "memory", "compile", "time"]
"""What a value is read from: the generated ``code``; kernels compiled to a ``binary``; ``memory``
measured where there is a GPU, else of the code; compiling or running it, on a clock."""


@dataclass(frozen=True, slots=True)
class SearchMetric:
    name: str
    """As it is typed."""
    of_runs: str
    """Its name in runs and reports; ``units`` writes it by this one."""
    kind: Kind
    says: str
    bound: str = ""
    """What is said before a value that is no estimate itself: ``likely at most``."""

    @property
    def is_estimated(self) -> bool:
        """Return whether a value follows from what kernels do, weighed."""
        return self.of_runs == "estimated_seconds"

    @property
    def is_timed(self) -> bool:
        """Return whether a value scatters from measurement to measurement."""
        return self.kind in ("compile", "time")


METRICS = {
    metric.name: metric
    for metric in (
        SearchMetric("spills", "spilled_words", "binary", "spilled words, of all kernels"),
        SearchMetric("loads", "loads", "code", "loads in the text of all kernels"),
        SearchMetric("kernels", "kernels", "code", "kernels that a step launches"),
        SearchMetric(
            "registers", "registers", "binary", "registers per thread, of the worst kernel"
        ),
        SearchMetric("bytes", "bytes_moved", "code", "bytes that a step moves"),
        SearchMetric("swept", "bytes_swept", "code", "bytes, a buffer again for each pass over it"),
        SearchMetric(
            "lower-bound", "lower_bound_seconds", "code", "the bytes at the target's bandwidth"
        ),
        SearchMetric(
            "estimated-time", "estimated_seconds", "binary", "all kernels of a step, without a GPU"
        ),
        SearchMetric(
            "peak-memory", "peak_memory_bytes", "memory", "measured on a GPU, else estimated"
        ),
        SearchMetric(
            "compile-time", "compile_seconds", "compile", "from the model to generated code"
        ),
        SearchMetric("device-time", "device_seconds", "time", "all kernels of a step, GPU only"),
        SearchMetric("time", "step_seconds", "time", "the step, as compare measures it"),
    )
}
_ALIASES = {"step-time": "time", "lower-bound-time": "lower-bound"} | {
    metric.of_runs: name for name, metric in METRICS.items()
}

_GPU_ONLY = ("spills", "registers", "swept", "lower-bound", "estimated-time", "device-time")


def _find(name: str, device: Device) -> SearchMetric:
    """Return the metric that is meant. Raises PerfcliError where there is none, or not for this
    device."""
    metric = METRICS.get(_ALIASES.get(name, name))
    if metric is None:
        raise PerfcliError(f"no metric {name!r}: {suggestion(name, METRICS)}")
    if device == "cpu" and metric.name in _GPU_ONLY:
        others = ", ".join(other for other in METRICS if other not in _GPU_ONLY)
        raise PerfcliError(
            f"there is no metric {metric.name} on the CPU: take one of {others}, or a GPU with "
            "--target"
        )
    return metric


def _value_of(metric: SearchMetric, run: Run) -> float:
    """Return an exact metric of a compiled variant. Raises PerfcliError where it is not known."""
    value: float | None
    if metric.kind == "memory":
        value = run.peak_memory_bytes
    elif metric.is_estimated:
        value = _estimate(run)
    else:
        (of_kernel,) = (m for m in KERNEL_METRICS if m.name == metric.of_runs)
        counted = run.kernels
        if not of_kernel.per_launch:
            counted = _once(counted)
        value = fold(of_kernel, counted).value
        if value is None and not counted:
            value = 0.0  # no kernels load nothing: that is known
    if value is None:
        raise PerfcliError(f"{metric.name} is not known of any kernel")
    return value


def _estimate(run: Run) -> float:
    """Raise PerfcliError where a kernel has no estimate, or one from its bytes alone, or there are
    no constants."""
    step = estimate_step(run)
    if step is None:
        raise PerfcliError(
            f"estimated-time is not known on {run.place}: no GPU like it was calibrated"
        )
    if vague := (*step.missing, *step.rough):
        raise PerfcliError(f"estimated-time is not known: {vague[0]}")
    return step.seconds


def _once(kernels: tuple[KernelFacts, ...]) -> tuple[KernelFacts, ...]:
    """Return the kernels of a graph with the same code as one: Inductor makes several of them where
    only their comments differ."""
    launched = (kernel for kernel in kernels if kernel.launches)
    return tuple({(kernel.graph, kernel.source_hash): kernel for kernel in launched}.values())
