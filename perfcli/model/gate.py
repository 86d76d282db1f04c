"""Defines what a gate asks and what it says: limits, exceptions to them, and one judgement of all
checks.

Reports other than the terminal's read a ``Judgement``; one comparison that nobody put limits on is
a judgement of one check without any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from perfcli.model.comparison import Comparison, Rule
from perfcli.model.kernel import Origin
from perfcli.model.values import BlobId

Passing = Literal["pass", "fail", "unsure", "fault"]
"""``fault``: the tool or the user's model failed, nothing was judged."""
GRAVEST_FIRST: tuple[Passing, ...] = ("fault", "fail", "unsure", "pass")
"""All checks come to the first of these that one comes to, and are read in this order."""
LimitState = Literal["kept", "broken", "allowed", "unknown", "better"]
"""``allowed``: broken, with an exception that covers it; ``better``: kept, and less than the base
had."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Says what a metric may be. Each bound that is given has to hold; units are the metric's own
    (bytes, seconds, words, 0 to 1)."""

    metric: str
    kernel: str = ""
    """Glob of kernel names that it is for, each kernel alone; empty: the total of the run."""
    most: float | None = None
    """The head's value at most; for metrics of which more is better, at least."""
    growth: float | None = None
    """Change for the worse against the base at most, in the metric's unit."""
    growth_share: float | None = None
    """The change for the worse as a part of the base: 0.01 is one percent."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Makes an exception to limits and findings, which somebody answers for."""

    kernel: str
    """Glob of kernel names; ``*`` is all of them and the totals."""
    limit: str
    """The metric, or a rule's code, that it excepts."""
    reason: str
    owner: str
    expires: str
    """ISO date; from the day after on it excepts nothing, and is warned of."""
    most: float | None = None
    """Excepts values up to this; None: any."""


@dataclass(frozen=True, slots=True)
class LimitResult:
    """Holds one limit held against one comparison."""

    limit: Limit
    state: LimitState
    base: float | None
    head: float | None
    allowed: float | None
    """The head's value at which the limit breaks."""
    group: int | None = None
    """Index into ``Comparison.groups``; None: the total."""
    kernel: str = ""
    """The head's kernel, or the base's where it is gone."""
    text: str = ""
    """``spilled words 2 → 94, at most 2``."""
    allowance: Allowance | None = None
    also: tuple[Allowance, ...] = ()
    """Further exceptions that cover a part of it."""
    origin: Origin | None = None
    """The line of the model to look at, where it is broken and one is known."""

    @property
    def is_cause(self) -> bool:
        """Whether it explains other limits: a graph in pieces makes more and other kernels."""
        return self.limit.metric == "graph_breaks"


@dataclass(frozen=True, slots=True)
class FindingResult:
    """Names a finding of the comparison that counts against the head."""

    finding: int
    """Index into ``Comparison.findings``."""
    state: Literal["broken", "allowed"]
    allowance: Allowance | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Says where the base comes from."""

    kind: Literal["baseline", "revision", "interpreter", "run"]
    where: str
    """The baseline's file, the git revision, the interpreter's path, or the run's id."""
    created: str = ""
    """The date, in ISO format."""
    reason: str = ""
    revision: str = ""
    """The repository's revision when it was made, where there was a repository."""
    torch: str = ""
    triton: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """Holds one check: a scenario with its parameters on one target or device."""

    name: str
    """``norm@h100``; empty for a plain comparison."""
    outcome: Passing
    reason: str
    """The reason in one sentence."""
    comparison: Comparison | None = None
    """The comparison, or None for a fault or where there is no base to compare with."""
    limits: tuple[LimitResult, ...] = ()
    findings: tuple[FindingResult, ...] = ()
    provenance: Provenance | None = None
    fault: str = ""
    """What failed, in one line."""
    alone: bool = False
    """One run by itself: it is both sides of the comparison, whose findings are all of the run."""
    texts: Mapping[BlobId, str] = field(default_factory=dict)
    """Sources and intermediate representations that the runs name; may be unpacked on reading."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Holds what a command concludes of a comparison by other rules than the comparison's own."""

    word: str
    """``FASTER``."""
    text: str
    """``by estimate, −15 % [−26, −2]: online_softmax=false``."""
    note: str
    """Why the comparison below may say something else."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Holds all checks of one gate, and what follows."""

    checks: tuple[Judged, ...]
    outcome: Passing
    reason: str
    exit_code: int
    warnings: tuple[str, ...] = ()
    """Allowances that have expired or except nothing, an old baseline, better numbers to take
    over: each one line, none of them red."""
    command: str = ""
    """The command that makes it again: ``perfcli gate``."""
    rules: tuple[Rule, ...] = ()
    """The rules that looked, for formats that document them."""
    root: str = ""
    """Absolute folder that paths of the model are shown relative to: the repository's. Never
    shown itself."""
    configuration: str = ""
    """Absolute path of the file that asks for the checks; empty where none does. Shown relative to
    the root."""
    conclusion: Conclusion | None = None
    """Stands first, in the place of the comparison's verdict."""


Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class Document(Generic[Shown]):
    """Describes a format of ``reports/`` for files: ``render`` gives the whole text, ending in a
    newline, of a ``Judgement``, a ``Sweep`` or a ``HistoryPage``."""

    name: str
    suffix: str
    render: Callable[[Shown], str]
