"""Defines what measuring yields: raw values in the order they were taken, stored and never changed.

Seconds, bytes, and bytes per second everywhere. ``None`` is "not known".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.values import Device, Scalar
from perfcli.model.workload import CompileRequest

SideName = Literal["base", "head"]
RoundKind = Literal["step", "kernels", "device"]
"""What a round times: the step as a program runs it; its launches one by one, by the profiler; or
the device alone, which replays the step as a CUDA graph."""
Clocks = Literal["both", "device", "step"]
"""Whose time decides: the device's, which is busy for a part of the step at least, or the step's,
in which it may wait for the host."""
DeviceClock = Literal["", "graph", "profiler"]
"""What tells the device's own time: a CUDA graph of the step, or the profiler's sum of kernels;
empty where nothing does, as on a CPU."""


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Says which rank of its side's process group a worker is, and how it finds the others."""

    number: int
    store: str
    """A file in which the ranks of a side find each other."""
    port: int
    """``MASTER_PORT``, for a model that opens a store of its own."""


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """Holds everything a measuring worker needs to get ready. Both sides of a pair get the same
    seed: the same weights and inputs."""

    compile: CompileRequest
    side: SideName
    seed: int
    threads: int | None = None
    """Threads of CPU operators and kernels; None: torch's own number."""
    cpus: tuple[int, ...] = ()
    """Cores that the process is pinned to; empty: where it may run already."""
    device_index: int | None = None
    cuda_graph: bool = False
    flush_l2: bool = False
    """Before each timed step, memory twice the size of L2 is written (for steps of few kernels)."""
    slow_down: float = 0.0
    """Planted: every step is followed by busy waiting for this share of the time it took."""
    pause: float = 0.0
    """The other side of what is planted, CPU only: as long a wait after each step that is no part
    of its time. What a wait does to the next step (data leaves a cache that others share) is then
    alike on both sides, and the planted share the true difference."""
    check: bool = True
    """Hold outputs against the eager reference before anything is timed."""
    turnstile: str = ""
    """A file that is locked by the workers that use the device while both get ready; empty: each
    uses it as it likes."""
    clocks: Clocks = "both"
    """Whose time is asked for. Without the device's, no CUDA graph is taken of the step."""
    rank: RankPlace | None = None
    """None where the request is for the whole process group, or there is none."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Holds one question to a worker that is ready."""

    kind: RoundKind
    steps: int = 0
    warmup: int = 1
    """Steps run before the timed ones and not reported."""
    relayout: bool = False
    """Whether the step's memory is to lie elsewhere from this turn on, where the worker can see to
    that."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Says where a worker ran, as far as it decides times."""

    device: str
    """``NVIDIA H200`` or the CPU's model name."""
    torch: str
    triton: str | None = None
    ptxas: str | None = None
    python: str = ""
    driver: str | None = None
    device_index: int | None = None
    uuid: str | None = None
    threads: int | None = None
    cpus: tuple[int, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    """What is compared by name besides: ``max_sm_clock_mhz``, ``power_limit_watts``, ``ecc``,
    ``mig``, ``persistence``, ``governor``, ``cores``, ``fixed_layout`` …"""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasuredLaunch:
    """Describes one launch of a step, as the profiler saw it. Its place in ``Prepared.launches`` is
    the index of its time in ``Turn.launches``."""

    name: str
    """A generated kernel's name, or an extern operator's (``aten::mm``) with its kernel."""
    graph: str = ""
    """``forward 0``; empty for what is not generated."""
    generated: bool = True
    source_hash: str = ""
    """The hash of the kernel that ran, as ``KernelFacts.source_hash``."""
    registers: int | None = None
    shared_bytes: int | None = None
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    config: str = ""
    """The launch configuration that the autotuner took."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Holds the memory use of one warm step. ``timeline`` has pairs of seconds since the step began
    and allocated bytes."""

    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    method: str
    """``caching allocator`` or ``resident set of the process``."""
    timeline: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """Holds a variant's outputs against the eager reference, before anything was timed."""

    error: float | None
    """Largest error over the reference's largest value; None where nothing could be compared."""
    tolerance: float | None
    reference: str
    """``the scenario's reference in float64``, ``the model run eagerly``."""
    failure: str = ""
    """What is wrong, in a clause; empty where all is within tolerance, or not comparable (see
    error)."""


@dataclass(frozen=True, slots=True)
class StartPhase:
    """Says how long one phase took between a command's start and its first round."""

    of: str
    """``command``, or the side whose worker it was a phase of."""
    name: str
    at: float | None
    """Seconds from the command's start until it began, less than 0 for what began while the command
    line was imported; None for the sum of what came in pieces, which other phases contain. A worker
    gives the time of the machine's monotonic clock."""
    seconds: float
    processor_seconds: float | None = None
    """Processor time of the process and of those that it waited for; None where it is not
    known."""


@dataclass(frozen=True, slots=True)
class StepCode:
    """Says what a worker's step is, before there is a run of it."""

    scenario: str
    params: Mapping[str, Scalar]
    sha: str
    """The SHA-256 of what the step launches, in order: kernels by their code, others by name;
    empty where it launches no generated kernel."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Describes a worker that is compiled and warm."""

    side: SideName
    process: int
    """Number of the pair of processes, from 0."""
    machine: Machine
    step_seconds: float
    """The seconds of a warm step, for planning only."""
    compile_seconds: float
    launches: tuple[MeasuredLaunch, ...] = ()
    launch_count: int | None = None
    """Launches of a step, generated or not."""
    memory: MemoryUse | None = None
    check: OutputCheck | None = None
    copy_bandwidth: float | None = None
    """Bytes per second of a large copy on this device, read and written."""
    device_clock: DeviceClock = ""
    """What this worker can tell the device's own time by."""
    device_seconds: float | None = None
    """The device's own seconds for a warm step, for planning only; None without a CUDA graph."""
    no_graph: str = ""
    """Why the step could not be taken as a CUDA graph, in a clause."""
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """The user's own files that it imported; empty where it is stored."""
    phases: tuple[StartPhase, ...] = ()
    """How it got ready; empty where it is stored (``Measurement.start``)."""
    ranks: tuple[Machine, ...] = ()
    """Where each rank of a process group ran; empty where there is none."""
    code: StepCode | None = None
    """None where it is stored: the run says more."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Holds what was sampled while a turn was timed."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    throttle: tuple[str, ...] = ()
    """Reasons that slow the clock down: ``thermal``, ``power cap`` …"""
    others_utilisation: float | None = None
    """Share of the device, or of the cores, that other processes kept busy; 0 to 1."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Holds one side's part of a round: each timed step's seconds, in order."""

    seconds: tuple[float, ...]
    """The steps' seconds on the device, by events; on the CPU by the monotonic clock. In rounds of
    kind ``device`` those of a CUDA graph of the step."""
    wall: tuple[float, ...] = ()
    """The seconds until the host was free again, by the monotonic clock."""
    launches: tuple[tuple[float, ...], ...] = ()
    """Kernel rounds: for each step, seconds of each launch in ``Prepared.launches``."""
    state: DeviceState | None = None
    preempted: tuple[int, ...] = ()
    """CPU: how often the system took a core from the process during each timed step."""
    ranks: tuple[tuple[float, ...], ...] = ()
    """The ``seconds`` of each rank of a process group, of which the slowest counts."""
    busy: tuple[float, ...] = ()
    """Kernel rounds of a process group: for each step, seconds that its devices are busy with it:
    with kernels on the rank that waits least for the others, with collectives without waiting."""

    @property
    def calm(self) -> tuple[float, ...]:
        """Return the ``seconds`` of the steps that nothing interrupted, or of all where that is not
        known."""
        if not self.preempted:
            return self.seconds
        pairs = zip(self.seconds, self.preempted, strict=True)
        return tuple(seconds for seconds, times in pairs if not times)


@dataclass(frozen=True, slots=True)
class Round:
    """Holds both sides, one right after the other."""

    number: int
    process: int
    kind: RoundKind
    first: SideName
    at: float
    """Seconds since measuring began."""
    base: Turn
    head: Turn
    took: float = 0.0
    """Seconds until both turns were through; 0 where ``at`` is when they were."""
    half: Literal[0, 1, 2] = 0
    """Where both sides have a device each, and exchange them half-way: 1 before that, 2 after it.
    0 where they keep what they have."""


PRECISE = "precise enough"
BUDGET_SPENT = "budget spent"
"""Why a measurement ended that was not precise enough before."""
STEP_WAITS = "the device's time precise enough; the step waits for its host"
"""Why a measurement ended early though the step's clock is not precise."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Holds all that was measured of two variants; its file is written round by round."""

    id: str
    created: str
    base: str
    """Id of the base's run."""
    head: str
    scenario: str
    device: Device
    seed: int
    budget_seconds: float
    method: str
    """``a pair of workers, interleaved``, or ``alternating fresh processes``."""
    prepared: tuple[Prepared, ...] = ()
    rounds: tuple[Round, ...] = ()
    stopped: str = ""
    """Why measuring ended: ``PRECISE``, ``BUDGET_SPENT``, ``interrupted`` …"""
    notes: tuple[str, ...] = ()
    start: tuple[StartPhase, ...] = ()
    """What the time went to until the first round, which is the last of them."""

    @property
    def ran_to_its_end(self) -> bool:
        """Return whether nothing cut it short."""
        return self.stopped in (PRECISE, BUDGET_SPENT, STEP_WAITS)

    @property
    def machine(self) -> Machine | None:
        """Return where the head ran."""
        worker = self.of("head")
        return worker.machine if worker else None

    def of(self, side: SideName) -> Prepared | None:
        """Return the side's first worker."""
        return next((p for p in self.prepared if p.side == side), None)
