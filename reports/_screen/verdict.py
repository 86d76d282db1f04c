"""The first lines of a comparison: what is worse, through which kernel, why, and the cure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import ABOUT_NAMES, Because, Comparison, Finding, KernelFacts, Outcome

from .._rows.kernels import shorten_names
from .._rows.totals import write_verdict
from .cures import order_trials, write_assignments, write_costs
from .finding import _count_others, write_cost

STYLES: dict[Outcome, str] = {"worse": "red", "better": "green", "same": "", "unknown": "yellow"}
LABEL = 8
LEAST_NAME = 20
LEAST_BROKEN = 30
MOST_NAMES = 4


def _draw_sentence(comparison: Comparison) -> Text:
    """Return the verdict and its whole reason."""
    return Text.assemble(_draw_word(comparison), "  ", units.printable(comparison.reason))


def _draw_word(comparison: Comparison) -> Text:
    style = f"bold {STYLES[comparison.outcome]}".strip()
    return Text(write_verdict(comparison), style=style)


@dataclass(frozen=True)
class FirstLines:
    """The verdict, and where one group of kernels is to blame what became of it and why. Names of
    kernels give way in the middle, so that no line is broken in one."""

    comparison: Comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        word = _draw_word(self.comparison)
        yield from _draw_line(word, *self._first(), width, word.cell_len + 2)
        for label, text, names in self._rest():
            yield from _draw_line(Text(label, style="dim"), text, names, width, LABEL)

    def rows(self) -> list[tuple[str, str]]:
        """Return the label and text of each line, with whole names: for formats that break lines
        themselves. The first label is the verdict."""
        first = (write_verdict(self.comparison), self._first()[0])
        rest = ((label, text) for label, text, _ in self._rest())
        return [(label, units.printable(text)) for label, text in (first, *rest)]

    def _first(self) -> tuple[str, Sequence[str]]:
        because = self.comparison.because
        if because is None:
            return self.comparison.reason, ()
        if because.kernel and not because.share:
            return f"{because.change}: {because.kernel} {because.how}", [because.kernel]
        return because.change, ()

    def _rest(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        comparison, because = self.comparison, self.comparison.because
        finding = _find_cause(comparison)
        if finding is not None:
            yield from self._caused(finding)
        if because is not None:
            if because.clock:
                yield "clock", because.clock, ()
            yield from self._measured(because)
            if because.sums:
                yield "sum", because.sums, ()
            yield from self._swallowed()
            if because.also:
                yield "also", because.also, ()
            if because.though:
                yield "though", because.though, ()
        elif comparison.outcome == "same":
            yield from ((*line, ()) for line in _write_sameness(comparison))
        said = comparison.besides if because or comparison.outcome == "unknown" else ()
        for text in (*said, *_count_others(comparison, finding)):
            yield "besides", text, ()

    def _caused(self, finding: Finding) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield the finding that costs most, and what cures it."""
        because = self.comparison.because
        names = [self.comparison.head.kernels[n].name for n in finding.kernels]
        if because is None or because.code != finding.code:  # else it is said
            cost = write_cost(finding)
            above = because.kernel if because and not because.share else ""
            text = f"{finding.code} {_write_of_it(finding.headline, above)}"
            text += f", costs {cost}" if cost else ""
            yield "cause", text, names
        cured = _write_cure(finding)
        if cured:
            yield "cure", cured, ()

    @staticmethod
    def _measured(because: Because) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield the kernel that adds most to a measured change, or why nothing can be told."""
        if because.kernel and because.share:
            yield "kernel", f"{because.kernel} {because.how}, {because.share}", [because.kernel]
        elif because.share:
            yield "why", because.share, ()
        if because.why:
            yield "why", because.why, ()
        if because.help:
            yield "try", because.help, ()

    def _swallowed(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield by name what a fused kernel was made of, or a split one became."""
        because = self.comparison.because
        if because is None or because.group is None:
            return
        match = self.comparison.groups[because.group].match
        ours, theirs = match.select(self.comparison.base, self.comparison.head)
        if len(ours) > 1:
            yield "from", *_list_kernels(ours)
        if len(theirs) > 1:
            yield "into", *_list_kernels(theirs)


def _write_sameness(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield what is known of a comparison in which all code is the same: how long the step takes by
    estimate, and the options that changed nothing."""
    estimate = comparison.estimate
    if estimate is not None and estimate.head.seconds and not estimate.missing:
        base, head = estimate.base.seconds, estimate.head.seconds
        sides = units.from_to(base, head) if base != head else units.seconds(head)
        whole = not (None in estimate.head.externs or estimate.head.missing)
        what = "step" if whole else "kernels"
        yield "time", f"estimated {what} {sides}"
    if comparison.changed_groups:
        return
    names = _list_toggled(comparison)
    if names and comparison.base.environment.torch == comparison.head.environment.torch:
        listed = ", ".join(names[:MOST_NAMES])
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        what = "option" if len(names) == 1 else "options"
        yield "code", f"the {what} {listed}{more} changed no kernel"


def _list_toggled(comparison: Comparison) -> list[str]:
    """Return the options and variables that the two sides set differently."""
    variants = (comparison.base.variant, comparison.head.variant)
    base, head = ({**variant.options, **variant.env} for variant in variants)
    return [name for name in sorted({**base, **head}) if base.get(name) != head.get(name)]


def _write_of_it(headline: str, name: str) -> str:
    """Return a headline about the kernel that the line above names; as it is where that names
    none."""
    if name and headline.startswith(f"{name} "):
        return f"it {headline.removeprefix(name).lstrip()}"
    return headline


def _list_kernels(kernels: Sequence[KernelFacts]) -> tuple[str, Sequence[str]]:
    shown = kernels[:MOST_NAMES]
    parts = [f"{k.name}{_write_loads(k)}" for k in shown]
    more = f" and {len(kernels) - len(shown)} more" if len(kernels) > len(shown) else ""
    return ", ".join(parts) + more, [k.name for k in shown]


def _write_loads(kernel: KernelFacts) -> str:
    facts = kernel.source_facts
    return f" ({units.plural(facts.loads, 'load')})" if facts else ""


def _find_cause(comparison: Comparison) -> Finding | None:
    """Return the finding that decided; else the new or worse one that costs most of the step,
    whichever kernels it is about. Of those that cost about as much it is one about the kernels to
    blame that is no consequence of another, best one that the base's own setting would cure. Where
    no cost is known it is the gravest about the kernels to blame."""
    because = comparison.because
    if because is None or comparison.outcome not in ("worse", "unknown"):
        return None
    every = [f for f in comparison.findings if f.came_with_head]
    came = [f for f in every if f.code not in ABOUT_NAMES and _may_explain(f, comparison)]
    decided = next((f for f in came if f.code == because.code), None)
    most = max((_count_cost(f) for f in came), default=0.0)
    if decided is None and most > LEAST_SHARE:
        dear = [f for f in came if _count_cost(f) >= ABOUT_AS_MUCH * most]
        return min(dear, key=lambda f: _rank(f, comparison))
    if decided is not None:
        return decided
    if because.group is None:  # nothing is sure: what only the two sides together show may be it
        grave = (f for f in came if not f.appearance and f.severity != "info" and not f.doubt)
        return next(grave, None) if comparison.outcome == "unknown" else None
    blamed = set(comparison.groups[because.group].match.head)
    found = [finding for finding in came if blamed.intersection(finding.kernels)]
    if len(came) < len(every) and comparison.groups[because.group].match.relation == "new":
        grave = (f for f in came if f.severity != "info" or f in found)  # what came with them
        return next((f for f in grave if not f.explained_by), None)
    codes = {finding.code for finding in found}
    found.sort(key=lambda finding: not _by_what_was_set(finding, comparison))  # stable
    return next((f for f in found if f.explained_by not in codes), found[0] if found else None)


LEAST_SHARE = 0.005
"""Of the step: what costs less is no cause by its cost."""
ABOUT_AS_MUCH = 0.5
"""The part of the highest cost from which on costs can't be told apart."""


LEAST_OF_CHANGE = 0.2
"""What costs less of what the step takes more is not why."""


def _may_explain(finding: Finding, comparison: Comparison) -> bool:
    """Return whether a finding is about what got worse, and large enough for it: a launch's time on
    the host lengthens no step of the device, and a lost fusion's takes no memory."""
    because, estimate = comparison.because, comparison.estimate
    if because is None or finding.code == because.code or comparison.outcome != "worse":
        return True
    memory = next((c for c in comparison.totals if c.metric == "peak_memory_bytes"), None)
    if memory is not None and because.change.startswith(units.title(memory.metric)):
        grew = (memory.head or 0) - (memory.base or 0)
        moved = finding.amount or 0.0 if finding.metric.endswith("_bytes") else 0.0
        return moved >= LEAST_OF_CHANGE * grew
    if estimate is None or not because.change.startswith("estimated") or finding.cost is None:
        return True
    grew = estimate.head.seconds - estimate.base.seconds
    of_host = finding.subject == "host" and not estimate.head.waits_for_host
    return not of_host and finding.cost.seconds >= LEAST_OF_CHANGE * grew


def _count_cost(finding: Finding) -> float:
    """Return the share of the step that a finding costs; 0 where it is not known."""
    return (finding.cost.share if finding.cost else None) or 0.0


def _rank(finding: Finding, comparison: Comparison) -> tuple[bool, bool, bool, float]:
    group = comparison.because.group if comparison.because else None
    blamed = () if group is None else comparison.groups[group].match.head
    return (
        bool(blamed) and set(blamed).isdisjoint(finding.kernels),
        bool(finding.explained_by),
        not _by_what_was_set(finding, comparison),
        -_count_cost(finding),
    )


def _by_what_was_set(finding: Finding, comparison: Comparison) -> bool:
    """Return whether a cure is to set an option back to what it is in the base."""
    base, head = comparison.base.settings, comparison.head.settings
    return any(
        name in base and base[name] == value != head.get(name)
        for cure in finding.cures
        for name, value in cure.options.items()
    )


def _write_cure(finding: Finding) -> str:
    """Return the options that help, with what they cost, or those to try."""
    for trial in order_trials(finding.trials):
        if trial.outcome.startswith("helps"):
            cost = f", costs {write_costs(trial)}" if trial.outcome == "helps at a cost" else ""
            return f"{write_assignments(trial.cure.options)} (proven){cost}"
    if finding.trials:
        failed = all(trial.outcome == "failed" for trial in finding.trials)
        return f"none found: what was tried {'failed' if failed else 'does not help'}"
    for cure in finding.cures[:1]:
        return write_assignments(cure.options) + (" (proven)" if finding.proven else "")
    return ""


# --- lines -----------------------------------------------------------------------------------


def _draw_line(
    label: Text, text: str, names: Sequence[str], width: int, indent: int
) -> Iterator[Text]:
    """Yield one line if names can make it so, else several below each other behind the label."""
    room = max(width - indent, 24)
    shown = shorten_names(text, names, room, LEAST_NAME)
    if len(shown) > room:  # it takes several lines anyway: names need not give way so far
        shown = shorten_names(text, names, room, max(room // 2 - 12, LEAST_BROKEN))
    lines = _wrap(units.printable(shown), room)
    for number, line in enumerate(lines):
        start = label if number == 0 else Text()
        yield Text.assemble(start, " " * (indent - start.cell_len), line)


def _wrap(text: str, room: int) -> list[str]:
    """Wrap at spaces, but not between a kernel and its loads, or a number and its %; what is longer
    than a line sticks out."""
    lines = [""]
    for word in re.split(r" (?!\()(?!loads?\))(?!%)", text):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
