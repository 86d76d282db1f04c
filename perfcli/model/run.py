"""One variant of one scenario, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.kernel import KernelFacts
from perfcli.model.values import BlobId, Device, Mode, OptionValue, Scalar
from perfcli.model.workload import Target, Variant


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
    live_bytes: tuple[int, ...] = ()
    """The same estimate at each node of the schedule, in order, then what outlives it; empty where
    it is not known."""


@dataclass(frozen=True, slots=True)
class BreakPlace:
    """Where Dynamo broke a graph."""

    location: str
    """``file:line`` of the model, its innermost one."""
    code: str = ""
    """That line's text."""
    explanation: str = ""
    """Dynamo's sentence that names the operator."""


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
    break_places: Mapping[str, tuple[BreakPlace, ...]] = field(default_factory=dict)
    """The same reasons to the lines of the model, each once; what torch does not tell is not
    there."""
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
    threads: int | None = None
    """That kernels for the CPU were generated for; None: torch's own number, or a GPU."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run and the texts that its facts name, packed (``perfcli.blobs``)."""

    run: Run
    blobs: Mapping[BlobId, str]


@dataclass(frozen=True, slots=True)
class Generated:
    """One variant compiled as far as its code, and no further: kernels have no candidates."""

    code: str
    """Hash of all generated code, kernels and what calls them: equal is the same variant."""
    bundle: Bundle
    unread: tuple[str, ...] = ()
    """Options that nobody read on the way: with other values of these the code is the same."""
