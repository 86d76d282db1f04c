"""Derives the verdict on a claim from what carrying it out brought to light.

The rules, in this order:

1. What could not be carried out, or rests on a fact that is not known, *cannot be shown here*.
2. The symptom has to be on the bad side, and not on the good one. Where the bad side imitates an
   older release, the good side is this torch as it is, and has to have it as well. Where it is not,
   it is *fixed in this version* if that is said of this release and an imitation has it, else *not
   reproduced*.
3. What the claim expects of both sides has to hold, else it is *not reproduced*.
4. A claim about time is decided by the measured ratio: at least half of the claimed change, and
   more than noise. Without a device the estimated interval decides if all of it lies on one side
   of that; else the claim *needs a GPU*. ``--smoke`` judges no times: a symptom has to do, and a
   claim that has none needs a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from perfcli import units
from perfcli.reproduce.claim import Claim, ClaimedEffect, Launches
from perfcli.reproduce.condition import FactMissing, Facts, holds, list_facts
from perfcli.reproduce.observation import CureResult, Observation

_Word = Literal[
    "reproduced", "not reproduced", "fixed in this version", "needs a GPU", "cannot be shown here"
]
_Basis = Literal["measured", "estimated", "code", "formulas", ""]


_DECIDED_BY_TIME = ("pair.worse", "pair.slower")
"""Facts that a measurement makes known where counts and estimates leave them open."""


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """Holds the verdict on one claim, and the numbers that it follows from."""

    verdict: _Word
    reason: str
    basis: _Basis = ""
    """What decided it."""


def judge(claim: Claim, found: Observation) -> ClaimVerdict:
    """Return the verdict on a claim. Pure: the same observation gives the same verdict."""
    if found.failure:
        return ClaimVerdict("cannot be shown here", found.failure)
    try:
        ruling = _judge_code(claim, found)
    except FactMissing as error:
        if str(error) in _DECIDED_BY_TIME and found.measured is None:
            return ClaimVerdict("needs a GPU", "neither counts nor an estimate can tell")
        return ClaimVerdict("cannot be shown here", f"{error} is not known")
    ruling = replace(ruling, basis=_find_basis(claim, found))
    if ruling.verdict != "reproduced" or claim.effect is None:
        return ruling
    if found.smoke:
        return ruling if claim.symptom else replace(ruling, verdict="needs a GPU", basis="")
    return _judge_time(claim.effect, found, ruling)


def _find_basis(claim: Claim, found: Observation) -> _Basis:
    """Return what the conditions of a claim rest on, which its effect comes on top of."""
    if isinstance(claim.shown_by, Launches) and claim.shown_by.theirs is not None:
        return "formulas"
    if any("pair.slower" in condition for condition in claim.expects):
        return "measured" if found.measured else "estimated" if found.estimated else "code"
    return "code"


def _judge_code(claim: Claim, found: Observation) -> ClaimVerdict:
    if claim.symptom and (without := _judge_symptom(claim, found)):
        return without
    for condition in claim.expects:
        if not holds(condition, found.sides):
            numbers = write_numbers(claim, found, [condition])
            return ClaimVerdict("not reproduced", f"{numbers}; expected {condition}", "code")
    conditions = [claim.symptom.replace("side.", "bad."), *claim.expects, *claim.shows]
    return ClaimVerdict("reproduced", write_numbers(claim, found, conditions), "code")


def _judge_symptom(claim: Claim, found: Observation) -> ClaimVerdict | None:
    """Return the verdict where the symptom is not where it should be."""
    good, bad = (has_symptom(claim, found.sides[side]) for side in ("good", "bad"))
    imitated = found.way is not None and found.way.imitates
    here, side = (good, "good") if imitated and bad else (bad, "bad")
    seen = claim.symptom.replace("side.", f"{side}.")
    if not here:
        fixed = claim.fixed_in is not None and parse_release(found.torch) >= claim.fixed_in
        fixed = fixed and (bad or not imitated)
        numbers = write_numbers(claim, found, [seen])
        verdict: _Word = "fixed in this version" if fixed else "not reproduced"
        expected = claim.symptom.replace("side.", "")
        return ClaimVerdict(verdict, f"{numbers}; the symptom would be {expected}", "code")
    if good and not imitated:
        numbers = write_numbers(claim, found, [claim.symptom.replace("side.", "good.")])
        return ClaimVerdict("not reproduced", f"the good side has it as well: {numbers}", "code")
    return None


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
    """Return whether a cure helps: the symptom is gone, and the step is not slower for it. Where no
    symptom is known, the step has to be faster."""
    if result.failure:
        return f"failed: {result.failure}"
    time = result.measured or result.estimated
    verdict = time.verdict if time else "unsure"
    if result.symptom is None:
        return {"faster": "helps", "unsure": "not known"}.get(verdict, "does not help")
    if result.symptom:
        return "does not help"
    return "helps, but slower" if verdict == "slower" else "helps"


def parse_release(version: str) -> tuple[int, int]:
    """Return (2, 11) for ``2.11.0+cu130``; (0, 0) for what is no version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def write_numbers(claim: Claim, found: Observation, conditions: Sequence[str]) -> str:
    """Return the numbers that conditions are about, each once: ``bytes swept 9.9 → 13.2 GB`` from
    the good side to the bad one."""
    imitated = found.way is not None and found.way.imitates
    ours, theirs = "this torch" if imitated else "the good side", ""
    if isinstance(claim.shown_by, Launches):
        ours, theirs = "ours", "theirs"
    named: dict[str, list[str]] = {}
    for side, name in (fact for text in conditions if text for fact in list_facts(text)):
        sides = named.setdefault(name, [])
        if side not in sides:
            sides.append(side)
    words = []
    for name, sides in named.items():
        write = _WRITERS.get(name, _write_number)
        values = {side: write(found.sides[side][name]) for side in sides}
        match sorted(sides):
            case ["bad", "good"] if not theirs:
                text = f"{values['good']} → {values['bad']}"
            case ["bad", "good"]:
                text = f"{values['good']} ({ours}), {values['bad']} ({theirs})"
            case ["good"]:
                text = f"{values['good']} ({ours})"
            case ["bad"] if theirs:
                text = f"{values['bad']} ({theirs})"
            case _:
                text = values[sides[0]]
        words.append(f"{name.replace('_', ' ')} {text}")
    return "; ".join(words)


def _write_number(value: float | None) -> str:
    return (
        units.NOT_KNOWN if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    )


def _write_truth(value: float | None) -> str:
    return units.NOT_KNOWN if value is None else "yes" if value else "no"


_WRITERS: Mapping[str, Callable[[float | None], str]] = {
    "bytes_moved": units.size,
    "bytes_swept": units.size,
    "peak_bytes": units.size,
    "needed_bytes": units.exact_bytes,
    "limit_bytes": units.exact_bytes,
    "same_code": _write_truth,
    "worse": _write_truth,
    "slower": _write_truth,
}
