"""Families of hand-written kernels on the screen: the list, one of them, what its launches are
made of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.model import Candidate, KernelFamily, KernelLaunch
from perfcli.model.kernel_work import CheckedCase, OutputError, PlannedCase
from perfcli.names import public
from perfcli.workbench.check import CaseResults, _label
from perfcli.workbench.facts import Planned
from perfcli.workbench.problems import named

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = ("128", "256")
"""Bits of a load that moves 16 bytes or more per thread."""
COLUMNS = ("kernel", "warps", "regs", "spilled", "shared", "occupancy", "16-byte loads")


def _overview(families: Sequence[KernelFamily]) -> RenderableType:
    """Names and summaries, each with its operations and variants."""
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


def _detail(family: KernelFamily) -> RenderableType:
    """Operations with formulas, variants, and how much there is to check and to time."""
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


def heading(family: KernelFamily) -> RenderableType:
    """A family's name above its facts, where there are several."""
    from rich.text import Text

    return Text.assemble("\n", (public(family.name), "bold"), f"  {family.summary}")


def facts(planned: Sequence[Planned]) -> RenderableType:
    """For each target every problem's launches, why they were chosen, and what is wrong."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    for target in dict.fromkeys(each.target.name for each in planned):
        own = [each for each in planned if each.target.name == target]
        first = own[0].target
        parts += [Text(""), Text(f"{first.name}  {first.description}, {first.arch}", style="bold")]
        parts += [Text(""), *_lines(own), *_remarks(own)]
    return Group(*parts)


def _lines(planned: Sequence[Planned]) -> Iterator[Any]:
    """One line per launch below each problem, in columns that all problems share."""
    from rich.text import Text

    rows = [
        _cells_of(launch, made)
        for each in planned
        for launch, made in zip(each.plan.launches if each.plan else (), each.compiled, strict=True)
    ]
    heads = {title: title for title in COLUMNS}
    widths = {title: max(len(row[title]) for row in [heads, *rows]) for title in COLUMNS}
    yield Text(_aligned(heads, widths), style="dim", no_wrap=True)
    for each in planned:
        yield Text(_heading(each), style="bold")
        if each.plan is None:
            yield Text(f"  refused: {each.refusal}", style="yellow")
            continue
        for launch, made in zip(each.plan.launches, each.compiled, strict=True):
            bad = made.error or made.spilled_words or made.blocks_per_sm == 0
            line = _aligned(_cells_of(launch, made), widths)
            yield Text(line, style="red" if bad else "", no_wrap=True)
        if each.plan.why:
            yield Text(f"  {each.plan.why}", style="dim")


def _aligned(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    name, *numbers = COLUMNS
    right = "  ".join(cells[title].rjust(widths[title]) for title in numbers)
    return f"  {cells[name].ljust(widths[name])}  {right}".rstrip()


def _heading(planned: Planned) -> str:
    variant = f" · {planned.plan.variant}" if planned.plan else ""
    return f"{named(planned.problem)}{variant}"


def _cells_of(launch: KernelLaunch, made: Candidate) -> dict[str, str]:
    """One launch as text, by column. Counts are static; TMA has no width per thread."""
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
        "16-byte loads": _loads(made),
    }


def _loads(made: Candidate) -> str:
    """``4 of 4``, ``2 TMA``, or both."""
    every = sum(made.global_loads.values())
    wide = sum(made.global_loads.get(bits, 0) for bits in WIDE)
    parts = [f"{wide} of {every}"] if every or not made.tma_loads else []
    return " + ".join([*parts, *([f"{made.tma_loads} TMA"] if made.tma_loads else [])])


def _remarks(planned: Sequence[Planned]) -> Iterator[Any]:
    from rich.text import Text

    told: list[tuple[str, str]] = []
    for each in planned:
        told += [(fault, "red") for fault in each.faults]
        told += [(text, "yellow") for text in each.mispredicted]
        if each.plan is not None and each.plan.instead_of:
            fell_back = f"{named(each.problem)}: {each.plan.variant} instead of what was asked for"
            told.append((f"{fell_back} ({each.plan.instead_of})", "yellow"))
    if told:
        yield Text("")
    for text, style in dict.fromkeys(told):
        yield Text(units.printable(text), style=style)


def _sum_of(launches: Sequence[Mapping[str, Any]]) -> str:
    """One line about launches as JSON."""
    made = [each for launch in launches for each in launch["compiled"]]
    spilling = sum(bool(each["spilled_words"]) for each in made)
    faults = sum(len(launch["faults"]) for launch in launches)
    return (
        f"{units.plural(len(launches), 'plan')}, {units.plural(len(made), 'launch', 'launches')}: "
        f"{spilling} spill, {faults} cannot be launched"
    )


def _document(family: KernelFamily) -> dict[str, Any]:
    """A family as JSON."""
    return {
        "name": public(family.name),
        "summary": family.summary,
        "operations": dict(family.operations),
        "variants": list(family.variants),
        "cases": len(family.cases),
        "benchmarks": list(family.benchmarks),
        "origin": family.origin,
    }


def _facts_document(family: KernelFamily, planned: Iterable[Planned]) -> list[Mapping[str, Any]]:
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


LISTED = 3
"""Scaled cases that are named; JSON has all."""


def lines(found: CaseResults) -> list[str]:
    """A line for each failure, what was not run as the family says, and the sum."""
    checking = found.checking
    failures = [
        _failure(checking.cases[number], found.found[number])
        for number in sorted(found.found)
        if found.found[number].outcome in ("wrong", "failed")
    ]
    return [*failures, *_fallbacks(found), *_refusals(found), *_scaled(found), _summary(found)]


def _failure(planned: PlannedCase, checked: CheckedCase) -> str:
    case = _label(planned.case)
    ran = f" · {checked.variant}" if checked.variant not in ("", planned.case.variant) else ""
    if checked.outcome == "failed":
        return f"FAILED {case}{ran}: {checked.reason}"
    outputs = "; ".join(_output(error) for error in checked.outputs if not error.is_right)
    return f"WRONG  {case}{ran}: {outputs}"


def _output(error: OutputError) -> str:
    if error.problem:
        return f"{error.name} {error.problem}"
    place = ", ".join(map(str, error.where))
    how = "" if error.error is None else f", error {error.error:.3g}"
    allowed = "" if error.allowed is None else f", tolerance {error.allowed:.3g}"
    return (
        f"{error.name}[{place}] is {error.value}, expected {error.expected}{how}{allowed} "
        f"({error.wrong:,} of {units.plural(error.elements, 'element')})"
    )


def _fallbacks(found: CaseResults) -> list[str]:
    reasons = [
        each.plan.instead_of
        for each in found.checking.cases
        if each.plan is not None and each.plan.instead_of
    ]
    return [f"fell back in {_cases(n)}: {reason}" for reason, n in _alike(reasons)]


def _refusals(found: CaseResults) -> list[str]:
    reasons = [each.reason for each in found.found.values() if each.outcome == "refused"]
    return [f"refused in {_cases(n)}: {reason}" for reason, n in _alike(reasons)]


def _alike(reasons: Sequence[str]) -> list[tuple[str, int]]:
    """Reasons that differ in numbers alone are one: its first, and how many."""
    first: dict[str, str] = {}
    counted: Counter[str] = Counter()
    for reason in reasons:
        shape = re.sub(r"\d[\d,.]*", "#", reason)
        counted[shape] += 1
        first.setdefault(shape, reason)
    return [(first[shape], number) for shape, number in counted.items()]


def _scaled(found: CaseResults) -> list[str]:
    scaled = [
        f"{_label(each.case)} (of {each.rows_asked:,} rows)"
        for each in found.checking.cases
        if each.rows_asked is not None
    ]
    if not scaled:
        return []
    rest = [f"and {len(scaled) - LISTED:,} more"] if len(scaled) > LISTED else []
    listed = "; ".join([*scaled[:LISTED], *rest])
    return [f"fewer rows for the interpreter in {_cases(len(scaled))}: {listed}"]


def _summary(found: CaseResults) -> str:
    checking = found.checking
    where = (
        f"on {checking.target.description}"
        if checking.runner == "gpu"
        else f"through Triton's interpreter, planned for {checking.target.name}"
    )
    parts = [f"{units.count(found.count('right'))} right"]
    parts += [
        f"{units.count(found.count(outcome))} {outcome}"
        for outcome in ("wrong", "failed", "refused")
        if found.count(outcome)
    ]
    return f"{public(checking.family.name)}: {_cases(len(found.found))} {where}: {', '.join(parts)}"


def _cases(number: int) -> str:
    return units.plural(number, "case")


def _document_view(found: CaseResults) -> dict[str, object]:
    checking = found.checking
    return {
        "family": public(checking.family.name),
        "target": checking.target.name,
        "runner": checking.runner,
        "cases": [
            {
                "case": checking.cases[number].case,
                "rows_asked": checking.cases[number].rows_asked,
                "plan": checking.cases[number].plan,
                "checked": found.found[number],
            }
            for number in sorted(found.found)
        ],
    }
