"""The totals of two runs as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Beside, BreakPlace, Change, Comparison, Outcome, Run, Totals, Variant

from .step import write_places

VERDICTS: Mapping[Outcome, str] = {
    "worse": "WORSE",
    "better": "BETTER",
    "same": "SAME",
    "unknown": "UNSURE",
}


def write_verdict(comparison: Comparison) -> str:
    """Return the verdict in one word.

    SLOWER and FASTER where times decided, measured or estimated; WORSE and BETTER where what the
    code says did, or memory.
    """
    time = comparison.timing.deciding.verdict if comparison.timing else None
    if time is None and comparison.estimate is not None and comparison.wrong is None:
        time = comparison.estimate.verdict
    if (time, comparison.outcome) in (("slower", "worse"), ("faster", "better")):
        return "SLOWER" if time == "slower" else "FASTER"
    return VERDICTS[comparison.outcome]


@dataclass(frozen=True, slots=True)
class TotalRow:
    metric: str
    title: str
    base: str
    head: str
    delta: str
    relative: str
    outcome: Outcome


# Said only where they changed.
_SECONDARY = ("loads_in_loops", "graphs", "graph_breaks")


def list_totals(comparison: Comparison) -> list[TotalRow]:
    """Return the rows without those that say what another says, or nothing."""
    rows = [
        _write_total(c) for c in comparison.totals if c.delta != 0 or c.metric not in _SECONDARY
    ]
    rows += [_write_total(comparison.compiled)] if comparison.compiled else []
    moved = next((_read_numbers(row) for row in rows if row.metric == "bytes_moved"), None)
    return [row for row in rows if row.metric != "bytes_swept" or _read_numbers(row) != moved]


def _read_numbers(row: TotalRow) -> tuple[str, str, str, str]:
    return row.base, row.head, row.delta, row.relative


def _write_total(change: Change) -> TotalRow:
    write = units.writer(change.metric)
    return TotalRow(
        metric=change.metric,
        title=units.title(change.metric),
        base=write(change.base),
        head=write(change.head),
        delta="" if not change.delta else units.signed(write, change.delta),
        relative=_relate(change),
        outcome=change.outcome,
    )


def _relate(change: Change) -> str:
    """Return the change in percent, or that two numbers which differ say nothing of each other."""
    if change.outcome == "unknown" and change.delta:
        return "not comparable"
    return units.relative(change.base, change.head)


@dataclass(frozen=True, slots=True)
class BesideRow:
    title: str
    inductor: str
    ours: str


def list_beside(beside: Beside) -> list[BesideRow]:
    """Times first, then what the code says; what neither side knows is left out."""
    rows = [*_list_races(beside), *_list_numbers(beside.inductor, beside.ours)]
    return [row for row in rows if {row.inductor, row.ours} != {units.count(None)}]


def _list_races(beside: Beside) -> Iterator[BesideRow]:
    for race in beside.raced:
        title = "time" if len(beside.raced) == 1 else f"time, {race.problem.split()[0]}"
        yield BesideRow(title, *units.alike(race.inductor, race.ours))
    if beside.raced:
        copy = sum(race.copy for race in beside.raced)
        sides = (sum(r.inductor for r in beside.raced), sum(r.ours for r in beside.raced))
        yield BesideRow("of a copy's speed", *(units.percent(copy / side) for side in sides))


def _list_numbers(inductor: Totals, ours: Totals) -> Iterator[BesideRow]:
    def row(title: str, left: str, right: str) -> BesideRow:
        return BesideRow(title, left, right)

    yield row("launches", units.count(inductor.launches), units.count(ours.launches))
    yield row("bytes moved", units.size(inductor.bytes_moved), units.size(ours.bytes_moved))
    yield row("with what is read again", *map(units.size, (inductor.bytes_swept, ours.bytes_swept)))
    yield row("passes over the input", _write_passes(inductor.passes), _write_passes(ours.passes))
    yield row(
        "loaded 16 bytes at a time", *map(units.percent, (inductor.wide_share, ours.wide_share))
    )
    yield row("registers", units.count(inductor.registers), units.count(ours.registers))
    yield row("spilled words", units.count(inductor.spilled_words), units.count(ours.spilled_words))
    shared = (inductor.shared_bytes, ours.shared_bytes)
    yield row("shared memory", *map(units.exact_bytes, shared))
    yield row("occupancy", units.percent(inductor.occupancy), units.percent(ours.occupancy))


def _write_passes(value: float | None) -> str:
    return units.count(None) if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def list_hand_written(beside: Beside) -> list[str]:
    """Return ``softmax/online: rows of more than …``."""
    named = zip(beside.kernels, beside.why, strict=True)
    return list(dict.fromkeys(f"{name}: {why}" if why else name for name, why in named))


def list_explanations(comparison: Comparison, beside: Beside) -> list[str]:
    """Return the findings that Inductor's side alone has, one line for each code."""
    found = beside.list_explaining(comparison.findings)
    lines = []
    for code in dict.fromkeys(finding.code for finding in found):
        first, *others = (finding for finding in found if finding.code == code)
        more = f", and {units.plural(len(others), 'more kernel')}" if others else ""
        lines.append(f"{code}  {first.headline}{more}")
    return lines


def write_question(run: Run) -> str:
    """Return what was compiled, in one line."""
    return _join_parts(_list_parts(run))


def write_questions(comparison: Comparison) -> str:
    """Return what was compiled on both sides, in one line: as ``base → head`` what was typed to
    differ. What else differs is said apart (``Comparison.differences``)."""
    base, head = (_list_parts(run) for run in (comparison.base, comparison.head))
    shown = dict(head)
    for name in {**head, **base}:
        ours, theirs = base.get(name, ""), head.get(name, "")
        said = _APART.get(name, "parameter ")
        if ours != theirs and not any(d.startswith(said) for d in comparison.differences):
            shown[name] = f"{ours or 'none'} → {theirs or 'none'}"
    return _join_parts(shown)


_APART: Mapping[str, str | tuple[str, ...]] = {
    "": "scenario ", "mode": "mode ", "place": ("target ", "device "), "dynamic": "dynamic ",
    "--input": "input ",
}  # fmt: skip
"""How differences begin that are said apart from the parts of a question."""


def _list_parts(run: Run) -> dict[str, str]:
    """Return what a run's question consists of, in order."""
    parts = {"": run.scenario, "mode": run.mode}
    parts["place"] = run.place
    parts["world"] = f"world {run.world}" if run.world > 1 else ""
    parts["dynamic"] = "dynamic shapes" if run.dynamic else ""
    # The mode is said already, unless the parameter of that name is another thing.
    given = [(n, v) for n, v in run.params.items() if (n, v) != ("mode", run.mode)]
    parts |= {f"-p {name}": str(value) for name, value in given}
    return parts | {"--input": " ".join(run.inputs)}


def _join_parts(parts: Mapping[str, str]) -> str:
    """Return the parts in one line, parameters with their names and apart from all else."""
    given = [f"{k.removeprefix('-p ')}={v}" for k, v in parts.items() if k.startswith("-p ")]
    last = parts.get("--input", "")
    texts = [text for name, text in parts.items() if not name.startswith("-")]
    texts += [" ".join(given), f"input {last}" if last else ""]
    return units.printable(" · ".join(text for text in texts if text))


def explain_breaks(run: Run) -> list[tuple[str, tuple[BreakPlace, ...]]]:
    """Return why Dynamo gave up and at which lines, the most frequent reason first: ``12 ×
    Unsupported method call``; then what it left whole functions alone for."""
    ordered = sorted(run.graph_breaks.items(), key=lambda item: -item[1])
    left = [reason for reason in run.break_places if reason not in run.graph_breaks]
    return [
        (
            units.printable(f"{units.count(number)} × {reason}"),
            tuple(run.break_places.get(reason, ())),
        )
        for reason, number in ordered
    ] + [
        (units.printable(f"a function left to run eagerly: {reason}"), run.break_places[reason])
        for reason in left
    ]


def list_breaks(run: Run) -> list[str]:
    """Return why Dynamo gave up and where, the most frequent reason first."""
    return [f"{text}{write_places(places)}" for text, places in explain_breaks(run)]


def list_changed_breaks(comparison: Comparison) -> list[str]:
    """Return the reasons that Dynamo gave up more or less often for, and where: ``0 → 12 ×
    Unsupported method at model.py:7  x.foo()``."""
    base, head = comparison.base.graph_breaks, comparison.head.graph_breaks
    places = {**comparison.base.break_places, **comparison.head.break_places}
    return [
        units.printable(
            f"{base.get(reason, 0)} → {head.get(reason, 0)} × {reason}"
            f"{write_places(places.get(reason, ()))}"
        )
        for reason in {**base, **head}
        if base.get(reason) != head.get(reason)
    ]


def explain_emptiness(run: Run) -> str:
    """Return one line about a run that has no kernels, with the reason where the run knows one."""
    if run.kernels:
        return ""
    if run.observed is not None:
        if not run.observed.works:
            return "memory alone was imported: nothing is known of kernels"
        return "none of the trace's kernels was generated by Inductor"
    why = [] if run.graphs else ["no graph was compiled"]
    calls = run.count_externs()
    if calls.total():
        listed = ", ".join(f"{units.count(number)} × {op}" for op, number in calls.most_common())
        why.append(units.printable(f"only library operators ({listed})"))
    breaks = [text for text, _ in explain_breaks(run)]
    if run.graph_breaks:
        more = f" (and {units.plural(len(breaks) - 1, 'other reason')})" if breaks[1:] else ""
        why.append(f"graph breaks: {breaks[0]}{more}")
    else:
        why += [units.printable(note) for note in run.eager_notes]
    return ": ".join(["torch.compile made no kernels", *(["; ".join(why)] if why else [])])


def write_variant(run: Run) -> str:
    """Return what one side is: its options and its torch."""
    return units.printable(
        f"{run.variant.name or write_options(run.variant)} · torch {run.environment.torch}"
    )


def write_sides(base: Run, head: Run) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return base and head, each with what it is, and of what where the two are of different
    scenarios or were given different parameters or inputs."""
    return (
        ("base", f"{_write_own(base, head)}{write_variant(base)}"),
        ("head", f"{_write_own(head, base)}{write_variant(head)}"),
    )


def _write_own(run: Run, other: Run) -> str:
    """Return ``model.py · depth=2 · `` of a run, as far as it is not the other's."""
    own = [run.scenario] if run.scenario != other.scenario else []
    given = [(name, value) for name, value in run.params.items() if name != "mode"]
    own += [f"{name}={value}" for name, value in given if other.params.get(name) != value]
    own += [f"input {' '.join(run.inputs)}"] if run.inputs and run.inputs != other.inputs else []
    return "".join(f"{units.printable(text)} · " for text in own)


def write_options(given: Variant) -> str:
    return " ".join(f"{name}={value}" for name, value in given.options.items()) or "default"
