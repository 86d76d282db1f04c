"""The two runs of ``compare``, stored or compiled, held together and where possible measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from perfcli.console import documents, output
from perfcli.diagnosis import rules
from perfcli.diff.compare import gather_evidence, list_overrides
from perfcli.errors import Interrupted, PerfcliError, WrongResult
from perfcli.machine import noise_floors
from perfcli.model import (
    GRAVEST_FIRST,
    Clocks,
    Comparison,
    Judged,
    Judgement,
    Measurement,
    Outcome,
    Passing,
    Provenance,
    Run,
    WrongResults,
)
from perfcli.options.performance import acts_on_running
from perfcli.stats.timing import derive
from perfcli.stats.traced import derive_traced
from perfcli.storing import timings
from perfcli.worker.roles import Interlude
from perfcli.workflow import bench
from perfcli.workflow.adoption import adopt
from perfcli.workflow.context import Context
from perfcli.workflow.early import EarlyRounds
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import (
    Obtained,
    StoredTexts,
    compile_runs,
    describe_kept,
    load_both,
    load_stored,
    obtain,
    tell_estimator,
    warn_of_oversights,
)
from perfcli.workflow.request import Question, Side, order_jobs, read_reference
from perfcli.workflow.setting import MeasuringOptions, Setting, settle, why_not


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs, and how they compare."""

    base: Obtained
    head: Obtained
    comparison: Comparison
    """With its times, or what is wrong with its results; findings and verdict come from
    ``diagnosis.judge``."""
    name: str = ""
    """What tells it from other pairs in a document."""
    fault: str = ""
    """What of perfcli failed while it was judged."""
    alone: bool = False
    """Whether one run is both sides."""
    measured: bool = False
    """Whether its times, if there are any, were taken now."""

    def interrupted(self) -> Interrupted:
        """Return what ends a command after Ctrl-C: it says what is stored."""
        timing = self.comparison.timing
        rounds = _describe_rounds(self.comparison, timing.measurement) if timing else ""
        return _add_runs("; ".join(filter(None, ["interrupted", rounds])), self.base, self.head)


def load_pair(
    base: str, head: str, asked: MeasuringOptions, allow: Collection[str], context: Context
) -> Pair:
    """Return two stored runs with the newest measurement of them. Raises PerfcliError where there
    are none, NotComparable where they are unlike."""
    plain = replace(asked, clocks=None)
    plain.refuse("two stored runs are compared as they are, with their newest measurement")
    ours, theirs = load_both(base, head, context)
    for side in (ours, theirs):
        tell_estimator(side.run, context.notes)
    comparison = gather_evidence(ours.run, theirs.run, allow)
    if not asked.no_time:
        comparison = add_stored_times(comparison, context, asked.clocks or "both")
    return Pair(ours, theirs, comparison)


def add_stored_times(
    comparison: Comparison, context: Context, clocks: Clocks = "both"
) -> Comparison:
    """Return the comparison with the times of the newest measurement of both runs, or of the traces
    that they were imported from; as it is where there are none. ``clocks``: whose time decides."""
    found = timings.find_measurement(comparison.base.id, comparison.head.id)
    for text in found.remarks:
        context.notes.warn(text)
    if found.measurement is not None:
        return add_times(comparison, found.measurement, clocks)
    traced = derive_traced(comparison.base, comparison.head, comparison.groups)
    return replace(comparison, timing=traced) if traced else comparison


def add_times(comparison: Comparison, measured: Measurement, clocks: Clocks = "both") -> Comparison:
    """Return the comparison with the times of a measurement of both runs."""
    base, head = comparison.base, comparison.head
    of_step, of_device = (
        noise_floors.load_floor(measured.machine, head.scenario, head.params, clock)
        for clock in ("step", "device")
    )
    timing = derive(measured, base, head, comparison.groups, of_step, of_device, clocks)
    return replace(comparison, timing=timing)


def make_pair(
    question: Question,
    sides: Sequence[Side],
    asked: MeasuringOptions,
    allow: Collection[str],
    context: Context,
) -> Pair:
    """Return two things that were named on the command line, held together: each is compiled, or
    found, or a stored run. Both are measured where both are compiled and there is a device. Raises
    PerfcliError for what the user got wrong, NotComparable for what is unlike without having been
    typed so, and what compiling and measuring raise."""
    named = [side.scenario or question.scenario for side in sides]
    is_stored = [read_reference(text).kind == "run" for text in named]
    if not any(is_stored) or not sides[1].scenario:
        return compile_pair(question, sides, asked, allow, context)
    if all(is_stored):
        _check_nothing_typed(question, sides, context)
        return load_pair(named[0], named[1], asked, allow, context)
    asked.refuse("a stored run is compared as it is, and not measured")
    place = is_stored.index(True)
    if question.toggles or replace(sides[place], scenario="") != Side():
        raise PerfcliError(
            f"{named[place]} is a stored run and stays as it is: give {named[1 - place]} its "
            f"options alone, with -{'ab'[1 - place]} OPT=VAL"
        )
    known = load_stored(named[place], context)
    tell_estimator(known.run, context.notes)
    adopted, side = adopt(question, sides[1 - place], known.run, context)
    (made,) = compile_runs(adopted, [side], context)
    warn_of_oversights(made.run, context.notes)
    base, head = (made, known) if place else (known, made)
    return Pair(base, head, gather_evidence(base.run, head.run, allow, _list_typed(sides)))


def _check_nothing_typed(question: Question, sides: Sequence[Side], context: Context) -> None:
    typed = replace(question, scenario="") != Question("")
    if typed or context.fresh or any(replace(side, scenario="") != Side() for side in sides):
        raise PerfcliError(
            "two stored runs are compared as they are: leave out the options for compiling"
        )


def compile_pair(
    question: Question,
    sides: Sequence[Side],
    asked: MeasuringOptions,
    allow: Collection[str],
    context: Context,
) -> Pair:
    """Return two variants, or two scenarios, compiled or reused, then measured where there is a
    device. Raises as ``make_pair``."""
    setting = settle(question, asked, context)
    question = replace(question, threads=setting.threads if setting else None)
    jobs = order_jobs(question, sides, context)
    if setting is not None:
        jobs = [replace(job, request=replace(job.request, measured=True)) for job in jobs]
    with ExitStack() as ahead:
        place: bench.Bench | None = None
        early: EarlyRounds | None = None

        def start_ahead(ids: Mapping[str, str]) -> Interlude | None:
            nonlocal place, early
            if setting is not None:
                place = bench.open_ahead(setting, jobs, context)
            if place is None or setting is None:
                return None
            ahead.callback(place.close)
            early = EarlyRounds(place, setting, jobs, context, ids)
            return Interlude(early.is_due, early.run, early.comes_first)

        base, head = obtain(jobs, context, begin=start_ahead)
        try:
            warn_of_oversights(head.run, context.notes)
            with context.phase("compare"):
                comparison = gather_evidence(base.run, head.run, allow, _list_typed(sides))
            if setting is not None:
                comparison = measure_times(comparison, setting, jobs, context, place, early)
        except KeyboardInterrupt as error:
            raise _add_runs("interrupted", base, head) from error
        except Interrupted as error:
            raise _add_runs(str(error), base, head) from error
    return Pair(base, head, comparison, measured=True)


def _add_runs(said: str, base: Obtained, head: Obtained) -> Interrupted:
    """Return what is said of an interrupt, with where both runs are stored."""
    stored = base.path or head.path
    return Interrupted(f"{said}; {describe_kept([base, head])}" if stored else said)


def _describe_rounds(comparison: Comparison, measurement: str) -> str:
    """Return how many rounds of both runs are kept, where, and what shows them; empty for none."""
    kept = timings.describe_rounds(measurement)
    base, head = comparison.base, comparison.head
    shows = " ".join(["perfcli compare", base.id, head.id, *list_overrides(base, head)])
    return f"{kept}, {shows} shows them" if kept else ""


def _list_typed(sides: Sequence[Side]) -> list[str]:
    """Return the aspects in which two sides differ because they were typed so."""
    base, head = sides
    if head.scenario:
        return ["scenario", "params", "mode"]
    return ["params", "mode"] if base.params != head.params else []


# --- times ------------------------------------------------------------------------------------


def has_same_code(comparison: Comparison, setting: Setting) -> bool:
    """Return whether both sides run the same code in the same way, so that any difference were
    noise."""
    base, head = comparison.base, comparison.head
    ways = [(run.variant.env, run.variant.python, _ways(run)) for run in (base, head)]
    devices = (setting.asked.a_device, setting.asked.b_device)
    return (
        ways[0] == ways[1]
        and devices[0] == devices[1]
        and _steps(base) == _steps(head)
        and base.graph_breaks == head.graph_breaks
        and not comparison.changed_groups
    )


def _ways(run: Run) -> dict[str, object]:
    options = run.variant.options
    return {name: value for name, value in options.items() if acts_on_running(name)}


def _steps(run: Run) -> list[tuple[str, str]]:
    """Return what a step launches, in order: kernels by their code, extern operators by name."""
    code = {(kernel.graph, kernel.name): kernel.source_hash for kernel in run.kernels}
    return [(each.graph, code.get((each.graph, each.name), each.name)) for each in run.launches]


def measure_times(
    comparison: Comparison,
    setting: Setting,
    jobs: Sequence[Job],
    context: Context,
    place: bench.Bench | None = None,
    early: EarlyRounds | None = None,
) -> Comparison:
    """Return the comparison with its times, measured now, or with what is wrong with a side's
    results; as it is, after a word why, where there is nothing to measure. ``place`` has workers
    that are on their way already; ``early`` may have measured."""
    if reason := why_not(jobs, setting):
        setting.asked.refuse(reason)
        context.notes.warn(f"not measured: {reason}")
        return comparison
    if has_same_code(comparison, setting):
        context.notes.say("same code on both sides: nothing to measure")
        return comparison
    try:
        measured = early.result() if early else None
        base, head = comparison.base, comparison.head
        subject = bench.MeasuredScenario(head.scenario, head.params, base.id, head.id)
        measured = measured or bench.measure(subject, setting, jobs, context, place)
    except WrongResult as error:
        return replace(comparison, wrong=_wrong_results(error))
    try:
        return add_times(comparison, measured, setting.asked.clocks or "both")
    except KeyboardInterrupt as error:
        kept = _describe_rounds(comparison, measured.id)
        raise Interrupted(f"interrupted; {kept}" if kept else "interrupted") from error


def _wrong_results(error: WrongResult) -> WrongResults:
    """Return the wrong results that an error is about. Its message begins with the side: nothing
    else of an error comes out of a worker. Raise the error itself where it names neither side."""
    message = str(error)
    if message.startswith("the base's"):
        return WrongResults("base", message)
    if message.startswith("the head's"):
        return WrongResults("head", message)
    raise error


# --- as a document sees them --------------------------------------------------------------------

_PASSING: dict[Outcome, Passing] = {
    "same": "pass", "better": "pass", "worse": "fail", "unknown": "unsure",
}  # fmt: skip


def summarize(pairs: Sequence[Pair], command: str = "") -> Judgement:
    """Return comparisons that nobody put limits on as a judgement: as bad as the worst of them."""
    checks = tuple(_describe(pair) for pair in pairs)
    worst = min(range(len(checks)), key=lambda n: GRAVEST_FIRST.index(checks[n].outcome))
    return Judgement(
        checks=checks,
        outcome=checks[worst].outcome,
        reason=checks[worst].reason,
        exit_code=_exit_code(pairs[worst]),
        command=command,
        rules=rules(),
        root=str(documents.find_root()),
    )


def _exit_code(pair: Pair) -> int:
    """Return what ``compare`` returns."""
    if pair.fault:
        return PerfcliError.exit_code
    return output.EXIT_CODES[pair.comparison.outcome]


def _describe(pair: Pair) -> Judged:
    base = pair.base.run
    environment = base.environment
    return Judged(
        name=pair.name,
        outcome="fault" if pair.fault else _PASSING[pair.comparison.outcome],
        reason=pair.comparison.reason,
        comparison=pair.comparison,
        provenance=Provenance(
            kind="run",
            where=base.id,
            created=base.created[:10],
            torch=environment.torch,
            triton=environment.triton or "",
        ),
        fault=pair.fault,
        alone=pair.alone,
        texts=StoredTexts(pair.base, pair.head),
    )
