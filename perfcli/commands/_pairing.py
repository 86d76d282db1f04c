"""What was only compared, as a judgement that documents read: checks without limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcli.commands import _documents, _output
from perfcli.errors import PerfcliError
from perfcli.model import (
    GRAVEST_FIRST,
    Comparison,
    Judged,
    Judgement,
    Outcome,
    Passing,
    Provenance,
)

if TYPE_CHECKING:
    from perfcli.commands._obtain import Obtained

_PASSING: dict[Outcome, Passing] = {
    "same": "pass", "better": "pass", "worse": "fail", "unknown": "unsure",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pairing:
    """One comparison for a document: the two runs, and how they compare. ``name`` tells it from
    others; ``fault`` is what of perfcli failed while it was judged."""

    base: Obtained
    head: Obtained
    comparison: Comparison
    name: str = ""
    fault: str = ""
    alone: bool = False
    """One run by itself: it is both sides."""


def judgement_of(pairings: Sequence[Pairing], command: str = "") -> Judgement:
    """Comparisons that nobody put limits on as a judgement: as bad as the worst of them."""
    from perfcli.diagnosis import rules

    checks = tuple(_judged(pairing) for pairing in pairings)
    worst = min(range(len(checks)), key=lambda n: GRAVEST_FIRST.index(checks[n].outcome))
    return Judgement(
        checks=checks,
        outcome=checks[worst].outcome,
        reason=checks[worst].reason,
        exit_code=exit_code(pairings[worst]),
        command=command,
        rules=rules(),
        root=str(_documents.project_root()),
    )


def exit_code(pairing: Pairing) -> int:
    """What ``compare`` returns."""
    if pairing.fault:
        return PerfcliError.exit_code
    return _output.EXIT_CODES[pairing.comparison.outcome]


def _judged(pairing: Pairing) -> Judged:
    from perfcli.commands._texts import Texts

    base = pairing.base.run
    environment = base.environment
    return Judged(
        name=pairing.name,
        outcome="fault" if pairing.fault else _PASSING[pairing.comparison.outcome],
        reason=pairing.comparison.reason,
        comparison=pairing.comparison,
        provenance=Provenance(
            kind="run",
            where=base.id,
            created=base.created[:10],
            torch=environment.torch,
            triton=environment.triton or "",
        ),
        fault=pairing.fault,
        alone=pairing.alone,
        texts=Texts(pairing.base, pairing.head),
    )
