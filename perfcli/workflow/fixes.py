"""``--try-fixes``: what findings propose is compiled, and judged by what became of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli import diagnosis, units
from perfcli.diff.compare import ASPECTS, compare, gather_evidence
from perfcli.diff.metrics import DECIDING
from perfcli.diff.verdict.decide import is_estimated
from perfcli.diff.verdict.words import write_estimate
from perfcli.errors import Interrupted, PerfcliError
from perfcli.loading import registry
from perfcli.loading.references import parse_reference
from perfcli.machine.environment import Interpreter
from perfcli.model import (
    OUTCOME_OF,
    Change,
    Comparison,
    Cure,
    Finding,
    KernelFacts,
    Run,
    Trial,
    TrialOutcome,
    Variant,
)
from perfcli.names import public
from perfcli.options import assignments
from perfcli.options.assignments import Catalogue
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import list_edited, list_set_anew, make_job
from perfcli.workflow.obtain import Obtained, describe_kept, list_foreign, obtain
from perfcli.workflow.request import describe, recompile

FLAG = "--trust-run"


# A cure that leaves more than this of a finding's amount is none.
MOST_LEFT = 0.5
# A kernel adds to it, but only a whole run has it: what a cure does to it is read off the totals.
OF_THE_RUN = "peak_memory_bytes"
# What is counted in the code: where such a finding is gone, none is left. Of other amounts, such as
# the time of kernels, something is left, and it is in kernels that may be others now.
NONE_LEFT = ("spilled_words", "graph_breaks")
_ELSEWHERE = "it is elsewhere instead"
"""The amounts beside it are those of the whole run: of one kernel or reason none would be left."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Holds one cure, compiled: what was found before, and what is found with it."""

    comparison: Comparison
    """From the run that needs the cure to the one that has it."""
    before: tuple[Finding, ...]
    after: tuple[Finding, ...]


def _attempt(
    head: Run, tried: Run, findings: Iterable[Finding], base: Run | None = None
) -> _Attempt:
    """Return what became of a cure; ``findings`` are all of the head's. With a ``base`` they are
    those of a comparison, and what only a comparison shows is looked for in base and ``tried``.
    Raises PerfcliError where neither run has a kernel, or a rule fails."""
    comparison = compare(head, tried, ASPECTS)
    if base is None:
        after: Sequence[Finding] = diagnosis.explain(tried)
    else:
        after = diagnosis.diagnose(gather_evidence(base, tried, ASPECTS)).findings
    return _Attempt(comparison, _present(findings), _present(after))


def _present(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.appearance != "gone")


def _judge(finding: Finding, cure: Cure, made: _Attempt) -> Trial:
    """Return whether the finding, one of ``made.before``, is gone, at most half as bad, or an error
    that is only worth knowing now, and which totals that decide a verdict changed. Amounts are
    those of all findings that are about the same: of a kernel's parts, where the cure splits it."""
    before, after = _about_the_same(finding, made)
    outcome, reason = _outcome(finding, before, after, made)
    if reason == _ELSEWHERE:
        before, after = _list_alike(finding, made)
    was, is_ = _amounts(finding, before, after, made)
    return Trial(
        cure,
        outcome,
        before=was,
        after=is_ if outcome != "failed" else None,
        changes=_deciding(made.comparison),
        reason=reason,
        run=made.comparison.head.id,
    )


def _failed(cure: Cure, reason: str) -> Trial:
    """Return the trial of a cure that does not compile."""
    return Trial(cure, "failed", reason=reason)


def _amounts(
    finding: Finding, before: Sequence[Finding], after: Sequence[Finding], made: _Attempt
) -> tuple[float | None, float | None]:
    if finding.amount is None:
        return None, None
    peak = _whole(finding, made)
    if peak is None:
        followed = after or finding.metric in NONE_LEFT
        return diagnosis.amount(before), diagnosis.amount(after) if followed else None
    # Equal kernels need equal memory, whatever is estimated for what they keep to themselves.
    return peak.base, peak.base if _unchanged(made) else peak.head


def _whole(finding: Finding, made: _Attempt) -> Change | None:
    totals = made.comparison.totals if finding.metric == OF_THE_RUN else ()
    return next((change for change in totals if change.metric == OF_THE_RUN), None)


def _unchanged(made: _Attempt) -> bool:
    return not made.comparison.changed_groups


def _outcome(
    finding: Finding, before: Sequence[Finding], after: Sequence[Finding], made: _Attempt
) -> tuple[TrialOutcome, str]:
    if _unchanged(made) and finding.kernels:
        return "does not help", "the same kernels are generated"
    if unknown := _not_known(finding, made.comparison):
        return "failed", f"the machine code of {unknown} is not known"
    if not _shrinks(before, after):
        return "does not help", ""
    was, is_ = _list_alike(finding, made)
    if is_ and _weight(is_) >= _weight(was):
        return "does not help", _ELSEWHERE
    peak = _whole(finding, made)
    if peak is not None and peak.outcome != "better":
        return "does not help", "the peak is elsewhere"
    if slow := _find_no_gain(finding, made.comparison):
        return "does not help", slow
    return ("helps at a cost" if made.comparison.outcome == "worse" else "helps"), ""


def _list_alike(finding: Finding, made: _Attempt) -> tuple[list[Finding], list[Finding]]:
    """Return all findings with the same code, before and after."""
    was, is_ = ([f for f in s if f.code == finding.code] for s in (made.before, made.after))
    return was, is_


def _find_no_gain(finding: Finding, comparison: Comparison) -> str:
    """Return how long the step takes by estimate where that is no shorter with the cure; empty
    where there is no estimate, where it can't tell about spills or bytes, or where the finding is
    about something else than time: memory, or a kernel that can't be launched, an error that has no
    cost in seconds."""
    estimate = comparison.estimate
    if estimate is None or not is_estimated(comparison):
        return ""
    timed = finding.cost is not None or finding.metric.endswith("_seconds")
    if finding.metric == OF_THE_RUN or (finding.severity == "error" and not timed):
        return ""
    # Where the estimate can't tell, it proves no gain of a finding that is about the time alone.
    alone = finding.metric.endswith(("_seconds", "_sectors")) and (estimate.ratio or 0.0) >= 1
    gains_nothing = estimate.verdict in ("slower", "same") or alone
    return write_estimate(estimate) if gains_nothing else ""


def _about_the_same(finding: Finding, made: _Attempt) -> tuple[list[Finding], list[Finding]]:
    for family in diagnosis.families(made.comparison, made.before, made.after):
        before = [made.before[number] for number in family.base]
        if finding in before:
            return before, [made.after[number] for number in family.head]
    raise ValueError(f"{finding.code} is none of the run's findings")


def _shrinks(before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    # A kernel that can be launched again may still need nearly as much shared memory.
    cured = any(f.severity == "error" for f in before) and all(f.severity == "info" for f in after)
    return cured or not after or _weight(after) <= _weight(before) * MOST_LEFT


def _weight(findings: Sequence[Finding]) -> float:
    """Return what is counted, or how many there are where nothing is."""
    return diagnosis.amount(findings) or len(findings)


def _deciding(comparison: Comparison) -> tuple[Change, ...]:
    """Return what changed of the totals that decide, behind the estimated time where it is
    known."""
    decided = (change for change in comparison.totals if change.metric in DECIDING)
    counted = tuple(change for change in decided if change.outcome in ("better", "worse"))
    estimate = comparison.estimate
    if estimate is None or estimate.ratio is None or not is_estimated(comparison):
        return counted
    outcome = OUTCOME_OF[estimate.verdict]
    time = Change("step_time", estimate.base.seconds, estimate.head.seconds, outcome)
    return (time, *counted)


def _not_known(finding: Finding, comparison: Comparison) -> str:
    """Return a kernel of which the cured run does not know what the finding rests on: a finding
    that can't be made is not a finding that is gone."""
    if finding.on_base:
        return ""
    before, after = comparison.base.kernels, comparison.head.kernels
    for match in (group.match for group in comparison.groups):
        if set(match.base) & set(finding.kernels):
            was_known = all(_known(before[index]) for index in match.base)
            unknown = [after[index].name for index in match.head if not _known(after[index])]
            if was_known and unknown:
                return unknown[0]
    return ""


def _known(kernel: KernelFacts) -> bool:
    return kernel.best is not None and kernel.source_facts is not None


@dataclass(frozen=True, slots=True)
class Patient:
    """The run whose findings are to be cured, with all of them; ``base`` where they are those of a
    comparison."""

    head: Obtained
    findings: Sequence[Finding]
    base: Obtained | None = None


Wanted = Callable[[Finding], bool]


def _proposals(findings: Sequence[Finding], wanted: Wanted) -> int:
    """Return how many different changes the wanted findings propose."""
    return len({_key(cure) for finding in findings if wanted(finding) for cure in finding.cures})


def _everything(_: Finding) -> bool:
    return True


def came_with_head(finding: Finding) -> bool:
    """Return whether a comparison shows the finding in full."""
    return finding.came_with_head


def propose(
    arguments: Sequence[str],
    head: Obtained,
    findings: Sequence[Finding],
    wanted: Wanted = _everything,
) -> str:
    """Return the command that tries what the findings propose; empty where there is nothing to try,
    or a run in ``arguments`` is not stored. What was asked for just now is trusted; what somebody
    else's file names is for its reader to judge."""
    number = _proposals(findings, wanted)
    if not number or not all(arguments):
        return ""
    does = f"compiles {units.plural(number, 'proposed change')}"
    trust = f" {FLAG}" if head.asked and head.needs_trust else ""
    return f"perfcli {shlex.join(arguments)} --try-fixes{trust}  # {does}"


def try_fixes(
    patient: Patient, context: Context, wanted: Wanted = _everything
) -> tuple[Finding, ...]:
    """Return the patient's findings, the wanted ones with trials of their cures. Where the run
    can't be compiled again a warning says why. Raises Interrupted, saying what is stored."""
    findings = tuple(patient.findings)
    if not _proposals(findings, wanted):
        return findings
    try:
        if not context.trust:
            _check_trusted(patient.head.run, patient.head.asked)
        compiler = _Compiler(patient, replace(context, fresh=False))
        compiler.check()
    except PerfcliError as error:
        context.notes.warn(f"fixes are not tried: {error}")
        return findings
    return tuple(
        compiler.try_cures(finding) if wanted(finding) else finding for finding in findings
    )


def _key(cure: Cure) -> str:
    return json.dumps(dict(cure.options), sort_keys=True)


class _Compiler:
    """Compiles each set of options once."""

    def __init__(self, patient: Patient, context: Context) -> None:
        self._patient = patient
        self._run = patient.head.run
        self._context = context
        self._interpreter = context.choose_probe(self._run.device)(self._run.variant.python)
        self._catalogue = assignments.load_catalogue(self._interpreter.torch_dir)
        self._attempts: dict[str, _Attempt | str] = {}
        self._stored = [made for made in (patient.base, patient.head) if made]

    def check(self) -> None:
        """Raise PerfcliError, with what to do, where the run can't be compiled again."""
        _check_unchanged(self._run)
        _check_torch(self._run, self._interpreter)

    def try_cures(self, finding: Finding) -> Finding:
        return replace(finding, trials=tuple(self._trial(finding, c) for c in finding.cures))

    def _trial(self, finding: Finding, cure: Cure) -> Trial:
        if _key(cure) not in self._attempts:
            self._attempts[_key(cure)] = self._attempt(cure)
        made = self._attempts[_key(cure)]
        if isinstance(made, str):
            return _failed(cure, made)
        brought = tuple(n for n in cure.options if assignments.find(self._catalogue, n).note)
        return replace(_judge(finding, cure, made), brought=brought)

    def _attempt(self, cure: Cure) -> _Attempt | str:
        """Compile the cure and look at it, or say why it could not be done."""
        base = self._patient.base
        try:
            found = self._compile(cure)
            against = base.run if base else None
            return _attempt(self._run, found.run, self._patient.findings, against)
        except Interrupted:
            raise
        except PerfcliError as error:
            return str(error)

    def _compile(self, cure: Cure) -> Obtained:
        variant = _cured(self._run.variant, cure, self._catalogue)
        assignments.check_device(variant, self._catalogue, self._run.device)
        request = recompile(self._run, variant, self._context.jobs)
        try:
            (found,) = obtain([make_job(request, self._interpreter)], self._context)
        except Interrupted as error:
            kept = describe_kept(self._stored)
            raise Interrupted(f"interrupted; {kept}") from error
        self._stored.append(found)
        return found


# --- the run again, with other options -------------------------------------------------------


def _cured(variant: Variant, cure: Cure, catalogue: Catalogue) -> Variant:
    """Return the variant with a cure's options added. Raises PerfcliError where this torch has none
    of that name."""
    added = assignments.make_variant("", units.settings(cure.options), catalogue)
    both = replace(
        variant, options={**variant.options, **added.options}, env={**variant.env, **added.env}
    )
    return replace(both, name=describe(both))


def _check_torch(run: Run, interpreter: Interpreter) -> None:
    """Raise PerfcliError where the interpreter has another torch than the run's."""
    had = {"torch": run.environment.torch, "triton": run.environment.triton}
    has = {"torch": interpreter.torch, "triton": interpreter.triton}
    for name, version in had.items():
        if version and version != has[name]:
            raise PerfcliError(
                f"the run was compiled with {name} {version}, {interpreter.path} has "
                f"{has[name] or 'none'}: call perfcli with the Python that has {version}, or "
                "compile the run anew"
            )


def _check_unchanged(run: Run) -> None:
    """Raise PerfcliError where what the run was compiled from is gone or was edited."""
    reference = parse_reference(run.scenario)
    if reference.kind == "scenario" and public(run.scenario) not in registry.names("scenarios"):
        raise PerfcliError(f"there is no scenario {run.scenario} any more")
    path = "" if reference.revision else reference.path
    if path and not Path(path).is_file():
        raise PerfcliError(
            f"there is no file {path} here: call perfcli in the folder where the run was compiled"
        )
    if edited := list_edited(run.sources):
        raise PerfcliError(
            f"{edited[0]} is not what it was when the run was compiled: compile the run anew"
        )
    if other := list_set_anew(run):
        raise PerfcliError(
            f"the variable {other[0]}, which the run's code asks for, is not what it was when the "
            "run was compiled: set it so, or compile the run anew"
        )


def _check_trusted(run: Run, asked: Variant | None) -> None:
    """Raise PerfcliError where compiling the run again would start or read what only its file
    names. ``asked`` is the variant that the command line asks for, None for a run by its name."""
    if foreign := next(list_foreign(run, asked), None):
        raise PerfcliError(
            f"compiling the run again would use {foreign}, which only its file names: give {FLAG} "
            "if you trust that file"
        )
