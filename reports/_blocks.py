"""Findings that belong together: those of one kernel, consequences with their cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcli.model import Finding


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding and what follows from it. ``named``: a line above it says the kernel's name."""

    finding: Finding
    consequences: tuple[Finding, ...] = ()
    named: bool = False


def blocks(findings: Sequence[Finding]) -> list[list[Placed]]:
    """One block for each kernel, in the order of the first finding of each; what concerns no
    kernel stands alone."""
    found: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        key = (finding.on_base, finding.kernels[0]) if finding.kernels else ("alone", number)
        found.setdefault(key, []).append(finding)
    return [_block(of_one) for of_one in found.values()]


def _block(findings: Sequence[Finding]) -> list[Placed]:
    causes = [f for f in findings if _cause(f, findings) is None]
    following: dict[int, list[Finding]] = {}
    for finding in findings:
        cause = _cause(finding, findings)
        if cause is not None:
            following.setdefault(id(cause), []).append(finding)
    # Those that others follow from come first, however grave the rest is.
    ordered = sorted(causes, key=lambda cause: id(cause) not in following)
    return [
        Placed(cause, tuple(following.get(id(cause), ())), number > 0)
        for number, cause in enumerate(ordered)
    ]


def _cause(finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """What explains it, of these; nothing where that has a cause of its own here or does not
    concern all of its kernels."""
    codes = {each.code for each in findings}
    for other in findings:
        explains = other.code == finding.explained_by and other.explained_by not in codes
        if explains and set(finding.kernels) <= set(other.kernels):
            return other
    return None
