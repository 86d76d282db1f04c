"""Tells the steps of a recording apart, and adds up what each of them launched.

A step is what the host launched between two marks of the profiler (``ProfilerStep#7``), however
late the device ran it. Without marks it is what repeats: the launches from one kernel that every
step launches equally often to its next launch. Its time is the device's: from its first launch to
the first of the next step, so that a gap belongs to the step before it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.facts.collectives import is_collective_kernel
from perfcli.importing.traces.labels import label_kernel
from perfcli.importing.traces.recording import Recording, Shape, Spans
from perfcli.model import Observed, ObservedStep, ObservedWork

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[Any]]

MOST_STEPS = 256
"""Of more, as many neighbours are added up as it takes: statistics ask for no more."""
_MOST_NAME = 2000
"""Characters of a name: C++ templates have names of thousands."""
_LEAST_COMPLETE = 0.99
"""Part of a step's kernels that must have been recorded."""
_LEAST_LAUNCHED = 0.5
"""Part of what the device ran whose launch must be recorded, or launches were not recorded."""
_LEAST_ALIKE = 0.9
"""Part of the steps without marks that must launch the same."""
_LEAST_COVERED = 0.8
"""Part of all launches that steps without marks must hold."""
_GENERATED = re.compile(r"triton_")


@dataclass(slots=True)
class _Ordered:
    """Holds what one device ran, in the order in which it was launched; a value for each."""

    start: Numbers
    seconds: Numbers
    name: Numbers
    shape: Numbers
    launched: Numbers
    """When the host launched it; when it began, where that was not recorded."""
    thread: Numbers
    """Of the host; −1: not known."""

    def take(self, which: Numbers) -> _Ordered:
        """Return some of it."""
        columns = (self.start, self.seconds, self.name, self.shape, self.launched, self.thread)
        return _Ordered(*(column[which] for column in columns))


def observe(recording: Recording) -> Observed:
    """Return what each step of a recording launched, and how long it took."""

    notes = list(recording.notes)
    ordered, missing = _order(recording, notes)
    step, names, marks = _tell_steps(recording, ordered, notes)
    step, names = _leave_out_incomplete(recording, step, names, missing, notes)
    inside = step >= 0
    outside = float(ordered.seconds[~inside].sum())
    if outside > 0.05 * float(ordered.seconds.sum()) and marks != _WHOLE:
        part = outside / float(ordered.seconds.sum())
        notes.append(f"{part:.0%} of the recorded time lies outside of all whole steps")
    ordered, step = ordered.take(inside), step[inside]
    steps = _time_steps(ordered, step, names)
    each = -(-len(names) // MOST_STEPS)
    if each > 1:
        notes.append(f"{len(names):,} steps: {each} at a time are taken as one, their mean")
    works, order = _add_up(recording, ordered, step, len(names), each)
    return Observed(
        tool=recording.tool,
        file=recording.file,
        device=recording.device,
        sm_count=recording.sm_count,
        steps=tuple(_join_steps(steps, each)),
        works=tuple(works),
        order=order,
        marks=marks,
        resolution=recording.resolution,
        rank=recording.rank,
        world_size=recording.world_size,
        peak_memory_bytes=recording.peak_memory_bytes,
        facts=recording.facts,
        notes=tuple(notes),
    )


def _order(recording: Recording, notes: list[str]) -> tuple[_Ordered, Numbers]:
    """Return what the device ran that ran most, in order, and when kernels were launched that were
    not recorded."""
    import numpy as np

    works, launches = recording.works, recording.launches
    columns = [
        np.array(works.start),
        np.array(works.seconds),
        *(np.array(c) for c in (works.name, works.shape, works.device, works.launch)),
    ]
    columns = _leave_out_repeated(columns, notes)
    columns = _choose_device(columns, notes)
    start, seconds, name, shape, _, number = columns
    known, called = np.array(launches.launch), np.array(launches.start)
    lost = called[np.array(launches.kernel, dtype=bool) & ~np.isin(known, number)]
    launched, thread = start.copy(), np.full(len(start), -1, dtype=np.int64)
    whole = np.ones(len(start), dtype=bool)
    if len(known):
        order = np.argsort(known, kind="stable")
        place = order[np.minimum(np.searchsorted(known[order], number), len(known) - 1)]
        found = (known[place] == number) & (number >= 0)
        launched[found] = called[place[found]]
        thread[found] = np.array(launches.thread)[place[found]]
        if found.mean() > _LEAST_LAUNCHED and not found.all():
            whole = found  # the host runs ahead: the rest was launched before the recording began
    everything = _Ordered(start, seconds, name, shape, launched, thread)
    everything = everything.take(whole)
    return everything.take(np.lexsort((everything.start, everything.launched))), lost


def _leave_out_repeated(columns: list[Numbers], notes: list[str]) -> list[Numbers]:
    """Return the rows of these columns, each once: some tools that join traces write events
    twice."""
    import numpy as np

    order = np.lexsort(columns)
    ordered = [column[order] for column in columns]
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for column in ordered:
        same &= column[1:] == column[:-1]
    if not same.any():
        return columns
    notes.append(f"{units.plural(int(same.sum()), 'event')} repeated, and counted once")
    once = np.concatenate(([True], ~same))
    return [column[once] for column in ordered]


def _choose_device(columns: list[Numbers], notes: list[str]) -> list[Numbers]:
    """Return the rows of the device that ran most."""
    import numpy as np

    devices, inverse = np.unique(columns[4], return_inverse=True)
    if len(devices) < 2:
        return columns
    most = int(np.argmax(np.bincount(inverse, weights=columns[1])))
    notes.append(f"{len(devices)} GPUs were recorded; this is number {devices[most]}")
    return [column[inverse == most] for column in columns]


# --- where steps begin --------------------------------------------------------------------------

_MARKED, _REPEATED, _WHOLE = "ProfilerStep marks", "launches that repeat", "the whole trace"


def _tell_steps(
    recording: Recording, ordered: _Ordered, notes: list[str]
) -> tuple[Numbers, list[str], str]:
    """Return the number of the step that each launch belongs to (−1: none), the steps' names, and
    how they were told apart."""
    import numpy as np

    start, end, names = _list_marks(recording)
    if len(start):
        number = np.searchsorted(start, ordered.launched, side="right") - 1
        number[(number >= 0) & (ordered.launched >= end[number])] = -1
        used = np.unique(number[number >= 0])
        if len(used):
            renumbered = np.where(number >= 0, np.searchsorted(used, number), -1)
            return renumbered, [names[n] for n in used], _MARKED
        notes.append("no kernel was launched inside a ProfilerStep mark")
    bounds = _find_period(ordered.name)
    if bounds is not None:
        number = np.searchsorted(bounds, np.arange(len(ordered.name)), side="right") - 1
        number[number == len(bounds) - 1] = -1
        return number, [f"step {n + 1}" for n in range(len(bounds) - 1)], _REPEATED
    return np.zeros(len(ordered.name), dtype=np.int64), ["step 1"], _WHOLE


def _list_marks(recording: Recording) -> tuple[Numbers, Numbers, list[str]]:
    """Return the marks in order, each once."""
    import numpy as np

    spans = recording.steps
    firsts: dict[int, int] = {}
    for place, name in enumerate(spans.name):
        if name not in firsts or spans.start[place] < spans.start[firsts[name]]:
            firsts[name] = place
    places = sorted(firsts.values(), key=lambda place: spans.start[place])
    return (
        np.array([spans.start[place] for place in places]),
        np.array([spans.end[place] for place in places]),
        [recording.names.values[spans.name[place]] for place in places],
    )


def _find_period(names: Numbers) -> Numbers | None:
    """Return the places at which steps begin, with the end of the last, or None where nothing
    repeats.

    Steps begin at launches of one kernel between which always the same is launched: of the rarest
    such kernel, since one that is launched ten times per step repeats as well.
    """
    import numpy as np

    values, firsts, counts = np.unique(names, return_index=True, return_counts=True)
    for count in np.unique(counts[counts > 1]):
        for anchor in values[counts == count][np.argsort(firsts[counts == count])][:8]:
            begins = np.flatnonzero(names == anchor)
            # What follows the last one may be a whole step.
            bounds = np.append(begins, len(names))
            contents = [np.sort(names[a:b]).tobytes() for a, b in itertools.pairwise(bounds)]
            usual = max(set(contents[:-1]), key=contents[:-1].count)
            alike = contents[:-1].count(usual) / len(contents[:-1])
            whole = len(contents) - (contents[-1] != usual)
            inside = bounds[whole] - bounds[0]
            if alike >= _LEAST_ALIKE and inside >= _LEAST_COVERED * len(names) and whole > 1:
                return _begin_early(names, bounds[: whole + 1])
    return None


def _begin_early(names: Numbers, bounds: Numbers) -> Numbers:
    """Return the bounds of steps from the first launch on, where what stands before the first
    anchor is the beginning of the first step."""
    import numpy as np

    early = np.append(bounds - bounds[0], len(names))
    contents = {np.sort(names[a:b]).tobytes() for a, b in itertools.pairwise(early)}
    return early if len(contents) == 1 else bounds


def _leave_out_incomplete(
    recording: Recording, step: Numbers, names: list[str], missing: Numbers, notes: list[str]
) -> tuple[Numbers, list[str]]:
    """Leave out steps of which kernels were launched and not recorded, if others remain."""
    import numpy as np

    if not len(missing):
        return step, names
    launched = sum(recording.launches.kernel)
    notes.append(
        f"{len(missing):,} of {launched:,} kernels that the host launched were not recorded"
    )
    start, end, every = _list_marks(recording)
    if not len(start):
        return step, names
    number = np.searchsorted(start, missing, side="right") - 1
    lost: dict[str, int] = {}
    for n, moment in zip(number, missing, strict=True):
        if n >= 0 and moment < end[n]:
            lost[every[n]] = lost.get(every[n], 0) + 1
    counts = np.bincount(step[step >= 0], minlength=len(names))
    keep = [
        n
        for n, name in enumerate(names)
        if counts[n] / (counts[n] + lost.get(name, 0)) >= _LEAST_COMPLETE
    ]
    if not keep or len(keep) == len(names):
        return step, names
    notes.append(f"{len(names) - len(keep)} of {len(names)} steps are incomplete and left out")
    renumbered = np.full(len(names), -1, dtype=np.int64)
    renumbered[keep] = np.arange(len(keep))
    return np.where(step >= 0, renumbered[step], -1), [names[n] for n in keep]


# --- times --------------------------------------------------------------------------------------


def _time_steps(ordered: _Ordered, step: Numbers, names: Sequence[str]) -> list[ObservedStep]:
    """Return each step's time and how long the device was busy in it."""
    import numpy as np

    begins = np.full(len(names), np.inf)
    np.minimum.at(begins, step, ordered.start)
    begins = np.maximum.accumulate(begins)
    order = np.argsort(ordered.start, kind="stable")
    start = ordered.start[order]
    end = start + ordered.seconds[order]
    before = np.concatenate(([start[0]], np.maximum.accumulate(end)[:-1]))
    added = np.maximum(end - np.maximum(start, before), 0.0)
    place = np.clip(np.searchsorted(begins, start, side="right") - 1, 0, len(names) - 1)
    busy = np.bincount(place, weights=added, minlength=len(names))
    last = float(end.max()) - float(begins[-1]) if len(names) == 1 else None
    seconds = [*(float(s) for s in np.diff(begins)), last]
    return [
        ObservedStep(name, took, float(ran))
        for name, took, ran in zip(names, seconds, busy, strict=True)
    ]


def _join_steps(steps: Sequence[ObservedStep], each: int) -> list[ObservedStep]:
    """Return neighbouring steps as one, with their means."""
    if each == 1:
        return list(steps)
    found = []
    for first in range(0, len(steps), each):
        some = steps[first : first + each]
        known = [step.seconds for step in some if step.seconds is not None]
        found.append(
            ObservedStep(
                some[0].name,
                sum(known) / len(known) if len(known) == len(some) else None,
                sum(step.busy for step in some) / len(some),
            )
        )
    return found


def _add_up(
    recording: Recording, ordered: _Ordered, step: Numbers, steps: int, each: int
) -> tuple[list[ObservedWork], tuple[int, ...]]:
    """Return what steps launched, in the order of its first launch, and the order of one step."""
    import numpy as np

    names, shapes = recording.names.values, recording.shapes.values
    generated = np.array(
        [bool(_GENERATED.match(name)) or n in recording.triton for n, name in enumerate(names)]
    )
    graphs, graph_names = _place_in_graphs(recording, ordered)
    own = generated[ordered.name]
    calls = np.where(own, -1, _find_spans(recording.operators, ordered))
    operators = _name_spans(recording.operators, calls)
    begun = _mark_firsts(calls)
    shape = np.where(own, -1, ordered.shape)
    keys = np.stack((ordered.name, shape, graphs, operators))
    _, firsts, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    groups = -(-steps // each)
    sums = np.zeros((len(firsts), groups))
    counts = np.zeros(len(firsts))
    np.add.at(sums, (which, step // each), ordered.seconds)
    np.add.at(counts, which, 1)
    begins = np.bincount(which, weights=begun, minlength=len(firsts))
    width = np.full(groups, float(each))
    width[-1] = steps - each * (groups - 1)
    found = []
    parts = np.argsort(firsts)
    for part in parts:
        first = firsts[part]
        name = int(ordered.name[first])
        registers, shared, grid, block = _choose_shape(ordered.shape[which == part], shapes)
        operator = int(operators[first])
        found.append(
            ObservedWork(
                name=names[name][:_MOST_NAME],
                label=names[name][:_MOST_NAME] if generated[name] else label_kernel(names[name]),
                generated=bool(generated[name]),
                launches=max(round(float(counts[part]) / steps), 1),
                seconds=tuple(float(s) for s in sums[part] / width),
                graph=graph_names[int(graphs[first])],
                operator=names[operator] if operator >= 0 else "",
                calls=float(begins[part]) / steps if operator >= 0 else None,
                registers=registers,
                shared_bytes=shared,
                grid=grid,
                block=block,
            )
        )
    place = np.argsort(parts)
    return found, tuple(int(n) for n in place[which[step == 0]])


def _choose_shape(numbers: Numbers, shapes: Sequence[Shape]) -> Shape:
    """Return the shape that most of these launches have."""
    import numpy as np

    return shapes[int(np.bincount(numbers).argmax())]


# --- where launches belong ----------------------------------------------------------------------


def _place_in_graphs(recording: Recording, ordered: _Ordered) -> tuple[Numbers, list[str]]:
    """Return the number of the graph that launched each, and the graphs' names: ``forward 0``, in
    the order in which they are first called; the last, which number −1 means, is none."""
    import numpy as np

    spans = _find_outermost(recording.graphs, ordered)
    back = _find_outermost(recording.backward, ordered) >= 0
    names: dict[tuple[int, bool], str] = {}
    numbers = np.full(len(spans), -1, dtype=np.int64)
    generated = [bool(_GENERATED.match(name)) for name in recording.names.values]
    for place, (graph, backward) in enumerate(zip(spans.tolist(), back.tolist(), strict=True)):
        if graph < 0 and not generated[ordered.name[place]]:
            continue
        key = (graph, backward)
        if key not in names:
            word = "backward" if backward else "forward"
            names[key] = f"{word} {sum(b == backward for _, b in names)}"
        numbers[place] = list(names).index(key)
    return numbers, [*names.values(), ""]


def _mark_firsts(calls: Numbers) -> Numbers:
    """Return 1 for the first launch of each call, 0 for its others and for what none launched."""
    import numpy as np

    _, firsts = np.unique(calls, return_index=True)
    found = np.zeros(len(calls), dtype=np.int64)
    found[firsts] = 1
    found[calls < 0] = 0
    return found


def _find_outermost(spans: Spans, ordered: _Ordered) -> Numbers:
    """Return the name of the outermost of these spans in which each was launched; −1: none."""
    return _name_spans(spans, _find_spans(spans, ordered))


def _name_spans(spans: Spans, numbers: Numbers) -> Numbers:
    """Return the names of these spans; −1 for −1."""
    import numpy as np

    if not spans.start:
        return numbers.copy()
    return np.where(numbers >= 0, np.frombuffer(spans.name, dtype=np.int64)[numbers], -1)


def _find_spans(spans: Spans, ordered: _Ordered) -> Numbers:
    """Return the outermost of these spans in which each was launched, as indices; −1: none."""
    import numpy as np

    found = np.full(len(ordered.name), -1, dtype=np.int64)
    if not spans.start:
        return found
    start = np.frombuffer(spans.start, dtype=np.float64)
    end = np.frombuffer(spans.end, dtype=np.float64)
    thread = np.frombuffer(spans.thread, dtype=np.int64)
    for number in np.unique(thread):
        mine = np.flatnonzero(thread == number)
        mine = mine[np.lexsort((-end[mine], start[mine]))]
        reach = np.concatenate(([-np.inf], np.maximum.accumulate(end[mine])[:-1]))
        mine = mine[start[mine] >= reach]
        here = np.flatnonzero(ordered.thread == number)
        if not len(here):
            continue
        place = np.searchsorted(start[mine], ordered.launched[here], side="right") - 1
        inside = (place >= 0) & (ordered.launched[here] < end[mine][place])
        found[here[inside]] = mine[place[inside]]
    return found


def sum_communication(observed: Observed) -> float:
    """Return the seconds per step of collective kernels."""
    from statistics import median

    collective = [work.seconds for work in observed.works if is_collective_kernel(work.name)]
    return median(map(sum, zip(*collective, strict=True))) if collective else 0.0
