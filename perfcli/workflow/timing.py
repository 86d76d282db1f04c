"""Times of the two runs of a comparison: measured, or those that were stored of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfcli import units
from perfcli.console.notes import Notes
from perfcli.errors import WrongResult
from perfcli.interleave import record, stored
from perfcli.model import Comparison, Measurement, Run, Timing, WrongResults
from perfcli.options.performance import acts_on_running
from perfcli.workflow import bench
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.setting import Setting, why_not


def _nothing_to_measure(comparison: Comparison, setting: Setting) -> bool:
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
        and all(group.match.relation == "same" for group in comparison.groups)
    )


def _ways(run: Run) -> dict[str, object]:
    options = run.variant.options
    return {name: value for name, value in options.items() if acts_on_running(name)}


def _steps(run: Run) -> list[tuple[str, str]]:
    """Return what a step launches, in order: kernels by their code, extern operators by name."""
    code = {(kernel.graph, kernel.name): kernel.source_hash for kernel in run.kernels}
    return [(each.graph, code.get((each.graph, each.name), each.name)) for each in run.launches]


def measure_times(
    comparison: Comparison, setting: Setting, jobs: Sequence[Job], context: Context
) -> Comparison:
    """Return the comparison with its times, measured now, or with what is wrong with a side's
    results; as it is, after a word why, where there is nothing to measure."""
    if reason := why_not(jobs, setting):
        setting.asked.refuse(reason)
        context.notes.warn(f"not measured: {reason}")
        return comparison
    if _nothing_to_measure(comparison, setting):
        context.notes.say("same code on both sides: nothing to measure")
        return comparison
    try:
        measurement = bench.measure(comparison, setting, jobs, context)
    except WrongResult as error:
        return replace(comparison, wrong=_wrong_results(str(error)))
    return replace(comparison, timing=_derive(comparison, measurement))


def _wrong_results(message: str) -> WrongResults:
    """Return the wrong results that a message is about; it begins with the side: nothing else of an
    error comes out of a worker."""
    return WrongResults("base" if message.startswith("the base's") else "head", message)


# --- what follows ----------------------------------------------------------------------------


def load_times(comparison: Comparison, notes: Notes) -> Timing | None:
    """Load the measurement of these two runs that is in the store; None where there is none. Warns
    of files that can't be read."""
    found = stored.find(comparison.base.id, comparison.head.id)
    for text in _left_out(found):
        notes.warn(text)
    return _derive(comparison, found.measurement) if found.measurement else None


def _left_out(found: stored.Found) -> Iterator[str]:
    """Yield a line for files of these runs, one for those that may be of any."""
    if found.left_out:
        without = () if found.measurement else ("the report follows without times",)
        yield f"left out: {'; '.join((*found.left_out, *without))}"
    if found.unreadable:
        files = units.plural(len(found.unreadable), "file")
        first = f"{'the first is ' if len(found.unreadable) > 1 else ''}{found.unreadable[0]}"
        yield f"{files} in {record.FOLDER} can't be read ({first})"


def _derive(comparison: Comparison, measurement: Measurement) -> Timing:
    from perfcli.stats import timing

    worker = measurement.of("head")
    floor = bench.load_floor(comparison.head, worker) if worker else None
    base, head = comparison.base, comparison.head
    return timing.derive(measurement, base, head, comparison.groups, floor)
