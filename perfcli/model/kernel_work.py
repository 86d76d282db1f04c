"""Defines what a worker is asked about hand-written kernels, those of a calibration included, and
what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perfcli.model.estimate import Grid, OperatorWork
from perfcli.model.handwritten import Case, KernelLaunch, LaunchPlan
from perfcli.model.measurement import Machine
from perfcli.model.workload import Problem, Target

CheckOutcome = Literal["right", "wrong", "refused", "failed"]
Runner = Literal["gpu", "interpreter"]


@dataclass(frozen=True, slots=True)
class LaunchToCompile:
    """Describes one launch of a family's plan, for one target."""

    code: str
    """The module with the ``@triton.jit`` function (``KernelFamily.code``)."""
    launch: KernelLaunch
    target: Target


@dataclass(frozen=True, slots=True)
class LaunchesRequest:
    """Asks for launches to be compiled without a device."""

    launches: tuple[LaunchToCompile, ...]
    jobs: int
    cache_dir: str
    family: str = ""
    """A user's file, whose folder the code modules are in; empty for shipped families."""


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """Asks for a description of a plan's launches, without a device."""

    family: str
    """A shipped name, or a user's file."""
    problem: Problem
    plan: LaunchPlan


@dataclass(frozen=True, slots=True)
class Operand:
    """Describes a tensor that a launch is given."""

    argument: str
    name: str
    """The tensor's name: the same for the same input in all launches."""
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    bytes: int
    is_input: bool


@dataclass(frozen=True, slots=True)
class DescribedLaunch:
    """Describes one launch: the text of what it runs, helpers included, and its tensors."""

    source: str
    operands: tuple[Operand, ...]
    is_gluon: bool = False
    """Then it may load by assembly, of which its text says nothing."""


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """Holds a case as it is run: its problem may be smaller than the family's."""

    case: Case
    plan: LaunchPlan | None
    """The plan, or None where the planner refuses the problem, for the ``refusal`` given."""
    refusal: str = ""
    rows_asked: int | None = None
    """The family's own number of rows, where the case was scaled down."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Asks for cases to be run and held against their references."""

    family: str
    cases: tuple[PlannedCase, ...]
    runner: Runner
    jobs: int
    seed: int
    target: Target | None = None
    """The GPU that cases run on: their kernels are compiled ahead for it, ``jobs`` at a time."""


@dataclass(frozen=True, slots=True)
class OutputError:
    """Describes the element of one output that exceeds its tolerance most, or comes nearest to
    it."""

    name: str
    error: float | None
    """The absolute error; None where one side is not finite."""
    allowed: float | None
    value: str
    expected: str
    where: tuple[int, ...]
    wrong: int
    """Elements beyond their tolerance."""
    elements: int
    problem: str = ""
    """Why there was nothing to compare: another shape or dtype, missing."""

    @property
    def is_right(self) -> bool:
        return not self.wrong and not self.problem


@dataclass(frozen=True, slots=True)
class CheckedCase:
    """Says what came of one case."""

    outcome: CheckOutcome
    variant: str
    """The variant that was run; empty where none was."""
    outputs: tuple[OutputError, ...] = ()
    reason: str = ""
    """Why it was refused, or how it failed."""
    seconds: float = 0.0
    device_lost: bool = False
    """The device can't be used by this process any more."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Names one way to compute a problem that is timed."""

    name: str
    """``copy``, ``ours``, a variant's name, ``eager``, ``inductor`` …"""
    plan: LaunchPlan | None = None
    """The plan, for ours and for variants."""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """Asks for a worker that times problems of one family, one after the other."""

    family: str
    seed: int


@dataclass(frozen=True, slots=True)
class BenchAsk:
    """Asks for the times of one problem."""

    problem: Problem
    moved_bytes: int
    contenders: tuple[Contender, ...]
    rounds: int
    budget_seconds: float
    """The seconds for the rounds; getting contenders ready is not part of them."""


@dataclass(frozen=True, slots=True)
class TimedContender:
    """Holds one contender, as it was timed; seconds are in the order of the rounds."""

    name: str
    seconds: tuple[float, ...] = ()
    error: str = ""
    """Why it was not timed."""
    largest_error: float | None = None
    """The absolute error of the element that exceeds its tolerance most or comes nearest to it."""
    wrong: str = ""
    """What is wrong, in a clause, where its outputs are outside the family's tolerance."""
    ready_seconds: float = 0.0
    """The seconds until its first launch was through: compiling and tuning included."""


@dataclass(frozen=True, slots=True)
class Benched:
    """Holds one problem, timed."""

    problem: Problem
    moved_bytes: int
    timed: tuple[TimedContender, ...]
    machine: Machine
    rounds: int = 0
    device_lost: bool = False


# --- calibration -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CorpusCase:
    """Describes one launch of a kernel of ``kernels/_corpus.py``."""

    kernel: str
    grid: Grid
    warps: int
    tensors: tuple[tuple[str, str, int], ...]
    """Argument, type (``bf16``, ``fp32``, ``i8``, ``i32``; ``chain`` and ``rows`` are indices) and
    number of elements."""
    scalars: Mapping[str, int]
    constants: Mapping[str, int | str | bool]


@dataclass(frozen=True, slots=True)
class CorpusRequest:
    """Asks for cases to be compiled and timed."""

    cases: tuple[CorpusCase, ...]
    target: Target
    jobs: int


@dataclass(frozen=True, slots=True)
class CorpusCode:
    """Holds what cases were compiled to that differ in nothing that Triton specialises on."""

    cases: tuple[int, ...]
    registers: int
    stack_bytes: int
    shared_bytes: int
    ttgir: str
    sass: str
    """Annotated with the lines of the source."""


ColdAndHot = tuple[tuple[float, ...], tuple[float, ...]]
"""Microseconds of a case's launches: where the L2 cache had none of its input, and where the launch
before was the same."""


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """Describes a call of a library operator, with its gradients where it has any."""

    family: Literal["product", "attention", "convolution", "other"]
    settings: Mapping[str, int | float | str]
    """Its sizes, and what else decides its kernels (``measure.operators``)."""


OPERATOR_BATCH = 60
"""Cases that are timed together, in the order in which they are asked for."""


@dataclass(frozen=True, slots=True)
class OperatorsRequest:
    """Asks for calls of library operators to be timed."""

    cases: tuple[OperatorCase, ...]


@dataclass(frozen=True, slots=True)
class TimedOperator:
    """Holds one call with what it computes and moves, and its times on the device."""

    work: OperatorWork
    times: ColdAndHot
