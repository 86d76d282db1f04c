"""Defines two runs, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from perfcli.model.estimate import EstimatedChange
from perfcli.model.finding import Change, Finding, Proposal
from perfcli.model.kernel import Candidate, KernelFacts
from perfcli.model.measurement import SideName
from perfcli.model.run import Run
from perfcli.model.selection import Selection
from perfcli.model.timing import Timing
from perfcli.model.values import Outcome, Relation


@dataclass(frozen=True, slots=True)
class Totals:
    """Holds what all kernels of one side cost together; None means not known."""

    launches: int
    bytes_moved: int | None = None
    """The bytes of each kernel's buffers, each counted once."""
    bytes_swept: int | None = None
    """The bytes moved, including what a kernel reads again."""
    passes: float | None = None
    """How often the bytes of the inputs are read, over all kernels."""
    wide_share: float | None = None
    """The part of the bytes loaded by load instructions that a thread loads 16 at a time, or TMA:
    static counts, of the launch configuration that does best, weighed by bytes read. 0 to 1."""
    registers: int | None = None
    """Registers per thread of the kernel with most."""
    spilled_words: int | None = None
    shared_bytes: int | None = None
    """Shared memory per block of the kernel with most."""
    occupancy: float | None = None
    """Occupancy of the kernel with least."""


@dataclass(frozen=True, slots=True)
class Raced:
    """Holds the seconds of both sides and of a copy of as many bytes as a problem has to move,
    timed in turns."""

    problem: str
    """``softmax 32768 × 2048 bfloat16``."""
    inductor: float
    ours: float
    copy: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Beside:
    """Holds what a comparison with hand-written kernels shows in addition; they are its head."""

    kernels: tuple[str, ...]
    """``softmax/online`` for each problem: family and variant."""
    why: tuple[str, ...]
    """For each problem, why its planner chose this variant."""
    inductor: Totals
    ours: Totals
    left_out: tuple[str, ...] = ()
    """What the scenario computes and the hand-written kernels do not."""
    raced: tuple[Raced, ...] = ()
    untimed: str = ""
    """Why nothing was timed."""

    def list_explaining(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Return what explains the difference: the findings that Inductor's kernels have and ours
        lack, and that a number bears out. Consequences of another finding, and doubts, explain
        nothing."""
        return tuple(
            finding
            for finding in findings
            if finding.appearance == "gone"
            and not finding.explained_by
            and not finding.code.startswith(_DOUBTS)
            and self._bears_out(finding)
        )

    def _bears_out(self, finding: Finding) -> bool:
        """Return whether a number bears the finding out: a finding about bytes read again explains
        nothing where ours read as much."""
        number = _NUMBERS.get(finding.metric)
        if number is None:
            return True
        theirs, mine = number(self.inductor), number(self.ours)
        return theirs is not None and mine is not None and mine < theirs


_DOUBTS = "PC9"
_NUMBERS: Mapping[str, Callable[[Totals], float | None]] = {
    "bytes_swept": lambda t: t.bytes_swept,
    "bytes_moved": lambda t: t.bytes_moved,
    "spilled_words": lambda t: t.spilled_words,
    "narrow_loads": lambda t: None if t.wide_share is None else -t.wide_share,
    "occupancy": lambda t: None if t.occupancy is None else -t.occupancy,
}
"""The number that a finding is about, by the finding's metric: less is better."""


@dataclass(frozen=True, slots=True)
class Match:
    """Names kernels of both sides that compute the same thing, as indices into ``Run.kernels``."""

    base: tuple[int, ...]
    head: tuple[int, ...]
    relation: Relation
    method: str
    confidence: float

    def select(self, base: Run, head: Run) -> tuple[list[KernelFacts], list[KernelFacts]]:
        """Return the kernels that it names, the base's and the head's."""
        ours = [base.kernels[index] for index in self.base]
        return ours, [head.kernels[index] for index in self.head]


@dataclass(frozen=True, slots=True)
class KernelGroup:
    match: Match
    changes: tuple[Change, ...]

    def delta(self, metric: str) -> float:
        """Return by how much a metric changed; 0 where that is not known."""
        return next((c.delta or 0.0 for c in self.changes if c.metric == metric), 0.0)


@dataclass(frozen=True, slots=True)
class Because:
    """Holds a verdict's reason in its parts, where a metric decided it."""

    change: str
    """``spilled words 2 → 94``."""
    group: int | None = None
    """Index into ``Comparison.groups``: what adds most to it."""
    kernel: str = ""
    """The group's kernel to look at."""
    how: str = ""
    """``fuses 2 kernels``."""
    sums: str = ""
    """``2 kernels, 21 loads → 1 kernel, 17 loads, +92 spilled words``."""
    though: str = ""
    """What speaks against it: ``bytes moved −1.62 GB``."""
    also: str = ""
    """What would have decided alike, or stands beside what can't tell: ``peak memory +268 MB (+22
    %)``."""
    code: str = ""
    """The finding's, where one decided: ``change`` ends with it."""
    share: str = ""
    """The kernel's part of a measured change: ``3.10 → 3.46 ms, 92 % of the change``."""
    why: str = ""
    """Why it can't be told."""
    help: str = ""
    """What may tell: ``--budget 60``."""
    clock: str = ""
    """What the clock says that does not decide: ``step SAME, it waits for the host 62 % of the
    time``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says what a comparison comes to."""

    outcome: Outcome
    reason: str
    """The reason in one sentence."""
    because: Because | None = None


@dataclass(frozen=True, slots=True)
class WrongResults:
    """Describes a side whose outputs are not those of its eager reference: it was not timed."""

    side: SideName
    what: str
    """``the head's outputs are wrong: 3 of 4096 values are NaN``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Holds all that reports and the gate see."""

    base: Run
    head: Run
    totals: tuple[Change, ...]
    groups: tuple[KernelGroup, ...]
    outcome: Outcome = "unknown"
    """This, ``reason`` and ``because`` are what ``perfcli.diff.verdict`` concludes."""
    reason: str = ""
    differences: tuple[str, ...] = ()
    """How the environments differ."""
    findings: tuple[Finding, ...] = ()
    because: Because | None = None
    besides: tuple[str, ...] = ()
    """What changed apart from kernels: extern calls, graph breaks."""
    timing: Timing | None = None
    """The times, where both sides were measured together."""
    estimate: EstimatedChange | None = None
    """The estimated times, where both sides were compiled for a GPU."""
    compiled: Change | None = None
    """The processor time of compiling, judged beyond its noise; None where a side does not know
    it."""
    wrong: WrongResults | None = None
    """Set where both sides were to be measured and one of them computes something else."""
    beside: Beside | None = None
    """Set where the head is a hand-written version of what the base computes."""

    @property
    def changed_groups(self) -> tuple[KernelGroup, ...]:
        """Return the groups whose kernels are not the same on both sides."""
        return tuple(group for group in self.groups if group.match.relation != "same")


@dataclass(frozen=True, slots=True)
class Report:
    """Describes a format of ``reports/``: ``render`` gives the whole text of a file, ending in a
    newline."""

    name: str
    suffix: str
    render: Callable[[Comparison], str]
    finding: Callable[[Finding], dict[str, Any]] | None = None
    """One finding, in formats that others put into documents of their own."""


View_co = TypeVar("View_co", covariant=True)
"""What a screen prints: rich's ``RenderableType``, which the model does not know."""


class Screen(Protocol[View_co]):
    """Holds what ``reports/terminal.py`` shows; each function gives something that rich can print.

    ``places`` and ``reference`` say how a user names a run, ``tried`` whether fixes were asked for,
    ``brief`` whether one line is enough.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """What the kernels of a run can be sorted by."""
        ...

    def comparison(
        self,
        comparison: Comparison,
        places: Sequence[tuple[str, str]] = (),
        brief: bool = False,
        tried: bool = False,
    ) -> View_co: ...

    def run(
        self,
        run: Run,
        path: str = "",
        reference: str = "",
        brief: bool = False,
        top: int = 0,
        sort: str = "",
        sortable: bool = True,
    ) -> View_co: ...

    def kernel(
        self,
        number: int,
        kernel: KernelFacts,
        source: str | None,
        candidate: int | None = None,
        selections: Sequence[Selection] = (),
    ) -> View_co: ...

    def listing(self, run: Run) -> View_co: ...

    def explanation(
        self,
        run: Run,
        findings: Sequence[Finding],
        reference: str = "",
        brief: bool = False,
        tried: bool = False,
        proposals: Sequence[Proposal] = (),
    ) -> View_co: ...

    def kernel_findings(
        self, run: Run, findings: Sequence[Finding], tried: bool = False
    ) -> View_co: ...

    def source(self, source: str, chosen: Candidate | None) -> View_co: ...


def _nothing(_: object) -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Describes one file of ``rules/``. ``of_run`` looks at one run alone and is asked about both
    sides of a comparison; ``of_comparison`` says what only two runs can show."""

    code: str
    title: str
    documentation: str | None
    """The file's docstring: what it sees, why it costs, what to try."""
    explains: tuple[str, ...] = ()
    """Codes of findings about the same kernel that are consequences of this one."""
    of_run: Callable[[Run], Iterable[Finding]] = _nothing
    of_comparison: Callable[[Comparison], Iterable[Finding]] = _nothing
    is_measured: Callable[[Comparison], bool] = lambda comparison: False
    """Whether ``of_comparison`` measured what ``of_run`` can only estimate, so that nothing of the
    latter is asked."""
