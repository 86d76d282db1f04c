"""Operators that Inductor generates no code for, and how often a step calls them.

They are in none of the numbers of generated kernels, though they may take most of a step's time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from perfcli import units
from perfcli.model import Comparison, Run

from .._rows.step import list_step_changes, list_step_lines
from .tables import Hanging, start_table

MOST_OPERATORS = 10


def _list_externs(run: Run) -> list[RenderableType]:
    """Return a table of a run's extern operators, the most frequent first; nothing where it has
    none."""
    calls = run.count_externs()
    if not calls:
        return []
    seconds = _sum_seconds(run)
    table = start_table()
    table.add_column("calls", justify="right", no_wrap=True)
    if seconds:
        table.add_column("time", justify="right", no_wrap=True)
    table.add_column("extern operator", overflow="fold")
    table.add_column("graphs", overflow="fold")
    ordered = sorted(calls.items(), key=lambda each: (-seconds.get(each[0], 0.0), -each[1]))
    for operator, number in ordered[:MOST_OPERATORS]:
        graphs = dict.fromkeys(extern.graph for extern in run.externs if extern.op == operator)
        times = [units.seconds(seconds[operator])] if operator in seconds else [""]
        cells = (units.count(number), *(times if seconds else ()), operator, ", ".join(graphs))
        table.add_row(*(Text(units.printable(cell)) for cell in cells))
    parts: list[RenderableType] = [Text(""), table]
    work = [text for label, text in list_step_lines(run) if label == "operators"]
    if len(calls) > MOST_OPERATORS:
        rest = sum(n for _, n in ordered[MOST_OPERATORS:])
        more = units.plural(len(calls) - MOST_OPERATORS, "more operator")
        parts.append(Text(f"… and {more} with {units.plural(rest, 'call')}", style="dim"))
    said = "numbers of generated kernels leave these calls out"
    together = [Text(f"together {text}", style="dim") for text in work]
    return [*parts, *together, Text(said, style="dim")]


def _sum_seconds(run: Run) -> dict[str, float]:
    """Return the seconds per step of the calls of each operator, as a trace recorded them, or as
    they are estimated, where all have an estimate."""
    found: dict[str, float] = {}
    traced = [extern for extern in run.externs if extern.traced_seconds is not None]
    for extern in traced:
        found[extern.op] = found.get(extern.op, 0.0) + (extern.traced_seconds or 0.0)
    if traced:
        return found
    without = {extern.op for extern in run.externs if extern.estimate is None}
    for extern in run.externs:
        if extern.estimate is not None and extern.op not in without:
            found[extern.op] = found.get(extern.op, 0.0) + extern.count * extern.estimate.seconds
    return found


def _compare_externs(comparison: Comparison) -> list[RenderableType]:
    """Return a line with the extern operators of both sides, those that changed first; nothing
    where neither side has any."""
    base, head = comparison.base.count_externs(), comparison.head.count_externs()
    operators = list({**head, **base})
    if not operators:
        return _draw_lines(list_step_changes(comparison))
    operators.sort(key=lambda operator: (base[operator] == head[operator], -head[operator]))
    shown = [_write_calls(each, base, head) for each in operators[:MOST_OPERATORS]]
    left = len(operators) - len(shown)
    shown += [f"and {left} more"] if left else []
    text = f"extern operators, not counted above: {', '.join(shown)}"
    lines = list_step_changes(comparison)
    return [Hanging(Text(text, style="dim")), *_draw_lines(lines)]


def _draw_lines(lines: Sequence[tuple[str, str]]) -> list[RenderableType]:
    return [Hanging(Text(f"{label}: {text}", style="dim")) for label, text in lines]


def _write_calls(operator: str, base: Counter[str], head: Counter[str]) -> str:
    """Return ``aten.mm 12 → 13``."""
    if base[operator] == head[operator]:
        return f"{operator} {units.count(head[operator])}"
    return f"{operator} {units.count(base[operator])} → {units.count(head[operator])}"
