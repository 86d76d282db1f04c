"""Declares the table of a sweep: columns that every sweep has, and one for each of its axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from perfcli import units
from perfcli.frames.table import Column, Kind, Table
from perfcli.model import Scalar, Sweep, Swept


def _read_measured(name: str) -> Callable[[Swept], object]:
    return lambda each: (getattr(each.measured, name) or None) if each.measured else None


def _read_metric(name: str) -> Callable[[Swept], object]:
    return lambda each: each.metrics.get(name)


SWEEP: Table[Swept] = Table(
    "sweep",
    "a variant. Before these columns stand those of the sweep's own axes, `param.NAME` and "
    "`option.NAME`: Int64 if all values are whole numbers, Float64 if they are numbers, else "
    "string",
    "`sweep`",
    (
        Column("scenario", "text", "its scenario, as it was typed", lambda each: each.scenario),
        Column("target", "text", "the GPU that it is compiled for", lambda each: each.target),
        Column("torch", "text", "the version of torch", lambda each: each.torch),
        Column("python", "text", "the interpreter that was asked for", lambda each: each.python),
        Column("run", "text", "the id of its run", lambda each: each.run or None),
        Column("error", "text", "why it failed", lambda each: each.error or None),
        Column("seconds", "number", "estimated time of a step", lambda each: each.seconds, "s"),
        Column("seconds_low", "number", "lower end of its interval", lambda each: each.low, "s"),
        Column("seconds_high", "number", "upper end of its interval", lambda each: each.high, "s"),
        Column(
            *("measured_seconds", "number", "measured time of a step: the median of its session"),
            *(_read_measured("seconds"), "s"),
        ),
        Column(
            *("measured_seconds_low", "number", "lower end of the median's 95 % interval"),
            *(_read_measured("low"), "s"),
        ),
        Column(
            *("measured_seconds_high", "number", "upper end of it"), *(_read_measured("high"), "s")
        ),
        Column(
            *("measured_clock", "text", "whose time it is: `device` or `step`"),
            lambda each: each.measured.clock if each.measured and each.is_measured else None,
        ),
        Column(
            "measured_on", "text", "the device that it was measured on", _read_measured("device")
        ),
        Column(
            *("measured_peak_memory_bytes", "count", "measured peak memory of a step"),
            *(_read_measured("memory_bytes"), "B"),
        ),
        Column(
            *("measurement", "text", "the id of the measurement, in `.perfcli/timings`"),
            _read_measured("measurement"),
        ),
        Column("not_measured", "text", "why measuring failed", _read_measured("why")),
        Column(
            "ratio",
            "number",
            "its time over that of the first variant of the same workload: over its measured time "
            "in the same session where the workload is measured, else of the estimates",
            *(lambda each: each.ratio, "ratio"),
        ),
        Column(
            *("ratio_low", "number", "lower end of a measured ratio's 95 % interval"),
            *(_read_measured("ratio_low"), "ratio"),
        ),
        Column(
            *("ratio_high", "number", "upper end of it"), *(_read_measured("ratio_high"), "ratio")
        ),
        Column(
            *("pareto", "flag", "whether no other of its workload beats it in time and memory"),
            lambda each: each.pareto,
        ),
        Column(
            *("peak_memory_bytes", "count", "Inductor's estimate of the peak memory"),
            *(_read_metric("peak_memory_bytes"), "B"),
        ),
        Column(
            *("lower_bound_seconds", "number", "least time that the device's bandwidths allow"),
            *(lambda each: each.bound_seconds, "s"),
        ),
        Column("kernels", "count", "generated kernels", _read_metric("kernels")),
        Column("launches", "count", "launches of a step", _read_metric("launches")),
        Column("bytes_moved", "count", "bytes of a step", _read_metric("bytes_moved"), "B"),
        Column(
            *("spilled_words", "count", "sum over its kernels", _read_metric("spilled_words")),
            "32-bit words per thread",
        ),
        Column("extern_calls", "count", "calls of libraries", _read_metric("extern_calls")),
        Column("graph_breaks", "count", "graph breaks", _read_metric("graph_breaks")),
        Column(
            *("compile_seconds", "number", "wall time of the compilation, longer beside others"),
            *(lambda each: each.compile_seconds, "s"),
        ),
        Column(
            *("compile_cpu_seconds", "number", "its processor time: the `compile time` of compare"),
            *(lambda each: each.compile_cpu_seconds, "s"),
        ),
    ),
)


def make_table(sweep: Sweep) -> Table[Swept]:
    """Return the table with the columns of a sweep's own axes."""
    own = (*_list_axes(sweep, "params", "param"), *_list_axes(sweep, "options", "option"))
    return Table(SWEEP.name, SWEEP.row, SWEEP.source, (*own, *SWEEP.columns))


def _list_axes(sweep: Sweep, field: str, word: str) -> Iterator[Column[Swept]]:
    for name in dict.fromkeys(name for each in sweep.variants for name in getattr(each, field)):
        kind = _find_kind(getattr(each, field).get(name) for each in sweep.variants)
        what = {"param": "parameter", "option": "option"}[word]
        yield Column(f"{word}.{name}", kind, f"the {what}", _reader(field, name, kind))


def _find_kind(values: Iterable[Scalar]) -> Kind:
    numbers = [_read_number(value) for value in values if value is not None]
    if None in numbers:
        return "text"
    whole = all(isinstance(number, int) and abs(number) < _MOST_WHOLE for number in numbers)
    return "count" if whole else "number"


_MOST_WHOLE = 1 << 63


def _read_number(value: Scalar) -> int | float | None:
    """Return a value as a number, a whole one as an ``int``, also where it was typed as a text;
    None where it is none."""
    if value is None or isinstance(value, bool):
        return None
    for kind in (int, float):
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            continue
        if kind is float or number == value or isinstance(value, str):
            return number
    return None


def _reader(field: str, name: str, kind: Kind) -> Callable[[Swept], object]:
    def read(each: Swept) -> object:
        value: Scalar = getattr(each, field).get(name)
        if value is None or kind in ("count", "number"):
            return _read_number(value)
        return units.setting(value)

    return read
