"""Makes what the page shows of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.model import Comparison, Run

from .._rows.findings import FindingRow, count_on_both_sides, list_gone, list_new
from .._rows.groups import count_unchanged, count_unprovenanced
from .._rows.step import list_step_changes, list_step_lines
from .._rows.timing import (
    TimeRow,
    list_estimated,
    list_estimated_step,
    list_measured,
    list_step_times,
)
from .._rows.totals import (
    BesideRow,
    TotalRow,
    explain_emptiness,
    list_beside,
    list_breaks,
    list_changed_breaks,
    list_explanations,
    list_hand_written,
    list_totals,
    write_options,
    write_questions,
    write_sides,
    write_variant,
)
from .._screen.verdict import FirstLines
from .data import PageTexts, _kernel_id
from .flow import Flow, _flows
from .kernels import PageTable, _kernel_table
from .memory import Memory, _memories
from .pages import Page, _pages
from .roofline import Roofline, _roofline
from .times import Forest, _forest


@dataclass(frozen=True, slots=True)
class _FindingView:
    row: FindingRow
    links: tuple[tuple[str, str], ...]
    """Text and address of each kernel that it names."""


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """``lines``: label and text; the first has the verdict as its label."""

    by_itself: bool
    """One run, which is both sides."""
    question: str
    sides: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, str], ...]
    empty: tuple[str, ...]
    totals: tuple[TotalRow, ...]
    measured: bool
    """Whether the times are measured ones; else they are estimated."""
    traced: bool
    """Whether they were measured in two sessions, one for each side."""
    steps: tuple[TimeRow, ...]
    how: tuple[tuple[str, str], ...]
    forest: Forest | None
    beside: tuple[BesideRow, ...]
    beside_lines: tuple[str, ...]
    breaks: tuple[str, ...]
    step: tuple[tuple[str, str], ...]
    table: PageTable
    ends: tuple[str, ...]
    flows: tuple[Flow, ...]
    findings: tuple[_FindingView, ...]
    gone: tuple[str, ...]
    both: str
    roofline: Roofline | None
    memories: tuple[Memory, ...]
    pages: tuple[Page, ...]
    differences: tuple[str, ...]
    environment: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def _comparison_view(
    comparison: Comparison, check: int, root: str, texts: PageTexts
) -> ComparisonView:
    timing, beside = comparison.timing, comparison.beside
    sides = (("base", comparison.base), ("head", comparison.head))
    ends = (count_unchanged(comparison), count_unprovenanced(comparison))
    return ComparisonView(
        by_itself=False,
        question=write_questions(comparison),
        sides=write_sides(comparison.base, comparison.head),
        lines=tuple(FirstLines(comparison).rows()),
        empty=tuple(f"{side}: {text}" for side, run in sides if (text := explain_emptiness(run))),
        totals=tuple(list_totals(comparison)),
        measured=timing is not None,
        traced=timing is not None and bool(timing.traced),
        steps=tuple(list_step_times(timing)) if timing else _estimated_steps(comparison),
        how=(*(list_measured(timing) if timing else ()), *_estimated_how(comparison)),
        forest=_forest(comparison, check) if timing else None,
        beside=tuple(list_beside(beside)) if beside else (),
        beside_lines=_beside_lines(comparison),
        breaks=tuple(list_changed_breaks(comparison)),
        step=tuple(list_step_changes(comparison)),
        table=_kernel_table(comparison, check),
        ends=tuple(line for line in ends if line),
        flows=tuple(_flows(comparison, check)),
        findings=tuple(_findings(comparison, check, root)),
        gone=tuple(list_gone(comparison, root)),
        both=count_on_both_sides(comparison),
        roofline=_roofline(comparison, check),
        memories=tuple(_memories(comparison)),
        pages=tuple(_pages(comparison, check, root, texts)),
        differences=comparison.differences,
        environment=tuple(_environment(comparison.base, comparison.head)),
        notes=tuple(dict.fromkeys((*comparison.base.notes, *comparison.head.notes))),
    )


def _estimated_steps(comparison: Comparison) -> tuple[TimeRow, ...]:
    """Return the estimated step, where something changes or can't be told."""
    estimate = comparison.estimate
    told = estimate is not None and bool(estimate.groups or estimate.missing)
    return tuple(list_estimated_step(estimate)) if estimate and told else ()


def _estimated_how(comparison: Comparison) -> list[tuple[str, str]]:
    return list_estimated(comparison.estimate) if comparison.estimate else []


def _run_view(comparison: Comparison, check: int, root: str, texts: PageTexts) -> ComparisonView:
    """Return the view of a run that is both sides: nothing that only says that they are the
    same."""
    view, run = _comparison_view(comparison, check, root, texts), comparison.head
    ends = count_unprovenanced(comparison)
    return replace(
        view,
        by_itself=True,
        sides=(("run", write_variant(run)),),
        lines=(),
        breaks=tuple(list_breaks(run)),
        step=tuple(list_step_lines(run)),
        ends=(ends,) if ends else (),
        memories=tuple(replace(memory, curves=memory.curves[-1:]) for memory in view.memories),
        pages=tuple(replace(page, headline="", note="", matched="") for page in view.pages),
    )


def _beside_lines(comparison: Comparison) -> tuple[str, ...]:
    beside = comparison.beside
    if beside is None:
        return ()
    explained = [f"explained by {each}" for each in list_explanations(comparison, beside)]
    left_out = [f"left out: {each}" for each in beside.left_out]
    return (*explained, *list_hand_written(beside), *left_out)


def _findings(comparison: Comparison, check: int, root: str) -> Iterator[_FindingView]:
    for row in list_new(comparison, root):
        finding = row.finding
        side = "base" if finding.on_base else "head"
        kernels = comparison.base.kernels if finding.on_base else comparison.head.kernels
        known = sorted(number for number in finding.kernels if number < len(kernels))
        links = ((f"kernel {n}", f"#{_kernel_id(check, side, n)}") for n in known)
        yield _FindingView(row, tuple(links))


def _environment(base: Run, head: Run) -> Iterator[tuple[str, str, str]]:
    cells = zip(_facts(base), _facts(head), strict=True)
    return ((title, ours, theirs) for (title, ours), (_, theirs) in cells if ours or theirs)


def _facts(run: Run) -> Sequence[tuple[str, str]]:
    environment = run.environment
    target = run.target
    variables = " ".join(f"{name}={value}" for name, value in environment.variables.items())
    breaks = sum(run.graph_breaks.values())
    return (
        ("variant", run.variant.name or write_options(run.variant)),
        ("target", f"{target.name}, {target.description}, {target.arch}" if target else run.device),
        ("torch", environment.torch),
        ("triton", environment.triton or ""),
        ("ptxas", environment.ptxas or ""),
        ("python", environment.python),
        ("platform", environment.platform),
        ("perfcli", environment.perfcli),
        ("GPU", environment.gpu or ""),
        ("driver", environment.driver or ""),
        ("variables", variables),
        ("graphs", ", ".join(f"{g.name} ({units.plural(g.nodes, 'node')})" for g in run.graphs)),
        ("graph breaks", units.count(breaks) if breaks else ""),
        ("library calls", ", ".join(f"{e.count} × {e.op} ({e.graph})" for e in run.externs)),
    )
