"""Describes hand-written kernels: what a family computes, and how one computation is launched.

A ``KernelFamily`` is declared in one file of ``kernels/``, without torch. Which kernels run, with
which blocks and warps, is a ``LaunchPlan``: plain data made by a pure function of the problem and
the target, so that the same plan is compiled without a GPU, predicted, printed and launched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from perfcli.model.values import Scalar
from perfcli.model.workload import Problem, Target

Data = Literal[
    "normal",
    "large",
    "nan",
    "infinite",
    "minus-infinity-masked",
    "lowest-masked",
    "signed-zero",
    "constant",
]
Layout = Literal["contiguous", "padded-rows", "transposed", "misaligned"]


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """Describes one launch of one ``@triton.jit`` function."""

    function: str
    """Its name in the family's file of kernels."""
    grid: tuple[int, int, int]
    arguments: Mapping[str, str]
    """Run-time arguments in the order of the signature, each with Triton's type of it: ``*bf16``,
    ``i32``, ``fp32``, ``tensordesc<bf16[64, 128]>``."""
    constants: Mapping[str, Scalar]
    num_warps: int
    num_stages: int = 1
    divisible_by_16: tuple[str, ...] = ()
    """Arguments, pointers among them, that Triton may take for multiples of 16."""
    maxnreg: int | None = None
    """Registers of a thread that ptxas may use at most, NVIDIA alone; None: as many as it likes."""
    overlaps: bool = False
    """It may start before the launch before it has ended, and waits itself for what it needs of
    that: NVIDIA alone, from compute capability 9 on."""
    all_at_once: bool = False
    """All of its programs start together or none does, as they wait for each other: NVIDIA alone,
    which calls it a cooperative launch."""
    cluster: int = 1
    """Blocks of a program, which run on neighbouring multiprocessors and write to each other's
    shared memory: NVIDIA alone, from compute capability 9 on."""
    shared_bytes: int | None = None
    """What the plan says the compiled kernel takes per block; None where no formula is known."""

    @property
    def options(self) -> dict[str, int | bool]:
        """Return Triton's options. Its AMD backend does not know the last four."""
        found: dict[str, int | bool] = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        if self.maxnreg is not None:
            found["maxnreg"] = self.maxnreg
        if self.overlaps:
            found["launch_pdl"] = True
        if self.all_at_once:
            found["launch_cooperative_grid"] = True
        if self.cluster > 1:
            found["num_ctas"] = self.cluster
        return found


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Says how one problem is computed on one target."""

    variant: str
    launches: tuple[KernelLaunch, ...]
    why: str
    """The row of the family's table that chose this variant and these numbers."""
    workspace_bytes: int = 0
    instead_of: str = ""
    """The variant that was asked for and cannot do this problem, with its reason."""
    portable: LaunchPlan | None = None
    """What computes the same where Triton has no Gluon, as its interpreter has none; None where no
    launch needs it."""


@dataclass(frozen=True, slots=True)
class KernelVariant:
    """Names one way to compute some operations of a family."""

    name: str
    summary: str
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Describes one problem whose outputs are held against a float64 reference."""

    problem: Problem
    variant: str | None = None
    """The variant; None means whatever the plan picks."""
    data: Data = "normal"
    layout: Layout = "contiguous"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Lets an output differ from the reference by ``absolute + relative × |reference|``."""

    absolute: float
    relative: float
    reason: str


@dataclass(frozen=True, slots=True)
class KernelFamily:
    """Describes hand-written kernels for one kind of computation."""

    name: str
    summary: str
    operations: Mapping[str, str]
    """Each with what it computes, as a formula."""
    variants: tuple[KernelVariant, ...]
    plan: Callable[[Problem, Target, str | None], LaunchPlan]
    """Raises ``PerfcliError`` where no variant can do the problem, or not the one asked for."""
    moved_bytes: Callable[[Problem], int]
    """The fewest bytes: every input read once, every output written once."""
    flops: Callable[[Problem], int]
    tolerances: Callable[[Problem], Mapping[str, Tolerance]]
    """The tolerance of each output, by name."""
    cases: tuple[Case, ...]
    benchmarks: tuple[Problem, ...]
    code: str
    """The module, ``perfcli.kernels.softmax.code``, that has the torch side (``FamilyCode``)."""
    origin: str = ""
    probe: str = ""
    """The module, ``perfcli.kernels.mix_order.probe``, that says how its kernel is swept over
    launches and where the cliff is (``ProbeCode`` in ``workbench/probe``); it needs no
    torch. Empty: the family is no probe."""
