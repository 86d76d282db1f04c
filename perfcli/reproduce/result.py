"""Defines a claim with what was seen of it and the verdict, and writes its parts in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from perfcli import units
from perfcli.frames.table import Column, Table
from perfcli.reproduce.claim import Claim, TwoVariants
from perfcli.reproduce.observation import CureResult, Observation, TimeRatio
from perfcli.reproduce.verdict import ClaimVerdict, judge_cure


@dataclass(frozen=True, slots=True)
class ClaimResult:
    claim: Claim
    found: Observation
    verdict: ClaimVerdict
    seconds: float
    """How long it took."""

    @property
    def is_answered(self) -> bool:
        """Return whether the verdict needs nothing more than this machine has."""
        return self.verdict.verdict != "needs a GPU"


def write_source(claim: Claim) -> str:
    return claim.source.text


_BASES = {
    "measured": ", measured",
    "estimated": ", by estimate",
    "code": ", in code",
    "formulas": ", by published formulas",
    "": "",
}


def write_verdict(verdict: ClaimVerdict) -> str:
    """Return ``reproduced, measured``."""
    return f"{verdict.verdict}{_BASES[verdict.basis]}"


def list_times(result: ClaimResult) -> Iterator[str]:
    """Yield the claimed times, then what was estimated and measured here."""
    effect, found = result.claim.effect, result.found
    if found.smoke:
        return
    if effect is not None:
        of = f" on {effect.on}" if effect.on else ""
        numbers = f"{effect.good:.3g} → {effect.bad:.3g} {effect.unit}, " if effect.unit else ""
        yield f"claimed {numbers}{effect.ratio:.3g}×{of}"
    if found.estimated is not None:
        yield f"estimated {_write_time(found.estimated)}"
    if found.measured is not None:
        yield f"measured {_write_time(found.measured)}"
    if found.peaks is not None:
        good, bad = map(units.size, found.peaks)
        yield f"peak memory {good} → {bad}"


def _write_time(time: TimeRatio) -> str:
    """Return ``3.53 → 2.96 ms, 0.84× [0.67, 1.06]``."""
    both = " → ".join(units.alike(time.good, time.bad))
    return f"{both}, {time.ratio:.3g}× [{time.low:.3g}, {time.high:.3g}]"


_DOUBTS = "PC9"


def write_reason(result: ClaimResult) -> str:
    """Return the numbers that the verdict follows from; of a control also what compare says."""
    reason = result.verdict.reason
    if result.claim.is_control and result.found.outcome:
        return f"{reason}; compare: {result.found.outcome}"
    return reason


def write_finding(result: ClaimResult) -> str:
    """Return whether the finding that the claim expects was raised, with what else came."""
    found, asked = result.found, result.claim.shown_by
    expected = asked.finding if isinstance(asked, TwoVariants) else ""
    others = [code for code in found.came if code != expected and not code.startswith(_DOUBTS)]
    also = f" (also {', '.join(others)})" if others else ""
    if expected and found.sides:
        if expected in found.findings:
            return f"{expected}{also}"
        small = " at this size" if found.smoke else ""
        return f"no {expected}{small}{also}"
    return ", ".join(others)


def write_blame(result: ClaimResult) -> str:
    found = result.found
    return f"{', '.join(found.blamed) or 'none'} ({found.blame})" if found.blame else ""


def list_cures(result: ClaimResult) -> Iterator[str]:
    """Yield ``online_softmax=true: helps, measured 0.77×``: with the cure over without."""
    yield from map(_write_cure, result.found.cures)


def _write_cure(cure: CureResult) -> str:
    kind, time = ("measured", cure.measured) if cure.measured else ("estimated", cure.estimated)
    ratio = "" if time is None else f", {kind} {time.ratio:.3g}×"
    return f"{' '.join(cure.options)}: {judge_cure(cure)}{ratio}"


def describe(result: ClaimResult) -> dict[str, Any]:
    """Return everything as plain data for JSON."""
    claim, found = result.claim, result.found
    return {
        "name": claim.name,
        "says": claim.says,
        "source": claim.source,
        "holds": claim.holds,
        "fixed_in": claim.fixed_in,
        "withdrawn": claim.withdrawn,
        "control": claim.is_control,
        "conditions": {"symptom": claim.symptom, "expects": claim.expects},
        "effect": claim.effect,
        "verdict": result.verdict.verdict,
        "basis": result.verdict.basis,
        "reason": write_reason(result),
        "times": list(list_times(result)),
        "finding": write_finding(result),
        "blamed": write_blame(result),
        "cures": list(list_cures(result)),
        "found": found,
        "seconds": round(result.seconds, 1),
    }


_Claimed = tuple[Claim, ClaimResult | None]


def _of_time(kind: str, part: str) -> Callable[[_Claimed], Any]:
    def read(row: _Claimed) -> Any:
        time = getattr(row[1].found, kind) if row[1] else None
        return None if time is None else getattr(time, part)

    return read


CLAIMS: Table[_Claimed] = Table(
    "claims",
    "a published claim, with its verdict where it was carried out",
    "`reproduce`, `reproduce --list`",
    (
        Column("claim", "text", "its name", lambda row: row[0].name),
        Column("says", "text", "what it says", lambda row: row[0].says),
        Column("source", "text", "who says it", lambda row: write_source(row[0])),
        Column(
            *("verdict", "text", "reproduced, …"), lambda row: row[1] and row[1].verdict.verdict
        ),
        Column(
            *("basis", "text", "measured, estimated, code or formulas"),
            lambda row: (row[1] and row[1].verdict.basis) or None,
        ),
        Column("reason", "text", "why", lambda row: row[1] and write_reason(row[1])),
        Column(
            *("claimed", "number", "bad over good, as claimed"),
            *(lambda row: row[0].effect and row[0].effect.ratio, "ratio"),
        ),
        Column("estimated", "number", "by estimate", _of_time("estimated", "ratio"), "ratio"),
        Column("measured", "number", "as measured here", _of_time("measured", "ratio"), "ratio"),
        Column(
            *("measured_low", "number", "lower end of its 95 % interval"),
            *(_of_time("measured", "low"), "ratio"),
        ),
        Column(
            *("measured_high", "number", "upper end of its 95 % interval"),
            *(_of_time("measured", "high"), "ratio"),
        ),
        Column("blamed", "text", "the option to blame", lambda r: r[1] and write_blame(r[1])),
        Column("seconds", "number", "how long it took", lambda r: r[1] and r[1].seconds, "s"),
    ),
)
