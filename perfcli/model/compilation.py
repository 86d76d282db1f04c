"""Defines what is known of a run beside its kernels: how often torch compiled and why, what keeps
CUDA graphs from being recorded, and what compiling took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.values import Scalar

Effect = Literal["not recorded", "split", "recorded again"]


@dataclass(frozen=True, slots=True)
class GraphObstacle:
    """Says what keeps one compiled graph from being recorded as one CUDA graph."""

    graph: str
    """The name of the compiled graph, ``forward 0``."""
    effect: Effect
    """Whether nothing of it is recorded, or parts of it are, or each size is recorded anew."""
    reason: str
    """In Inductor's words: ``mutated inputs (1 instances)``, ``cpu ops``."""
    location: str = ""
    """``file:line`` of the model; empty where Inductor does not know it."""
    code: str = ""


@dataclass(frozen=True, slots=True)
class RecordedGraph:
    """Says what recording one compiled graph as CUDA graphs comes to, where that was asked for."""

    graph: str
    """The name of the compiled graph, ``forward 0``."""
    parts: int
    """As how many CUDA graphs it is recorded; 0: it is launched kernel by kernel."""
    each_size: bool = False
    """Whether it is recorded anew for each size, with memory of its own."""
    static: int = 0
    """Inputs that always have the same address: parameters, and what an earlier graph kept."""
    static_bytes: int = 0
    copied: int = 0
    """Inputs that are copied to where the recording reads them, before each replay."""
    copied_bytes: int = 0
    changed: tuple[str, ...] = ()
    """Inputs with a fixed address that it changes in place: shape and type, and the line of the
    model, where Inductor knows it."""
    output_bytes: int = 0
    """What it returns, in memory that the next replay overwrites."""
    kept_bytes: int | None = None
    """Memory that its recording keeps from everybody else: copies of inputs, and the most that is
    live at once of what it computes, as Inductor estimates it. None where it estimates nothing."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """Describes one compilation of one function by Dynamo."""

    function: str
    location: str = ""
    """``file:line`` where the function begins."""
    guard: str = ""
    """The guard that failed, so that it was compiled once more; empty for the first time."""
    guard_location: str = ""
    """``file:line`` of the model that the guard comes from, where Dynamo says it."""
    guard_code: str = ""
    refused: bool = False
    """Whether Dynamo's limit was reached: the function runs without being compiled from there."""


@dataclass(frozen=True, slots=True)
class VariedCall:
    """Says what a call of the compiled model with other sizes led to."""

    params: Mapping[str, Scalar]
    """The parameters that were varied, with their values of this call."""
    compilations: tuple[Compilation, ...] = ()
    """What was compiled because of it."""
    dynamic: bool = False
    """Whether a graph that was compiled for it has dynamic sizes."""


@dataclass(frozen=True, slots=True)
class CompileWork:
    """Counts what compiling took, apart from the binaries of the kernels that are launched."""

    cpu_seconds: float
    """Processor time of building and tracing the model and of generating its code."""
    yardstick_seconds: float
    """Processor time that a fixed loop took before and after it: how fast the processor was."""
    nodes: int = 0
    """FX nodes of all graphs."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Seconds on the wall of the parts that torch itself times, the longest first; they overlap."""
    choosing_seconds: float = 0.0
    """Processor time of compiling implementations to choose from (``max_autotune``), beside the
    rest: little for those that were kept from an earlier time."""


@dataclass(frozen=True, slots=True)
class Recompilations:
    """Holds the compilations of a run: those of its step, then those of calls with other sizes."""

    first: tuple[Compilation, ...] = ()
    varied: tuple[VariedCall, ...] = ()
    limit: int | None = None
    """How often Dynamo compiles one function at most (``dynamo.recompile_limit``)."""
    first_params: Mapping[str, Scalar] = field(default_factory=dict)
    """What the varied parameters were in the run's own step."""
