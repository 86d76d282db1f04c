"""The numbers of a report rest on something that is weaker than usual.

What it sees: in one run, kernels whose machine code is not known, launch configurations that did
not compile or that the assembler was stopped at, kernels whose bytes Inductor does not tell, and
what was assumed because there is no device or no value to look at (padding, sizes, values,
branches). In a comparison also kernels matched by their names or by less than half of their work,
changed kernels without FX nodes, operators that only one side runs outside of graphs, another
torch, triton or ptxas, and differences that were allowed with `--allow`. One finding for each kind;
a warning where the metric that the verdict names rests on it.

Why it costs: nothing. But a number that leaves something out can look better than it is.

What to try: each finding says how to make sure: usually a run on the device, or two runs that
differ in one thing only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.diff.compare import ASPECTS
from perfcli.diff.metrics import DECIDING
from perfcli.diff.verdict.decide import EAGER, count_eager, decide_by_code
from perfcli.model import TOO_SLOW, Comparison, Finding, KernelFacts, Match, Rule, Run, Severity

CODE = "PC901"
NAMED = 4
CODE_METRICS = ("spilled_words",)
BYTE_METRICS = ("bytes_moved", "bytes_swept", "lower_bound_seconds")


@dataclass(frozen=True, slots=True)
class _KernelDoubt:
    """Describes a reason to doubt some kernels' numbers."""

    subject: str
    says: str
    applies: Callable[[KernelFacts], bool]
    advice: str
    metrics: tuple[str, ...]
    """The metrics of a verdict that the kernels are missing from."""


def _without_code(kernel: KernelFacts) -> bool:
    known = kernel.language == "triton" and bool(kernel.source_hash)
    return known and kernel.best is None and not _given_up(kernel)


def _partly_failed(kernel: KernelFacts) -> bool:
    failed = any(c.error for c in kernel.candidates)
    return kernel.best is not None and failed and not _given_up(kernel)


def _given_up(kernel: KernelFacts) -> bool:
    return any(c.error.startswith(TOO_SLOW) for c in kernel.candidates)


def _without_bytes(kernel: KernelFacts) -> bool:
    return kernel.bytes_moved is None and bool(kernel.source_hash)


def _without_source(kernel: KernelFacts) -> bool:
    return not kernel.source_hash


KERNEL_DOUBTS = (
    _KernelDoubt(
        "no source",
        "known from a trace alone: what they load, store and spill is not known",
        _without_source,
        "import their sources together with the trace: perfcli import TRACE FOLDER",
        (*CODE_METRICS, *BYTE_METRICS),
    ),
    _KernelDoubt(
        "no machine code",
        "without machine code: registers, spills and occupancy leave them out",
        _without_code,
        "inspect-kernel shows why they did not compile",
        CODE_METRICS,
    ),
    _KernelDoubt(
        "failed configurations",
        "with launch configurations that did not compile and are left out",
        _partly_failed,
        "inspect-kernel shows why; only those that compile are compared",
        CODE_METRICS,
    ),
    _KernelDoubt(
        "assembler stopped",
        "with launch configurations that ptxas was stopped at: their registers and spills are not "
        "known",
        _given_up,
        "PERFCLI_PTXAS_SECONDS=600 gives it ten minutes, with --fresh where the run is stored",
        CODE_METRICS,
    ),
    _KernelDoubt(
        "bytes not known",
        "without known bytes: left out of bytes moved and lower-bound time",
        _without_bytes,
        "count the kernel's loads and stores with inspect-kernel",
        BYTE_METRICS,
    ),
)


def doubt(
    subject: str,
    headline: str,
    evidence: tuple[str, ...] = (),
    advice: str = "",
    amount: int | None = None,
    severity: Severity = "info",
    code: str = CODE,
) -> Finding:
    """Return one finding for each kind: told apart by its subject, its kernels named in the
    evidence."""
    return Finding(
        code=code,
        severity=severity,
        headline=headline,
        evidence=evidence,
        advice=advice,
        amount=amount,
        subject=subject,
        doubt=True,
    )


def _name_some(kernels: Sequence[KernelFacts]) -> str:
    """Return the first few by name, the others by number."""
    more = f" and {len(kernels) - NAMED} more" if len(kernels) > NAMED else ""
    return ", ".join(kernel.name for kernel in kernels[:NAMED]) + more


LOW_CONFIDENCE = 0.4
"""Half of the work is shared by operators, which are trusted with 0.8 (``diff/match.py``)."""
_QUESTION = ("parameter", *ASPECTS)
"""How a difference begins that had to be allowed."""
_TOTALS_HOLD = "the totals do not depend on it"


def _decisive(comparison: Comparison) -> str:
    """Return the metric that the verdict names, as ``diff/verdict/`` picks it (where it is unknown,
    the one that is missing); empty where there is none."""
    outcome = decide_by_code(comparison)
    if outcome == "same":
        return ""
    outcomes = {change.metric: change.outcome for change in comparison.totals}
    return next((m for m in DECIDING if outcomes.get(m) == outcome), "")


def _verdict(comparison: Comparison) -> Iterator[Finding]:
    """Yield kernels that changed and that the deciding metric leaves out."""
    metric = _decisive(comparison)
    base, head = _changed_kernels(comparison)
    for kind in KERNEL_DOUBTS:
        sides = [[k for k in side if kind.applies(k)] for side in (base, head)]
        if metric in kind.metrics and any(sides):
            number = units.plural(sum(map(len, sides)), "changed kernel")
            yield doubt(
                f"verdict: {kind.subject}",
                f"the verdict rests on {units.title(metric)}: {number} {kind.says}",
                evidence=tuple(
                    f"{side}: {_name_some(kernels)}"
                    for side, kernels in zip(("base", "head"), sides, strict=True)
                    if kernels
                ),
                advice=kind.advice,
                severity="warning",
            )


def _changed_kernels(comparison: Comparison) -> tuple[list[KernelFacts], list[KernelFacts]]:
    matches = [group.match for group in comparison.changed_groups]
    return (
        [comparison.base.kernels[index] for match in matches for index in match.base],
        [comparison.head.kernels[index] for match in matches for index in match.head],
    )


def _matches(comparison: Comparison) -> Iterator[Finding]:
    pairs = [g.match for g in comparison.groups if g.match.base and g.match.head]
    weak = [m for m in pairs if _is_weak(m, comparison)]
    if weak:
        by_name = sum(match.method == "name" for match in weak)
        how = f", {by_name} by name alone" if by_name else ""
        yield doubt(
            "weak matches",
            f"{units.plural(len(weak), 'group')} of kernels may not belong together{how}",
            evidence=tuple(_match(match, comparison) for match in weak[:NAMED]),
            advice=_TOTALS_HOLD,
            amount=len(weak),
        )


def _is_weak(match: Match, comparison: Comparison) -> bool:
    """Return whether a match may be wrong. That kernels of traces are matched by their names is
    said of each side already."""
    if all(not comparison.base.kernels[index].source_hash for index in match.base):
        return False
    return match.method == "name" or match.confidence < LOW_CONFIDENCE


def _match(match: Match, comparison: Comparison) -> str:
    ours, theirs = map(_name_some, match.select(comparison.base, comparison.head))
    return f"{ours} → {theirs}: by {match.method}, confidence {match.confidence:.2g}"


def _provenance(comparison: Comparison) -> Iterator[Finding]:
    base, head = _changed_kernels(comparison)
    lost = [k for k in (*base, *head) if not k.origins and not _without_source(k)]
    if lost:
        yield doubt(
            "no provenance",
            f"{units.plural(len(lost), 'changed kernel')} without FX nodes: what they compute, "
            "and so what they belong together with, is not known",
            evidence=(_name_some(lost),),
            advice=_TOTALS_HOLD,
            amount=len(lost),
        )


def _tools(comparison: Comparison) -> Iterator[Finding]:
    base, head = comparison.base, comparison.head
    differ = {
        name: f"{name} {ours} → {theirs}"
        for name in ("torch", "triton", "ptxas")
        if (ours := getattr(base.environment, name)) != (theirs := getattr(head.environment, name))
    }
    if not differ:
        return
    # Spills are ptxas' work on Triton's code: the same source can spill with another of them.
    rests = _decisive(comparison) in CODE_METRICS and bool(differ.keys() & {"triton", "ptxas"})
    mixed = dict(base.variant.options) != dict(head.variant.options)
    yield doubt(
        "other compilers",
        f"not the same compilers: {', '.join(differ.values())}",
        evidence=tuple(_what_it_hides(mixed, "torch" in differ)),
        advice="change one thing at a time to tell what did it",
        severity="warning" if rests else "info",
    )


def _what_it_hides(options_differ: bool, torch_differs: bool) -> Iterator[str]:
    if options_differ:
        yield "the options differ, too: which of both made a change can't be told"
    if torch_differs:
        yield "Inductor's estimate of peak memory may count differently: it decides nothing"


def _eager(comparison: Comparison) -> Iterator[Finding]:
    more = count_eager(comparison)
    if more:
        side, run = ("head", comparison.head) if more > 0 else ("base", comparison.base)
        number = units.plural(abs(more), "operator")
        number += " more" * ((run.eager_operators or 0) > abs(more))
        yield doubt(
            EAGER,
            f"the {side} runs {number} outside of graphs, which no number counts",
            evidence=tuple(note for note in run.notes if note.startswith("outside of graphs")),
            advice="the graph breaks say why (PC403)",
            amount=abs(more),
            severity="warning",
        )


def _question(comparison: Comparison) -> Iterator[Finding]:
    allowed = [d for d in comparison.differences if d.startswith(tuple(f"{q} " for q in _QUESTION))]
    if allowed:
        yield doubt(
            "different questions",
            f"the two runs answer different questions: {'; '.join(allowed)}",
            advice="compare runs that agree on them",
            severity="warning" if decide_by_code(comparison) in ("better", "worse") else "info",
        )


PARTS: tuple[Callable[[Comparison], Iterator[Finding]], ...] = (
    _verdict,
    _matches,
    _provenance,
    _tools,
    _eager,
    _question,
)


ASSUMED = ("taken as", "counted as", "not counted")
"""The word that stands in every note of compile/ that assumes something."""


def _check(run: Run) -> Iterator[Finding]:
    for part in (_kernels, _assumptions):
        yield from part(run)


def _kernels(run: Run) -> Iterator[Finding]:
    for kind in KERNEL_DOUBTS:
        kernels = [kernel for kernel in run.kernels if kind.applies(kernel)]
        if kernels:
            yield doubt(
                kind.subject,
                f"{len(kernels)} of {units.plural(len(run.kernels), 'kernel')} {kind.says}",
                evidence=(_name_some(kernels),),
                advice=kind.advice,
                amount=len(kernels),
            )


def _assumptions(run: Run) -> Iterator[Finding]:
    assumed = tuple(note for note in run.notes if any(word in note for word in ASSUMED))
    if assumed:
        yield doubt(
            "assumptions",
            f"perfcli assumed {units.plural(len(assumed), 'decision')} that the device would make",
            evidence=assumed,
            advice="compile it on the device, which makes these decisions itself",
            amount=len(assumed),
        )


def _check_pair(comparison: Comparison) -> Iterator[Finding]:
    for part in PARTS:
        yield from part(comparison)


RULE = Rule(CODE, "doubts about the numbers", __doc__, of_run=_check, of_comparison=_check_pair)
