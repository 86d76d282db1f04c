"""Shows a sweep on the screen: what became of all of it, then a line for each variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perfcli import units
from perfcli.model import Measured, Scalar, Sweep, Swept

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

MOST_ERRORS = 5
Cell = tuple[str, Callable[[Swept], str]]


def show_sweep(sweep: Sweep, most: int, quiet: bool = False) -> Group:
    """Return the summary, and a table of the first ``most`` variants (0: all)."""
    from rich.console import Group
    from rich.text import Text

    head = Text(units.printable(summarize(sweep)), style="bold")
    if quiet:
        return Group(head)
    lines = _tabulate(sweep, most)
    body = Text("\n".join(lines), no_wrap=True, overflow="ignore")
    return Group(head, Text(), body, *_show_errors(sweep))


def summarize(sweep: Sweep) -> str:
    """Return ``200 variants: 98 compiled, 100 stored before, 2 failed; 198 measured``."""
    made = [each for each in sweep.variants if not each.error]
    reused = sum(each.reused for each in made)
    parts = [f"{len(made) - reused} compiled"]
    parts += [f"{reused} stored before"] if reused else []
    parts += [f"{len(sweep.failed)} failed"] if sweep.failed else []
    text = f"{units.plural(len(sweep.variants), 'variant')}: {', '.join(parts)}"
    known = [each.measured for each in made if each.measured and each.is_measured]
    if not known and not sweep.unmeasured:
        return text
    before = sum(each.reused for each in known)
    said = [f"{len(known)} measured" + (f" ({before} before)" if before else "")]
    said += [f"{len(sweep.unmeasured)} not"] if sweep.unmeasured else []
    return f"{text}; {', '.join(said)}"


def _show_errors(sweep: Sweep) -> list[Text]:
    from rich.text import Text

    errors: dict[str, list[Swept]] = {}
    for each in sweep.failed:
        errors.setdefault(each.error, []).append(each)
    for each in sweep.unmeasured:
        why = each.measured.why if each.measured else ""
        errors.setdefault(f"not measured: {why}", []).append(each)
    lines = [Text()] if errors else []
    axes = _list_axes(sweep.variants)
    for error, failed in list(errors.items())[:MOST_ERRORS]:
        named = " ".join(f"{title}={read(failed[0])}" for title, read in axes if read(failed[0]))
        several = f"{len(failed)} variants, the first " if len(failed) > 1 else ""
        lines.append(Text(units.printable(f"{several}{named}: {error}"), "red"))
    if len(errors) > MOST_ERRORS:
        lines.append(Text(f"and {len(errors) - MOST_ERRORS} other errors (--json has them all)"))
    return lines


def _tabulate(sweep: Sweep, most: int) -> list[str]:
    """Return the lines of a table: the axes that vary, then the numbers that are known."""
    cells = [*_list_axes(sweep.variants), *_list_numbers(sweep.variants)]
    shown = sweep.variants[:most] if most else sweep.variants
    rows = [[units.printable(read(each)) for _, read in cells] for each in shown]
    table = [[units.printable(title) for title, _ in cells], *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(cells))]
    left = len(_list_axes(sweep.variants))
    lines = []
    for row in table:
        pairs = zip(row, widths, strict=True)
        cols = [c.ljust(w) if n < left else c.rjust(w) for n, (c, w) in enumerate(pairs)]
        lines.append("  ".join(cols).rstrip())
    if len(shown) < len(sweep.variants):
        lines.append(f"… {len(sweep.variants) - len(shown)} more (--top 0 shows all)")
    return lines


def _list_axes(variants: Sequence[Swept]) -> list[Cell]:
    """Return a column for each axis that differs; the scenario where none does."""
    params = dict.fromkeys(name for each in variants for name in each.params)
    options = dict.fromkeys(name for each in variants for name in each.options)
    cells: list[Cell] = [("scenario", lambda each: each.scenario)]
    cells += [(name, _reader("params", name)) for name in params]
    cells += [(name, _reader("options", name)) for name in options]
    cells += [("target", lambda each: each.target), ("torch", lambda each: each.torch)]
    cells += [("python", lambda each: each.python)]
    return [cell for cell in cells if _differs(cell, variants)] or cells[:1]


def _differs(cell: Cell, variants: Sequence[Swept]) -> bool:
    """Return whether variants lie apart on an axis. Of what failed early neither target nor torch
    is known: that is no difference."""
    title, read = cell
    known = {read(each) for each in variants}
    return len(known - {""} if title in ("target", "torch") else known) > 1


def _reader(kind: str, name: str) -> Callable[[Swept], str]:
    def read(each: Swept) -> str:
        values: dict[str, Scalar] = getattr(each, kind)
        return units.setting(values[name]) if name in values else ""

    return read


def _list_numbers(variants: Sequence[Swept]) -> list[Cell]:
    cells: list[Cell] = [
        ("measured", _write_measured),
        ("time", lambda each: "failed" if each.error else units.seconds(each.seconds)),
        ("at least", lambda each: units.seconds(each.bound_seconds)),
        ("ratio", _write_ratio),
        ("memory", lambda each: units.size(each.memory_bytes)),
        ("kernels", lambda each: units.count(each.metrics.get("kernels"))),
        ("moved", lambda each: units.size(each.metrics.get("bytes_moved"))),
        ("spilled", lambda each: units.count(each.metrics.get("spilled_words"))),
        ("front", lambda each: "*" if each.pareto else ""),
    ]
    if all(each.error or each.seconds is not None for each in variants):
        del cells[2]  # a bound says something only where there is no estimate
    if any(each.measured for each in variants):
        cells[1] = "estimate", cells[1][1]
        first = cells.pop(0)
    else:
        del cells[0]
        first = cells.pop(0)
    return [first, *(cell for cell in cells if any(_is_known(cell[1](each)) for each in variants))]


def _write_measured(variant: Swept) -> str:
    found = variant.measured
    if variant.error or found is None:
        return "failed"
    return "not measured" if found.why else units.seconds(found.seconds)


def _write_ratio(variant: Swept) -> str:
    found = variant.measured or Measured()
    return units.ratio(variant.ratio, found.ratio_low, found.ratio_high)


def _is_known(text: str) -> bool:
    return text not in ("", units.NOT_KNOWN)
