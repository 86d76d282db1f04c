"""Defines what to compile, and for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perfcli.model.values import Device, KernelKind, Mode, OptionValue, Scalar


@dataclass(frozen=True, slots=True)
class Problem:
    """Describes what a family is asked to compute: ``operation`` over ``rows`` × ``columns``
    elements."""

    operation: str
    rows: int
    columns: int
    dtype: str = "bfloat16"
    row_stride: int | None = None
    """Elements from one row to the next; None: as many as columns."""
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    """Settings that only this family knows: a residual, how many inputs, how many reads."""

    @property
    def stride(self) -> int:
        return self.columns if self.row_stride is None else self.row_stride

    @property
    def elements(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class ScenarioProblem:
    """Names a problem whose answer is what one direction of a scenario computes."""

    family: str
    problem: Problem
    backward: bool = False
    left_out: str = ""
    """What the scenario computes besides, ``the mean of the losses``; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """Describes a device to compile for. Sizes are in bytes, bandwidth in bytes/s, peaks in
    operations/s."""

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
        if self.vendor == "amd":
            return f"gfx{self.capability[0]}{self.capability[1]}2"  # gfx942
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def capability_number(self) -> int:
        """Return ``90`` for capability 9.0, as Triton writes it."""
        return self.capability[0] * 10 + self.capability[1]

    @property
    def overlaps_launches(self) -> bool:
        """Return whether a launch can start before the one before it has ended."""
        return self.vendor == "nvidia" and self.capability >= (9, 0)


@dataclass(frozen=True, slots=True)
class Variant:
    """Describes one side of a comparison: Inductor options, environment, interpreter."""

    name: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """Describes one parameter of a scenario; its type is the type of its default."""

    default: Scalar
    help: str = ""
    choices: tuple[Scalar, ...] = ()
    required: bool = False
    """Must be given: ``default`` only says the type, or nothing where it is None."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Holds what a scenario's ``build`` returns: something to compile and what to call it with.

    ``call`` is a module or function; the inputs are tensors or plain values, on any device.
    ``autocast`` names the dtype of an ambient autocast around the call and its backward.
    """

    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    mode: Mode = "forward"
    autocast: str | None = None
    reference: Callable[..., Any] | None = None
    mode_is_default: bool = False
    """Nobody chose the mode: a user's function that returned ``(call, inputs)``."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Says that a scenario, compiled like this, raises exactly these findings; none where ``codes``
    is empty."""

    codes: tuple[str, ...]
    preset: str = "full"
    params: Mapping[str, Scalar] = field(default_factory=dict)
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    dynamic: bool = False
    target: str = "h100"
    compared: bool = False
    """Whether they are not one run's findings but those of a comparison with the default
    options."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Asks a question about generated code, and says how to build the model that answers it."""

    name: str
    question: str
    parameters: Mapping[str, Parameter]
    presets: Mapping[str, Mapping[str, Scalar]]
    build: Callable[[Any], Workload]
    toggles: tuple[str, ...] = ()
    expects: tuple[Expectation, ...] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)
    origin: str = ""
    handwritten: Callable[[Mapping[str, Any]], tuple[ScenarioProblem, ...]] | None = None
    """Returns the problems of hand-written kernels that compute the same with these parameters;
    None: there are none."""


@dataclass(frozen=True, slots=True)
class ScriptCommand:
    """Says which script is run as a whole, and how it is called."""

    path: str
    """``train.py``, or the name of a module."""
    module: bool = False
    """Whether it is run as ``python -m`` runs a module."""
    arguments: tuple[str, ...] = ()
    steps: int = 2
    """How many steps it goes on for; the last of them is the run's step."""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """Holds everything a worker needs to compile one variant of one scenario."""

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
    threads: int | None = None
    """Threads that CPU kernels are generated for; None: torch's own number."""
    varied: tuple[Mapping[str, Scalar], ...] = ()
    """Parameters of further calls of the compiled model, to see what they compile again."""
    folder: str = ""
    """Absolute working folder of the worker; empty: the caller's."""
    script: ScriptCommand | None = None
    """The script that is run instead of a scenario; ``scenario`` is how it was typed."""
    world: int = 1
    """Ranks of the process group that the model runs in, of which the first one is compiled."""
    inputs: tuple[str, ...] = ()
    """The inputs that were typed, ``x=8x128:bf16``, for what takes tensors and builds none."""
    measured: bool = False
    """Whether it is measured next: then the worker keeps Triton's binaries for that."""

    @property
    def place(self) -> str:
        """Return the GPU that it compiles for, or the kind of this machine's device."""
        return self.target.name if self.target else self.device


@dataclass(frozen=True, slots=True)
class KernelText:
    """Holds one generated kernel as its text alone."""

    name: str
    """The kernel's name in that text."""
    language: Literal["triton", "cpp"]
    source: str
    kind: KernelKind


@dataclass(frozen=True, slots=True)
class KernelsRequest:
    """Asks for kernels to be compiled to binaries, without what they were generated from."""

    kernels: tuple[KernelText, ...]
    target: Target
    jobs: int
    cache_dir: str
    texts: bool = False
    """Whether the texts of binaries are sent as well, which weighing them needs."""


@dataclass(frozen=True, slots=True)
class GivenRequest:
    """Says what is called, and with what, instead of a scenario to build."""

    compile: CompileRequest
    """``scenario`` is a name to show."""
    packed: str
    """Base64 of a pickle of ``(call, args, kwargs)`` that holds no values of tensors; made by the
    process that sends it, and read by its own child alone."""
    path: tuple[str, ...]
    """Where modules are imported from: the sender's ``sys.path``."""
    mode: Mode = "forward"
    autocast: str | None = None
    """The dtype of the autocast that was active."""
    keeps_cpu: bool = False
    """Some of the tensors are on a GPU already: those on the CPU are meant to be there."""
