"""Findings on the screen: those of a comparison, of a run, of a kernel."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import Comparison, Finding, KernelFacts, Proposal, Run
from perfcli.units import shorten

from .._rows.kernels import write_bounds, write_share
from .._rows.step import list_step_lines
from .._rows.totals import explain_emptiness, write_question, write_variant
from .cures import write_assignments
from .externs import _list_externs
from .finding import STYLES, WORDS, Full, OneLine, Placed, _list_said_by, group_blocks
from .tables import Hanging, start_table
from .timing import _draw_observed

MOST_COMMANDS = 3


# --- of a comparison -------------------------------------------------------------------------


def _show_findings(comparison: Comparison, head: str = "") -> list[RenderableType]:
    """Return the new and worse ones in full, what was cured in a line each, what both sides have in
    one. ``head``: how to name the head's run, empty where it is not stored."""
    shown = [f for f in comparison.findings if f.came_with_head]
    gone = [f for f in comparison.findings if f.appearance == "gone"]
    both = [f for f in comparison.findings if f.appearance in ("same", "better")]
    if not comparison.findings:
        return []
    parts: list[RenderableType] = [Text(""), Text("Findings", style="bold")]
    said = _Said()
    parts += [
        Full(each, comparison.head, said.before(each.finding)) for each in _list_placed(shown)
    ]
    parts += [OneLine("fixed", finding, comparison.base) for finding in gone]
    if both:
        parts.append(_draw_both_sides(both, head))
    return parts


def _draw_both_sides(both: Sequence[Finding], head: str) -> Text:
    better = sum(finding.appearance == "better" for finding in both)
    text = f"{units.plural(len(both), 'finding')} on both sides"
    text += f", {better} of them better" if better else ""
    text += f": perfcli explain {shlex.quote(head)}" if head else ""
    return Text(units.printable(text), style="dim", no_wrap=True, overflow="ignore")


# --- of a run --------------------------------------------------------------------------------


def show_explanation(
    run: Run,
    findings: Sequence[Finding],
    reference: str = "",
    brief: bool = False,
    tried: bool = False,
    proposals: Sequence[Proposal] = (),
) -> RenderableType:
    """Return the findings of one run, by kernel, and what is worth doing; in brief how many there
    are.

    Where there is nothing but doubts about the numbers, the kernels that take or move most, too;
    with estimates they and those of findings are always shown. ``tried``: whether fixes were asked
    for.
    """
    nothing = explain_emptiness(run)
    summary = Text(sum_up(run, findings), style="bold")
    if nothing and not findings:
        summary = Text(nothing, style="bold yellow")
    if brief:
        return summary
    parts: list[RenderableType] = [summary]
    parts += [Text(nothing, style="bold yellow")] if nothing and findings else []
    parts += [Text(write_question(run)), Text(write_variant(run)), *_draw_observed(run)]
    parts += [Text(f"{label}: {text}", style="dim") for label, text in list_step_lines(run)]
    said = _Said()
    for block in group_blocks(findings):
        parts += [Text(""), *(Full(each, run, said.before(each.finding)) for each in block)]
    parts += _say_nothing_to_try(findings) if tried and not nothing else []
    kernels = dict.fromkeys(f.kernels[0] for f in findings if f.kernels)
    if not nothing and all(finding.doubt for finding in findings):
        parts += [Text(""), _Largest(run)]
        kernels = dict.fromkeys(_find_largest(run))
    elif not nothing and _is_timed(run):
        found = dict.fromkeys(number for finding in findings for number in finding.kernels)
        parts += [Text(""), _Largest(run, list(found)[:MOST_BESIDES])]
    parts += _list_externs(run)
    parts += _list_proposals(proposals)
    parts += _list_commands(kernels, findings, reference)
    return Group(*parts)


def _list_proposals(proposals: Sequence[Proposal]) -> list[RenderableType]:
    """Return what saves most of a step, a line each, by expected gain."""
    if not proposals:
        return []
    parts: list[RenderableType] = [Text(""), Text("Worth doing", style="bold")]
    for number, each in enumerate(proposals, start=1):
        share = f" ({write_share(each.share)})" if each.share is not None else ""
        gain = f"−{units.seconds(each.seconds)} of a step{share}"
        options = write_assignments(each.options)
        what = f"{options}: {each.text}" if options and each.text else options or each.text
        kernels = dict.fromkeys(number for f in each.findings for number in f.kernels)
        named = ", ".join(map(str, sorted(kernels)))
        codes = ", ".join(dict.fromkeys(finding.code for finding in each.findings))
        where = f"{codes}, kernel{'s' * (len(kernels) > 1)} {named}" if kernels else codes
        sure = ", by its estimate compiled" if each.proven else ""
        line = Text.assemble(f"{number}  ", (gain, "bold green"), f"{sure}  {what} ({where})")
        parts.append(Hanging(line, 0))
    return parts


def show_kernel_findings(
    run: Run, findings: Sequence[Finding], tried: bool = False
) -> RenderableType:
    """Return the findings of one kernel. ``tried``: whether fixes were asked for."""
    parts = _say_nothing_to_try(findings) if tried else []
    if not findings:
        return Group(*parts)
    said = _Said()
    shown = [Full(placed, run, said.before(placed.finding)) for placed in _list_placed(findings)]
    return Group(Text(""), Text("Findings", style="bold"), *shown, *parts)


def _say_nothing_to_try(findings: Sequence[Finding]) -> list[RenderableType]:
    """Return why ``--try-fixes`` shows none, where no finding has a cure."""
    if any(finding.cures for finding in findings):
        return []
    return [Text(""), Text("no finding proposes a change to try", style="dim")]


class _Said:
    """Says what the first finding of a kernel says the others need not say again."""

    def __init__(self) -> None:
        self._all: frozenset[Hashable] = frozenset()

    def before(self, finding: Finding) -> frozenset[Hashable]:
        """Return what was said before this finding, which says its own."""
        before = self._all
        self._all = before | _list_said_by(finding)
        return before


def sum_up(run: Run, findings: Sequence[Finding]) -> str:
    """Return ``2 errors, 1 warning in 35 kernels``."""
    numbers = {s: sum(f.severity == s for f in findings) for s in STYLES}
    counted = [units.plural(n, *WORDS[s]) for s, n in numbers.items() if n]
    where = units.plural(len(run.kernels), "kernel")
    return f"{', '.join(counted) or 'no findings'} in {where}"


def _list_placed(findings: Sequence[Finding]) -> list[Placed]:
    return [placed for block in group_blocks(findings) for placed in block]


def _list_commands(
    kernels: Iterable[int], findings: Sequence[Finding], reference: str
) -> list[RenderableType]:
    inspect = f"perfcli inspect-kernel {shlex.quote(reference)}"
    commands = [f"{inspect} {n}" for n in kernels] if reference else []
    commands = commands[:MOST_COMMANDS]
    commands += [f"perfcli rules {findings[0].code}"] if findings else []
    if not commands:
        return []
    lines = [Text(units.printable(c), no_wrap=True, overflow="ignore") for c in commands]
    return [Text(""), Text("Look closer", style="bold"), *lines]


# --- where no rule found anything ------------------------------------------------------------

MOST_LARGEST = 3
MOST_BESIDES = 5
LEAST_NAME = 20


def _find_largest(run: Run) -> list[int]:
    """Return the kernels that take most of a step's estimated time, or else move most bytes; the
    first ones where neither is known."""
    launched = [number for number, kernel in enumerate(run.kernels) if kernel.launches]
    return sorted(launched, key=lambda number: _rank(run.kernels[number]))[:MOST_LARGEST]


def _rank(kernel: KernelFacts) -> tuple[float, int]:
    seconds = kernel.step_seconds if kernel.traced_seconds is None else kernel.traced_seconds
    return -(seconds or 0.0), -(kernel.step_bytes or 0)


def _is_timed(run: Run) -> bool:
    return any(kernel.estimate is not None for kernel in run.kernels)


@dataclass(frozen=True)
class _Largest:
    """Launches, time and bytes of a step, and kernels with most of them. ``besides``: others to
    show."""

    run: Run
    besides: Iterable[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"generated kernels: {', '.join(self._step())}")
        timed, kernels = _is_timed(self.run), self.run.kernels
        every = sum(self._known())
        traced = any(kernel.traced_seconds for kernel in kernels)
        if not every and not timed and not traced:
            return
        shown = dict.fromkeys((*_find_largest(self.run), *self.besides))
        rows = [(n, self._cells(kernels[n], every)) for n in sorted(shown, key=self._order)]
        titles = [title for title in rows[0][1] if any(cells[title] for _, cells in rows)]
        table = start_table()
        table.add_column("", justify="right")
        table.add_column(
            f"kernels that {'take most time' if timed or traced else 'move most bytes'}",
            no_wrap=True,
        )
        for title in titles:
            table.add_column(title.strip(), justify="right", no_wrap=True)
        taken = sum(max(len(title), *(len(c[title]) for _, c in rows)) + 2 for title in titles)
        room = max(options.max_width - taken - 5, LEAST_NAME)
        for number, cells in rows:
            name = shorten(units.printable(kernels[number].name), room)
            table.add_row(str(number), name, *(cells[title] for title in titles))
        yield Text("")
        yield table

    def _order(self, number: int) -> tuple[float, int]:
        return _rank(self.run.kernels[number])

    def _cells(self, kernel: KernelFacts, every: int) -> dict[str, str]:
        """Return column title to text; the share is that of the column before it."""
        size, seconds = kernel.step_bytes, kernel.step_seconds
        moved = {
            "traced": "" if kernel.traced_seconds is None else units.seconds(kernel.traced_seconds),
            "bytes": "" if size is None and not every else units.size(size),
        }
        share = units.percent(None if size is None else size / every) if every else ""
        if not _is_timed(self.run):
            return {**moved, "share": share}
        total = sum(each.step_seconds or 0.0 for each in self.run.kernels)
        return {
            "time": units.seconds(seconds),
            "share": write_share(None if seconds is None else seconds / total),
            "bound": write_bounds(kernel.estimate, 1),
            **moved,
        }

    def _known(self) -> Sequence[int]:
        every = (kernel.step_bytes for kernel in self.run.kernels)
        return [moved for moved in every if moved is not None]

    def _step(self) -> Iterator[str]:
        kernels = self.run.kernels
        launches = sum(kernel.launches for kernel in kernels)
        yield f"{units.plural(launches, 'launch', 'launches')} per step"
        timed = [seconds for kernel in kernels if (seconds := kernel.step_seconds) is not None]
        if timed:
            of = f" of {len(timed)} of them" if len(timed) < len(kernels) else ""
            yield f"{units.seconds(sum(timed))} by estimate{of}"
        if self._known():
            yield f"{units.size(sum(self._known()))} moved"
        bounds = [bound for kernel in kernels if (bound := kernel.step_bound_seconds)]
        if bounds:
            yield f"lower-bound time {units.seconds(sum(bounds))}"
