"""Defines one variant of one scenario, compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.compilation import CompileWork, GraphObstacle, Recompilations, RecordedGraph
from perfcli.model.estimate import CollectiveTime, HostEstimate, OperatorWork, TimeEstimate
from perfcli.model.kernel import Buffer, KernelFacts
from perfcli.model.observed import Observed
from perfcli.model.selection import Selection
from perfcli.model.values import BlobId, Device, Mode, OptionValue, Scalar
from perfcli.model.workload import ScriptCommand, Target, Variant


@dataclass(frozen=True, slots=True)
class Launch:
    """Holds one entry of a step's launch list, in the order of the generated wrapper."""

    graph: str
    name: str
    """A kernel's name, or an extern operator's."""
    extern: bool = False
    finishing: bool = False
    """Whether this operator only finishes what the kernel before it began: it sums the partial
    results that a mix-order reduction leaves in its workspace. Runs of earlier versions do
    not say so."""
    operands: tuple[str, ...] = field(default=(), compare=False)
    """Inductor's names of what an extern operator reads and writes, in the order of
    ``OperatorCall.buffers``; empty where it is not known."""
    call: int | None = field(default=None, compare=False)
    """Which of ``ExternCall.calls`` of its operator in its graph it makes."""
    after: int | None = field(default=None, compare=False)
    """Of a collective in a stream of its own: how many launches, from the first on, are done before
    it begins. None: all that come before it."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Says what an extern operator is called with; equal calls of a graph are kept once."""

    buffers: tuple[Buffer, ...]
    """Tensors that it reads, then those that it writes. Those of equal calls have different names,
    which stand in ``Launch.operands``."""
    arguments: Mapping[str, OptionValue] = field(default_factory=dict)
    """Its other arguments by name, ``is_causal``."""
    work: OperatorWork | None = None
    """What it computes and moves; None where perfcli can't count it."""
    count: int = 1
    """Calls per step."""


@dataclass(frozen=True, slots=True)
class ExternCall:
    """Counts the calls of an operator that Inductor does not generate code for, per step.

    Operators that only finish a generated kernel's results belong to that kernel and are not
    counted.
    """

    op: str
    graph: str
    count: int
    calls: tuple[OperatorCall, ...] = ()
    """What it is called with; empty where that is not known, and in runs of earlier versions."""
    estimate: TimeEstimate | None = None
    """How long an average call is estimated to take; derived whenever a run is shown."""
    traced_seconds: float | None = None
    """Seconds per step of all its calls, where a trace recorded them."""


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Describes one compiled FX graph."""

    name: str
    direction: Literal["forward", "backward", "inference"]
    index: int
    nodes: int
    peak_memory_bytes: int | None = None
    """Inductor's own estimate for the schedule, where the installed torch gives one."""
    live_bytes: tuple[int, ...] = ()
    """The estimate of live memory at each node of the schedule, in order, then what outlives it;
    empty where it is not known."""


@dataclass(frozen=True, slots=True)
class BreakPlace:
    """Says where Dynamo broke a graph."""

    location: str
    """``file:line`` of the model, its innermost one."""
    code: str = ""
    """The text of that line."""
    explanation: str = ""
    """Dynamo's sentence that names the operator."""


@dataclass(frozen=True, slots=True)
class CompiledCall:
    """Describes one use of ``torch.compile`` in the user's own code."""

    name: str
    """The function or module that is compiled."""
    place: str
    """``file:line`` of the call, or of what the decorator stands at."""
    mode: str | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    dynamic: bool | None = None
    fullgraph: bool = False
    backend: str = "inductor"
    graphs: tuple[str, ...] = ()
    """The graphs that came of it."""
    count: int = 1
    """How many times it was made with these settings: a loop over layers calls it for each."""

    @property
    def settings(self) -> str:
        """Return what was asked for, ``mode='max-autotune', dynamic=False``; empty for the
        defaults."""
        asked = {
            "mode": self.mode,
            "options": dict(self.options) or None,
            "dynamic": self.dynamic,
            "fullgraph": self.fullgraph or None,
            "backend": None if self.backend == "inductor" else self.backend,
        }
        return ", ".join(f"{name}={value!r}" for name, value in asked.items() if value is not None)


@dataclass(frozen=True, slots=True)
class Environment:
    """Says what produced a run, as far as it can change the generated code."""

    torch: str
    triton: str | None
    python: str
    ptxas: str | None
    platform: str
    perfcli: str
    gpu: str | None = None
    driver: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """Holds one variant of one scenario, compiled. It is stored as a file that stands alone."""

    id: str
    created: str
    """ISO 8601, UTC."""
    scenario: str
    params: Mapping[str, Scalar]
    mode: Mode
    dynamic: bool
    device: Device
    target: Target | None
    variant: Variant
    environment: Environment
    kernels: tuple[KernelFacts, ...]
    launches: tuple[Launch, ...]
    graphs: tuple[GraphFacts, ...]
    externs: tuple[ExternCall, ...]
    graph_breaks: Mapping[str, int] = field(default_factory=dict)
    """How often Dynamo gave up on a part of the model for each reason, in one line."""
    break_places: Mapping[str, tuple[BreakPlace, ...]] = field(default_factory=dict)
    """The lines of the model at which Dynamo gave up, each once, for each of the same reasons and
    of those for which it left whole functions alone; what torch does not tell is not there."""
    eager_operators: int | None = None
    """How many operators of a step run on the device outside of all graphs; None: not known."""
    compile_seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, OptionValue] = field(default_factory=dict)
    """Values of the options that rules speak of, as this torch had them; what it lacks is not
    there."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Inductor's own, ``rejected_mix_order_reduction_fusion``."""
    fingerprint: str = ""
    """Hash of everything that decides the result and is known before compiling."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The user's own source files that the run imported: path to SHA-256."""
    asked_variables: Mapping[str, str] = field(default_factory=dict)
    """The variables of the environment that the user's code asked for: name to SHA-256 of the
    value, empty where it was not set."""
    world: int = 1
    """Ranks of the process group, of which the first one was compiled."""
    threads: int | None = None
    """The number of threads that kernels for the CPU were generated for; None: torch's own number,
    or a GPU."""
    weighed: bool = False
    """Whether the work of its kernels was counted; runs of older versions lack it."""
    estimated_with: str = ""
    """Names the constants and formulas that the kernels' estimates follow from, or in a stored run
    those of the day that it was stored; empty where there are none."""
    graph_obstacles: tuple[GraphObstacle, ...] | None = None
    """What keeps its graphs from being recorded as CUDA graphs, asked for or not; None where that
    is not known, as in runs of earlier versions."""
    recorded_graphs: tuple[RecordedGraph, ...] = ()
    """What recording its graphs as CUDA graphs comes to; empty where nobody asked for it."""
    selections: tuple[Selection, ...] = ()
    """What Inductor chose from where it was to time implementations of operators."""
    recompilations: Recompilations | None = None
    """How often Dynamo compiled and why; None where that is not known."""
    compile_work: CompileWork | None = None
    """What compiling took; None in runs of earlier versions."""
    host: HostEstimate | None = None
    """How long the host is busy with a step; derived whenever a run is shown."""
    collectives: CollectiveTime | None = None
    """How long its collectives take, and what is hidden of it; derived whenever a run is shown."""
    observed: Observed | None = None
    """What a profiler's trace says of it, where one was imported."""
    compiled: tuple[CompiledCall, ...] = ()
    """What the user's own code gave to ``torch.compile``, each with its settings."""
    script: ScriptCommand | None = None
    """The script that it is a run of; None for a scenario."""
    inputs: tuple[str, ...] = ()
    """The inputs that were typed, ``x=8x128:bf16``; empty where the scenario makes its own."""

    @property
    def place(self) -> str:
        """Return the GPU that it was compiled for, or the kind of this machine's device."""
        return self.target.name if self.target else self.device

    @property
    def peak_memory_bytes(self) -> int | None:
        """Return Inductor's estimate for the graph that needs most."""
        known = [g.peak_memory_bytes for g in self.graphs if g.peak_memory_bytes is not None]
        return max(known, default=None)

    def count_externs(self) -> Counter[str]:
        """Return how often a step calls each operator of a library."""
        calls: Counter[str] = Counter()
        for extern in self.externs:
            calls[extern.op] += extern.count
        return calls

    @property
    def patch_notes(self) -> tuple[str, ...]:
        """Return which patches of torch were active, with their values, and how often each
        acted."""
        return tuple(note.removeprefix(PATCHED) for note in self.notes if note.startswith(PATCHED))

    @property
    def eager_notes(self) -> tuple[str, ...]:
        """Return the notes about what of the model runs outside of all graphs."""
        return tuple(note for note in self.notes if note.startswith(_EAGER))


PATCHED = "patched: "
"""How a note about a patch begins."""
_EAGER = ("Dynamo left", "recurrent layers")
"""How such notes begin."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Holds a run and the packed texts that its facts name (``perfcli.blobs``)."""

    run: Run
    blobs: Mapping[BlobId, str]


@dataclass(frozen=True, slots=True)
class Generated:
    """Holds one variant compiled as far as its code, and no further: kernels have no candidates."""

    code: str
    """Hash of all generated code, kernels and what calls them: equal is the same variant."""
    bundle: Bundle
    unread: tuple[str, ...] = ()
    """Options that nobody read on the way: with other values of these the code is the same."""
