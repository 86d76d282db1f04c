"""The types that every part of perfcli speaks in: frozen, plain data, standard library only.

A ``Run`` is what one compilation of one scenario yielded; a ``Comparison`` is a new object
made from two runs. ``None`` always means "not known", never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None
OptionValue: TypeAlias = Scalar | list[Any] | dict[str, Any]
BlobId: TypeAlias = str
"""SHA-256 (hex) of a text kept beside the run: a source, an intermediate form, a listing."""

Mode = Literal["forward", "training"]
Device = Literal["cuda", "cpu"]
KernelKind = Literal[
    "pointwise",
    "reduction",
    "persistent-reduction",
    "mix-order-reduction",
    "template",
    "combo",
    "user",
    "cpp",
    "other",
]
Relation = Literal["same", "changed", "split", "fused", "regrouped", "new", "gone"]
Outcome = Literal["better", "worse", "same", "unknown"]
Severity = Literal["error", "warning", "info"]


# --- what to compile, and for what -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """A device to compile for. Sizes in bytes, bandwidth in bytes/s, peaks in operations/s."""

    name: str
    description: str
    vendor: Literal["nvidia", "amd", "cpu"]
    capability: tuple[int, int]
    sm_count: int
    registers_per_sm: int
    max_threads_per_sm: int
    max_threads_per_block: int
    max_blocks_per_sm: int
    warp_size: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_per_block_optin: int
    reserved_shared_bytes_per_block: int
    l2_bytes: int
    memory_bytes: int
    bandwidth: float
    peak_flops: Mapping[str, float]
    source: str
    clock_khz: int = 0
    """Highest SM clock."""
    memory_clock_khz: int = 0
    memory_bus_bits: int = 0

    @property
    def arch(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"


@dataclass(frozen=True, slots=True)
class Variant:
    """One side of a comparison: Inductor options, environment, interpreter."""

    name: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    patches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a scenario; its type is the type of its default."""

    default: Scalar
    help: str = ""
    choices: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """What a scenario's ``build`` returns: something to compile and what to call it with.

    ``call`` is a module or function; the inputs are tensors or plain values, on any device.
    ``autocast`` names the dtype of an ambient autocast around the call and its backward.
    """

    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    mode: Mode = "forward"
    autocast: str | None = None
    reference: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A question about generated code, and how to build the model that answers it."""

    name: str
    question: str
    parameters: Mapping[str, Parameter]
    presets: Mapping[str, Mapping[str, Scalar]]
    build: Callable[[Any], Workload]
    toggles: tuple[str, ...] = ()
    expects: tuple[str, ...] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)
    origin: str = ""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """Everything a worker needs to compile one variant of one scenario."""

    scenario: str
    """A shipped name, or ``path/to/file.py`` with an optional ``:name``."""
    params: Mapping[str, Scalar]
    preset: str | None
    variant: Variant
    device: Device
    target: Target | None
    dynamic: bool = False
    jobs: int = 1
    cache_dir: str = ""
    """Folder of the shim and of compiled kernels, shared by all runs."""
    on_device: bool = False
    """Compile and run on the real GPU, with nothing stood in for (the fidelity check)."""


# --- what a kernel is made of ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """An FX node that a kernel computes, as Inductor's scheduler recorded it."""

    node: str
    op: str
    """ATen operator, ``aten.mul.Tensor``; empty where the node has none."""
    module: str = ""
    """Path of the ``nn.Module``, ``blocks.3.attn``."""
    shape: tuple[int | str, ...] = ()
    location: str = ""
    """``file:line`` in the user's model."""
    code: str = ""
    """That line's text."""


@dataclass(frozen=True, slots=True)
class Access:
    """One load, store or atomic in a kernel's source."""

    kind: Literal["load", "store", "atomic"]
    pointer: str
    """The kernel argument it addresses, ``in_ptr0``; empty where it could not be traced."""
    line: int
    """1-based line in the kernel's source."""
    loop: int
    """Number of the outermost loop that holds it, in source order from 1; 0 outside loops. Sweeps
    (``SourceFacts.passes``) are those of the innermost loop instead."""
    depth: int
    """How many loops enclose it."""
    masked: bool = False
    vectorized: bool | None = None
    """C++ only: whether the access moves a whole vector register."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a kernel's source says, counted on its syntax tree."""

    loads: int
    loads_in_loops: int
    stores: int
    stores_in_loops: int
    atomics: int
    reductions: int
    loops: int
    accesses: tuple[Access, ...]
    passes: Mapping[str, int]
    """For each pointer read: in how many separate sweeps. A sweep is the innermost loop around a
    load, or the code outside loops."""
    buffers_read: int
    buffers_written: int
    vector_loads: int | None = None
    vector_stores: int | None = None
    parallel_regions: int | None = None


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Memory instructions of one source line in the machine code (static counts)."""

    global_loads: int = 0
    global_stores: int = 0
    local_loads: int = 0
    local_stores: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One launch configuration of a kernel, compiled. Bytes are per thread for the stack, per
    block for shared memory; counts are static instruction counts in the SASS."""

    config: Mapping[str, int]
    num_warps: int
    num_stages: int
    registers: int | None = None
    stack_bytes: int | None = None
    local_array_bytes: int | None = None
    """The part of the stack that is the program's own arrays (``sin`` and ``cos``), not spills."""
    shared_bytes: int | None = None
    local_loads: int | None = None
    local_stores: int | None = None
    local_loads_in_loops: int | None = None
    local_stores_in_loops: int | None = None
    global_loads: Mapping[str, int] = field(default_factory=dict)
    """Bits moved per thread ("128", "64", "32", "16", "8") to number of LDG instructions."""
    global_stores: Mapping[str, int] = field(default_factory=dict)
    tma_loads: int | None = None
    """Instructions that move a whole tile for the block (TMA)."""
    tma_stores: int | None = None
    lines: Mapping[str, LineCounts] = field(default_factory=dict)
    """1-based line of the kernel's source (as text, a JSON key) to what it became."""
    blocks_per_sm: int | None = None
    occupancy: float | None = None
    """Theoretical occupancy, resident warps over the maximum, 0 to 1."""
    occupancy_limit: str = ""
    """What limits it: ``registers``, ``shared memory``, ``warps`` or ``blocks``."""
    binary_hash: str | None = None
    ttgir: BlobId | None = None
    ptx: BlobId | None = None
    sass: BlobId | None = None
    error: str = ""

    @property
    def local_words(self) -> int | None:
        """32-bit words per thread in local memory, what the driver reports as ``n_spills``."""
        return None if self.stack_bytes is None else self.stack_bytes // 4

    @property
    def spilled_words(self) -> int | None:
        """Of these, the words that registers were spilled into: the stack less the program's own
        arrays, which it holds in units of 8 bytes."""
        if self.stack_bytes is None:
            return None
        arrays = -(-(self.local_array_bytes or 0) // 8) * 8
        return max(self.stack_bytes - arrays, 0) // 4


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Everything known about one generated (or user-written) kernel of one graph."""

    name: str
    kind: KernelKind
    language: Literal["triton", "cpp"]
    graph: str
    """The graph that launches it: ``forward 0``, ``backward 1`` …"""
    launches: int
    """How often one step launches it."""
    origins: tuple[Origin, ...]
    source: BlobId
    source_hash: str
    """SHA-256 of the source with the kernel's own name taken out."""
    source_facts: SourceFacts | None
    bytes_read: int | None = None
    bytes_written: int | None = None
    bytes_swept: int | None = None
    """Bytes read and written if every sweep over a buffer goes to memory again: what a row that
    no cache holds costs."""
    lower_bound_seconds: float | None = None
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate | None:
        """The candidate with the fewest spilled words, then registers: a lower bound on what any
        launch configuration of this kernel costs, since the autotuner's winner is not known
        without a device (and Inductor drops candidates that spill when others do not). One whose
        block does not fit on a multiprocessor is never launched: it only counts where none fits."""
        known = [c for c in self.candidates if c.registers is not None]
        known = [c for c in known if c.blocks_per_sm != 0] or known
        return min(known, key=lambda c: (c.stack_bytes or 0, c.registers or 0), default=None)

    @property
    def spilled_words(self) -> int | None:
        return self.best.spilled_words if self.best else None

    @property
    def bytes_moved(self) -> int | None:
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    @property
    def binary_hash(self) -> str | None:
        """One text for all candidates' binaries, or None where one is missing."""
        hashes = [c.binary_hash for c in self.candidates]
        if not hashes or None in hashes:
            return None
        return "+".join(sorted(h for h in hashes if h))


# --- a run -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    """One entry of a step's launch list, in the order of the generated wrapper."""

    graph: str
    name: str
    """A kernel's name, or an extern operator's."""
    extern: bool = False


@dataclass(frozen=True, slots=True)
class ExternCall:
    """Calls of an operator that Inductor does not generate code for, per step."""

    op: str
    graph: str
    count: int


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """One compiled FX graph."""

    name: str
    direction: Literal["forward", "backward", "inference"]
    index: int
    nodes: int
    peak_memory_bytes: int | None = None
    """Inductor's own estimate for the schedule, where the installed torch gives one."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What produced a run, as far as it can change the generated code."""

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
    """One variant of one scenario, compiled. Stored as a file that stands alone."""

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
    """Why Dynamo gave up on a part of the model, in one line, to how often."""
    compile_seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    fingerprint: str = ""
    """Hash of everything that decides the result and is known before compiling."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The user's own source files that the run imported: path to SHA-256."""


# --- two runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """One number on both sides."""

    metric: str
    base: float | None
    head: float | None
    outcome: Outcome

    @property
    def delta(self) -> float | None:
        return None if self.base is None or self.head is None else self.head - self.base


@dataclass(frozen=True, slots=True)
class Match:
    """Kernels of both sides that compute the same thing, as indices into ``Run.kernels``."""

    base: tuple[int, ...]
    head: tuple[int, ...]
    relation: Relation
    method: str
    confidence: float


@dataclass(frozen=True, slots=True)
class KernelGroup:
    match: Match
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule has to say: evidence in numbers, advice, an option patch where there is one."""

    code: str
    severity: Severity
    kernels: tuple[str, ...]
    headline: str
    evidence: tuple[str, ...] = ()
    advice: str = ""
    patch: Mapping[str, OptionValue] = field(default_factory=dict)
    proven: bool | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The only thing that reports and the gate see."""

    base: Run
    head: Run
    totals: tuple[Change, ...]
    groups: tuple[KernelGroup, ...]
    outcome: Outcome
    reason: str
    differences: tuple[str, ...] = ()
    """How the environments differ."""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run and the texts that its facts name, packed (``perfcli.blobs``)."""

    run: Run
    blobs: Mapping[BlobId, str]


# --- output formats --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """A format of ``reports/``: ``render`` gives the whole text of a file, ending in a newline."""

    name: str
    suffix: str
    render: Callable[[Comparison], str]


@dataclass(frozen=True, slots=True)
class Screen:
    """What ``reports/terminal.py`` shows; each function gives something that rich can print."""

    comparison: Callable[..., Any]
    run: Callable[..., Any]
    kernel: Callable[..., Any]
    listing: Callable[..., Any]
