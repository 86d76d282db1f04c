"""The verdict where a side computes something else than its eager reference."""

from __future__ import annotations

from dataclasses import replace

from perfcli.model import Because, Comparison, WrongResults


def judged(comparison: Comparison, wrong: WrongResults) -> Comparison:
    """Worse where the head's results are wrong, however fast or lean it is. Where the base's are,
    there is nothing to hold the head against: unknown. The code's own verdict speaks no longer:
    what is computed is not the same."""
    told = [f for f in comparison.findings if f.severity == "error" and f.headline == wrong.what]
    code = told[0].code if told else ""
    reason = f"{code} {wrong.what}" if code else wrong.what
    return replace(
        comparison,
        outcome="worse" if wrong.side == "head" else "unknown",
        reason=reason,
        because=Because(wrong.what if not code else f"{code}: {wrong.what}", code=code),
    )
