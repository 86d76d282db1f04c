"""Holds a variant's outputs against a reference before anything is timed.

Two correct implementations differ by rounding, and how much that may be depends on the model. So
a result beyond its tolerance is only a suspicion: then the model runs once more, eagerly in
float64, and the compiled result is wrong if it also lies ``TIMES_EAGER`` times as far from that
as eager's own result in the model's dtypes (the method of ``torch._dynamo.utils.same``).
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import replace

from perfcli.measure import judging, references, room
from perfcli.measure.judging import Distance, ErrorLimits
from perfcli.measure.references import Runs
from perfcli.measure.results import Results
from perfcli.measure.snapshot import Snapshot, named_leaves
from perfcli.measure.step import Step
from perfcli.model import OutputCheck

TIMES_EAGER = 3.0
"""How much farther from float64 than eager a result may lie; torch's multiplier for bfloat16."""
TIMES_UNSURE = 4.0
"""How much the tolerance grows where the model does not run in float64."""


def check(step: Step) -> OutputCheck:
    """Run the compiled workload and its reference from the same state. The state, the random
    generators and the device's memory are left as they were."""
    try:
        return _check_and_restore(step)
    except Exception as error:
        if not room.is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)
        return _not_compared("not compared: no memory for a reference beside the variant")
    finally:
        room.give_back(step.device)


def _check_and_restore(step: Step) -> OutputCheck:
    workload = step.built.workload
    before = Snapshot(workload)
    try:
        return _check_runs(Runs(step, before))
    finally:
        for _, leaf in named_leaves(workload):
            leaf.grad = None
        before.restore()  # of a whole step, with the gradients that it began with


def _check_runs(runs: Runs) -> OutputCheck:
    compiled = runs.compiled()
    expected, reference = runs.expected(compiled)
    if expected is None:
        return _not_compared(reference)
    if compiled.random or expected.random:
        return _check_random(compiled, expected)
    if not expected.outputs and not expected.gradients and not expected.changed:
        return _not_compared("not compared: no tensor among the outputs")
    limits = runs.limits(compiled)
    found = judging.distances(compiled, expected, limits)
    suspicious = [d for d in found if d.suspicious]
    most = judging.worst(found)
    if suspicious and runs.among_ranks:
        return _judge_once(suspicious, reference)
    if suspicious:
        return _second_look(runs, compiled, suspicious, reference)
    if most is None:
        return _not_compared("not compared: tensors of a kind that cannot be read")
    return OutputCheck(most.error, most.limit, reference)


def _check_random(compiled: Results, expected: Results) -> OutputCheck:
    reason = "not compared: the model draws random numbers, compiled code draws others"
    wrong = next(judging.new_nan(compiled, expected), None)
    if wrong is None:
        return _not_compared(reason)
    return OutputCheck(None, None, reason, wrong.told(references.EAGER, 0.0))


def _judge_once(suspicious: Sequence[Distance], reference: str) -> OutputCheck:
    """Judge without further runs: of a process group, all ranks would have to make them, and each
    judges its own outputs."""
    judged = [(d, TIMES_UNSURE * d.limit) for d in suspicious]
    wrong = [(d, allowed) for d, allowed in judged if d.problem or _exceeds(d, allowed)]
    d, allowed = wrong[0] if wrong else max(judged, key=lambda pair: pair[0].error)
    failure = d.told(reference, allowed) if wrong else ""
    return OutputCheck(d.error, allowed, reference, failure)


def _second_look(
    runs: Runs, compiled: Results, suspicious: Sequence[Distance], reference: str
) -> OutputCheck:
    """Return whether rounding explains what lies beyond its tolerance."""
    limits = runs.limits(compiled)
    for d in suspicious:
        if d.problem:
            return OutputCheck(None, None, reference, d.told(reference, d.limit))
    again, eager = runs.again(), runs.eager
    if again is not None and eager is not None:
        noise = (d for d in judging.distances(again, eager, limits) if d.suspicious)
        if noisy := next(noise, None):
            return _not_compared(f"not compared: run eagerly twice, {noisy.name} differs")
    del again
    exact, against = runs.exact(compiled)
    ours, eagers = _by_key(compiled, exact, limits), _by_key(eager, exact, limits)
    judged = [_judge(d, ours.get(d.key), eagers.get(d.key)) for d in suspicious]
    wrong = next(((d, allowed) for d, allowed in judged if _exceeds(d, allowed)), None)
    if wrong is None:
        most = max(judged, key=lambda pair: pair[0].error)
        return OutputCheck(most[0].error, most[1], against)
    d, allowed = wrong
    name = against if d.key in ours else references.EAGER
    return OutputCheck(d.error, allowed, name, d.told(name, allowed))


def _judge(
    seen: Distance, ours: Distance | None, eagers: Distance | None
) -> tuple[Distance, float]:
    """Return the distance that counts, and how large it may be."""
    if ours is None:
        return seen, TIMES_UNSURE * seen.limit
    if eagers is None:
        return ours, ours.limit
    if eagers.odd:
        # Eagerly it overflows, too: a matter of the dtype, not of the compiled code.
        ours = replace(ours, odd=0, nan=0)
    return ours, max(ours.limit, TIMES_EAGER * eagers.error)


def _exceeds(d: Distance, allowed: float) -> bool:
    return bool(d.problem or d.odd or d.error > allowed)


def _by_key(
    found: Results | None, exact: Results | None, limits: ErrorLimits
) -> dict[tuple[str, str], Distance]:
    if found is None or exact is None:
        return {}
    return {d.key: d for d in judging.distances(found, exact, limits)}


def _not_compared(why: str) -> OutputCheck:
    return OutputCheck(None, None, why)
