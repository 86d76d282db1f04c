"""How numbers are written for people: the one place that formats them."""

from __future__ import annotations

from collections.abc import Callable

NOT_KNOWN = "–"


def count(value: float | None) -> str:
    """``1,234``; counts that are not whole keep one decimal."""
    if value is None:
        return NOT_KNOWN
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def exact_bytes(value: float | None) -> str:
    """``112,928 B``: for sizes that people compare with a limit."""
    return NOT_KNOWN if value is None else f"{count(value)} B"


def size(value: float | None) -> str:
    """Bytes in decimal units, as bandwidths are given: ``999 B``, ``1.53 GB``."""
    return _scaled(value, ("B", "kB", "MB", "GB", "TB", "PB"), 1000.0)


def seconds(value: float | None) -> str:
    """``61.2 ns``, ``4.21 ms``, ``12.5 s``, ``3 min 5 s``."""
    if value is None:
        return NOT_KNOWN
    if abs(value) >= 119.5:
        whole = round(abs(value))
        return f"{'-' if value < 0 else ''}{whole // 60} min {whole % 60} s"
    if abs(value) >= 0.9995 or value == 0:
        return f"{value:.3g} s"
    return _scaled(value * 1e9, ("ns", "µs", "ms", "s"), 1000.0)


def percent(fraction: float | None) -> str:
    """``12.5 %`` of 0.125."""
    if fraction is None:
        return NOT_KNOWN
    value = fraction * 100
    if 0 < abs(value) < 0.01:
        return "<0.01 %"
    return f"{value:,.0f} %" if abs(value) >= 999.5 else f"{value:.3g} %"


def signed(write: Callable[[float | None], str], value: float | None) -> str:
    """A difference with its sign, written by one of the functions here: ``+92``, ``−1.5 MB``."""
    if value is None:
        return NOT_KNOWN
    if value == 0:
        return "0"
    return ("+" if value > 0 else "−") + write(abs(value))


def relative(base: float | None, head: float | None) -> str:
    """The change in percent of the base, ``+9.4 %``; empty where nothing changed or base is 0."""
    if base is None or head is None or base in (0, head):
        return ""
    return signed(percent, (head - base) / abs(base))


def plural(number: float, noun: str, many: str = "") -> str:
    """``1 kernel``, ``2 kernels``, ``3 batches``."""
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"


def _scaled(value: float | None, units: tuple[str, ...], step: float) -> str:
    if value is None:
        return NOT_KNOWN
    scaled, unit = float(value), units[0]
    for unit in units:
        # 999.5 would be written as 1e+03.
        if abs(scaled) < step - 0.5 or unit == units[-1]:
            break
        scaled /= step
    if unit == units[0]:
        return f"{scaled:,.0f} {unit}" if float(scaled).is_integer() else f"{scaled:.3g} {unit}"
    return f"{scaled:.3g} {unit}" if abs(scaled) < step else f"{scaled:,.0f} {unit}"


# --- metrics ---------------------------------------------------------------------------------

_METRICS: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "kernels": ("kernels", count),
    "launches": ("launches", count),
    "loads": ("loads", count),
    "loads_in_loops": ("loads in loops", count),
    "stores": ("stores", count),
    "vector_loads": ("vector loads", count),
    "vector_stores": ("vector stores", count),
    "spilled_words": ("spilled words", count),
    "stack_bytes": ("stack, most", exact_bytes),
    "registers": ("registers, most", count),
    "shared_bytes": ("shared, most", exact_bytes),
    "occupancy": ("occupancy", percent),
    "bytes_moved": ("bytes moved", size),
    "bytes_swept": ("bytes swept", size),
    "lower_bound_seconds": ("lower-bound time", seconds),
    "peak_memory_bytes": ("peak memory", size),
    "extern_calls": ("extern calls", count),
    "graphs": ("graphs", count),
    "graph_breaks": ("graph breaks", count),
}


def title(metric: str) -> str:
    """What people call a metric."""
    return _METRICS[metric][0] if metric in _METRICS else metric.replace("_", " ")


def writer(metric: str) -> Callable[[float | None], str]:
    """The function that writes this metric's values."""
    return _METRICS[metric][1] if metric in _METRICS else count


# --- options ---------------------------------------------------------------------------------


def setting(value: object) -> str:
    """An option's value as it is typed behind ``OPT=``: ``false``, ``10``, a text as it is."""
    import json  # 2 ms, which perfcli --help need not wait for

    return value if isinstance(value, str) else json.dumps(value)


# --- foreign text ----------------------------------------------------------------------------


def printable(text: str) -> str:
    """Names and sources come from users' models: control characters (terminal escapes, carriage
    returns) and invisible ones become ``�``."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
