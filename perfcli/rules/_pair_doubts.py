"""What PC901 says about two runs: what the verdict rests on, matches, compilers, questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perfcli import units
from perfcli.diff.compare import ASPECTS
from perfcli.diff.metrics import DECIDING
from perfcli.model import Comparison, Finding, KernelFacts, Match
from perfcli.rules._doubts import CODE_METRICS, KERNEL_DOUBTS, NAMED, doubt, named

LOW_CONFIDENCE = 0.4
"""Half of the work is shared by operators, which are trusted with 0.8 (``diff/match.py``)."""
_QUESTION = ("parameter", *ASPECTS)
"""How a difference begins that had to be allowed."""
_TOTALS_HOLD = "the totals do not depend on it"


def decisive(comparison: Comparison) -> str:
    """The metric that the verdict names, as ``diff/verdict.py`` picks it (where it is unknown, the
    one that is missing); empty where there is none."""
    if comparison.outcome == "same":
        return ""
    outcomes = {change.metric: change.outcome for change in comparison.totals}
    return next((m for m in DECIDING if outcomes.get(m) == comparison.outcome), "")


def _verdict(comparison: Comparison) -> Iterator[Finding]:
    """Kernels that changed and that the deciding metric leaves out."""
    metric = decisive(comparison)
    base, head = _changed(comparison)
    for kind in KERNEL_DOUBTS:
        sides = [[k for k in side if kind.applies(k)] for side in (base, head)]
        if metric in kind.metrics and any(sides):
            number = units.plural(sum(map(len, sides)), "changed kernel")
            yield doubt(
                f"verdict: {kind.subject}",
                f"the verdict rests on {units.title(metric)}: {number} {kind.says}",
                evidence=tuple(
                    f"{side}: {named(kernels)}"
                    for side, kernels in zip(("base", "head"), sides, strict=True)
                    if kernels
                ),
                advice=kind.advice,
                severity="warning",
            )


def _changed(comparison: Comparison) -> tuple[list[KernelFacts], list[KernelFacts]]:
    matches = [g.match for g in comparison.groups if g.match.relation != "same"]
    return (
        [comparison.base.kernels[index] for match in matches for index in match.base],
        [comparison.head.kernels[index] for match in matches for index in match.head],
    )


def _matches(comparison: Comparison) -> Iterator[Finding]:
    pairs = [g.match for g in comparison.groups if g.match.base and g.match.head]
    weak = [m for m in pairs if m.method == "name" or m.confidence < LOW_CONFIDENCE]
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


def _match(match: Match, comparison: Comparison) -> str:
    ours = named([comparison.base.kernels[index] for index in match.base])
    theirs = named([comparison.head.kernels[index] for index in match.head])
    return f"{ours} → {theirs}: by {match.method}, confidence {match.confidence:.2g}"


def _provenance(comparison: Comparison) -> Iterator[Finding]:
    base, head = _changed(comparison)
    lost = [kernel for kernel in (*base, *head) if not kernel.origins]
    if lost:
        yield doubt(
            "no provenance",
            f"{units.plural(len(lost), 'changed kernel')} without FX nodes: what they compute, "
            "and so what they belong together with, is not known",
            evidence=(named(lost),),
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
    rests = decisive(comparison) in CODE_METRICS and bool(differ.keys() & {"triton", "ptxas"})
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


def _question(comparison: Comparison) -> Iterator[Finding]:
    allowed = [d for d in comparison.differences if d.startswith(tuple(f"{q} " for q in _QUESTION))]
    if allowed:
        yield doubt(
            "different questions",
            f"the two runs answer different questions: {'; '.join(allowed)}",
            advice="compare runs that agree on them",
            severity="warning" if comparison.outcome in ("better", "worse") else "info",
        )


PARTS: tuple[Callable[[Comparison], Iterator[Finding]], ...] = (
    _verdict,
    _matches,
    _provenance,
    _tools,
    _question,
)
