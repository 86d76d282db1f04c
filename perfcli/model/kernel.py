"""Defines what a kernel is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.estimate import LaunchWork, TimeEstimate
from perfcli.model.values import BlobId, KernelKind


@dataclass(frozen=True, slots=True)
class Origin:
    """Describes an FX node that a kernel computes, as Inductor's scheduler recorded it."""

    node: str
    op: str
    """ATen operator, ``aten.mul.Tensor``; empty where the node has none."""
    module: str = ""
    """Path of the ``nn.Module``, ``blocks.3.attn``."""
    shape: tuple[int | str, ...] = ()
    location: str = ""
    """``file:line`` in the user's model."""
    code: str = ""
    """The text of that line."""


@dataclass(frozen=True, slots=True)
class Access:
    """Describes one load, store or atomic in a kernel's source."""

    kind: Literal["load", "store", "atomic"]
    pointer: str
    """The kernel argument it addresses, ``in_ptr0``; empty where it could not be traced."""
    line: int
    """The line in the kernel's source, counted from 1."""
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
    """Holds what a kernel's source says, counted on its syntax tree."""

    loads: int
    loads_in_loops: int
    stores: int
    stores_in_loops: int
    atomics: int
    reductions: int
    loops: int
    accesses: tuple[Access, ...]
    passes: Mapping[str, int]
    """In how many separate sweeps each pointer is read. A sweep is the innermost loop around a
    load, or the code outside loops."""
    buffers_read: int
    buffers_written: int
    held_copies: tuple[str, ...] = ()
    """Pointers to half-precision values that are held as float32 across a reduction: loaded once,
    their copy used before and after it."""
    online_softmax: bool | None = None
    """Triton only: whether a maximum and a sum of exponentials are taken in one sweep."""
    vector_loads: int | None = None
    vector_stores: int | None = None
    parallel_regions: int | None = None


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Counts the memory instructions of one source line in the machine code (static counts)."""

    global_loads: int = 0
    global_stores: int = 0
    local_loads: int = 0
    local_stores: int = 0
    text: str = ""
    """The line itself, where registers are spilled or filled."""


TOO_SLOW = "ptxas did not finish within"
"""How ``Candidate.error`` begins where the assembler was stopped because it took too long."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Holds one launch configuration of a kernel, compiled. Bytes are per thread for the stack, per
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
    """What each line of the kernel's source became (counted from 1; as text, a JSON key)."""
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
    blocks_at_once: int | None = None
    """The blocks of a launch, where all of them start together or none does (a cooperative launch);
    None where they may run in turn, and in runs stored before perfcli looked."""
    work: LaunchWork | None = None
    """What one launch asks of the device; None where it could not be counted, and in runs stored
    before perfcli counted it."""

    @property
    def spilled_words(self) -> int | None:
        """Return the 32-bit words per thread that registers were spilled into: the stack, of which
        the driver reports all as ``n_spills``, less the program's own arrays, which it holds in
        units of 8 bytes."""
        if self.stack_bytes is None:
            return None
        arrays = -(-(self.local_array_bytes or 0) // 8) * 8
        return max(self.stack_bytes - arrays, 0) // 4


def best_candidate(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the best candidate, as ``KernelFacts.best`` says."""
    known = [c for c in candidates if c.registers is not None]
    known = [c for c in known if c.blocks_per_sm != 0] or known
    return min(known, key=lambda c: (c.stack_bytes or 0, c.registers or 0), default=None)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Describes what one pointer argument of a kernel addresses, as Inductor knows it."""

    argument: str
    """The argument's name, ``in_ptr0``."""
    name: str
    """Inductor's name, ``buf12`` or ``primals_3``: the same in all kernels of one graph. What is
    overwritten goes by the name under which the kernels after it read it."""
    role: Literal["input", "output", "inplace", "workspace"]
    dtype: str
    """The name of the dtype, ``bfloat16``."""
    shape: tuple[int, ...]
    """Hints where sizes are dynamic."""
    stride: tuple[int, ...]
    bytes: int
    """The bytes of its elements, of no more of them than the kernel has points."""
    graph_input: bool = False
    """An input, parameter or saved value: not made by another kernel of this graph."""
    graph_output: bool | None = None
    """Whether the graph returns it, or a view of it; None in runs of earlier versions."""
    part_of: str = ""
    """The buffer of which it is a part, where a ``cat`` is put together in memory."""

    @property
    def is_read(self) -> bool:
        return self.role in ("input", "inplace")

    @property
    def is_written(self) -> bool:
        return self.role in ("output", "inplace")


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Holds everything known about one generated (or user-written) kernel of one graph."""

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
    finishing_bytes: int = 0
    """Bytes that library operators read and write after each launch to finish its results: the
    sums over the workspace of a mix-order reduction. They are part of what a step moves, and none
    of what this kernel does."""
    operations: int | None = None
    """Arithmetic operations of one launch, estimated from the source. None where they can't be
    counted, and in runs stored before perfcli counted them."""
    candidates: tuple[Candidate, ...] = ()
    alternatives: tuple[Candidate, ...] = ()
    """Launch configurations that Inductor did not consider, compiled because its own spill."""
    buffers: tuple[Buffer, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The iteration space: ``x``, ``y``, ``z``, and ``r0_``, ``r1_`` that are reduced over."""
    dynamic_sizes: tuple[str, ...] = ()
    """Which of the sizes are symbols in the generated code; ``sizes`` has their hints."""
    scalars: Mapping[str, int] = field(default_factory=dict)
    """What else the kernel is given as a number: ``ks0`` …, with hints where sizes are dynamic."""
    unknown_sizes: tuple[str, ...] = ()
    """Which of the sizes depend on values of tensors: what ``sizes`` has of them is made up by
    torch, and so are the bytes."""
    refused: Mapping[str, str] | None = None
    """Kernels of this graph whose results it reads, each with the reason that Inductor's scheduler
    last gave for not fusing the two; None where that is not known, as in runs of earlier
    versions."""
    notes: tuple[str, ...] = ()
    grid: tuple[int, ...] = ()
    """The blocks of a launch, where a trace recorded one."""
    traced_seconds: float | None = None
    """Seconds per step of all its launches, where a trace recorded them: the median over steps."""
    estimate: TimeEstimate | None = None
    """How long a launch is estimated to take. Derived of ``Candidate.work`` whenever a run is shown
    or compared, and kept in committed baselines alone, which have no work."""

    @property
    def best(self) -> Candidate | None:
        """Return the candidate with the fewest spilled words, then registers: a lower bound on what
        any launch configuration of this kernel costs, since the autotuner's winner is not known
        without a device (and Inductor drops candidates that spill when others do not). One whose
        block does not fit on a multiprocessor is never launched: it only counts where none fits."""
        return best_candidate(self.candidates)

    @property
    def expected(self) -> Candidate | None:
        """Return the candidate that the estimate expects to win; None where there is no estimate,
        or it does not say."""
        number = self.estimate.candidate if self.estimate else None
        if number is None or number >= len(self.candidates):
            return None
        return self.candidates[number]

    @property
    def shown(self) -> Candidate | None:
        """Return the candidate whose facts stand beside the kernel's time: the expected winner,
        else the best. What is counted and compared is the best's."""
        return self.expected or self.best

    @property
    def spilled_words(self) -> int | None:
        return self.best.spilled_words if self.best else None

    @property
    def bytes_moved(self) -> int | None:
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    @property
    def step_bytes(self) -> int | None:
        """Return the bytes that a step moves for this kernel: those of all launches and of the
        operators that finish their results."""
        if self.bytes_moved is None:
            return None
        return (self.bytes_moved + self.finishing_bytes) * self.launches

    @property
    def step_bound_seconds(self) -> float | None:
        """Return the lower bound of a step's time for this kernel, as its bytes are counted."""
        if self.lower_bound_seconds is None:
            return None
        moved, more = self.bytes_moved, self.finishing_bytes
        grown = (moved + more) / moved if moved and more else 1.0
        return self.lower_bound_seconds * grown * self.launches

    @property
    def step_seconds(self) -> float | None:
        """Return the seconds that a step is estimated to take for this kernel: those of all
        launches and of the operators that finish their results."""
        return None if self.estimate is None else self.estimate.of_step * self.launches

    @property
    def binary_hash(self) -> str | None:
        """Return one text for all candidates' binaries, or None where one is missing."""
        hashes = [c.binary_hash for c in self.candidates]
        if not hashes or None in hashes:
            return None
        return "+".join(sorted(h for h in hashes if h))
