"""Carries out a claim over two variants of a scenario: compiles both, measures them where there is
a device, searches for the option to blame, and tries the cures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.bisect.run import find_culprits
from perfcli.bisect.sides import BisectOptions
from perfcli.diagnosis import diagnose
from perfcli.diff.compare import gather_evidence
from perfcli.errors import Interrupted, PerfcliError
from perfcli.machine import targets
from perfcli.model import Comparison, EstimatedChange, Finding, TimeChange, Timing
from perfcli.options import assignments
from perfcli.reproduce.claim import Blame, Claim, Release, Setup, TwoVariants, Way
from perfcli.reproduce.condition import FactMissing, Facts
from perfcli.reproduce.facts import read_facts, read_pair
from perfcli.reproduce.observation import CureResult, Observation, TimeRatio
from perfcli.reproduce.verdict import has_symptom, parse_release
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import Obtained, obtain
from perfcli.workflow.pair import add_stored_times, measure_times
from perfcli.workflow.request import Question, Side, order_jobs
from perfcli.workflow.setting import MeasuringOptions, settle

BUDGET = 5.0
"""Seconds for which a pair is measured: there are many of them, and the changes are large."""
DIFFERING = ("params", "dynamic")
"""What the sides of a claim may differ in besides options."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Says where and how claims are carried out."""

    target: str | None
    device: str | None
    python: str | None
    smoke: bool
    budget: float | None = None
    """Seconds for which each pair is measured, where there is a device; None: ``BUDGET``."""
    searches: bool = True
    """Whether the option to blame is searched for, and cures besides the good side are tried."""
    times: bool = True
    """Whether anything is measured, where there is a device. Stored times are told all the same."""


class _Bench:
    """Compiles the variants of one claim."""

    def __init__(self, claim: Claim, asked: TwoVariants, how: Conditions, context: Context) -> None:
        self.claim = claim
        self.asked = asked
        self.how = how
        self.context = context

    def question(self, setup: Setup) -> Question:
        smoke = self.how.smoke
        shared = self.asked.smoke if smoke else self.asked.params
        own = setup.smoke if smoke and setup.smoke is not None else setup.params
        params = units.settings({**shared, **own})
        return Question(
            self.asked.scenario, params, None, self.how.target, self.how.device, setup.dynamic
        )

    def options(self, setup: Setup) -> tuple[str, ...]:
        small = setup.smoke_options if self.how.smoke else None
        return setup.options if small is None else small

    def job(self, setup: Setup) -> Job:
        side = Side(self.options(setup), self.how.python)
        (job,) = order_jobs(self.question(setup), [side], self.context)
        return job

    def compare(self, good: Setup, bad: Setup) -> tuple[Comparison, list[Obtained]]:
        """Return both variants held together, with their times where there is a device. What is
        stored is not compiled or measured again."""
        jobs = [self.job(good), self.job(bad)]
        made = obtain(jobs, self.context, again="")
        comparison = gather_evidence(made[0].run, made[1].run, DIFFERING)
        if not self._times_tell:
            return diagnose(comparison), made
        if not self.context.fresh:
            comparison = add_stored_times(comparison, self.context)
        if comparison.timing is None and self.how.times and targets.has_gpu():
            # What was published are times of kernels: a graph leaves the host out of the step.
            asked = MeasuringOptions(
                self.how.budget or BUDGET, cuda_graph=self.how.device != "cpu", flush_l2=True
            )
            setting = settle(self.question(good), asked, self.context)
            if setting is not None:
                comparison = measure_times(comparison, setting, jobs, self.context)
        return diagnose(comparison), made

    @property
    def _times_tell(self) -> bool:
        """Return whether there may be a device, and it has something to say: times of small sizes
        have not."""
        return self.claim.is_measured and not self.how.target and not self.how.smoke

    def hold_against(self, before: Obtained, cured: Setup) -> Comparison:
        """Return what a cure does to a run, by code and estimate."""
        (after,) = obtain([self.job(cured)], self.context, again="")
        return gather_evidence(before.run, after.run)


def carry_out(claim: Claim, asked: TwoVariants, how: Conditions, context: Context) -> Observation:
    """Return what compiling, and where possible measuring, both sides of a claim shows. Raises what
    obtaining runs raises; a search or a cure that fails is told in the observation."""
    interpreter = context.choose_probe(how.device)(how.python)
    catalogue = assignments.load_catalogue(interpreter.torch_dir)
    way, lacking = _choose_way(asked.ways, catalogue, parse_release(interpreter.torch))
    if way is None:
        return Observation(torch=interpreter.torch, smoke=how.smoke, failure=lacking)
    bench = _Bench(claim, asked, how, context)
    comparison, made = bench.compare(way.good, way.bad)
    good, bad = comparison.base, comparison.head
    if comparison.wrong is not None:
        raise PerfcliError(f"not timed: {comparison.wrong.what}")
    found = Observation(
        torch=bad.environment.torch,
        place=_name_place(comparison),
        way=way,
        sides={"good": read_facts(good), "bad": read_facts(bad), "pair": read_pair(comparison)},
        outcome=f"{comparison.outcome}: {comparison.reason}",
        estimated=_estimated(comparison.estimate),
        measured=_measured(comparison.timing),
        peaks=_peaks(comparison.timing),
        findings=_list_codes(f for f in comparison.findings if not f.on_base),
        came=_list_codes(f for f in comparison.findings if f.came_with_head),
        runs=(made[0].reference, made[1].reference),
        smoke=how.smoke,
    )
    # What an option imitates needs no cure, and the option is to blame for it.
    if claim.is_control or way.imitates or _symptom(claim, found.sides["bad"]) is False:
        return found
    found = replace(found, cures=tuple(_try_cures(bench, way, found, made[1])))
    if asked.blame is None or not how.searches or _symptom(claim, found.sides["good"]):
        return found
    return _add_blame(bench, way, found, asked.blame)


def _choose_way(
    ways: tuple[Way, ...], catalogue: assignments.Catalogue, release: Release
) -> tuple[Way | None, str]:
    """Return the first way whose options this torch has, or why there is none."""
    lacking = ""
    for way in ways:
        if way.until is not None and release > way.until:
            continue
        try:
            for text in (*way.good.options, *way.bad.options):
                assignments.find(catalogue, text.partition("=")[0])
        except PerfcliError as error:
            lacking = lacking or str(error)
        else:
            return way, ""
    return None, lacking


def _symptom(claim: Claim, facts: Facts) -> bool | None:
    """Return None where it is not known, and of claims that have none."""
    try:
        return has_symptom(claim, facts) if claim.symptom else None
    except FactMissing:
        return None


def _list_codes(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.code for finding in findings))


def _name_place(comparison: Comparison) -> str:
    prepared = comparison.timing.prepared if comparison.timing else ()
    if prepared:
        return prepared[0].machine.device
    return comparison.head.place


# --- times ---------------------------------------------------------------------------------------


def _estimated(estimate: EstimatedChange | None) -> TimeRatio | None:
    if estimate is None or estimate.ratio is None or estimate.low is None or estimate.high is None:
        return None
    return TimeRatio(
        estimate.base.seconds,
        estimate.head.seconds,
        estimate.ratio,
        estimate.low,
        estimate.high,
        estimate.verdict,
    )


def _measured(timing: Timing | None) -> TimeRatio | None:
    step: TimeChange | None = timing.step if timing else None
    if step is None or step.ratio is None or step.low is None or step.high is None:
        return None
    return TimeRatio(step.base, step.head, step.ratio, step.low, step.high, step.verdict)


def _peaks(timing: Timing | None) -> tuple[int, int] | None:
    if timing is None:
        return None
    base, head = timing.of("base"), timing.of("head")
    peaks = [
        each.memory.peak_allocated_bytes if each and each.memory else None for each in (base, head)
    ]
    return (peaks[0], peaks[1]) if peaks[0] is not None and peaks[1] is not None else None


# --- cures and blame -----------------------------------------------------------------------------


def _try_cures(bench: _Bench, way: Way, found: Observation, bad: Obtained) -> Iterator[CureResult]:
    """Yield what becomes of the bad side with each cure. The good side is the first where both
    differ in options alone; the others are not measured."""
    if way.good.params == way.bad.params and way.good.dynamic == way.bad.dynamic:
        yield _describe_good(bench, way, found)
    for options in bench.asked.cures if bench.how.searches else ():
        setup = replace(way.bad, options=(*bench.options(way.bad), *options), smoke_options=None)
        try:
            comparison = bench.hold_against(bad, setup)
        except Interrupted:
            raise
        except PerfcliError as error:
            yield CureResult(options, None, failure=str(error))
            continue
        symptom = _symptom(bench.claim, read_facts(comparison.head))
        time = None if found.smoke else _estimated(comparison.estimate)
        yield CureResult(options, symptom, time)


def _describe_good(bench: _Bench, way: Way, found: Observation) -> CureResult:
    """Return what the good side sets, or unsets, as a cure of the bad one."""
    good, bad = bench.options(way.good), bench.options(way.bad)
    added = tuple(text for text in good if text not in bad)
    options = added or tuple(f"without {text}" for text in bad if text not in good)
    symptom = _symptom(bench.claim, found.sides["good"])
    if found.smoke:
        return CureResult(options, symptom)
    return CureResult(options, symptom, _turn(found.estimated), _turn(found.measured))


def _turn(ratio: TimeRatio | None) -> TimeRatio | None:
    """Return the same with both sides exchanged."""
    if ratio is None:
        return None
    turned = {"slower": "faster", "faster": "slower"}.get(ratio.verdict, ratio.verdict)
    return TimeRatio(
        ratio.bad, ratio.good, 1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low, turned,  # type: ignore[arg-type]
    )  # fmt: skip


def _add_blame(bench: _Bench, way: Way, found: Observation, blame: Blame) -> Observation:
    """Return the observation with what a search over options of both sides, and the suspects,
    blames."""
    if way.good.params != way.bad.params or way.good.dynamic != way.bad.dynamic:
        return found
    options = BisectOptions(
        blame.metric,
        good=bench.options(way.good),
        bad=(*bench.options(way.bad), *blame.suspects),
        good_python=bench.how.python,
        flip=False,
    )
    question = bench.question(way.bad)
    try:
        answer = find_culprits(question, options, bench.context)
    except Interrupted:
        raise
    except PerfcliError as error:
        return replace(found, blame=f"the search failed: {error}")
    sets = answer.culprits.sets if answer.culprits else ()
    blamed = tuple(
        " with ".join(f"{option.name}={units.setting(option.bad)}" for option in each.options)
        for each in sets
    )
    status = answer.culprits.status if answer.culprits else None
    said = f"of {len(answer.changes)} by {blame.metric}: {status or 'no answer'}"
    return replace(found, blamed=blamed, blame=said)
