"""Holds one kernel, as the library returns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from perfcli import diagnosis, units
from perfcli.console.output import render, screen
from perfcli.diff.metrics import KERNEL_METRICS, fold, launched_kernels
from perfcli.errors import PerfcliError
from perfcli.model import Candidate, Finding, KernelFacts, Run, Severity

_WIDE = 10_000
"""Wider than any line of a kernel: nothing is cut."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Holds one generated kernel.

    What is not known is None, never zero; bytes and seconds are those of one launch. Of several
    launch configurations the one that spills least counts, since the autotuner's choice is not
    known without a device.
    """

    number: int
    """Index into ``Kernels``, the number that ``perfcli inspect-kernel`` takes."""
    facts: KernelFacts
    """Everything known about it."""
    findings: tuple[Finding, ...] = ()
    """What the rules say about it."""
    read: Callable[[], str] = field(repr=False, compare=False, default=str)
    """Reads its source."""

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def kind(self) -> str:
        """Return ``pointwise``, ``persistent reduction``, ``template`` …"""
        return self.facts.kind

    @property
    def graph(self) -> str:
        """Return the graph that launches it: ``forward 0``, ``backward 1``."""
        return self.facts.graph

    @property
    def launches(self) -> int:
        """Return how often one step launches it; 0: never, another form of it is."""
        return self.facts.launches

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the ATen operators that it computes, each once."""
        return tuple(dict.fromkeys(origin.op for origin in self.facts.origins if origin.op))

    @property
    def locations(self) -> tuple[str, ...]:
        """Return lines of the model that it comes from, ``file:line``, each once."""
        return tuple(dict.fromkeys(o.location for o in self.facts.origins if o.location))

    @property
    def loads(self) -> int | None:
        """Load instructions in its source (static)."""
        return self.facts.source_facts.loads if self.facts.source_facts else None

    @property
    def loads_in_loops(self) -> int | None:
        """Return how many of the loads are inside loops."""
        return self.facts.source_facts.loads_in_loops if self.facts.source_facts else None

    @property
    def stores(self) -> int | None:
        """Store instructions in its source (static)."""
        return self.facts.source_facts.stores if self.facts.source_facts else None

    @property
    def atomics(self) -> int | None:
        """Return the atomic instructions in its source (static)."""
        return self.facts.source_facts.atomics if self.facts.source_facts else None

    @property
    def best(self) -> Candidate | None:
        """Return the launch configuration that counts."""
        return self.facts.best

    @property
    def spilled_words(self) -> int | None:
        """Return the 32-bit words per thread that registers were spilled into."""
        return self.facts.spilled_words

    @property
    def registers(self) -> int | None:
        """Return the registers of a thread."""
        return self.best.registers if self.best else None

    @property
    def stack_bytes(self) -> int | None:
        """Return the stack of a thread: spills, and arrays of the program's own."""
        return self.best.stack_bytes if self.best else None

    @property
    def shared_bytes(self) -> int | None:
        """Return the shared memory of a block."""
        return self.best.shared_bytes if self.best else None

    @property
    def occupancy(self) -> float | None:
        """Return the theoretical occupancy: resident warps over the most that a multiprocessor
        holds, 0 to 1."""
        return self.best.occupancy if self.best else None

    @property
    def bytes_read(self) -> int | None:
        """Return the bytes of one launch, each buffer once."""
        return self.facts.bytes_read

    @property
    def bytes_written(self) -> int | None:
        """Return the bytes of one launch, each buffer once."""
        return self.facts.bytes_written

    @property
    def bytes_moved(self) -> int | None:
        """Return the value for one launch: read and written."""
        return self.facts.bytes_moved

    @property
    def bytes_swept(self) -> int | None:
        """Return the bytes of one launch if every sweep over a buffer goes to memory again."""
        return self.facts.bytes_swept

    @property
    def lower_bound_seconds(self) -> float | None:
        """Return the value for one launch: bytes moved over the target's bandwidth."""
        return self.facts.lower_bound_seconds

    @property
    def estimated_seconds(self) -> float | None:
        """Return how long one launch is estimated to take on the target, without running it; None
        where no more than its bytes is known."""
        estimate = self.facts.estimate
        return estimate.seconds if estimate and not estimate.is_rough else None

    @property
    def code(self) -> str:
        """Return the kernel's source, as Inductor wrote it."""
        return self.read()

    @property
    def source(self) -> str:
        """Return the kernel's source behind what each line became in machine code, as ``perfcli
        inspect-kernel`` shows it: global loads and stores (LDG, STG), and those of spilled
        registers (LDL, STL)."""
        return render(screen().source(self.code, self.best), _WIDE)

    def report(self, columns: int = 100) -> str:
        """Return what ``perfcli inspect-kernel`` shows: facts, origins, launch configurations,
        source."""
        return render(screen().kernel(self.number, self.facts, self.code), columns)


_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


def meant(findings: Sequence[Finding], codes: Sequence[str], severity: Severity) -> list[Finding]:
    """Return those of rules whose codes begin so (of all where none is given), at least so severe.

    Raises PerfcliError where no rule's code begins so.
    """
    for code in codes:
        if not any(rule.code.startswith(code.upper()) for rule in diagnosis.rules()):
            diagnosis.rule(code)  # raises, with the nearest
    least = _SEVERITIES[_SEVERITIES.index(severity) :]
    wanted = tuple(code.upper() for code in codes) or ("",)
    return [f for f in findings if f.code.startswith(wanted) and f.severity in least]


def listed(findings: Sequence[Finding], scenario: str) -> str:
    """Return findings as text, with what they rest on and what to try."""
    lines = [f"{units.plural(len(findings), 'finding')} in {scenario}:"]
    for finding in findings:
        lines.append(line(finding))
        lines += [f"    {text}" for text in finding.evidence]
        lines += [f"    advice: {finding.advice}"] if finding.advice else []
        lines += [f"    try: options={dict(cure.options)!r}" for cure in finding.cures]
    return units.printable("\n".join(lines))


def line(finding: Finding) -> str:
    kernels = ", ".join(map(str, finding.kernels))
    where = f" (kernel {kernels})" if kernels else ""
    return f"{finding.code} {finding.severity}: {finding.headline}{where}"


METRICS = {metric.name: metric for metric in KERNEL_METRICS}


class NotKnown(PerfcliError):
    """A number that was asked for is not known of this run. Raised instead of returning None: a
    test that asks for ``not k.spilled_words`` must not pass because nobody knows."""


class Portion(NamedTuple):
    """Says what one kernel adds to a total, or has of what is not added up."""

    number: int
    name: str
    value: int


class Total(int):
    """An ``int`` that remembers what it counts (``metric``) and what each kernel has of it
    (``parts``, most first). Calculating with it gives a plain ``int``."""

    metric: str
    parts: tuple[Portion, ...]

    @classmethod
    def of(cls, metric: str, value: float, parts: tuple[Portion, ...]) -> Self:
        made = cls(value)
        made.metric = metric
        made.parts = parts
        return made

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


def total(run: Run, name: str) -> float:
    """Return a metric over the kernels that a step launches. Sums of no kernels are 0.

    Raises NotKnown where a kernel does not know its own, or there is no kernel to take the worst
    of.
    """
    metric = METRICS[name]
    folded = fold(metric, run.kernels)
    if folded.unknown:
        missing = sum(folded.unknown.values())
        raise NotKnown(
            f"{name} of {run.scenario} is not known: {missing} of its "
            f"{len(launched_kernels(run.kernels))} kernels can't tell (device {run.device})"
        )
    if folded.value is not None:
        return folded.value
    if metric.fold == "sum":
        return 0
    raise NotKnown(f"{name} of {run.scenario} is not known: no kernel was generated for it")


def counted(run: Run, name: str) -> Total:
    """Return the same as a whole number, with its parts."""
    metric = METRICS[name]
    values = [(n, k.name, metric.of(k)) for n, k in enumerate(run.kernels) if k.launches]
    parts = (Portion(n, kernel, int(value)) for n, kernel, value in values if value)
    most = sorted(parts, key=lambda part: (-part.value, part.number))
    return Total.of(name, total(run, name), tuple(most))
