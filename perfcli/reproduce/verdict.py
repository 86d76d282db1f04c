"""Derives the verdict on a claim from what carrying it out brought to light.

The rules, in this order:

1. What could not be carried out, or rests on a fact that is not known, *cannot be shown here*.
2. The symptom has to be on the bad side. Where the bad side imitates an older release it must not
   be on the good side, which is this torch: there it is *fixed in this version*, if the author says
   so of this release, else *not reproduced*. The same holds where the bad side lacks the symptom.
3. What the claim expects of both sides has to hold, else it is *not reproduced*.
4. A claim about time is decided by the measured ratio: at least half of the claimed change, and
   more than noise. Without a device the estimated interval decides if all of it lies on one side
   of that; else the claim *needs a GPU*. ``--smoke`` decides by code alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from perfcli import units
from perfcli.reproduce.claim import Claim, ClaimedEffect
from perfcli.reproduce.condition import FactMissing, Facts, holds, list_facts
from perfcli.reproduce.observation import CureResult, Observation, TimeRatio

_Word = Literal[
    "reproduced",
    "not reproduced",
    "fixed in this version",
    "needs a GPU",
    "cannot be shown here",
]
_Basis = Literal["measured", "estimated", "code", ""]
_UNITS = {"bytes_moved": units.size, "bytes_swept": units.size, "peak_bytes": units.size}


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """Holds the verdict on one claim, and the numbers that it follows from."""

    verdict: _Word
    reason: str
    basis: _Basis = ""
    """What decided it."""


def judge(claim: Claim, found: Observation) -> ClaimVerdict:
    """Return the verdict on a claim. Pure: the same evidence gives the same verdict."""
    if found.failure:
        return ClaimVerdict("cannot be shown here", found.failure)
    try:
        ruling = _judge_code(claim, found)
    except FactMissing as error:
        return ClaimVerdict("cannot be shown here", f"{error} is not known")
    if ruling.verdict != "reproduced" or claim.effect is None or found.smoke:
        return ruling
    return _judge_time(claim.effect, found, ruling)


def _judge_code(claim: Claim, found: Observation) -> ClaimVerdict:
    sides = found.sides
    if claim.symptom:
        on_bad = has_symptom(claim, sides["bad"])
        on_good = has_symptom(claim, sides["good"])
        imitated = found.way is not None and found.way.imitates
        here = on_good if imitated else on_bad
        if not here:
            shown = write_facts(
                claim.symptom, {**sides, "side": sides["good" if imitated else "bad"]}
            )
            if claim.fixed_in and parse_release(found.torch) >= claim.fixed_in:
                return ClaimVerdict("fixed in this version", shown, "code")
            return ClaimVerdict("not reproduced", shown, "code")
        if on_good and not imitated:
            shown = write_facts(claim.symptom, {**sides, "side": sides["good"]})
            return ClaimVerdict("not reproduced", f"the good side has it as well: {shown}", "code")
    for condition in claim.expects:
        if not holds(condition, sides):
            return ClaimVerdict("not reproduced", write_facts(condition, sides), "code")
    parts = [claim.symptom.replace("side.", "bad."), *claim.expects]
    shown = "; ".join(write_facts(part, sides) for part in parts if part)
    return ClaimVerdict("reproduced", shown, "code")


def has_symptom(claim: Claim, facts: Facts) -> bool:
    """Raise FactMissing where a fact is missing."""
    return holds(claim.symptom, {"side": facts})


def _judge_time(effect: ClaimedEffect, found: Observation, code: ClaimVerdict) -> ClaimVerdict:
    claimed = f"claimed {effect.ratio:.3g}×"
    if (measured := found.measured) is not None:
        told = (
            f"measured {measured.ratio:.3g}× [{measured.low:.3g}, {measured.high:.3g}], {claimed}"
        )
        reason = f"{code.reason}; {told}"
        expected = "slower" if effect.ratio >= 1 else "faster"
        if effect.is_shown_by(measured.ratio) and measured.verdict == expected:
            return ClaimVerdict("reproduced", reason, "measured")
        if effect.is_shown_by(measured.ratio) and measured.verdict == "unsure":
            return ClaimVerdict("cannot be shown here", f"{reason}: too noisy to tell", "measured")
        return ClaimVerdict("not reproduced", f"{reason}, {effect.least:.3g}× would do", "measured")
    estimated = found.estimated
    if estimated is None:
        return replace(code, verdict="needs a GPU", reason=f"{code.reason}; {claimed}", basis="")
    ends = (estimated.low, estimated.high)
    told = f"estimated {estimated.ratio:.3g}× [{ends[0]:.3g}, {ends[1]:.3g}], {claimed}"
    shown = [effect.is_shown_by(end) for end in ends]
    reason = f"{code.reason}; {told}"
    if all(shown):
        return ClaimVerdict("reproduced", reason, "estimated")
    if not any(shown):
        return ClaimVerdict(
            "not reproduced", f"{reason}, {effect.least:.3g}× would do", "estimated"
        )
    return ClaimVerdict("needs a GPU", reason)


def judge_cure(result: CureResult) -> str:
    """Return whether a cure helps: the symptom is gone, and the step is not slower for it."""
    if result.failure:
        return f"failed: {result.failure}"
    if result.symptom is None:
        return "not known"
    time = result.measured or result.estimated
    slower = time is not None and time.verdict == "slower"
    if result.symptom:
        return "does not help"
    return "helps, but slower" if slower else "helps"


def parse_release(version: str) -> tuple[int, int]:
    """Return (2, 11) for ``2.11.0+cu130``; (0, 0) for what is no version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def write_facts(condition: str, sides: Mapping[str, Facts]) -> str:
    """Return the numbers that a condition is about, ``bytes swept 9.9 → 13.2 GB``: from the good
    side to the bad one where it is about both."""
    named = list_facts(condition)
    words: dict[str, str] = {}
    for side, name in named:
        write = _UNITS.get(name, _write_number)
        if {("good", name), ("bad", name)} <= set(named):
            text = f"{write(sides['good'][name])} → {write(sides['bad'][name])}"
        else:
            text = write(sides[side][name])
        words[name] = f"{name.replace('_', ' ')} {text}"
    return ", ".join(words.values())


def _write_number(value: float | None) -> str:
    return units.NOT_KNOWN if value is None else f"{value:,.4g}"


__all__ = ["ClaimVerdict", "TimeRatio", "has_symptom", "judge", "judge_cure", "write_facts"]
