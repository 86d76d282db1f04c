"""Shows what a mode that times implementations of an operator (``max_autotune``) chose from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from perfcli import units
from perfcli.model import Implementation, Run, Selection

from .tables import start_table

_BLOCKS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
_OPERANDS = 3


def _list_selections(run: Run) -> list[RenderableType]:
    """Return a table of the run's lists of implementations, each with what was chosen; nothing
    where there are none."""
    if not run.selections:
        return []
    table = start_table()
    for title in ("operator", "operands", "chosen", "kernel"):
        table.add_column(title, overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("as good", justify="right", no_wrap=True)
    for selection in run.selections:
        for number in dict.fromkeys(use.chosen for use in selection.uses):
            uses = [use for use in selection.uses if use.chosen == number]
            chosen = selection.implementations[number]
            kernels = ", ".join(dict.fromkeys(use.kernel for use in uses if use.kernel))
            table.add_row(
                selection.operator + (f" ×{len(uses)}" if len(uses) > 1 else ""),
                _write_operands(selection),
                _describe(chosen),
                units.printable(kernels),
                _write_time(chosen, interval=True),
                f"{selection.within} of {len(selection.implementations)}",
            )
    measured = any(i.measured_seconds for s in run.selections for i in s.implementations)
    how = "as Inductor timed them" if measured else "by estimate: a device would time them"
    return [
        Text(""),
        table,
        Text(f"implementations chosen {how}; as good: within the chosen one's interval", "dim"),
    ]


def _draw_selection(selection: Selection, kernel: str) -> list[RenderableType]:
    """Return a table of all implementations that a kernel was chosen from, the fastest first."""
    chosen = {use.chosen for use in selection.uses if use.kernel == kernel}
    table = start_table()
    table.add_column("", no_wrap=True, min_width=1)
    table.add_column("implementation", no_wrap=True)
    for title in ("warps", "stages", "regs", "spilled", "shared", "blocks/SM", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    left_out = []
    order = sorted(range(len(selection.implementations)), key=lambda n: _rank(selection, n))
    for number in order:
        each = selection.implementations[number]
        if each.left_out:
            left_out.append(f"left out: {_describe(each)}, {units.printable(each.left_out)}")
            continue
        mark = "▸" if number in chosen else ""
        table.add_row(mark, _describe(each), *_write_facts(each), _write_time(each))
    said = f"Chosen from: {selection.operator} of {_write_operands(selection)}"
    best = f"{selection.within} of {len(order)} are within the expected winner's interval"
    lines = [Text(line, style="dim") for line in (best, *_tell_host(selection), *left_out)]
    return [Text(""), Text(said, style="bold"), table, *lines]


def _write_operands(selection: Selection) -> str:
    """Return ``bfloat16: 2048×1024, 1024×512``, the type of the first operand for all."""
    parts = [operand.partition(" [") for operand in selection.operands[:_OPERANDS]]
    shapes = [rest.partition("]")[0].replace(", ", "×") for _, _, rest in parts]
    return units.printable(f"{parts[0][0]}: {', '.join(shapes)}" if parts else "")


def _rank(selection: Selection, number: int) -> float:
    """Return the time that is shown, by which the table is sorted."""
    each = selection.implementations[number]
    shown = each.estimate.seconds if each.estimate else float("inf")
    return shown if each.measured_seconds is None else each.measured_seconds


def _tell_host(selection: Selection) -> Iterator[str]:
    """Yield a line where the host takes longer than one of the implementations, so that not the
    least of the shown times wins."""
    known = [each for each in selection.implementations if each.measured_seconds is None]
    if any(each.estimate and each.estimate.seconds < each.host_seconds for each in known):
        hosts = {each.kind: units.seconds(each.host_seconds) for each in known}
        listed = ", ".join(f"{kind} {least}" for kind, least in hosts.items())
        yield f"Inductor's timing sees the host where a call is short; counted at least: {listed}"


def _describe(each: Implementation) -> str:
    blocks = "×".join(str(each.config[name]) for name in _BLOCKS if name in each.config)
    return units.printable(f"{each.name} {blocks}".strip())


def _write_facts(each: Implementation) -> Sequence[str]:
    known = each.candidate
    if known is None:
        return ("",) * 6
    shared = "" if known.shared_bytes is None else units.size(known.shared_bytes)
    numbers = (known.num_warps, known.num_stages, known.registers, known.spilled_words)
    texts = ["" if number is None else str(number) for number in numbers]
    return (*texts, shared, "" if known.blocks_per_sm is None else str(known.blocks_per_sm))


def _write_time(each: Implementation, interval: bool = False) -> str:
    if each.measured_seconds is not None:
        return units.seconds(each.measured_seconds)
    found = each.estimate
    if found is None:
        return ""
    return (
        f"{units.seconds(found.seconds)} ({units.seconds(found.low)}-{units.seconds(found.high)})"
    )
