"""Shows one finding on the screen."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import Comparison, Finding, Run, Severity
from perfcli.units import shorten

from .._rows.kernels import write_share
from .cures import _list_cures, _list_said, write_own_cures
from .kernel import shorten_location
from .tables import Hanging


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding and what follows from it. ``named``: a line above it says the kernel's name."""

    finding: Finding
    consequences: tuple[Finding, ...] = ()
    named: bool = False


def group_blocks(findings: Sequence[Finding]) -> list[list[Placed]]:
    """Return one block for each kernel, in the order of the first finding of each; what concerns no
    kernel stands alone, and what follows from a finding about several kernels stands with it."""
    found: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        cause = _find_cause(finding, findings) or finding
        first = cause.kernels if cause.on_base == finding.on_base else finding.kernels
        key = (finding.on_base, first[0]) if first else ("alone", number)
        found.setdefault(key, []).append(finding)
    return [_order_block(of_one) for of_one in found.values()]


def _order_block(findings: Sequence[Finding]) -> list[Placed]:
    causes = [f for f in findings if _find_cause(f, findings) is None]
    following: dict[int, list[Finding]] = {}
    for finding in findings:
        cause = _find_cause(finding, findings)
        if cause is not None:
            following.setdefault(id(cause), []).append(finding)
    # Those that others follow from come first, however grave the rest is.
    ordered = sorted(causes, key=lambda cause: id(cause) not in following)
    return [
        Placed(cause, tuple(following.get(id(cause), ())), number > 0)
        for number, cause in enumerate(ordered)
    ]


def _find_cause(finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Return what explains it, of these; nothing where that has a cause of its own here or does not
    concern all of its kernels."""
    codes = {each.code for each in findings}
    for other in findings:
        explains = other.code == finding.explained_by and other.explained_by not in codes
        if explains and set(finding.kernels) <= set(other.kernels):
            return other
    return None


STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
WORDS: dict[Severity, tuple[str, str]] = {
    "error": ("error", "errors"),
    "warning": ("warning", "warnings"),
    "info": ("note", "notes"),
}
INDENT = 4
# Of a kernel's name, as in the tables.
LEAST_NAME = 30


@dataclass(frozen=True)
class Full:
    """Headline, evidence, what follows from it, lines of the model and the kernel, advice, cures
    and their trials."""

    placed: Placed
    run: Run
    said: Collection[Hashable] = ()
    """What findings above say already (``says``)."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        finding, room = self.placed.finding, options.max_width - INDENT
        yield _draw_headline(self.placed, self.run, options.max_width)
        body = [Text(line) for line in _list_unnamed(finding, self.run)]
        body += _list_evidence(finding, room)
        body += _list_consequences(self.placed, self.run)
        body += [*_draw_model_line(finding, self.said)]
        body += [*_list_source_lines(finding, self.said, room)]
        if finding.advice and _key_advice(finding) not in self.said:
            body.append(Text(f"→ {finding.advice}"))
        yield from (Hanging(line, INDENT) for line in body)
        yield from _list_cures(finding, INDENT, self.said)


@dataclass(frozen=True)
class OneLine:
    """Just what it was, on one line."""

    word: str
    finding: Finding
    run: Run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        label = f"{self.word} {self.finding.code}  "
        text = _shorten_headline(self.finding, self.run, options.max_width - len(label))
        line = Text.assemble((label, "green"), (text, "dim"))
        line.truncate(options.max_width, overflow="ellipsis")
        yield line


LEAST_COST = 5e-8
"""Seconds: a cost below this is not worth a word."""
LEAST_SAID = 1e-6
"""Seconds: nor is one below this, of several findings that are only counted."""


def write_cost(finding: Finding) -> str:
    """Return ``1.51 ms of a step (6 %)``, ``up to 900 ns of a step`` where the estimate sees no
    cost and can't exclude one; empty where it is not known or next to nothing."""
    cost = finding.cost
    if cost is not None and cost.high < 0 and cost.seconds < -LEAST_COST:
        return "nothing by estimate"
    if cost is None or max(cost.seconds, cost.high) < LEAST_COST or cost.high < -cost.low:
        return ""
    if cost.seconds < LEAST_COST:
        return f"up to {units.seconds(cost.high)} of a step"
    share = f" ({write_share(cost.share)})" if cost.share is not None else ""
    return f"{units.seconds(cost.seconds)} of a step{share}"


def _draw_headline(placed: Placed, run: Run, width: int) -> Hanging:
    finding = placed.finding
    appearance = f"{finding.appearance} " if finding.appearance else ""
    label = f"{appearance}{_write_code(finding)}  "
    text = _write_of_it(finding, run) if placed.named else ""
    text = text or _shorten_headline(finding, run, width - len(label))
    cost = write_cost(finding)
    costs = f", costs {cost}" if cost else ""
    return Hanging(Text.assemble((label, STYLES[finding.severity]), (text, "bold"), costs))


def _write_code(finding: Finding) -> str:
    return f"{WORDS[finding.severity][0]} {finding.code}"


def _list_consequences(placed: Placed, run: Run) -> Iterator[Text]:
    """Yield a line each: what they rest on and what cures them is said of their cause.

    Cures that it doesn't have, or that come to something else, are theirs to say.
    """
    cause = placed.finding
    for finding in placed.consequences:
        appearance = f"{finding.appearance} " if finding.appearance != cause.appearance else ""
        text = _write_of_it(finding, run) if len(cause.kernels) == 1 else ""
        text = text or _shorten_headline(finding, run, 0)
        label = (f"hence {appearance}{_write_code(finding)}", STYLES[finding.severity])
        yield Text.assemble(label, f"  {text}{write_own_cures(finding, cause)}")


def _list_evidence(finding: Finding, width: int) -> Iterator[Text]:
    """Yield each in a line; one about a line of the kernel with that line."""
    for evidence in finding.evidence:
        match = re.match(r"line (\d+): ", evidence)
        code = finding.source_lines.get(match[1]) if match else None
        line = Text.assemble(evidence, (f"  {code.strip()}" if code else "", "cyan"))
        if code:
            line.truncate(width, overflow="ellipsis")
        yield line


# --- kernels' names --------------------------------------------------------------------------


def _shorten_headline(finding: Finding, run: Run, room: int) -> str:
    """Return the headline with kernels as a number and a name whose middle gives way."""
    names = _find_names(finding, run)
    if not names:
        return units.printable(finding.headline)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    found = pattern.findall(finding.headline)
    if not found:
        return units.printable(finding.headline)
    others = len(finding.headline) - sum(map(len, found))
    prefixes = sum(len(f"{names[name]} ") for name in found)
    share = max((room - others - prefixes) // len(found), LEAST_NAME)
    text = pattern.sub(lambda m: f"{names[m[0]]} {shorten(m[0], share)}", finding.headline)
    return units.printable(text)


def _find_names(finding: Finding, run: Run) -> Mapping[str, int]:
    """Return full names to numbers, the longest first."""
    known = {run.kernels[n].name: n for n in finding.kernels if n < len(run.kernels)}
    return dict(sorted(known.items(), key=lambda item: -len(item[0])))


def _list_unnamed(finding: Finding, run: Run) -> Iterator[str]:
    """Yield the kernels, where the headline does not name them all."""
    names = _find_names(finding, run)
    if names and not all(name in finding.headline for name in names):
        numbers = ", ".join(map(str, sorted(finding.kernels)))
        yield f"{'kernel' if len(finding.kernels) == 1 else 'kernels'} {numbers}"


def _write_of_it(finding: Finding, run: Run) -> str:
    """Return the headline about a kernel that is named above; empty where it doesn't begin with
    it."""
    for name in _find_names(finding, run):
        if len(finding.kernels) == 1 and finding.headline.startswith(f"{name} "):
            return units.printable(f"it {finding.headline.removeprefix(name).lstrip()}")
    return ""


# --- lines of the model and of the kernel ----------------------------------------------------


def _list_said_by(finding: Finding) -> set[Hashable]:
    """Return what need not be said again below: how to apply a cure, and of the same kernels advice
    and lines."""
    places = {(finding.kernels, _find_place(finding))}
    lines = {(finding.kernels, number) for number in finding.source_lines}
    return {*_list_said(finding), *places, *lines, _key_advice(finding)}


def _key_advice(finding: Finding) -> Hashable:
    return (finding.kernels, "advice", finding.advice)


def _find_place(finding: Finding) -> str:
    return finding.origin.location if finding.origin else ""


def _draw_model_line(finding: Finding, said: Collection[Hashable]) -> Iterator[Text]:
    origin, place = finding.origin, _find_place(finding)
    if origin is not None and place and (finding.kernels, place) not in said:
        yield Text.assemble((f"{shorten_location(place)}  ", "dim"), origin.code)


def _list_source_lines(finding: Finding, said: Collection[Hashable], width: int) -> Iterator[Text]:
    """Yield those that no evidence is about."""
    about = " ".join(finding.evidence)
    for number, text in finding.source_lines.items():
        if (finding.kernels, number) not in said and f"line {number}: " not in about:
            line = Text.assemble((f"{number:>5}  ", "dim"), (text.strip(), "cyan"))
            line.truncate(width, overflow="ellipsis")
            yield line


def _count_others(comparison: Comparison, named: Finding | None) -> Iterator[str]:
    """Yield the findings about other kernels than the one that the lines name: ``2 findings fixed
    (PC204)``. Doubts about the report are none of the head's."""
    others = [f for f in comparison.findings if not f.doubt and not _is_beside(f, named)]
    fixed = [finding for finding in others if finding.appearance == "gone"]
    if fixed:
        yield f"{units.plural(len(fixed), 'finding')} fixed ({_join_codes(fixed)})"
    for appearance, adjective in (("new", "new "), ("worse", "worse ")):
        came = [f for f in others if f.came_with_head and (f.appearance or "new") == appearance]
        numbers = {s: sum(f.severity == s for f in came) for s in WORDS}
        counted = [
            units.plural(n, *(f"{adjective}{word}" for word in WORDS[s]))
            for s, n in numbers.items()
            if n
        ]
        if counted:
            yield f"{', '.join(counted)} ({_join_codes(came)})"


def _is_beside(finding: Finding, named: Finding | None) -> bool:
    """Return whether it stands in the same block as the one that is named."""
    if named is None or finding.on_base:
        return False
    return finding is named or not set(finding.kernels).isdisjoint(named.kernels)


def _join_codes(findings: Sequence[Finding]) -> str:
    """Return ``PC210 1.5 ms, PC101``: the codes, with what the findings cost together."""
    costs: dict[str, float] = {}
    for finding in findings:
        cost = finding.cost.seconds if finding.cost and not finding.explained_by else 0.0
        costs[finding.code] = costs.get(finding.code, 0.0) + cost
    return ", ".join(
        f"{code} {units.seconds(cost)}" if cost >= LEAST_SAID else code
        for code, cost in costs.items()
    )
