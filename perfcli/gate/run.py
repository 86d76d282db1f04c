"""Compiles, compares and judges one check after the other; one that fails keeps none of the others
from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfcli.diff.compare import ASPECTS, check_allowed
from perfcli.errors import Interrupted, PerfcliError, describe_unexpected, show_traceback
from perfcli.gate import allowances
from perfcli.gate.baseline.committed import TOOLS
from perfcli.gate.checks import Check
from perfcli.gate.config import Config
from perfcli.gate.judging import Policy, Ruling, _confirm, _find_slower, judge
from perfcli.gate.request import Against, CheckResult, CompareCheck, GateRequest, NoBase, NotesOf
from perfcli.model import Judged, Passing
from perfcli.workflow.obtain import StoredTexts


def check_aspects(allow: Sequence[str]) -> None:
    """Raise PerfcliError for what can't be allowed to differ."""
    check_allowed(allow, (*ASPECTS, *TOOLS))


def run_checks(
    checks: Sequence[Check], compare: CompareCheck, order: GateRequest
) -> Iterator[CheckResult]:
    context = order.context
    for check in checks:
        own = replace(context, notes=NotesOf(check.name, context.notes))
        order = replace(order, context=own)
        try:
            yield _make_result(check, compare(check, order), order)
        except Interrupted:
            raise
        except NoBase as error:
            yield CheckResult(Judged(check.name, "pass", str(error)), 0)
        except PerfcliError as error:
            show_traceback()
            if error.detail.strip():
                order.context.notes.warn(f"{error}\n{error.detail.rstrip()}")
            yield _fault(check, str(error), error.exit_code)
        except BrokenPipeError:
            raise
        except Exception as error:
            show_traceback()
            yield _fault(check, describe_unexpected(error), PerfcliError.exit_code)


def _fault(check: Check, message: str, exit_code: int) -> CheckResult:
    text = " ".join(message.split())
    return CheckResult(Judged(check.name, "fault", text, fault=text), exit_code)


def _make_result(check: Check, against: Against, order: GateRequest) -> CheckResult:
    found = _judge(check, against, order)
    runs = [run for run in (against.base, against.head) if run is not None]
    result = Judged(
        name=check.name,
        outcome=found.outcome,
        reason=found.reason,
        comparison=found.comparison,
        limits=found.limits,
        findings=found.findings,
        provenance=against.provenance,
        texts=StoredTexts(*runs),
    )
    return CheckResult(
        result, _code(found.outcome, order.config), against.head, frozenset(found.used)
    )


def _judge(check: Check, against: Against, order: GateRequest) -> Ruling:
    """Judge the check, and measure a slower step once more before it counts."""
    config = order.config
    in_force = allowances._in_force(config.allowances, order.today)
    policy = Policy(
        check.limits,
        in_force,
        config.fail_on,
        check.signs,
        check.usual_spills,
        check.usual,
        config.usual_fail_on,
    )
    first = judge(against.comparison, policy)
    if against.again is None or _find_slower(first) is None:
        return first
    order.context.notes.say("slower; measured once more, in fresh processes")
    return _confirm(first, judge(against.again(), policy))


def _code(outcome: Passing, config: Config) -> int:
    if outcome == "unsure":
        return 3 if config.on_unsure == "fail" else 0
    return 1 if outcome == "fail" else 0
