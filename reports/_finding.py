"""One finding on the screen."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import Finding, Run, Severity

from ._cures import cure_lines, said_by
from ._kernel_view import short_location
from ._names import shorten

STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
WORDS: dict[Severity, tuple[str, str]] = {
    "error": ("error", "errors"),
    "warning": ("warning", "warnings"),
    "info": ("note", "notes"),
}
INDENT = 4
HANGING = 2
# Of a kernel's name, as in the tables.
LEAST_NAME = 30


@dataclass(frozen=True)
class Full:
    """Headline, evidence, lines of the model and the kernel, advice, cures and their trials."""

    finding: Finding
    run: Run
    said: Collection[Hashable] = ()
    """What findings above say already (``says``)."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        finding, width = self.finding, options.max_width
        yield from _headline(finding, self.run, console, width)
        body = [Text(line) for line in (*_unnamed(finding, self.run), *finding.evidence)]
        body += [*_model_line(finding, self.said)]
        body += [*_source_lines(finding, self.said, width - INDENT)]
        body += [Text(f"→ {finding.advice}")] if finding.advice else []
        yield from _indented([*body, *cure_lines(finding, self.said)], console, width)


@dataclass(frozen=True)
class Short:
    """A further finding of the same kernel."""

    finding: Finding
    run: Run
    said: Collection[Hashable] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        finding = self.finding
        yield from _headline(finding, self.run, console, options.max_width)
        body = [*map(Text, finding.evidence[:1]), *cure_lines(finding, self.said)]
        yield from _indented(body, console, options.max_width)


@dataclass(frozen=True)
class OneLine:
    """Just what it was, on one line."""

    word: str
    finding: Finding
    run: Run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        label = f"{self.word} {self.finding.code}  "
        text = _shortened(self.finding, self.run, options.max_width - len(label))
        line = Text.assemble((label, "green"), (text, "dim"))
        line.truncate(options.max_width, overflow="ellipsis")
        yield line


def _indented(lines: Iterable[Text], console: Console, width: int) -> Iterator[Text]:
    for line in lines:
        safe = Text(units.printable(line.plain), line.style, spans=line.spans)
        yield from _hanging(safe, console, width, INDENT)


def _headline(finding: Finding, run: Run, console: Console, width: int) -> Iterator[Text]:
    appearance = f"{finding.appearance} " if finding.appearance else ""
    label = f"{appearance}{WORDS[finding.severity][0]} {finding.code}  "
    text = _shortened(finding, run, width - len(label))
    line = Text.assemble((label, STYLES[finding.severity]), (text, "bold"))
    yield from _hanging(line, console, width, 0)


def _hanging(line: Text, console: Console, width: int, indent: int) -> Iterator[Text]:
    """Further lines are indented more, so that the next thing said is seen to be another."""
    room = width - indent
    lines = [line] if line.cell_len <= room else line.wrap(console, max(room - HANGING, 20))
    for number, part in enumerate(lines):
        part.rstrip()
        yield Text.assemble(" " * (indent + (HANGING if number else 0)), part)


# --- kernels' names --------------------------------------------------------------------------


def _shortened(finding: Finding, run: Run, room: int) -> str:
    """The headline with kernels as a number and a name whose middle gives way."""
    names = _names(finding, run)
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


def _names(finding: Finding, run: Run) -> Mapping[str, int]:
    """Full name to number, the longest first."""
    known = {run.kernels[n].name: n for n in finding.kernels if n < len(run.kernels)}
    return dict(sorted(known.items(), key=lambda item: -len(item[0])))


def _unnamed(finding: Finding, run: Run) -> Iterator[str]:
    """The kernels, where the headline does not name them all."""
    names = _names(finding, run)
    if names and not all(name in finding.headline for name in names):
        numbers = ", ".join(map(str, sorted(finding.kernels)))
        yield f"{'kernel' if len(finding.kernels) == 1 else 'kernels'} {numbers}"


# --- lines of the model and of the kernel ----------------------------------------------------


def says(finding: Finding) -> set[Hashable]:
    """What need not be said again below: how to apply a cure, and lines of the same kernels."""
    places = {(finding.kernels, _place(finding))}
    lines = {(finding.kernels, number) for number in finding.source_lines}
    return {*said_by(finding), *places, *lines}


def _place(finding: Finding) -> str:
    return finding.origin.location if finding.origin else ""


def _model_line(finding: Finding, said: Collection[Hashable]) -> Iterator[Text]:
    origin, place = finding.origin, _place(finding)
    if origin is not None and place and (finding.kernels, place) not in said:
        yield Text.assemble((f"{short_location(place)}  ", "dim"), origin.code)


def _source_lines(finding: Finding, said: Collection[Hashable], width: int) -> Iterator[Text]:
    for number, text in finding.source_lines.items():
        if (finding.kernels, number) not in said:
            line = Text.assemble((f"{number:>5}  ", "dim"), (text.strip(), "cyan"))
            line.truncate(width, overflow="ellipsis")
            yield line
