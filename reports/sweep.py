"""Writes the page of a sweep: heat map, curves over numeric parameters, time against memory, and
numbers. It works offline, without a script.

The same sweep gives the same bytes: no times of day in it, and no ids of runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.model import Document, Measured, Scalar, Sweep, Swept

from ._html.page import _environment, _file, _policy, _safe
from ._html.scale import Plot, Scale, Tick

WIDTH, HEIGHT = 760.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 78.0, 742.0, 18.0, 272.0
MOST_CURVES = 8
"""Lines of one drawing: as many colours can be told apart."""
MOST_COLUMNS = 40
_MOST_NAMES = 12
"""Of what looks alike in a drawing so many are named; of a long sweep there may be thousands."""
_HEAT = (0.8, 0.9, 0.97, 1.03, 1.1, 1.25)
"""Between two of these ratios a cell has one colour; the middle one says: about the same."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """``look`` is the colour; empty where nothing is known."""

    text: str
    ratio: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True)
class _HeatMap:
    """``along`` says what the columns are, ``more`` how many are left out."""

    along: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[_Cell, ...]], ...]
    more: int


@dataclass(frozen=True, slots=True)
class _Point:
    x: float
    y: float
    text: str
    front: bool = False


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    look: str
    path: str
    points: tuple[_Point, ...]


@dataclass(frozen=True, slots=True)
class _Drawing(Plot):
    title: str
    along: str
    up: str
    curves: tuple[_Curve, ...]
    more: int = 0


def _render(sweep: Sweep) -> str:
    common = _find_common(sweep.variants)
    sweep = replace(sweep, variants=tuple(_leave_out(common, each) for each in sweep.variants))
    style = _file("report.css") + _file("sweep.css")
    errors = Counter(each.error for each in sweep.failed)
    unmeasured = Counter(each.measured.why for each in sweep.unmeasured if each.measured)
    columns = _list_columns(sweep)
    text = (
        _environment("")
        .get_template("sweep.html")
        .render(
            sweep=sweep,
            common=" ".join(units.settings(common)),
            made=len(sweep.variants) - len(sweep.failed),
            heat=_draw_heat(sweep.variants),
            curves=list(_draw_curves(sweep.variants)),
            front=_draw_front(sweep.variants),
            errors=errors,
            unmeasured=unmeasured,
            measured=sum(each.is_measured for each in sweep.variants),
            source=_describe_source(sweep),
            titles=[title for title, _ in columns],
            rows=[
                (_describe(each), [read(each) for _, read in columns]) for each in sweep.variants
            ],
            policy=_policy(style, ""),
            style=_safe(style),
        )
    )
    return text.rstrip("\n") + "\n"


_MEASURED: tuple[tuple[str, Callable[[Swept], str]], ...] = (
    ("measured", lambda each: _write_measured(each)),
)
_COLUMNS: tuple[tuple[str, Callable[[Swept], str]], ...] = (
    ("estimate", lambda each: units.seconds(each.seconds)),
    ("from", lambda each: units.seconds(each.low)),
    ("to", lambda each: units.seconds(each.high)),
    ("ratio", lambda each: _write_ratio(each)),
    ("memory", lambda each: units.size(each.memory_bytes)),
    ("front", lambda each: "★" if each.pareto else ""),
    ("kernels", lambda each: units.count(each.metrics.get("kernels"))),
    ("moved", lambda each: units.size(each.metrics.get("bytes_moved"))),
    ("spilled", lambda each: units.count(each.metrics.get("spilled_words"))),
    ("compiled in", lambda each: units.seconds(each.compile_seconds)),
    ("compile time", lambda each: units.seconds(each.compile_cpu_seconds)),
)


def _list_columns(sweep: Sweep) -> tuple[tuple[str, Callable[[Swept], str]], ...]:
    any_measured = any(each.measured for each in sweep.variants)
    return (*_MEASURED, *_COLUMNS) if any_measured else _COLUMNS


def _write_measured(variant: Swept) -> str:
    found = variant.measured
    return units.seconds(found.seconds) if found and not found.why else "not measured"


def _describe_source(sweep: Sweep) -> str:
    """Return where the times of the page are from."""
    known = [each for each in sweep.variants if each.is_measured and each.measured]
    if not known:
        return "Times are estimates of a step."
    devices = dict.fromkeys(each.measured.device for each in known if each.measured)
    rest = sum(not each.error for each in sweep.variants) - len(known)
    others = ", and the others, marked ≈, estimated" if rest else ""
    return f"Times are measured on {', '.join(devices)}{others}."


def _write_ratio(variant: Swept) -> str:
    found = variant.measured or Measured()
    return units.ratio(variant.ratio, found.ratio_low, found.ratio_high)


# --- what tells variants apart ---------------------------------------------------------------


def _find_common(variants: Sequence[Swept]) -> dict[str, Scalar]:
    """Return the parameters that all variants have with one value: they tell nothing apart."""
    first = variants[0].params if variants else {}
    return {
        name: value
        for name, value in first.items()
        if all(name in each.params and each.params[name] == value for each in variants)
    }


def _leave_out(common: Mapping[str, Scalar], variant: Swept) -> Swept:
    own = {name: value for name, value in variant.params.items() if name not in common}
    return replace(variant, params=own)


def _describe_workload(variant: Swept) -> str:
    return " ".join(
        filter(None, (variant.scenario, *units.settings(variant.params), variant.target))
    )


def _describe_way(variant: Swept) -> str:
    return " ".join(filter(None, (*units.settings(variant.options), variant.python))) or "default"


def _describe(variant: Swept) -> str:
    way = _describe_way(variant)
    return _describe_workload(variant) + ("" if way == "default" else f" {way}")


def _list_numeric(variants: Sequence[Swept]) -> list[str]:
    """Return the parameters that have several values, all of them positive numbers."""
    values: dict[str, set[Scalar]] = {}
    for each in variants:
        for name, value in each.params.items():
            values.setdefault(name, set()).add(_read_number(value))
    return [name for name, found in values.items() if len(found) > 1 and None not in found]


def _read_number(value: Scalar) -> float | None:
    """Return a typed value as a positive number; None where it is none."""
    try:
        number = float(value) if not isinstance(value, bool) and value is not None else 0.0
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


# --- heat map --------------------------------------------------------------------------------


def _draw_heat(variants: Sequence[Swept]) -> _HeatMap | None:
    """Return ways to compile across workloads; where there is one way only, the values of the
    parameter that has most of them across all else. None where nothing is to be compared."""
    ways = len({_describe_way(each) for each in variants})
    along, row_of, column_of = _choose_axes(variants, ways)
    rows: dict[str, dict[str, Swept]] = {}
    columns: dict[str, None] = {}
    for each in variants:
        rows.setdefault(row_of(each), {})[column_of(each)] = each
        columns.setdefault(column_of(each))
    if len(columns) < 2:
        return None
    shown = list(columns)[:MOST_COLUMNS]
    return _HeatMap(
        along,
        tuple(shown),
        tuple((name, tuple(_color(row, shown, ways > 1))) for name, row in rows.items()),
        len(columns) - len(shown),
    )


def _choose_axes(
    variants: Sequence[Swept], ways: int
) -> tuple[str, Callable[[Swept], str], Callable[[Swept], str]]:
    if ways > 1:
        return "options and interpreter", _describe_workload, _describe_way
    names = dict.fromkeys(name for each in variants for name in each.params)
    most = max(
        names, key=lambda name: len({each.params.get(name) for each in variants}), default=""
    )
    if not most:
        return "target", lambda each: each.scenario, lambda each: each.target

    def describe_rest(each: Swept) -> str:
        rest = {name: value for name, value in each.params.items() if name != most}
        return " ".join(filter(None, (each.scenario, *units.settings(rest), each.target)))

    return most, describe_rest, lambda each: units.setting(each.params.get(most, ""))


def _color(row: Mapping[str, Swept], columns: Sequence[str], alike: bool) -> Iterator[_Cell]:
    """Yield the cells of a row: each time, and its ratio to the first one that is known; where all
    compute something ``alike``, the variant's own. An estimate beside measured times has none."""
    measured = any(each.is_measured for each in row.values())
    judged = [row[name] for name in columns if name in row and row[name].is_measured == measured]
    first = next((each.time for each in judged if each.time), None)
    for name in columns:
        variant = row.get(name)
        if variant is None or variant.error:
            yield _Cell("failed" if variant else "", look="failed" if variant else "")
        elif variant.time is None or first is None:
            yield _Cell(units.NOT_KNOWN)
        elif variant.is_measured != measured:
            yield _Cell(f"≈ {units.seconds(variant.time)}")
        else:
            ratio = variant.ratio if alike and variant.ratio else variant.time / first
            look = f"heat-{sum(ratio >= limit for limit in _HEAT)}"
            yield _Cell(units.seconds(variant.time), f"{ratio:.2f}", look)


# --- curves ----------------------------------------------------------------------------------


def _draw_curves(variants: Sequence[Swept]) -> Iterator[_Drawing]:
    """Yield the time over each numeric parameter, a line for each combination of all else. What was
    not measured beside others that were has a line of its own."""
    any_measured = any(each.is_measured for each in variants)
    for name in _list_numeric(variants):
        lines: dict[Hashable, list[tuple[float, float, Swept]]] = {}
        for each in variants:
            x = _read_number(each.params.get(name))
            if x is not None and each.time:
                rest = _name_rest(each, name)
                if not each.is_measured and any_measured:
                    rest += " (estimated)"
                lines.setdefault(rest, []).append((x, each.time, each))
        drawn = {key: sorted(line, key=lambda p: p[0]) for key, line in lines.items()}
        drawn = _merge_equal({key: line for key, line in drawn.items() if len(line) > 1})
        if drawn:
            shown = dict(list(drawn.items())[:MOST_CURVES])
            yield _draw(
                f"Time over {name}", name, "time", shown, len(drawn) - len(shown), units.seconds
            )


def _merge_equal(
    lines: Mapping[Hashable, list[tuple[float, float, Swept]]],
) -> dict[Hashable, list[tuple[float, float, Swept]]]:
    """Return each line once, with the names of those that would hide each other."""
    names: dict[Hashable, list[str]] = {}
    for name, line in lines.items():
        names.setdefault(_look(line), []).append(str(name))
    return {
        same[0] if len(same) == 1 else f"{_join(same, ', ')} (equal)": lines[same[0]]
        for same in names.values()
    }


def _look(line: Sequence[tuple[float, float, Swept]]) -> Hashable:
    """Return what can be told apart of a line in a drawing."""
    return tuple((x, f"{y:.3g}") for x, y, _ in line)


def _name_rest(variant: Swept, name: str) -> str:
    rest = {other: value for other, value in variant.params.items() if other != name}
    parts = (variant.scenario, *units.settings(rest), variant.target, _describe_way(variant))
    return " ".join(filter(None, parts)).removesuffix(" default")


def _draw_front(variants: Sequence[Swept]) -> _Drawing | None:
    """Return time against memory of what computes the same, both relative to its first variant."""
    groups: dict[Hashable, list[Swept]] = {}
    for each in variants:
        if each.pareto is not None:
            groups.setdefault(each.workload, []).append(each)
    lines: dict[Hashable, list[tuple[float, float, Swept]]] = {}
    for group in groups.values():
        if memory := group[0].memory_bytes:
            lines[_describe_workload(group[0])] = [
                (float(f"{(each.memory_bytes or 0.0) / memory:.3g}"), each.ratio or 0.0, each)
                for each in group
            ]
    told = _tell_together(lines.values())
    lines = _merge_equal(lines)
    shown = dict(list(lines.items())[:MOST_CURVES])
    if not shown:
        return None
    title = "Time against memory, relative to the first variant of each workload"
    along, up = (f"{what}, relative to the first variant" for what in ("memory", "time"))
    more = len(lines) - len(shown)
    return _draw(title, along, up, shown, more, lambda value: f"{value:g}", False, told)


def _tell_together(lines: Iterable[Sequence[tuple[float, float, Swept]]]) -> dict[Hashable, str]:
    """Return what is said of each place: of the points there together, as they hide each other."""
    told: dict[Hashable, list[str]] = {}
    for line in lines:
        for point in line:
            told.setdefault(_look([point]), []).append(_write_point(point[2]))
    return {place: _join(texts, "; ") for place, texts in told.items()}


def _join(texts: Sequence[str], between: str) -> str:
    left = len(texts) - _MOST_NAMES
    more = f" and {units.count(left)} more" if left > 0 else ""
    return between.join(texts[:_MOST_NAMES]) + more


def _write_point(variant: Swept) -> str:
    return f"{_describe(variant)}: {_write_numbers(variant)}"


def _draw(
    title: str,
    along: str,
    up: str,
    lines: Mapping[Hashable, Sequence[tuple[float, float, Swept]]],
    more: int,
    write: Callable[[float], str],
    joined: bool = True,
    told: Mapping[Hashable, str] | None = None,
) -> _Drawing:
    def tell(point: tuple[float, float, Swept]) -> str:
        return (told or {}).get(_look([point])) or _write_point(point[2])

    xs = _make_scale([x for line in lines.values() for x, _, _ in line], LEFT, RIGHT)
    ys = _make_scale([y for line in lines.values() for _, y, _ in line], BOTTOM, TOP)
    curves = []
    for number, (name, line) in enumerate(lines.items()):
        points = tuple(
            _Point(xs(point[0]), ys(point[1]), tell(point), bool(point[2].pareto)) for point in line
        )
        path = " ".join(f"{'L' if n else 'M'}{p.x} {p.y}" for n, p in enumerate(points))
        curves.append(_Curve(str(name), f"line-{number}", path if joined else "", points))
    values = sorted({x for line in lines.values() for x, _, _ in line})
    own = tuple(Tick(xs(x), f"{x:g}") for x in values) if joined else ()
    return _Drawing(
        WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM,
        own if 0 < len(own) <= MOST_CURVES else _mark(xs, lambda value: f"{value:g}"),
        _mark(ys, write),
        title, along, up, tuple(curves), more,
    )  # fmt: skip


def _mark(scale: Scale, write: Callable[[float], str]) -> tuple[Tick, ...]:
    """Return the lines across: of less than three decades also those at 2 and 5."""
    if not scale.log or scale.high / scale.low > 1000:
        return scale.ticks(write)
    lowest = math.floor(math.log10(scale.low))
    values = [m * 10.0**power for power in range(lowest, lowest + 5) for m in (1, 2, 5)]
    return tuple(Tick(scale(v), write(v)) for v in values if scale.low <= v <= scale.high)


def _write_numbers(variant: Swept) -> str:
    about = "measured " if variant.is_measured else ""
    return f"{about}{units.seconds(variant.time)}, {units.size(variant.memory_bytes)}"


def _make_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """Return a scale with some room at both ends, logarithmic over more than a decade."""
    low, high = min(values), max(values)
    if low > 0 and high / low > 10:
        return Scale(low / 1.3, high * 1.3, start, end, log=True)
    room = (high - low) * 0.08 or abs(high) * 0.08 or 1.0
    return Scale(low - room, high + room, start, end)


DOCUMENT = Document("sweep", ".html", _render)
