"""Defines a claim: what is compiled in two ways, and what its author says of the difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perfcli.model import Problem, Scalar, Target
from perfcli.reproduce.condition import Facts

Release = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """Says where a claim was published."""

    text: str
    """``PR #127011``."""
    url: str
    seed: int | None = None
    """The number of the document that asked for it, where one did."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Holds what one side is compiled with, besides what both sides have."""

    options: tuple[str, ...] = ()
    """``OPT=VAL``, as typed."""
    params: Mapping[str, Scalar] = field(default_factory=dict)
    smoke: Mapping[str, Scalar] | None = None
    """Parameters of ``--smoke`` in place of ``params``; None: the same."""
    smoke_options: tuple[str, ...] | None = None
    """Options of ``--smoke`` in place of ``options``; None: the same."""
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """Holds two sides that show a claim. A torch that lacks one of their options can't go it."""

    good: Setup
    bad: Setup
    until: Release | None = None
    """The last release that is to go this way; None: any."""
    imitates: bool = False
    """The bad side imitates an older release, and the good side is this torch as it is: the claim
    holds of this torch only if the good side shows the symptom as well."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Says what is searched for the option to blame."""

    metric: str
    """As bisect-config knows it."""
    suspects: tuple[str, ...] = ()
    """``OPT=VAL`` that the bad side gets as well, so that the search has a choice."""


@dataclass(frozen=True, slots=True)
class TwoVariants:
    """Says how two variants of a scenario show a claim."""

    scenario: str
    ways: tuple[Way, ...]
    """The first that this torch can go is taken."""
    params: Mapping[str, Scalar] = field(default_factory=dict)
    smoke: Mapping[str, Scalar] = field(default_factory=dict)
    """Parameters of ``--smoke``, in place of those above."""
    finding: str = ""
    """The code of the finding that is expected of the bad side."""
    blame: Blame | None = None
    cures: tuple[tuple[str, ...], ...] = ()
    """Sets of options to try on the bad side, besides the good side itself."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Says which launches of hand-written kernels show a claim, and what they are held against."""

    family: str
    variant: str
    problems: tuple[Problem, ...]
    theirs: Callable[[Problem, Target], Facts] | None = None
    """Computes the bad side's facts of one problem, by published formulas."""
    against: str = ""
    """What the kernels race on a device, ``inductor-max-autotune``: the bad side."""


@dataclass(frozen=True, slots=True)
class ClaimedEffect:
    """Holds what the difference is said to cost, and how much of it has to be seen here."""

    good: float
    bad: float
    unit: str
    """``ms``; empty where a ratio alone was published."""
    on: str
    """The GPU that the numbers are from."""

    @property
    def ratio(self) -> float:
        return self.bad / self.good

    @property
    def least(self) -> float:
        """Return the ratio from which the effect counts as shown: half of the change that was
        claimed, because it was measured on another GPU."""
        return 1 + (self.ratio - 1) / 2

    def is_shown_by(self, ratio: float) -> bool:
        return ratio >= self.least if self.ratio >= 1 else ratio <= self.least


@dataclass(frozen=True, slots=True)
class Claim:
    """Holds one claim. Its conditions compare facts (``facts``) with numbers, in terms of ``good``,
    ``bad`` and ``pair``: ``bad.bytes_swept >= 1.3 * good.bytes_swept``."""

    name: str
    says: str
    """The claim in one sentence, with its author's numbers."""
    source: Source
    holds: str
    """The releases of which it is said: ``torch 2.8 to 2.12``."""
    shown_by: TwoVariants | Launches
    symptom: str = ""
    """A condition on one ``side``. It holds of the bad side, and not of the good one."""
    expects: tuple[str, ...] = ()
    """Conditions on both sides that have to hold as well."""
    shows: tuple[str, ...] = ()
    """Facts that are told with the verdict and decide nothing: ``good.registers``."""
    effect: ClaimedEffect | None = None
    """On the time of a step; None: the claim is about code or memory alone."""
    fixed_in: Release | None = None
    withdrawn: str = ""
    """What its author said of it later."""
    is_control: bool = False
    """It says that nothing gets worse, so that a false alarm shows."""
    is_about_memory: bool = False

    @property
    def is_measured(self) -> bool:
        """Return whether a device has anything to say of it."""
        return self.effect is not None or self.is_control or self.is_about_memory
