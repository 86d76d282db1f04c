"""Renders ``perfcli noise`` for people and programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perfcli import units
from perfcli.console import documents, output, table
from perfcli.console.table import plain
from perfcli.errors import PerfcliError
from perfcli.frames.table import Column, Table
from perfcli.machine import noise_floors
from perfcli.model import TimeChange
from perfcli.noise.pairs import NoisePair, PairSeries
from perfcli.stats import floor as floors

PAIR_HEADERS = ("pair", "base", "head", "head/base", "95 % interval", "rounds", "verdict")
FLOOR_HEADERS = ("floor", "scenario", "pairs", "measured", "host", "class")


def list_report(done: PairSeries, kept: noise_floors.StoredFloor | None, path: str) -> list[str]:
    """Return the whole report; its last line is the result."""
    return [
        _write_title(done),
        "",
        *plain(PAIR_HEADERS, _list_rows(done.found)).splitlines(),
        "",
        *_list_remarks(done.found),
        *([f"stored in {path}"] if path else []),
        *_write_lesson(done, kept),
    ]


def _write_title(done: PairSeries) -> str:
    """Return ``softmax · cpu · rows=128 · default · 1 thread``."""
    request, threads = done.job.request, done.setting.threads
    params = " ".join(units.settings(request.params))
    preset = f"preset {request.preset}" if request.preset else ""
    counted = units.plural(threads, "thread") if threads else ""
    parts = (request.scenario, done.setting.device, preset, params, request.variant.name, counted)
    return units.printable(" · ".join(part for part in parts if part))


def _list_rows(found: Sequence[NoisePair]) -> list[tuple[str, ...]]:
    return [
        (
            f"{number}{name}",
            units.seconds(change.base),
            units.seconds(change.head),
            _write_change(change.ratio),
            _write_interval(change),
            units.count(change.rounds),
            change.verdict.upper(),
        )
        for number, measured in enumerate(found, 1)
        for name, change in _list_clocks(measured)
    ]


def _list_clocks(measured: NoisePair) -> list[tuple[str, TimeChange]]:
    """Return each clock's change with its name, which is empty where there is one clock alone."""
    if measured.device is None:
        return [("", measured.step)]
    return [(" device", measured.device), (" step", measured.step)]


def _write_change(ratio: float | None) -> str:
    """Return ``+3.02 %`` of 1.0302."""
    return units.NOT_KNOWN if ratio is None else units.signed(units.percent, ratio - 1)


def _write_interval(change: TimeChange) -> str:
    """Return ``+2.8 % to +3.2 %``."""
    if change.low is None or change.high is None:
        return units.NOT_KNOWN
    return f"{_write_change(change.low)} to {_write_change(change.high)}"


def _list_remarks(found: Sequence[NoisePair]) -> Iterator[str]:
    """Yield why a verdict is unsure, and what measuring had to say."""
    for number, measured in enumerate(found, 1):
        for name, change in _list_clocks(measured):
            if change.why:
                yield f"pair {number}{name} is unsure: {change.why}"
        yield from (units.printable(f"pair {number}: {note}") for note in measured.notes)


def _write_lesson(done: PairSeries, kept: noise_floors.StoredFloor | None) -> Iterator[str]:
    """Yield what all pairs say together."""
    if done.planted:
        estimated = ", ".join(_write_change(m.change.ratio) for m in done.found)
        verdicts = ", ".join(dict.fromkeys(m.change.verdict.upper() for m in done.found))
        planted = _write_change(1 + done.planted)
        yield f"planted {planted} in the head, estimated {estimated}: {verdicts}"
    elif not done.complete:
        yield f"{units.plural(len(done.found), 'pair')} of {done.pairs}: no floor is stored"
    elif done.unsure:
        yield (
            "no floor is stored: every pair is UNSURE; a longer --budget "
            f"({done.setting.budget:g} s now) or a quieter machine makes them surer"
        )
    elif kept is None:
        yield "no floor is stored: one pair can't tell how far the next one goes, --pairs 3 can"
    else:
        least = floors.ASSUMED[done.setting.device]
        use = f", and compare assumes {units.percent(least)} at least"
        yield (
            f"noise floor {units.percent(kept.relative)}: {units.percent(kept.confidence)} sure "
            f"that the next pair of identical variants differs by less"
            f"{use if kept.relative < least else ''}"
        )
        if kept.device_relative is not None:
            assumed = units.percent(floors.ASSUMED_OF_GRAPH)
            use = f", and compare assumes {assumed} at least"
            low = kept.device_relative < floors.ASSUMED_OF_GRAPH
            floor = units.percent(kept.device_relative)
            yield f"noise floor of the device's own time {floor}{use if low else ''}"


def name_noise(done: PairSeries, kept: noise_floors.StoredFloor) -> str:
    """Return why a stored floor may be higher than the machine's noise; empty where no pair is
    unsure."""
    unsure = sum(pair.verdict == "unsure" for pair in kept.pairs)
    if not unsure:
        return ""
    high = "is high" if kept.relative > floors.ASSUMED[done.setting.device] else "may be high"
    return (
        f"the floor of {units.percent(kept.relative)} {high} because {unsure} of "
        f"{units.plural(len(kept.pairs), 'pair')} are uncertain (UNSURE): a longer --budget "
        f"({done.setting.budget:g} s now) or a quieter machine makes them surer; "
        f"perfcli noise --forget {shlex.quote(kept.scenario)} removes it"
    )


# --- JSON --------------------------------------------------------------------------------------


def describe_noise(
    done: PairSeries, kept: noise_floors.StoredFloor | None, path: str
) -> dict[str, Any]:
    """Return the measurement as JSON: ``planted`` and ``floor`` are relative (0.03)."""
    request = done.job.request
    return {
        "scenario": request.scenario,
        "params": request.params,
        "preset": done.preset,
        "variant": request.variant.name,
        "device": done.setting.device,
        "threads": done.setting.threads,
        "budget_seconds": done.setting.budget,
        "class": noise_floors.environment_class(done.machine) if done.machine else None,
        "machine": done.machine,
        "planted": done.planted or None,
        "pairs": [_plain(measured) for measured in done.found],
        "used_floor": done.floor,
        "floor": kept.relative if kept else None,
        "device_floor": kept.device_relative if kept else None,
        "factor": floors.factor(len(kept.pairs)) if kept else None,
        "confidence": kept.confidence if kept else None,
        "stored": path or None,
    }


def _plain(measured: NoisePair) -> dict[str, Any]:
    change = asdict(measured.change)
    rest = asdict(measured)
    del rest["change"]
    return {**change, **rest}


# --- what is stored ----------------------------------------------------------------------------


def _list_stored(
    files: Sequence[tuple[Path, noise_floors.ClassFile | None]],
) -> list[tuple[str, ...]]:
    """Return a row for each floor, below ``FLOOR_HEADERS``."""
    rows: list[tuple[str, ...]] = []
    for path, known in files:
        if known is None:
            rows.append((units.NOT_KNOWN, "", "", "", "", f"{path} can't be read"))
        for floor in known.floors if known else ():
            params = " ".join(units.settings(floor.params))
            cells = (
                units.percent(floor.relative),
                f"{floor.scenario} {params}".strip(),
                units.count(len(floor.pairs)),
                floor.created[:10],
                floor.host,
                known.name if known else "",
            )
            rows.append(tuple(map(units.printable, cells)))
    return rows


def show(scenario: str | None, typed: Sequence[str], wanted: documents.Wanted) -> int:
    """Raise PerfcliError where options of a measurement were ``typed``, or a scenario."""
    unused = [scenario, *typed] if scenario else typed
    if unused:
        raise PerfcliError(f"--show lists all stored floors: leave out {', '.join(unused)}")
    files = noise_floors.load_floors()
    known = [{"path": str(path), "holds": holds} for path, holds in files]
    output.write_document("noise-floors", {"files": known}, wanted.json)
    kept = [(file, floor) for _, file in files if file for floor in file.floors]
    documents.write_table(FLOORS, kept, wanted)
    if wanted.stdout:
        return 0
    rows = _list_stored(files)
    if rows:
        table.show(FLOOR_HEADERS, rows)
    else:
        output.print_text(f"no noise floors in {noise_floors.folder()}: perfcli noise SCENARIO")
    return 0


def forget(scenario: str | None, typed: Sequence[str], wanted: documents.Wanted) -> int:
    """Raise PerfcliError where options of a measurement were ``typed``, or JSON asked for: floors
    of other parameters would go as well."""
    unused = [*typed, *(f"--{name}" for name in wanted.named)]
    if unused:
        of = f"all floors of {scenario}, whatever their parameters" if scenario else "all floors"
        raise PerfcliError(f"--forget removes {of}: leave out {', '.join(unused)}")
    of = f" of {scenario}" if scenario else ""
    output.print_text(f"{units.plural(noise_floors.forget(scenario), 'noise floor')}{of} removed")
    return 0


# --- tables ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairRow:
    """Holds one pair of processes by one clock."""

    number: int
    clock: str
    change: TimeChange
    measured: NoisePair


def list_pairs(found: Sequence[NoisePair]) -> list[PairRow]:
    """Return all pairs as rows, on a GPU two for each: the device's own time and the step's."""
    return [
        PairRow(number, name.strip() or "step", change, measured)
        for number, measured in enumerate(found, 1)
        for name, change in _list_clocks(measured)
    ]


PAIRS: Table[PairRow] = Table(
    "pairs",
    "a pair of processes with identical code, by one clock",
    "`noise SCENARIO`",
    (
        Column("pair", "count", "its number, from 1", lambda row: row.number),
        Column("clock", "text", "device or step", lambda row: row.clock),
        Column("base", "number", "time of a step of the base", lambda row: row.change.base, "s"),
        Column("head", "number", "time of a step of the head", lambda row: row.change.head, "s"),
        Column("ratio", "number", "head over base", lambda row: row.change.ratio, "ratio"),
        Column("low", "number", "lower end of its 95 % interval", lambda r: r.change.low, "ratio"),
        Column(
            "high", "number", "upper end of its 95 % interval", lambda r: r.change.high, "ratio"
        ),
        Column("rounds", "count", "rounds", lambda row: row.change.rounds),
        Column("verdict", "text", "same, unsure, slower or faster", lambda r: r.change.verdict),
        Column("seed", "count", "seed of the order of rounds", lambda row: row.measured.seed),
        Column("measurement", "text", "its raw values' id", lambda row: row.measured.measurement),
    ),
)

_Kept = tuple[noise_floors.ClassFile, noise_floors.StoredFloor]

FLOORS: Table[_Kept] = Table(
    "floors",
    "a stored noise floor",
    "`noise --show`",
    (
        Column("floor", "number", "the floor of a step", lambda row: row[1].relative, "fraction"),
        Column(
            *("device_floor", "number", "the floor of the device's own time"),
            *(lambda row: row[1].device_relative, "fraction"),
        ),
        Column("scenario", "text", "what was measured", lambda row: row[1].scenario),
        Column(
            *("params", "text", "its parameters"),
            lambda row: " ".join(units.settings(row[1].params)),
        ),
        Column("pairs", "count", "pairs that it is made of", lambda row: len(row[1].pairs)),
        Column("created", "time", "when it was measured", lambda row: row[1].created),
        Column("host", "text", "the machine", lambda row: row[1].host),
        Column("class", "text", "the kind of machine", lambda row: row[0].name),
    ),
)
