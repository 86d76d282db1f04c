"""Writes numbers for people: the one place that formats them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

NOT_KNOWN = "–"


def count(value: float | None) -> str:
    """Return ``1,234``; counts that are not whole keep one decimal."""
    if value is None:
        return NOT_KNOWN
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def exact_bytes(value: float | None) -> str:
    """Return ``112,928 B``, for sizes that people compare with a limit."""
    return NOT_KNOWN if value is None else f"{count(value)} B"


def size(value: float | None) -> str:
    """Return bytes in decimal units, as bandwidths are given: ``999 B``, ``1.53 GB``."""
    return _scaled(value, ("B", "kB", "MB", "GB", "TB", "PB", "EB"), 1000.0)


def binary_size(value: float | None) -> str:
    """Return bytes in powers of two, for who typed them so: ``64 GiB``."""
    return _scaled(value, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"), 1024.0)


def seconds(value: float | None) -> str:
    """Return ``61.2 ns``, ``4.21 ms``, ``12.5 s`` or ``3 min 5 s``."""
    if value is None:
        return NOT_KNOWN
    if abs(value) >= 119.5:
        whole = round(abs(value))
        return f"{'-' if value < 0 else ''}{whole // 60} min {whole % 60} s"
    if abs(value) >= 0.9995 or value == 0:
        return f"{value:.3g} s"
    return _scaled(value * 1e9, ("ns", "µs", "ms", "s"), 1000.0)


_UNITS_OF_TIME = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))


def alike(base: float | None, head: float | None) -> tuple[str, str]:
    """Return two times in one unit, so that they can be compared: ``12.31 ms``, ``12.70 ms``. Four
    digits of the larger: a change of 0.1 % shows."""
    known = [abs(value) for value in (base, head) if value is not None]
    most = max(known, default=0.0)
    size, unit = next((u for u in _UNITS_OF_TIME if most < u[0] * 999.95), _UNITS_OF_TIME[-1])
    decimals = next((d for d, most_of in ((3, 9.9995), (2, 99.995)) if most / size < most_of), 1)

    def written(value: float | None) -> str:
        if value is None:
            return NOT_KNOWN
        return "0 s" if most == 0 else f"{value / size:,.{decimals}f} {unit}"

    return written(base), written(head)


def from_to(base: float | None, head: float | None) -> str:
    """Return ``12.31 → 12.70 ms``; ``– → 3.100 µs`` where there was nothing."""
    ours, theirs = alike(base, head)
    number, _, unit = ours.partition(" ")
    return f"{number if theirs.endswith(f' {unit}') else ours} → {theirs}"


def flops(value: float | None) -> str:
    """Write ``137 GFLOP``."""
    return _scaled(value, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"), 1000)


def rate(bytes_per_second: float | None) -> str:
    """Return ``2.41 TB/s``."""
    return NOT_KNOWN if bytes_per_second is None else f"{size(bytes_per_second)}/s"


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Return ``1.052 [1.047, 1.058]``, or the ratio alone without an interval."""
    if value is None:
        return NOT_KNOWN
    known = low is not None and high is not None
    return f"{value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if known else "")


def interval(
    ratio: float | None, low: float | None = None, high: float | None = None, *, least: int = 0
) -> str:
    """Return a ratio as a change with its interval, ``+3.1 % [+2.6, +3.7]`` of 1.031; with as many
    decimals as the interval's width deserves, and no fewer than ``least``."""
    if ratio is None:
        return NOT_KNOWN
    if low is None or high is None:
        return f"{_change(ratio, 1)} %"
    half = (high - low) / 2
    decimals = 0 if half >= 0.0995 or (half >= 0.005 and ratio > 1.995) else 1
    decimals = max(2 if half < 0.000995 else decimals, least)
    edges = ", ".join(_change(edge, decimals) for edge in (low, high))
    return f"{_change(ratio, decimals)} % [{edges}]"


def _change(ratio: float, decimals: int) -> str:
    text = f"{abs(ratio - 1) * 100:,.{decimals}f}"
    if not text.strip("0.,"):
        return text
    return ("+" if ratio > 1 else "−") + text


def percent(fraction: float | None) -> str:
    """Return ``12.5 %`` of 0.125."""
    if fraction is None:
        return NOT_KNOWN
    value = fraction * 100
    if 0 < abs(value) < 0.01:
        return "<0.01 %"
    return f"{value:,.0f} %" if abs(value) >= 999.5 else f"{value:.3g} %"


def signed(write: Callable[[float | None], str], value: float | None) -> str:
    """Return a difference with its sign, written by one of the functions here: ``+92``, ``−1.5
    MB``."""
    if value is None:
        return NOT_KNOWN
    if value == 0:
        return "0"
    return ("+" if value > 0 else "−") + write(abs(value))


def relative(base: float | None, head: float | None) -> str:
    """Return the change in percent of the base, ``+9.4 %``; empty where nothing changed or base is
    0."""
    if base is None or head is None or base in (0, head):
        return ""
    return signed(percent, (head - base) / abs(base))


def plural(number: float, noun: str, many: str = "") -> str:
    """Return ``1 kernel``, ``2 kernels``, ``3 batches``."""
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"


def number_range(whole: bool, least: float | None = None, most: float | None = None) -> str:
    """Return what a number may be: ``a whole number of 1 or more``, ``a number from 0.01 to
    1000``."""
    noun = "a whole number" if whole else "a number"
    if least is not None and most is not None:
        return f"{noun} from {least:g} to {most:g}"
    if least is not None:
        return f"{noun} of {least:g} or more"
    return noun if most is None else f"{noun} of {most:g} or less"


def _scaled(value: float | None, units: tuple[str, ...], step: float) -> str:
    if value is None:
        return NOT_KNOWN
    scaled, unit = float(value), units[0]
    for unit in units:
        # 999.5 would be written as 1e+03.
        if abs(scaled) < 999.5 or unit == units[-1]:
            break
        scaled /= step
    if unit == units[0]:
        return f"{scaled:,.0f} {unit}" if float(scaled).is_integer() else f"{scaled:.3g} {unit}"
    return f"{scaled:.3g} {unit}" if abs(scaled) < 1000 else f"{scaled:,.0f} {unit}"


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
    "load_bits": ("bits per load", count),
    "store_bits": ("bits per store", count),
    "bytes_moved": ("bytes moved", size),
    "bytes_swept": ("bytes swept", size),
    "lower_bound_seconds": ("lower-bound time", seconds),
    "peak_memory_bytes": ("peak memory", size),
    "extern_calls": ("extern calls", count),
    "graphs": ("graphs", count),
    "graph_breaks": ("graph breaks", count),
    "step_time": ("step time", seconds),
    "estimated_seconds": ("estimated time", seconds),
    "idle_seconds": ("idle time", seconds),
    "traced_seconds": ("traced time", seconds),
    "peak_allocated_bytes": ("peak allocated", size),
    "peak_reserved_bytes": ("peak reserved", size),
    "compile_seconds": ("compiled in", seconds),
    "compile_cpu_seconds": ("compile time", seconds),
}


def title(metric: str) -> str:
    """Return what people call a metric."""
    return _METRICS[metric][0] if metric in _METRICS else metric.replace("_", " ")


def writer(metric: str) -> Callable[[float | None], str]:
    """Return the function that writes this metric's values."""
    return _METRICS[metric][1] if metric in _METRICS else count


# --- options ---------------------------------------------------------------------------------


def setting(value: object) -> str:
    """Return an option's value as it is typed behind ``OPT=``: ``false``, ``10``, a text as it
    is."""
    import json  # 2 ms, which perfcli --help need not wait for

    return value if isinstance(value, str) else json.dumps(value)


def settings(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return each option or parameter as it is typed: ``split_reductions=false``."""
    return tuple(f"{name}={setting(value)}" for name, value in values.items())


def parameter(value: object) -> str:
    """Return a parameter's value as it is typed behind ``NAME=``: ``true``, ``10``, ``None``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_MODULES = {"dynamo.": "torch._dynamo.config.", "functorch.": "torch._functorch.config."}
"""The modules of options that ``torch.compile(options=…)`` does not take, by prefix."""


def write_python(options: Mapping[str, object], patched: Collection[str] = ()) -> tuple[str, ...]:
    """Return the lines that apply options in a program. ``patched`` are those that perfcli patches
    into torch; names in capitals are environment variables, which the program starts with."""
    return tuple(_python_lines(options, patched))


def _python_lines(options: Mapping[str, object], patched: Collection[str]) -> Iterator[str]:
    elsewhere = (*_MODULES, *patched)
    own = {n: v for n, v in options.items() if not n.isupper() and not n.startswith(elsewhere)}
    if own:
        pairs = ", ".join(f'"{name}": {value!r}' for name, value in own.items())
        yield f"torch.compile(model, options={{{pairs}}})"
    for name, value in options.items():
        if name.isupper():
            yield f"os.environ[{name!r}] = {value!r}  # before torch is imported"
        for prefix, module in _MODULES.items():
            if name.startswith(prefix):
                yield f"{module}{name.removeprefix(prefix)} = {value!r}"
        if name in patched:
            yield (
                "from perfcli.compile.patches.installed import install; "
                f"install({name!r}, {value!r})"
            )


# --- foreign text ----------------------------------------------------------------------------


def shorten(name: str, room: int) -> str:
    """Return the name without its middle: the number at its end tells kernels apart."""
    if len(name) <= room:
        return name
    keep = (room - 1) // 2
    return f"{name[:keep]}…{name[-(room - 1 - keep) :]}"


def printable(text: str) -> str:
    """Return the text with control characters (terminal escapes, carriage returns) and invisible
    ones as ``�``: names and sources come from users' models."""
    if text.isprintable():  # nearly all are, and a page of thousands of kernels asks often
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
