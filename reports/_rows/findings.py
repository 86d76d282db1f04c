"""Findings as texts, for documents: what the screen says of them, without its columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Comparison, Finding, KernelFacts, Origin, Run

from .._screen.cures import (
    order_trials,
    write_application,
    write_assignments,
    write_costs,
    write_own_cures,
    write_trial,
)
from .._screen.finding import WORDS, Placed, group_blocks, write_cost
from .places import Place, parse_place, strip_root


@dataclass(frozen=True, slots=True)
class FindingRow:
    """Holds one finding with what follows from it; safe to show, not yet escaped for any format."""

    finding: Finding
    label: str
    """``new error PC101``."""
    headline: str
    kernels: str
    """``kernel 4``; empty where it names none."""
    evidence: tuple[str, ...]
    hence: tuple[str, ...]
    location: str
    """``models/norm.py:12``; empty where it is not known."""
    code: str
    """That line's text."""
    source_lines: tuple[tuple[str, str], ...]
    """Of the kernel: number and text."""
    advice: str
    """Empty where a finding above says the same of the same kernels."""
    cures: tuple[str, ...]


def list_new(comparison: Comparison, root: str = "") -> list[FindingRow]:
    """Return the new and worse findings, those of one kernel together, the gravest kernel first."""
    found = [finding for finding in comparison.findings if finding.came_with_head]
    return list_rows(found, comparison.head, root)


def list_rows(findings: Sequence[Finding], run: Run, root: str = "") -> list[FindingRow]:
    said: set[Hashable] = set()
    return [
        _write_row(placed, run, root, said) for block in group_blocks(findings) for placed in block
    ]


def write_label(finding: Finding) -> str:
    appearance = f"{finding.appearance} " if finding.appearance else ""
    return f"{appearance}{WORDS[finding.severity][0]} {finding.code}"


def list_gone(comparison: Comparison, root: str = "") -> list[str]:
    """Return ``PC204 …``, a line each."""
    return [
        _clean(f"{finding.code} {finding.headline}", root)
        for finding in comparison.findings
        if finding.appearance == "gone"
    ]


def count_on_both_sides(comparison: Comparison) -> str:
    """Return ``3 findings on both sides, 1 of them better``; empty where there is none."""
    both = [f for f in comparison.findings if f.appearance in ("same", "better")]
    better = sum(finding.appearance == "better" for finding in both)
    text = f"{units.plural(len(both), 'finding')} on both sides" if both else ""
    return f"{text}, {better} of them better" if better else text


def _write_row(placed: Placed, run: Run, root: str, said: set[Hashable]) -> FindingRow:
    finding = placed.finding
    origin = finding.origin
    where = parse_place(origin.location, root) if origin else None
    cost = write_cost(finding)
    repeated = finding.kernels and (finding.kernels, finding.advice) in said
    advice = "" if repeated else finding.advice
    said.add((finding.kernels, finding.advice))
    hence = (
        f"{write_label(each)} {each.headline}{write_own_cures(each, finding)}"
        for each in placed.consequences
    )
    return FindingRow(
        finding=finding,
        label=write_label(finding),
        headline=_clean(finding.headline, root) + (f", costs {cost}" if cost else ""),
        kernels=_name_kernels(finding, run),
        evidence=tuple(_clean(text, root) for text in finding.evidence),
        hence=tuple(_clean(text, root) for text in hence),
        location=units.printable(where.text) if where else "",
        code=_clean(origin.code, root) if origin else "",
        source_lines=tuple((n, units.printable(t)) for n, t in finding.source_lines.items()),
        advice=_clean(advice, root),
        cures=tuple(_clean(text, root) for text in _write_cures(finding)),
    )


def _clean(text: str, root: str) -> str:
    """Return a text in one line, with paths relative to the root."""
    return units.printable(" ".join(strip_root(text, root).split()))


def _name_kernels(finding: Finding, run: Run) -> str:
    known = sorted(number for number in finding.kernels if number < len(run.kernels))
    if not known:
        return ""
    return f"{'kernel' if len(known) == 1 else 'kernels'} {', '.join(map(str, known))}"


def _write_cures(finding: Finding) -> Iterator[str]:
    """Yield what was tried and what came of it; else what may be tried."""
    for trial in order_trials(finding.trials):
        text = write_trial(trial, finding.metric)
        if trial.outcome == "helps at a cost":
            text += f"; costs {write_costs(trial)}"
        if trial.outcome.startswith("helps"):
            text += f"; to apply: {write_application(trial)}"
        yield text
    for cure in finding.cures if not finding.trials else ():
        yield f"cure {write_assignments(cure.options)}" + (f": {cure.why}" if cure.why else "")


def locate_finding(finding: Finding, comparison: Comparison, root: str) -> tuple[Place | None, str]:
    """Return the finding's own line, else its first kernel's, else the scenario's file; and that
    line's text."""
    run = comparison.base if finding.on_base else comparison.head
    kernels = [run.kernels[number] for number in finding.kernels if number < len(run.kernels)]
    return _choose_place([finding.origin] if finding.origin else [], kernels, run, root)


def locate_group(group: int | None, comparison: Comparison, root: str) -> tuple[Place | None, str]:
    """Return a line that the group's first kernel comes from; of no group the scenario's file."""
    return _choose_place([], list_group_kernels(group, comparison), comparison.head, root)


def find_blamed(metric: str, comparison: Comparison) -> int | None:
    """Return the group that adds most to a total's change for the worse; None where none does."""
    worst, most = None, 0.0
    for number, group in enumerate(comparison.groups):
        for change in group.changes:
            grown = abs(change.delta or 0.0)
            if change.metric == metric and change.outcome == "worse" and grown > most:
                worst, most = number, grown
    return worst


def list_group_kernels(group: int | None, comparison: Comparison) -> list[KernelFacts]:
    """Return the head's kernels of a group, the base's where they are gone."""
    if group is None:
        return []
    base, head = comparison.groups[group].match.select(comparison.base, comparison.head)
    return head or base


def _choose_place(
    origins: Iterable[Origin], kernels: Iterable[KernelFacts], run: Run, root: str
) -> tuple[Place | None, str]:
    candidates = [*origins, *(origin for kernel in kernels for origin in kernel.origins)]
    places = [(parse_place(o.location, root), o.code) for o in candidates if o.location]
    known = [(where, code) for where, code in places if where is not None]
    # A line of the repository says more than one of a library that the model uses, which stands
    # in another folder on each machine.
    inside = [(where, code) for where, code in known if where.inside]
    files = [(where, "") for where in _locate_scenario(run, root)]
    own = [each for each in files if each[0].inside]
    return next(iter((*inside, *own, *known, *files)), (None, ""))


def _locate_scenario(run: Run, root: str) -> Iterator[Place]:
    """Yield the file that a user's scenario is written in; a shipped one is none of the user's."""
    path = run.scenario.partition(":")[0]
    if path.endswith(".py"):
        found = parse_place(path, root)
        if found is not None:
            yield found
