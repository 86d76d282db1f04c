"""Measures the seconds of each launch of a step, by torch's profiler (Kineto, with CUPTI on a GPU).

The profiler slows the host down, so the step as a whole is timed elsewhere, without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from perfcli.compile.capture.captured import Capture, CapturedGraph, CapturedKernel
from perfcli.measure import joining, loaded_kernels
from perfcli.measure.events import STEP, read, split_steps
from perfcli.measure.joining import Seen
from perfcli.model import Launch, MeasuredLaunch

if TYPE_CHECKING:
    from perfcli.measure.step import Step

NAME = 160
"""Characters of an operator with its kernel: C++ templates have names of thousands."""

Kernels = dict[str, list[tuple[CapturedGraph, CapturedKernel]]]
"""Captured kernels by what they go by in a profile; two graphs can have kernels of one name."""


class StepProfiler:
    """Profiles one step to see what it launches, and then others to time these launches.

    ``launches`` are in the order in which they were seen; ``joined`` is how many launches of
    generated kernels are ones that were captured, and how many were seen or expected.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._kernels = _kernels(step.capture)
        # The profiler's own first steps are slow, on a GPU by tenths of a second.
        self._profiled(1, facts=False)
        step.capture.call_order.clear()
        (seen,) = self._profiled(1, facts=True)
        expected = [_expected(launch, step.capture) for launch in step.capture.launch_list()]
        self._place(expected, step.capture.launch_list(), seen)

    def _place(self, expected: list[Seen], launches: list[Launch], seen: list[Seen]) -> None:
        """Give each seen launch its slot."""
        joined = joining.join(expected, seen)
        self._layout, self._slots = seen, joining.slots(joined)
        self.launches = tuple(
            self._measured(launches[place] if place is not None else None, first)
            for first, place in joining.firsts(seen, joined)
        )
        generated = [launch for launch in self.launches if launch.generated]
        never = sum(expected[e].generated for e in joined.missing)
        self.joined = (sum(bool(g.source_hash) for g in generated), len(generated) + never)
        self.kernel_count = sum(max(len(s.kernels), 1) for s in seen)
        self.notes = joining.notes(expected, seen, joined)

    def times(self, count: int) -> list[tuple[float, ...]]:
        """Return the seconds of each launch for each step. There are fewer than ``count`` where the
        profiler lost events of a step."""
        steps = [joining.times(self._layout, self._slots, s) for s in self._profiled(count)]
        return [seconds for seconds in steps if seconds is not None]

    def _profiled(self, count: int, facts: bool = False) -> list[list[Seen]]:
        import torch

        step = self._step
        on_device = step.device == "cuda"
        with ExitStack() as stack:
            if not on_device:
                stack.enter_context(loaded_kernels.mark_kernels(step.capture))
            profile = stack.enter_context(profile_steps(on_device, facts))
            for _ in range(count):
                with torch.profiler.record_function(STEP):
                    step.launch()
                    step.wait()
        return split_steps(read(profile.kineto_results.events()), on_device, self._is_generated)

    def _is_generated(self, name: str) -> bool:
        return name in self._kernels or name.startswith("triton_")

    def _measured(self, launch: Launch | None, seen: Seen) -> MeasuredLaunch:
        given = _launch_facts(seen)
        if not seen.generated:
            return MeasuredLaunch(
                _extern_name(seen), launch.graph if launch else "", False, **given
            )
        graph, kernel = self._captured(launch, seen)
        if graph is None or kernel is None:
            return MeasuredLaunch(seen.key, **given)
        known = loaded_kernels.launcher(graph, kernel.name)
        if known.registers is not None:
            given |= {"registers": known.registers, "shared_bytes": known.shared_bytes}
        return MeasuredLaunch(
            kernel.name,
            graph.facts.name,
            source_hash=kernel.definition.source_hash,
            config=known.config,
            **given,
        )

    def _captured(
        self, launch: Launch | None, seen: Seen
    ) -> tuple[CapturedGraph | None, CapturedKernel | None]:
        """Return the kernel of the expected launch; without one, the only kernel of that name."""
        candidates = self._kernels.get(seen.key, [])
        for graph, kernel in candidates:
            if launch and (graph.facts.name, kernel.name) == (launch.graph, launch.name):
                return graph, kernel
        return candidates[0] if len(candidates) == 1 else (None, None)


@contextmanager
def profile_steps(on_device: bool, facts: bool) -> Iterator[Any]:
    """Run the low-level profiler: the high-level one also builds an object per event, which takes
    longer than the step."""
    import torch
    from torch._C._profiler import _ExperimentalConfig

    options: dict[str, Any] = {"use_kineto": True, "use_cpu": True}
    if on_device:
        options["use_device"] = "cuda"
    if facts:
        options["experimental_config"] = _ExperimentalConfig(expose_kineto_event_metadata=True)
    with torch.autograd.profiler.profile(**options) as profile:
        yield profile


def _kernels(capture: Capture) -> Kernels:
    found: Kernels = {}
    for graph in capture.graphs:
        for kernel in graph.kernels.values():
            found.setdefault(loaded_kernels.key(graph, kernel), []).append((graph, kernel))
    return found


def _expected(launch: Launch, capture: Capture) -> Seen:
    """Return a launch as it will be seen."""
    graph = next(g for g in capture.graphs if g.facts.name == launch.graph)
    kernel = None if launch.extern else graph.kernels.get(launch.name)
    if kernel is None:
        return Seen(_operator_key(launch.name), 0.0, generated=False)
    return Seen(loaded_kernels.key(graph, kernel), 0.0, generated=True)


def _operator_key(name: str) -> str:
    """Return ``aten.mm.out`` and ``extern_kernels.mm`` as profilers call them: ``aten::mm``."""
    parts = name.removeprefix("torch.ops.").split(".")
    if parts[0] == "extern_kernels":
        parts[0] = "aten"
    return "::".join(parts[:2])


def _extern_name(seen: Seen) -> str:
    """Return ``aten::mm`` and, on a GPU, the longest of its kernels."""
    if seen.kernel in ("", seen.key):
        return seen.key[:NAME]
    return f"{seen.key} {seen.kernel}"[:NAME]


def _launch_facts(seen: Seen) -> dict[str, Any]:
    facts = seen.facts
    return {
        "registers": facts.get("registers per thread"),
        "shared_bytes": facts.get("shared memory"),
        "grid": _triple(facts.get("grid")),
        "block": _triple(facts.get("block")),
    }


def _triple(value: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in value) if isinstance(value, Sequence) else ()
