"""Wrong results decide: how fast or lean a wrong answer is does not matter."""

from __future__ import annotations

from perfcli.model import Because, Comparison, Verdict, WrongResults


def _judge_wrong_results(comparison: Comparison, wrong: WrongResults) -> Verdict:
    """Worse where the head's results are wrong. Where the base's are wrong, there is nothing to
    hold the head against: unknown. Counts and times are silent: the two sides do not compute the
    same."""
    told = [f for f in comparison.findings if f.severity == "error" and f.headline == wrong.what]
    code = told[0].code if told else ""
    return Verdict(
        "worse" if wrong.side == "head" else "unknown",
        f"{code} {wrong.what}" if code else wrong.what,
        Because(f"{code}: {wrong.what}" if code else wrong.what, code=code),
    )
