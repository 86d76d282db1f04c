"""Limits as they are written, ``"+1 %"``, ``40``, ``{ most = "8 GB" }``, and those that hold
where nobody wrote any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from perfcli.diff.metrics import KERNEL_METRICS, Metric, fold
from perfcli.diff.verdict.decide import is_estimated
from perfcli.errors import PerfcliError
from perfcli.gate.tables import SettingsTable, _amount, _shown
from perfcli.model import OUTCOME_OF, Change, Comparison, KernelFacts, KernelGroup, Limit
from perfcli.names import suggestion

TIME = "time"
"""Of a measured step; as growth alone."""
STEP_TIME = "step_time"
"""Of an estimated step, where nothing is measured; as growth alone."""


def _widest(field: str) -> Metric:
    def bits(kernel: KernelFacts) -> float | None:
        counts = [getattr(candidate, field) for candidate in kernel.candidates]
        known = [_bits(each) for each in counts if each]
        return max(known, default=None)

    return Metric(f"{field.removeprefix('global_').removesuffix('s')}_bits", bits, "min", "higher")


def _bits(counts: Mapping[str, int]) -> float:
    return sum(int(bits) * n for bits, n in counts.items()) / sum(counts.values())


OWN = (_widest("global_loads"), _widest("global_stores"))
"""Bits that one instruction of a thread loads (stores) from global memory on average, in the
launch configuration with the widest."""

OF_KERNELS = {metric.name: metric for metric in (*KERNEL_METRICS, *OWN)}
WHOLE = ("peak_memory_bytes", "extern_calls", "graphs", "graph_breaks")
TOTALS = (*(m.name for m in KERNEL_METRICS if m.name != "occupancy"), *WHOLE, TIME, STEP_TIME)
PER_KERNEL = tuple(name for name in OF_KERNELS if name not in ("kernels",))


def _check_metric(name: str, known: Sequence[str], where: str) -> None:
    """Raise PerfcliError for a metric that is none, with the nearest."""
    if name in known:
        return
    if name in PER_KERNEL:
        raise PerfcliError(f'{where}: {name} is one kernel\'s: put it under kernels."PATTERN"')
    if name in TOTALS:
        raise PerfcliError(f"{where}: {name} is the whole run's: put it under limits")
    raise PerfcliError(f"{where}: there is no metric {name!r}: {suggestion(name, known)}")


def _higher_is_better(metric: str) -> bool:
    return metric in OF_KERNELS and OF_KERNELS[metric].better == "higher"


def _is_worse(metric: str, value: float, than: float) -> bool:
    return value < than if _higher_is_better(metric) else value > than


def _total(comparison: Comparison, metric: str) -> Change | None:
    """Return the whole run's number on both sides; None where neither knows it."""
    if metric == TIME:
        return _time(comparison)
    if metric == STEP_TIME:
        return _estimated_time(comparison)
    return next((c for c in comparison.totals if c.metric == metric), None)


def _time(comparison: Comparison) -> Change | None:
    timing = comparison.timing
    if timing is None:
        return None
    time = timing.deciding
    return Change(TIME, time.base, time.head, OUTCOME_OF[time.verdict])


def _estimated_time(comparison: Comparison) -> Change | None:
    estimate = comparison.estimate
    if estimate is None or not is_estimated(comparison):
        return None
    known = estimate.ratio is not None
    base, head = (side.seconds if known else None for side in (estimate.base, estimate.head))
    return Change(STEP_TIME, base, head, OUTCOME_OF[estimate.verdict])


def of_group(comparison: Comparison, group: KernelGroup, metric: str) -> Change | None:
    """Return a group's number on both sides; None where neither knows it."""
    found = next((c for c in group.changes if c.metric == metric), None)
    if found is not None or metric not in {own.name for own in OWN}:
        return found
    base, head = (
        fold(OF_KERNELS[metric], kernels).value
        for kernels in group.match.select(comparison.base, comparison.head)
    )
    if base is None and head is None:
        return None
    return Change(metric, base, head, "unknown" if base is None or head is None else "same")


ANY = "any"
"""No limit: takes one of the usual ones, or of the general ones, away."""

SPILLS = Limit("spilled_words", growth=0)
"""A few more words are no loss for sure where fewer bytes are moved."""

_STRICT = (
    SPILLS,
    Limit("bytes_moved", growth_share=0.005),
    Limit("bytes_swept", growth_share=0.005),
    Limit("peak_memory_bytes", growth_share=0.01),
    Limit("vector_loads", growth=0),
    Limit("extern_calls", growth=0),
    Limit("graph_breaks", growth=0),
    Limit(TIME, growth_share=0.0),
    Limit(STEP_TIME, growth_share=0.03),
)
"""Bytes and memory are Inductor's estimates, which move a little with the schedule."""

SIGNS = (
    Limit("kernels", growth=0),
    Limit("launches", growth=0),
    Limit("loads_in_loops", growth=0),
    Limit("loads", growth=0),
    Limit("occupancy", kernel="*", growth_share=0.25),
    Limit("load_bits", kernel="*", growth_share=0.25),
)
"""These hold only where the numbers that decide a comparison did not get better: a kernel that is
split so that it spills no more is another kernel, and no loss. Loads that moved into a loop are a
row that no longer stays in registers."""

USUAL = (*_STRICT, *SIGNS)

STAND_FOR_TIME = ("spilled_words", "bytes_moved", "bytes_swept", "vector_loads")
"""Limits that nobody wrote on these, and ``SIGNS``, do not hold where the step's time is known."""

_SHARES = ("occupancy",)
"""Metrics that are a part of a whole themselves."""

_UNITS: Mapping[str, tuple[str, float]] = {
    **{unit: ("bytes", 1000.0**n) for n, unit in enumerate(("B", "kB", "MB", "GB", "TB"))},
    **{unit: ("bytes", 1024.0**n) for n, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), 1)},
    "ns": ("seconds", 1e-9),
    "us": ("seconds", 1e-6),
    "µs": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
}
_NUMBER = re.compile(r"(?P<sign>[+−-])?\s*(?P<number>\d[\d_,]*(?:\.\d+)?)\s*(?P<unit>%|[A-Za-zµ]*)")
_FORMS = '40, "+0", "+1 %", "8 GB", "any", or { most = …, growth = …, growth-share = … }'


def _read_limits(table: SettingsTable, kernel: str = "") -> dict[tuple[str, str], Limit | None]:
    """Return the limits of a table by kernel pattern and metric; None where one is taken away.
    Raises PerfcliError for unknown metrics and what is no limit."""
    found: dict[tuple[str, str], Limit | None] = {}
    for metric, value in table.values.items():
        where = table.at(metric)
        _check_metric(metric, PER_KERNEL if kernel else TOTALS, table.where)
        found[kernel, metric] = None if value == ANY else _limit(metric, kernel, value, where)
    return found


def _limit(metric: str, kernel: str, value: Any, where: str) -> Limit:
    if isinstance(value, dict):
        return _of_table(metric, kernel, SettingsTable(value, where))
    if isinstance(value, str):
        limit = _of_text(metric, kernel, value, where)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        limit = Limit(
            metric, kernel, most=SettingsTable({"most": value}, where).take("most", float, 0.0)
        )
    else:
        raise PerfcliError(f"{where} is no limit: {_shown(value)}; expected {_FORMS}")
    return _checked(limit, where)


def _of_table(metric: str, kernel: str, table: SettingsTable) -> Limit:
    def number(name: str) -> float | None:
        value = table.values.get(name)
        if isinstance(value, str):
            table.take(name, str, "")
            amount, sign, unit = _parsed(metric, value, table.at(name))
            if sign and (name == "most" or sign != _worse(metric)):
                raise PerfcliError(f"{table.at(name)} needs a plain number, not {value!r}")
            if unit == "%" and name != "growth-share":
                _check_share(metric, value, table.at(name))
            return amount
        found = table.take(name, float, float("nan"))
        return None if name not in table.values else found

    limit = Limit(
        metric,
        kernel,
        most=number("most"),
        growth=number("growth"),
        growth_share=number("growth-share"),
    )
    table.done()
    if limit.most is None and limit.growth is None and limit.growth_share is None:
        raise PerfcliError(f"{table.where} limits nothing: expected {_FORMS}")
    return _checked(limit, table.where)


def _of_text(metric: str, kernel: str, text: str, where: str) -> Limit:
    amount, sign, unit = _parsed(metric, text, where)
    if not sign and metric == STEP_TIME and unit == "%":
        return Limit(metric, kernel, growth_share=amount)
    if not sign:
        if unit == "%":
            _check_share(metric, text, where)
        return Limit(metric, kernel, most=amount)
    worse = _worse(metric)
    if sign != worse:
        raise PerfcliError(
            f"{where} is {text!r}: of {metric} {'less' if worse == '-' else 'more'} is worse, a "
            f"limit on its change begins with {worse}"
        )
    if unit == "%":
        return Limit(metric, kernel, growth_share=amount)
    return Limit(metric, kernel, growth=amount)


def _worse(metric: str) -> str:
    return "-" if _higher_is_better(metric) else "+"


def _check_share(metric: str, text: str, where: str) -> None:
    """Raise PerfcliError for a percentage of what is no share itself: 10 % of how much?"""
    if metric not in _SHARES:
        growth = f'"{_worse(metric)}{text.strip().lstrip("+-−")}"'
        raise PerfcliError(
            f"{where} is {text!r}, a part of nothing: as growth-share, or {growth} in a line, it "
            "is a part of the base"
        )


def _parsed(metric: str, text: str, where: str) -> tuple[float, str, str]:
    """Return the amount in the metric's unit, its sign, and the unit as typed."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise PerfcliError(f"{where} is no limit: {text!r}; expected {_FORMS}")
    number = float(re.sub("[_,]", "", found["number"]))
    sign = (found["sign"] or "").replace("−", "-")
    unit = found["unit"]
    if unit == "%":
        return number / 100, sign, unit
    if unit and (unit not in _UNITS or _UNITS[unit][0] != _kind(metric)):
        units = [name for name, (kind, _) in _UNITS.items() if kind == _kind(metric)]
        known = f"expected {', '.join(units)}" if units else "it has no unit"
        raise PerfcliError(f"{where} is {text!r}: {unit!r} is no unit of {metric}: {known}")
    return number * (_UNITS[unit][1] if unit else 1.0), sign, unit


def _kind(metric: str) -> str:
    if "bytes" in metric:
        return "bytes"
    timed = "seconds" in metric or metric in (TIME, STEP_TIME)
    return "seconds" if timed else "count"


def _checked(limit: Limit, where: str) -> Limit:
    absolute = limit.most is not None or limit.growth is not None
    if limit.metric in (TIME, STEP_TIME) and (absolute or limit.growth_share is None):
        raise PerfcliError(
            f'{where}: {limit.metric} is limited as a part of the base\'s, for example "+3 %": '
            "seconds depend on the machine"
        )
    for value in (limit.most, limit.growth, limit.growth_share):
        if value is not None:
            _amount(value, where)
    return limit
