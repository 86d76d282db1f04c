"""Does a cure help? The run that needs it beside the run compiled with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfcli import diagnosis
from perfcli.diff.compare import ASPECTS, compare
from perfcli.diff.metrics import DECIDING
from perfcli.model import Change, Comparison, Cure, Finding, KernelFacts, Run, Trial, TrialOutcome

# A cure that leaves more than this of a finding's amount is none.
MOST_LEFT = 0.5
# A kernel adds to it, but only a whole run has it: what a cure does to it is read off the totals.
OF_THE_RUN = "peak_memory_bytes"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One cure, compiled: what was found before, and what is found with it."""

    comparison: Comparison
    """From the run that needs the cure to the one that has it."""
    before: tuple[Finding, ...]
    after: tuple[Finding, ...]


def attempt(head: Run, tried: Run, findings: Iterable[Finding], base: Run | None = None) -> Attempt:
    """``findings``: all of the head's. With a ``base`` they are those of a comparison, and what
    only a comparison shows is looked for in base and ``tried``.

    Raises PerfcliError where neither run has a kernel, or a rule fails.
    """
    comparison = compare(head, tried, ASPECTS)
    if base is None:
        after: Sequence[Finding] = diagnosis.explain(tried)
    else:
        after = diagnosis.diagnose(compare(base, tried, ASPECTS)).findings
    return Attempt(comparison, _present(findings), _present(after))


def _present(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.appearance != "gone")


def judge(finding: Finding, cure: Cure, made: Attempt) -> Trial:
    """Whether the finding, one of ``made.before``, is gone, at most half as bad, or an error that
    is only worth knowing now, and which totals that decide a verdict changed. Amounts are those of
    all findings that are about the same: of a kernel's parts, where the cure splits it."""
    before, after = _about_the_same(finding, made)
    outcome, reason = _outcome(finding, before, after, made)
    was, is_ = _amounts(finding, before, after, made)
    return Trial(
        cure,
        outcome,
        before=was,
        after=is_ if outcome != "failed" else None,
        changes=_deciding(made.comparison),
        reason=reason,
        run=made.comparison.head.id,
    )


def failed(cure: Cure, reason: str) -> Trial:
    """Of a cure that does not compile."""
    return Trial(cure, "failed", reason=reason)


def _amounts(
    finding: Finding, before: Sequence[Finding], after: Sequence[Finding], made: Attempt
) -> tuple[float | None, float | None]:
    if finding.amount is None:
        return None, None
    peak = _whole(finding, made)
    if peak is None:
        return diagnosis.amount(before), diagnosis.amount(after)
    # Equal kernels need equal memory, whatever is estimated for what they keep to themselves.
    return peak.base, peak.base if _unchanged(made) else peak.head


def _whole(finding: Finding, made: Attempt) -> Change | None:
    totals = made.comparison.totals if finding.metric == OF_THE_RUN else ()
    return next((change for change in totals if change.metric == OF_THE_RUN), None)


def _unchanged(made: Attempt) -> bool:
    return all(group.match.relation == "same" for group in made.comparison.groups)


def _outcome(
    finding: Finding, before: Sequence[Finding], after: Sequence[Finding], made: Attempt
) -> tuple[TrialOutcome, str]:
    if _unchanged(made) and finding.kernels:
        return "does not help", "the same kernels are generated"
    if unknown := _not_known(finding, made.comparison):
        return "failed", f"the machine code of {unknown} is not known"
    if not _shrinks(before, after, MOST_LEFT):
        return "does not help", ""
    was, is_ = ([f for f in s if f.code == finding.code] for s in (made.before, made.after))
    if is_ and _weight(is_) >= _weight(was):
        return "does not help", "it is elsewhere instead"
    peak = _whole(finding, made)
    if peak is not None and peak.outcome != "better":
        return "does not help", "the peak is elsewhere"
    costs = any(change.outcome == "worse" for change in _deciding(made.comparison))
    return ("helps at a cost" if costs else "helps"), ""


def _about_the_same(finding: Finding, made: Attempt) -> tuple[list[Finding], list[Finding]]:
    for family in diagnosis.families(made.comparison, made.before, made.after):
        before = [made.before[number] for number in family.base]
        if finding in before:
            return before, [made.after[number] for number in family.head]
    raise ValueError(f"{finding.code} is none of the run's findings")


def _shrinks(before: Sequence[Finding], after: Sequence[Finding], most: float) -> bool:
    # A kernel that can be launched again may still need nearly as much shared memory.
    cured = any(f.severity == "error" for f in before) and all(f.severity == "info" for f in after)
    return cured or not after or _weight(after) <= _weight(before) * most


def _weight(findings: Sequence[Finding]) -> float:
    """What is counted, or how many there are where nothing is."""
    return diagnosis.amount(findings) or len(findings)


def _deciding(comparison: Comparison) -> tuple[Change, ...]:
    decided = (change for change in comparison.totals if change.metric in DECIDING)
    return tuple(change for change in decided if change.outcome in ("better", "worse"))


def _not_known(finding: Finding, comparison: Comparison) -> str:
    """A kernel of which the cured run does not know what the finding rests on: a finding that
    can't be made is not a finding that is gone."""
    if finding.on_base:
        return ""
    before, after = comparison.base.kernels, comparison.head.kernels
    for match in (group.match for group in comparison.groups):
        if set(match.base) & set(finding.kernels):
            was_known = all(_known(before[index]) for index in match.base)
            unknown = [after[index].name for index in match.head if not _known(after[index])]
            if was_known and unknown:
                return unknown[0]
    return ""


def _known(kernel: KernelFacts) -> bool:
    return kernel.best is not None and kernel.source_facts is not None
