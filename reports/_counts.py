"""Findings in numbers, for the first lines of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.model import Comparison, Finding

from ._finding import WORDS


def counts(comparison: Comparison, named: Finding | None) -> Iterator[str]:
    """The findings about other kernels than the one that the lines name: ``2 findings fixed
    (PC204)``. Doubts about the report are none of the head's."""
    others = [f for f in comparison.findings if not f.doubt and not _beside(f, named)]
    fixed = [finding for finding in others if finding.appearance == "gone"]
    if fixed:
        yield f"{units.plural(len(fixed), 'finding')} fixed ({_codes(fixed)})"
    for appearance, adjective in (("new", "new "), ("worse", "worse ")):
        came = [f for f in others if f.came_with_head and (f.appearance or "new") == appearance]
        numbers = {s: sum(f.severity == s for f in came) for s in WORDS}
        counted = [
            units.plural(n, *(f"{adjective}{word}" for word in WORDS[s]))
            for s, n in numbers.items()
            if n
        ]
        if counted:
            yield f"{', '.join(counted)} ({_codes(came)})"


def _beside(finding: Finding, named: Finding | None) -> bool:
    """Whether it stands in the same block as the one that is named."""
    if named is None or finding.on_base:
        return False
    return finding is named or not set(finding.kernels).isdisjoint(named.kernels)


def _codes(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.code for finding in findings))
