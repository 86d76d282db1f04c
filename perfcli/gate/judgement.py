"""Puts all checks of a gate together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from perfcli.console.notes import Notes
from perfcli.diagnosis import rules
from perfcli.gate import allowances, excepting
from perfcli.gate.baseline.file import suggest_update
from perfcli.gate.config import Config
from perfcli.gate.request import CheckResult, GateRequest
from perfcli.model import GRAVEST_FIRST, Allowance, Judged, Judgement, Passing
from perfcli.predict.step import estimate_step

_GRAVEST_CODES = (2, 4, 1, 3, 0)
"""What was not judged comes before what failed: it may hide anything."""


def judge_all(
    done: Sequence[CheckResult], order: GateRequest, command: str, root: Path
) -> Judgement:
    """Return all checks together: as bad as the worst of them."""
    codes = [each.exit_code for each in done]
    outcomes = [each.judged.outcome for each in done]
    return Judgement(
        checks=tuple(each.judged for each in done),
        outcome=min(outcomes, key=GRAVEST_FIRST.index),
        reason=_reason(outcomes),
        exit_code=min(codes, key=lambda code: _place(code)),
        warnings=tuple(_warnings(done, order)),
        command=command,
        rules=rules(),
        root=str(root),
        configuration=os.path.abspath(order.config.path),
    )


def _place(code: int) -> int:
    return _GRAVEST_CODES.index(code) if code in _GRAVEST_CODES else 0


def _reason(outcomes: Sequence[Passing]) -> str:
    """Return ``1 of 3 checks failed, 1 could not be judged``."""
    words: dict[Passing, str] = {
        "fail": "failed",
        "fault": "could not be judged",
        "unsure": "unsure",
        "pass": "passed",
    }
    number = len(outcomes)
    checks = f"{number} check{'s' if number > 1 else ''}"
    counts = {word: outcomes.count(outcome) for outcome, word in words.items()}
    parts = [f"{n} {word}" for word, n in counts.items() if n]
    return f"{checks}: {', '.join(parts)}"


def _warnings(done: Sequence[CheckResult], order: GateRequest) -> Iterator[str]:
    config = order.config
    for each in done:
        yield from _of_estimates(each.judged, order)
    used = {allowance for each in done for allowance in each.used}
    if all(each.judged.outcome != "fault" for each in done) and len(done) == len(config.checks):
        yield from allowances.warnings(
            config.allowances, used, order.today, _exceeded(done, config)
        )
        yield from _patterns_of_none(done, config)
    else:  # what was not looked at may need its exceptions
        yield from allowances.warnings(config.allowances, config.allowances, order.today)
    for each in done:
        yield from _of_check(each.judged, order)


def _exceeded(done: Sequence[CheckResult], config: Config) -> dict[Allowance, float]:
    """Return the exceptions that would cover something if it were less, and by which value."""
    values = (
        (allowance, excepting.exceeded(each.judged.comparison, allowance))
        for allowance in config.allowances
        for each in done
        if each.judged.comparison is not None and allowance.limit in _broken(each.judged)
    )
    return {allowance: value for allowance, value in values if value is not None}


def _broken(check: Judged) -> set[str]:
    """Return the metrics of limits and codes of findings that fail a check."""
    assert check.comparison is not None
    findings = check.comparison.findings
    codes = {findings[each.finding].code for each in check.findings if each.state == "broken"}
    return codes | {each.limit.metric for each in check.limits if each.state == "broken"}


def _patterns_of_none(done: Sequence[CheckResult], config: Config) -> Iterator[str]:
    """Yield a line for each pattern of limits that means no kernel of the checks it is for."""
    judged = {each.judged.name: each.judged for each in done}
    patterns: dict[str, list[Judged]] = {}
    for check in config.checks:
        for pattern in {limit.kernel: None for limit in check.limits}:
            if pattern and pattern != allowances.EVERYTHING:
                patterns.setdefault(pattern, []).append(judged[check.name])
    for pattern, checks in patterns.items():
        if not any(_means_one(check, pattern) for check in checks):
            yield (
                f'the limits of kernels."{pattern}" hold nothing: no kernel of '
                f"{', '.join(each.name for each in checks)} is called so"
            )


def _means_one(check: Judged, pattern: str) -> bool:
    if check.comparison is None:  # new: what its kernels are called is not known
        return True
    names = [kernel.name for kernel in check.comparison.head.kernels]
    results = any(each.limit.kernel == pattern for each in check.limits)
    return results or any(allowances._named(pattern, name) for name in names)


def _of_check(check: Judged, order: GateRequest) -> Iterator[str]:
    if check.outcome == "unsure" and order.config.on_unsure == "warn":
        yield f"{check.name} is unsure: {check.reason}"
    update = suggest_update(order.config.typed, check.name)
    source = check.provenance
    if source is None or source.kind != "baseline":
        return
    better = [each for each in check.limits if each.state == "better"]
    if check.outcome == "pass" and better:
        first = better[0].text.partition(", at ")[0]
        yield f"{check.name} is better than the baseline ({first}): take it over with {update}"
    days = (date.fromisoformat(order.today) - date.fromisoformat(source.created)).days
    if days > order.config.max_age_days:
        yield (
            f"the baseline of {check.name} is {days} days old "
            f"(of {source.created}, {source.reason}): renew it with {update}"
        )


def _of_estimates(check: Judged, order: GateRequest) -> Iterator[str]:
    """Yield what stands above the verdict: it goes by counts, though times could be known."""
    source = check.provenance
    if source is None or source.kind != "baseline" or not _lacks_estimates(check):
        return
    update = suggest_update(order.config.typed, check.name)
    yield (
        f"{NO_TIMES} {check.name} are missing, or of other constants than this perfcli has: counts "
        f"decide, not times; on the branch that it is of, run {update}, commit it, and run the "
        "gate again"
    )


NO_TIMES = "the estimated times in the baseline of"
"""How the warning begins that stands above the verdict."""


def _lacks_estimates(check: Judged) -> bool:
    """Return whether kernels changed whose times could be compared if the baseline had them."""
    comparison = check.comparison
    if comparison is None or comparison.estimate is not None:
        return False
    return bool(comparison.changed_groups) and estimate_step(comparison.head) is not None


def say_where_to_look(done: Sequence[CheckResult], notes: Notes) -> None:
    """Say on stderr where to look, because ids of runs differ from run to run."""
    for each in done:
        if each.judged.outcome in ("fail", "unsure") and each.head is not None:
            notes.say(f"{each.judged.name}: perfcli explain {each.head.reference}")
