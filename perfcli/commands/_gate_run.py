"""Every check compiled, compared and judged, one after the other; one that fails keeps none of the
others from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from perfcli.commands import _baseline_file, _gate_checks
from perfcli.commands._baseline_file import TOOLS
from perfcli.commands._obtain import How, Obtained
from perfcli.commands._progress import Notes
from perfcli.commands._texts import Texts
from perfcli.diagnosis import diagnose, rule, rules
from perfcli.diff.compare import ASPECTS, check_allowed, compare
from perfcli.errors import NotComparable, PerfcliError
from perfcli.gate import allowances
from perfcli.gate.config import Check, Config
from perfcli.gate.judging import Policy, judged
from perfcli.model import (
    Allowance,
    Comparison,
    Finding,
    Judged,
    Judgement,
    Passing,
    Provenance,
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A check's judgement, what it exits with alone, and the run that was looked at."""

    judged: Judged
    exit_code: int
    head: Obtained | None = None
    used: frozenset[Allowance] = frozenset()


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked of all checks."""

    config: Config
    how: How
    allow: tuple[str, ...]
    jobs: int | None
    notes: Notes
    today: str = field(default_factory=lambda: date.today().isoformat())


Compared = Callable[[Check, Order], "Against"]


@dataclass(frozen=True, slots=True)
class Against:
    """A comparison with its findings, and where its base comes from."""

    comparison: Comparison
    head: Obtained
    provenance: Provenance
    base: Obtained | None = None


def check_aspects(allow: Sequence[str]) -> None:
    """Raises PerfcliError for what can't be allowed to differ."""
    check_allowed([name for name in allow if name not in TOOLS])


def with_baseline(order: Order) -> Compared:
    """Compares heads with the committed baseline. Raises NotComparable where there is none."""
    path = order.config.baseline
    file = _baseline_file.read(path)

    def compared(check: Check, order: Order) -> Against:
        entry = _baseline_file.entry(path, file, check.name)
        head = _gate_checks.head(order.config, check, order.how, order.jobs, order.notes)
        base, findings = _baseline_file.base(entry, head.run, check.name, order.allow)
        comparison = compare(base, head.run, [a for a in order.allow if a in ASPECTS])
        comparison = diagnose(comparison, [_headed(f) for f in findings])
        environment = entry.run.environment
        provenance = Provenance(
            kind="baseline",
            where=path.name,
            created=entry.made.created,
            reason=entry.made.reason,
            revision=entry.made.revision,
            torch=environment.torch,
            triton=environment.triton or "",
        )
        return Against(comparison, head, provenance)

    return compared


def _headed(finding: Finding) -> Finding:
    """The file keeps no sentences: the rule's title, and what it is about."""
    try:
        title = rule(finding.code).title
    except PerfcliError:
        return finding
    return replace(finding, headline=f"{title}: {finding.headline}")


# --- judging ---------------------------------------------------------------------------------


def checked(checks: Sequence[Check], compared: Compared, order: Order) -> Iterator[Checked]:
    for check in checks:
        try:
            yield _judged(check, compared(check, order), order)
        except NotComparable as error:
            yield _fault(check, error)
        except PerfcliError as error:
            if error.detail.strip():
                order.notes.warn(f"{check.name}: {error}\n{error.detail.rstrip()}")
            yield _fault(check, error)


def _fault(check: Check, error: PerfcliError) -> Checked:
    text = " ".join(str(error).split())
    return Checked(Judged(check.name, "fault", text, fault=text), error.exit_code)


def _judged(check: Check, against: Against, order: Order) -> Checked:
    config = order.config
    in_force = allowances.in_force(config.allowances, order.today)
    found = judged(against.comparison, Policy(check.limits, in_force, config.fail_on))
    runs = [run for run in (against.base, against.head) if run is not None]
    result = Judged(
        name=check.name,
        outcome=found.outcome,
        reason=found.reason,
        comparison=against.comparison,
        limits=found.limits,
        findings=found.findings,
        provenance=against.provenance,
        texts=Texts(*runs),
    )
    return Checked(result, _code(found.outcome, config), against.head, frozenset(found.used))


def _code(outcome: Passing, config: Config) -> int:
    if outcome == "unsure":
        return 3 if config.on_unsure == "fail" else 0
    return 1 if outcome == "fail" else 0


# --- all of them -----------------------------------------------------------------------------

_GRAVEST_FIRST = (2, 4, 1, 3, 0)
"""What was not judged comes before what failed: it may hide anything."""
_OUTCOMES: tuple[Passing, ...] = ("fault", "fail", "unsure", "pass")


def judgement(done: Sequence[Checked], order: Order, command: str, root: Path) -> Judgement:
    """All checks together: as bad as the worst of them."""
    codes = [each.exit_code for each in done]
    outcomes = [each.judged.outcome for each in done]
    return Judgement(
        checks=tuple(each.judged for each in done),
        outcome=min(outcomes, key=_OUTCOMES.index),
        reason=_reason(outcomes),
        exit_code=min(codes, key=lambda code: _place(code)),
        warnings=tuple(_warnings(done, order)),
        command=command,
        rules=rules(),
        root=str(root),
    )


def _place(code: int) -> int:
    return _GRAVEST_FIRST.index(code) if code in _GRAVEST_FIRST else 0


def _reason(outcomes: Sequence[Passing]) -> str:
    """``1 of 3 checks failed, 1 could not be judged``."""
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


def _warnings(done: Sequence[Checked], order: Order) -> Iterator[str]:
    config = order.config
    used = {allowance for each in done for allowance in each.used}
    if all(each.judged.outcome != "fault" for each in done) and len(done) == len(config.checks):
        yield from allowances.warnings(config.allowances, used, order.today)
    else:  # what was not looked at may need its exceptions
        yield from allowances.warnings(config.allowances, config.allowances, order.today)
    for each in done:
        yield from _of_check(each.judged, order)


def _of_check(check: Judged, order: Order) -> Iterator[str]:
    if check.outcome == "unsure" and order.config.on_unsure == "warn":
        yield f"{check.name} is unsure: {check.reason}"
    update = f'perfcli baseline update {check.name} --reason "…"'
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


def say_where_to_look(done: Sequence[Checked], notes: Notes) -> None:
    """On stderr: ids of runs differ from run to run."""
    for each in done:
        if each.judged.outcome in ("fail", "unsure") and each.head is not None:
            notes.say(f"{each.judged.name}: perfcli explain {each.head.reference}")
