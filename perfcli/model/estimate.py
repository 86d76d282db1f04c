"""Defines what a launch asks of a device, and how long it is estimated to take.

Counts of the memory system are those of one block, averaged over programs; counts of a warp are
those of one warp of an average program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

from perfcli.model.timing import TimeVerdict

Grid = tuple[int, int, int]
OperatorFamily = Literal[
    "product",
    "attention",
    "attention backward",
    "convolution",
    "convolution backward",
    "encoder layer",
    "collective",
    "other",
]

LEAST_SECONDS = 3e-6
"""A shorter launch is timed too badly to judge an estimate: the launch itself and the profiler
decide."""
BYTES = "bytes"
"""``TimeEstimate.kind`` where nothing but its bytes is known of a launch."""
_EIGHTY_PERCENT = NormalDist().inv_cdf(0.9)
"""Standard deviations from the middle within which 80 % lie."""
_FAR = 2.0
"""Times the distance from the estimate to the end of its interval."""


@dataclass(slots=True)
class Traffic:
    """Counts what one block asks of the memory system."""

    requests: float = 0.0
    """Load instructions of all warps."""
    lines: float = 0.0
    """Lines of 128 bytes that these requests touch, added over requests."""
    load_sectors: float = 0.0
    """Sectors of 32 bytes that these requests touch, added over requests."""
    new_sectors: float = 0.0
    """Different sectors that a block loads, once for each sweep over them."""
    store_requests: float = 0.0
    store_sectors: float = 0.0
    warp_store_sectors: float = 0.0
    """Different sectors that a warp writes."""
    block_store_sectors: float = 0.0
    """Different sectors that the block writes."""
    partial: float = 0.0
    """Those of ``warp_store_sectors`` that the warp does not write as a whole."""
    fragments: float = 0.0
    """Those in which it does not write all bytes of a word."""
    atomic_sectors: float = 0.0
    atomic_addresses: float = 0.0
    """Different sectors that atomics update."""
    atomic_updates: float = 0.0
    """Elements that atomics update."""
    atomic_shared: float = 0.0
    """Part of the sectors updated that other blocks update as well, 0 to 1."""
    bank_conflicts: float = 0.0
    """Cycles that all warps wait for accesses to the same banks of shared memory."""
    touched: dict[str, float] = field(default_factory=dict)
    """Argument to different sectors that a block loads of it, each sweep."""
    swept: dict[str, float] = field(default_factory=dict)
    """Argument to how often it is swept over."""


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """Counts what one load, store or atomic of the source asks of the memory system in one block,
    over all of its runs."""

    kind: Literal["load", "store", "atomic"]
    argument: str
    """The kernel argument that it addresses, ``in_ptr0``."""
    line: int
    """The line in the kernel's source, counted from 1."""
    element_bytes: int
    requests: float
    """Instructions of all warps."""
    sectors: float
    """Sectors of 32 bytes that each request touches, added over requests."""
    needed: float
    """The fewest sectors that could hold what each request moves, added over requests."""
    touched: float
    """Different sectors that the block touches, added over runs."""
    used: float
    """The fewest sectors that could hold the different elements that it moves, added over runs."""
    apart: int = 0
    """Bytes from what one thread moves at a time to what its neighbour does, the most common."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """Axis of the block (``x``, ``r0_``) to the bytes from one element to the next along it."""
    along: str = ""
    """The axis along which neighbouring threads run; empty for a single element."""
    masked: bool = False
    indirect: bool = False
    """Whether its address depends on loaded data, which is taken to be in order."""
    known: bool = True
    """Whether its address could be computed; where not, its counts say nothing."""
    lines: float = 0.0
    """Lines of 128 bytes that each request touches, added over requests."""

    @property
    def waste(self) -> float | None:
        """Return how many times the sectors that it needs it fetches or writes; None where that
        depends on data or could not be computed."""
        if self.indirect or not self.known or not self.needed:
            return None
        return self.sectors / self.needed


@dataclass(frozen=True, slots=True)
class WarpWork:
    """Counts what one warp runs in one program."""

    issued: Mapping[str, float]
    """Instructions by the pipe that runs them (``facts.work.pipes``)."""
    stall_cycles: float
    """Cycles from the first instruction to the last, waits for global memory left out."""
    rounds: float
    """How often it waits for global loads: loads that are under way together are one round."""
    local_bytes: float
    """Moved to and from local memory by 32 lanes: spills, and the program's own arrays."""
    instructions: int
    """In the binary, without padding."""
    global_loads: float
    global_stores: float
    near_rounds: float = 0.0
    """Those of ``rounds`` for sectors that the block loaded in the same sweep: L1 has them."""
    again_rounds: float = 0.0
    """Those of ``rounds`` for sectors that the block loaded in an earlier sweep."""
    divided: Mapping[str, float] = field(default_factory=dict)
    """Those of ``issued`` that divide indices by numbers that are no powers of two."""
    parted: Mapping[str, float] = field(default_factory=dict)
    """Those of ``issued`` for all but the first of ``LaunchWork.parts``."""

    @property
    def total(self) -> float:
        return sum(self.issued.values())


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """Holds what one launch of one launch configuration asks of a device."""

    grid: Grid
    warps: int
    traffic: Traffic
    warp: WarpWork
    """An average warp of an average program."""
    longest: WarpWork
    """A warp of the program with the most iterations."""
    indirect: bool = False
    """Whether an address depends on loaded data."""
    unknown_loops: bool = False
    """Whether a trip count depends on data."""
    retries: bool = False
    """Whether updates of less than 32 bits are tried again as often as threads meet at one word
    (a loop around compare-and-swap)."""
    dividing_lines: tuple[int, ...] = ()
    """The source lines that divide indices by numbers that are no powers of two."""
    parts: int = 0
    """How many loads of one place in the source exclude each other by their masks, as those of a
    cat do: each element runs through all of them, and takes one. 0 where there are none."""
    accesses: tuple[MemoryAccess, ...] | None = None
    """Each load, store and atomic of the source; None in runs stored before perfcli counted
    them."""

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)


PRECISIONS = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip
"""Dtypes and what ``OperatorWork.precision`` calls them; all others keep their names."""
RANKS_PER_MACHINE = 8
"""GPUs of one machine, where a program runs on several."""


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """Counts what one call of a library operator computes and moves (``facts.operator_work``)."""

    family: OperatorFamily
    precision: str
    """What it computes in: ``bf16``, ``fp16``, ``tf32``, ``fp32`` or another dtype's name."""
    flops: float
    """Additions and multiplications; for a masked product those that a mask leaves."""
    read: float
    """Bytes, each once."""
    written: float
    sizes: Mapping[str, float] = field(default_factory=dict)
    """The sizes that decide its time."""
    variant: str = ""
    """Which library or operator of the family it is: ``flash``, ``sort``."""


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """Holds an estimate of one launch or call, in seconds, with its interval."""

    seconds: float
    low: float
    high: float
    """The time is between ``low`` and ``high`` in nine of ten cases."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """What holds it up, the most important first: ``DRAM`` to its share, 0 to 1."""
    candidate: int | None = None
    """The launch configuration that is expected to win, as an index into
    ``KernelFacts.candidates``."""
    kind: str = ""
    """The class of launches whose residuals its interval is made of."""
    doubts: tuple[str, ...] = ()
    """Why its interval is wider than that of other kernels."""
    finishing: float = 0.0
    """Seconds of the operators that finish its results after each launch: part of the step, not of
    ``seconds``."""
    candidates: Mapping[int, float] = field(default_factory=dict)
    """Seconds with each launch configuration whose work is known, by its index."""

    @property
    def is_rough(self) -> bool:
        """Return whether only its bytes are known."""
        return self.kind == BYTES

    @property
    def of_step(self) -> float:
        """Return the seconds that one launch adds to a step, with what finishes its results."""
        return self.seconds + self.finishing

    def is_far_from(self, measured: float) -> bool:
        """Return whether the measured time of a launch lies twice as far away as the end of the
        interval, in logarithms: the estimate does not explain it (PC904)."""
        end = self.high if measured > self.seconds else self.low
        away, reach = (abs(math.log(time / self.seconds)) for time in (measured, end))
        return measured >= LEAST_SECONDS and away > _FAR * reach


@dataclass(frozen=True, slots=True)
class HostEstimate:
    """Holds how long the host is busy with a step, in seconds, with its interval."""

    seconds: float
    low: float
    high: float
    launches: int
    """Generated kernels and calls of operators per step."""
    once: float
    """What it does once in a step, whatever it launches: it checks guards and enters graphs."""
    launching: float
    """The least that its launches alone take."""
    replay: float
    """What it takes to replay the graphs of the step as CUDA graphs instead."""
    replays: int = 0
    """CUDA graphs that it launches."""
    alone: int = 0
    """Kernels and calls that it launches one by one, beside CUDA graphs or without any."""

    @property
    def replayed(self) -> bool:
        """Return whether all of them are recorded as CUDA graphs, so that it launches only
        these."""
        return bool(self.replays) and not self.alone


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """Holds the time of a step's collectives, in seconds, by estimate."""

    seconds: float
    hidden: float
    """How much of it runs beside kernels, at best."""
    least_hidden: float
    """The same where kernels and collectives take the least that their intervals allow."""

    @property
    def exposed(self) -> float:
        """Return the least that the step waits for them."""
        return self.seconds - self.hidden


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Holds the estimate of one step of a run."""

    seconds: float
    """The device's time: of all generated kernels and library operators that could be estimated,
    without what is hidden of collectives."""
    low: float
    """With everything hidden that can be."""
    high: float
    """With nothing hidden."""
    kernels: tuple[TimeEstimate | None, ...]
    """One launch of each of ``Run.kernels``; None where it can't be estimated."""
    externs: tuple[TimeEstimate | None, ...]
    """The average call of each of ``Run.externs``; None where one of its calls can't be
    estimated."""
    host: HostEstimate | None = None
    """How long the host is busy with the step."""
    collectives: CollectiveTime | None = None
    """None where there are none, or not all of the step has an estimate."""
    missing: tuple[str, ...] = ()
    """Generated kernels that could not be estimated, and why."""
    rough: tuple[str, ...] = ()
    """Generated kernels of which only the bytes are known, and why."""
    calibration: str = ""
    """Where the constants come from: ``NVIDIA H200, torch 2.11.0, 2026-11-22``."""
    derived: str = ""
    """The target whose constants were scaled by the data sheet; empty where they were measured."""
    constants: str = ""
    """Names the constants: estimates of other ones can't be compared with these."""
    alone_seconds: float | None = None
    """Where two steps are compared, ``seconds`` of this run alone: what is alike on both sides
    counts as the base's there, which a baseline keeps rounded. None of a run that is alone."""

    @property
    def waits_for_host(self) -> bool:
        """Return whether the device waits for launches, however fast the host and however slow the
        device may be: where all of the step has an estimate."""
        known = not self.missing and None not in self.externs
        return known and self.host is not None and self.host.launching > self.high


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """Holds the estimated seconds per step of the kernels of one ``KernelGroup``, both sides."""

    group: int
    """Index into ``Comparison.groups``."""
    base: float
    head: float


@dataclass(frozen=True, slots=True)
class EstimatedChange:
    """Holds the estimates of both sides of a comparison, and what they say together."""

    base: StepEstimate
    head: StepEstimate
    verdict: TimeVerdict
    ratio: float | None = None
    """The head's device time over the base's; None where a changed kernel has no estimate."""
    low: float | None = None
    high: float | None = None
    """The ratio is between these in eight of ten cases."""
    groups: tuple[GroupEstimate, ...] = ()
    """Groups whose time changes, the largest change first."""
    missing: tuple[str, ...] = ()
    """Changed kernels that could not be estimated, and why: with any, the verdict is UNSURE."""
    rough: tuple[str, ...] = ()
    """Changed kernels of which only the bytes are known, and why: their intervals are wide."""

    @property
    def chance_slower(self) -> float | None:
        """Return how likely the head is slower, 0 to 1, by a normal distribution whose middle 80 %
        are the interval; None where the ratio is not known well enough to say so. Held against
        measured pairs in docs/time.md."""
        if self.missing or self.rough or not (self.ratio and self.low and self.high):
            return None
        spread = math.log(self.high / self.low) / 2 / _EIGHTY_PERCENT
        if not spread:
            return None
        # With launches that decide, the interval is wider on one side.
        hosts = self.base.waits_for_host or self.head.waits_for_host
        middle = math.log(self.low * self.high) / 2 if hosts else math.log(self.ratio)
        return NormalDist().cdf(middle / spread)
