"""Families of hand-written kernels on the screen: the list, one of them, what its launches are
made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.model import Candidate, KernelFamily, KernelLaunch
from perfcli.names import public
from perfcli.workbench.facts import Planned
from perfcli.workbench.problems import write_problem

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

WIDE = ("128", "256")
"""Bits of a load that moves 16 bytes or more per thread."""
COLUMNS = ("kernel", "warps", "regs", "spilled", "shared", "occupancy", "16-byte loads")


def _list_families(families: Sequence[KernelFamily]) -> RenderableType:
    """Return names and summaries, each with its operations and variants."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for family in families:
        table.add_row(public(family.name), Text(family.summary))
        table.add_row("", Text(f"computes {', '.join(family.operations)}", style="dim"))
        table.add_row("", Text(f"by {', '.join(v.name for v in family.variants)}", style="dim"))
    return table


def _detail_family(family: KernelFamily) -> RenderableType:
    """Return the operations with formulas, variants, and how much there is to check and to time."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    operations, variants = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
    for table in (operations, variants):
        table.add_column(no_wrap=True)
        table.add_column()
    for operation, formula in family.operations.items():
        operations.add_row(Text(operation), Text(formula))
    several = len(family.operations) > 1
    for variant in family.variants:
        only = set(family.operations) - set(variant.operations)
        scope = f" ({', '.join(variant.operations)})" if several and only else ""
        variants.add_row(Text(variant.name), Text(f"{variant.summary}{scope}"))
    counts = (
        f"{units.plural(len(family.cases), 'case')} to check, "
        f"{units.plural(len(family.benchmarks), 'problem')} to time"
    )
    lines: list[RenderableType] = [
        Text(public(family.name), style="bold"),
        Text(family.summary),
        Text(""),
        operations,
        Text(""),
        variants,
        Text(""),
        Text(counts),
    ]
    return Group(*lines, *([Text(f"from: {family.origin}")] if family.origin else []))


def _head_family(family: KernelFamily) -> RenderableType:
    """Return a family's name above its facts, where there are several."""
    from rich.text import Text

    return Text.assemble("\n", (public(family.name), "bold"), f"  {family.summary}")


def _show_facts(planned: Sequence[Planned]) -> RenderableType:
    """Return for each target every problem's launches, why they were chosen, and what is wrong."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for target in dict.fromkeys(each.target.name for each in planned):
        own = [each for each in planned if each.target.name == target]
        first = own[0].target
        parts += [Text(""), Text(f"{first.name}  {first.description}, {first.arch}", style="bold")]
        parts += [Text(""), _Launches(own), *_list_remarks(own)]
    return Group(*parts)


@dataclass(frozen=True)
class _Launches:
    """A line for each launch below its problem, in columns that all problems share; those that a
    narrow screen has no room for stand in a line below."""

    planned: Sequence[Planned]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        heads = {title: title for title in COLUMNS}
        rows = [
            _write_cells(launch, made)
            for each in self.planned
            for launch, made in _pair_launches(each)
        ]
        widths = {title: max(len(row[title]) for row in [heads, *rows]) for title in COLUMNS}
        kept = list(COLUMNS)
        while len(kept) > 2 and len(_align(heads, widths, kept)) > options.max_width:
            kept.pop()
        yield Text(_align(heads, widths, kept), style="dim", no_wrap=True)
        for each in self.planned:
            yield Text(_write_heading(each), style="bold")
            if each.plan is None:
                yield Text(f"  refused: {each.refusal}", style="yellow")
                continue
            for launch, made in _pair_launches(each):
                bad = made.error or made.spilled_words or made.blocks_per_sm == 0
                cells = _write_cells(launch, made)
                style = "red" if bad else ""
                yield Text(_align(cells, widths, kept), style=style, no_wrap=True)
                rest = [f"{title} {cells[title]}" for title in COLUMNS if title not in kept]
                if rest:
                    yield Text(f"    {' · '.join(rest)}", style=style)
            if each.plan.why:
                yield Text(f"  {each.plan.why}", style="dim")


def _pair_launches(planned: Planned) -> Iterator[tuple[KernelLaunch, Candidate]]:
    launches = planned.plan.launches if planned.plan else ()
    return zip(launches, planned.compiled, strict=True)


def _align(cells: Mapping[str, str], widths: Mapping[str, int], titles: Sequence[str]) -> str:
    name, *numbers = titles
    right = "  ".join(cells[title].rjust(widths[title]) for title in numbers)
    return f"  {cells[name].ljust(widths[name])}  {right}".rstrip()


def _write_heading(planned: Planned) -> str:
    variant = f" · {planned.plan.variant}" if planned.plan else ""
    return f"{write_problem(planned.problem)}{variant}"


def _write_cells(launch: KernelLaunch, made: Candidate) -> dict[str, str]:
    """Return one launch as text, by column. Counts are static; TMA has no width per thread."""
    if made.error:
        return dict.fromkeys(COLUMNS, "") | {
            "kernel": launch.function,
            "warps": str(launch.num_warps),
            "16-byte loads": "refused",
        }
    return {
        "kernel": launch.function,
        "warps": str(launch.num_warps),
        "regs": units.count(made.registers),
        "spilled": units.count(made.spilled_words),
        "shared": units.exact_bytes(made.shared_bytes),
        "occupancy": units.percent(made.occupancy),
        "16-byte loads": _write_loads(made),
    }


def _write_loads(made: Candidate) -> str:
    """Return ``4 of 4``, ``2 TMA``, or both."""
    every = sum(made.global_loads.values())
    wide = sum(made.global_loads.get(bits, 0) for bits in WIDE)
    parts = [f"{wide} of {every}"] if every or not made.tma_loads else []
    return " + ".join([*parts, *([f"{made.tma_loads} TMA"] if made.tma_loads else [])])


def _list_remarks(planned: Sequence[Planned]) -> Iterator[Any]:
    from rich.text import Text

    told: list[tuple[str, str]] = []
    for each in planned:
        told += [(fault, "red") for fault in each.faults]
        told += [(text, "yellow") for text in each.mispredicted]
        if each.plan is not None and each.plan.instead_of:
            fell_back = (
                f"{write_problem(each.problem)}: {each.plan.variant} instead of what was asked for"
            )
            told.append((f"{fell_back} ({each.plan.instead_of})", "yellow"))
    if told:
        yield Text("")
    for text, style in dict.fromkeys(told):
        yield Text(units.printable(text), style=style)


def _sum_up(launches: Sequence[Mapping[str, Any]]) -> str:
    """Return one line about launches as JSON."""
    made = [each for launch in launches for each in launch["compiled"]]
    spilling = sum(bool(each["spilled_words"]) for each in made)
    faults = sum(len(launch["faults"]) for launch in launches)
    return (
        f"{units.plural(len(launches), 'plan')}, {units.plural(len(made), 'launch', 'launches')}: "
        f"{spilling} spill, {faults} cannot be launched"
    )


def _document_family(family: KernelFamily) -> dict[str, Any]:
    """Return a family as JSON."""
    return {
        "name": public(family.name),
        "summary": family.summary,
        "operations": dict(family.operations),
        "variants": list(family.variants),
        "cases": len(family.cases),
        "benchmarks": list(family.benchmarks),
        "origin": family.origin,
    }


def _document_launches(family: KernelFamily, planned: Iterable[Planned]) -> list[Mapping[str, Any]]:
    return [
        {
            "family": public(family.name),
            "problem": each.problem,
            "target": each.target.name,
            "plan": each.plan,
            "refusal": each.refusal,
            "compiled": [
                {"spilled_words": made.spilled_words, "facts": made} for made in each.compiled
            ],
            "faults": each.faults,
        }
        for each in planned
    ]
