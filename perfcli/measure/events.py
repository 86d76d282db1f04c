"""Reads what a profiler saw of a step off Kineto's events: kernels and operators, with their
seconds.

Read with torch 2.11 (CUDA) and 2.13 (CPU). A kernel on the device names, by ``linked``, the
innermost event that was open on the host when it was launched.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from perfcli.measure.joining import Seen

STEP = "perfcli step"
"""The mark around a step."""
KERNEL = "perfcli kernel "
"""The mark around a generated kernel's call on the CPU begins so."""

# ``aten::mm``, ``mylib::op``; not ``autograd::engine::evaluate_function: …``.
_OPERATOR = re.compile(r"[A-Za-z_]\w*::\w[\w.]*")
# They make a tensor or look at one otherwise: nothing that a launch list would have.
_NO_WORK = re.compile(
    r"aten::(alias|as_strided|detach|empty|empty_like|empty_strided|expand|lift_fresh|permute|"
    r"reshape|select|slice|squeeze|t|transpose|unsqueeze|view|resolve_(conj|neg)|item|result_type)_?"
)


@dataclass(frozen=True, slots=True)
class _Event:
    """Holds one of Kineto's events, in nanoseconds of one clock."""

    name: str
    start: int
    end: int
    where: Literal["host", "launch", "device"]
    """``launch``: a call of the driver on the host, whose ``correlation`` is that of its kernel;
    the host's other events are numbered by themselves."""
    thread: int = 0
    correlation: int = 0
    linked: int = 0
    mark: bool = False
    """The name given to ``record_function``; on the device such an event spans kernels, and is
    none."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of a kernel: ``registers per thread``, ``grid``, ``block``, ``shared memory``."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def split_steps(
    events: Iterable[_Event], on_device: bool, generated: Callable[[str], bool]
) -> list[list[Seen]]:
    """Return what was launched in each marked step, in order. ``generated`` says whether a kernel's
    name on the device is that of a generated one."""
    ordered = sorted(events, key=lambda e: (e.start, -e.end))
    windows = [e for e in ordered if e.mark and e.name == STEP and e.where == "host"]
    starts = [w.start for w in windows]
    steps: list[list[Seen]] = [[] for _ in windows]
    launched = _on_device(ordered, generated) if on_device else _on_host(ordered)
    for moment, seen in launched:
        index = bisect.bisect_right(starts, moment) - 1
        if index >= 0 and moment < windows[index].end:
            steps[index].append(seen)
    return steps


def _on_host(ordered: Sequence[_Event]) -> list[tuple[int, Seen]]:
    """Return generated kernels by their marks, and the outermost operators, as they began."""
    found = []
    for event, outer in _nest(ordered):
        if outer is not event:
            continue
        if event.mark:
            name = event.name.removeprefix(KERNEL)
            found.append((event.start, Seen(name, event.seconds, generated=True)))
        elif not _NO_WORK.fullmatch(event.name):
            found.append((event.start, Seen(event.name, event.seconds, generated=False)))
    return found


def _nest(ordered: Sequence[_Event]) -> list[tuple[_Event, _Event | None]]:
    """Return every event of the host with the outermost operator or generated kernel that holds it
    (which can be itself), or None."""
    stacks: dict[int, list[tuple[_Event, _Event | None]]] = {}
    found = []
    for event in ordered:
        if event.where != "host":
            continue
        stack = stacks.setdefault(event.thread, [])
        while stack and stack[-1][0].end <= event.start:
            stack.pop()
        outer = stack[-1][1] if stack else None
        if outer is None and _counts(event):
            outer = event
        stack.append((event, outer))
        found.append((event, outer))
    return found


def _counts(event: _Event) -> bool:
    if event.mark:
        return event.name.startswith(KERNEL)
    return _OPERATOR.fullmatch(event.name) is not None


def _on_device(
    ordered: Sequence[_Event], generated: Callable[[str], bool]
) -> list[tuple[int, Seen]]:
    """Return kernels, copies and fills in the order in which they were launched; those that one
    operator launched are one."""
    outermost: dict[int, _Event | None] = {}
    for event, outer in _nest(ordered):
        outermost.setdefault(event.correlation, outer)
    found: list[tuple[int, Seen]] = []
    last: _Event | None = None
    for moment, kernel in _order_by_launch(ordered):
        known = generated(kernel.name)
        operator = outermost.get(kernel.linked) if kernel.linked and not known else None
        if operator is not None and operator is last:
            began, before = found[-1]
            found[-1] = began, before.with_kernel(kernel.name, kernel.seconds, kernel.facts)
            continue
        last = operator
        name = operator.name if operator else kernel.name
        found.append((moment, Seen(name, kernel.seconds, known, (kernel.name,), kernel.facts)))
    return found


def _order_by_launch(ordered: Sequence[_Event]) -> list[tuple[int, _Event]]:
    """Return each kernel with the moment at which the host launched it, in that order; a replayed
    graph launches all of its kernels at once."""
    launches = {e.correlation: e.start for e in ordered if e.where == "launch"}
    kernels = [e for e in ordered if e.where == "device" and not e.mark]
    timed = [(launches.get(k.correlation, k.start), k) for k in kernels]
    return sorted(timed, key=lambda pair: (pair[0], pair[1].start))


# ``cudaLaunchKernel``, ``cuLaunchKernelEx``, ``hipModuleLaunchKernel``.
_DRIVER = re.compile(r"(cu|cuda|hip)[A-Z]\w*")


def read(kineto: Iterable[Any]) -> list[_Event]:
    """Return Kineto's events (``torch._C._autograd._KinetoEvent``) as ours."""
    return [_event(e) for e in kineto]


def _event(event: Any) -> _Event:
    name, start = event.name(), event.start_ns()
    on_host = event.device_type().name == "CPU"
    where: Literal["host", "launch", "device"] = "host" if on_host else "device"
    if on_host and _DRIVER.fullmatch(name):
        where = "launch"
    return _Event(
        name,
        start,
        start + event.duration_ns(),
        where,
        event.start_thread_id(),
        event.correlation_id(),
        event.linked_correlation_id(),
        event.is_user_annotation() or name.startswith(KERNEL),
        {} if on_host else _facts(event),
    )


def _facts(event: Any) -> dict[str, Any]:
    """Return Kineto's metadata of a kernel, the inside of a JSON object; empty unless it was asked
    for."""
    text = event.metadata_json() if hasattr(event, "metadata_json") else ""
    try:
        facts = json.loads(text if text.lstrip().startswith("{") else f"{{{text}}}")
    except ValueError:  # written by hand in C++: a name with a quote would break it
        return {}
    return facts if isinstance(facts, dict) else {}
