"""The table of reported problems, for the terminal and for docs/reported.md."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from reported import Reported
from reported_judged import Judged

COUNTED = {
    "right direction on top": "right",
    "… of these called worse": "called_worse",
    "cause named": "cause",
    "… of these on top": "cause_on_top",
    "cure named": "cure",
    "misled": "misled",
    "explain names the cause, bad side alone": "explained",
}


def write_table(cases: Mapping[str, Reported], judged: Mapping[str, Judged]) -> str:
    """Return the totals of both halves side by side, and what was not run."""
    lines = [f"{'':42}{'even':>14}{'odd':>14}{'all':>14}"]
    for words, *cells in _count(judged):
        lines.append(f"{words:42}" + "".join(f"{cell:>14}" for cell in cells))
    missing = [one for one in judged.values() if one.missing]
    lines += [f"not run  {one.name}: {one.missing}" for one in missing]
    return "\n".join(["", *lines])


def _count(judged: Mapping[str, Judged]) -> list[tuple[str, ...]]:
    ran = [one for one in judged.values() if not one.missing]
    halves = [
        [one for one in ran if int(one.name.rpartition("_")[2]) % 2 == parity] for parity in (0, 1)
    ]
    groups = [*halves, ran]
    rows: list[tuple[str, ...]] = [("cases run", *(str(len(group)) for group in groups))]
    for words, name in COUNTED.items():
        counts = [sum(getattr(one, name) for one in group) for group in groups]
        rows.append((words, *map(_share, counts, map(len, groups))))
    silent = [sum(not one.false for one in group) for group in groups]
    rows.append(("good twin silent", *map(_share, silent, map(len, groups))))
    false = [sum(one.false_kernels for one in group) for group in groups]
    kernels = [sum(one.good_kernels for one in group) for group in groups]
    rows.append(("… kernels with a false finding", *map(_share, false, kernels)))
    return rows


def _share(count: int, of: int) -> str:
    return f"{count}/{of} {100 * count / of:.0f} %" if of else "–"


INTRODUCTION = """\
Problems that people reported in public, rebuilt and asked of perfcli: {cases} reports, one file \
each in [bench/reported/](../bench/reported). Written by `make reported`; {date}, without a GPU, \
torch {default} where the file names no other. The reporters' numbers are theirs, taken on their \
devices. "Right" means that the side with the problem is called worse when it is compared with its \
good twin; "likely", that the verdict is UNSURE and says that it is slower in at least seven of \
ten such cases (to say faster would be to mislead). The cause is "on top" when the lines before \
the first blank one name it, "below" when a finding does. `explain` sees the bad side alone, and \
has to stay silent about the good twin.

The cases with even numbers could be looked at while the rules were written; those with odd \
numbers could not, until all had been run once (2026-11-23: direction 86 and 86 %, cause 100 and \
95 %, cure 95 and 76 %, `explain` 82 and 81 %). Then the findings of good twins were looked at, \
all six of odd cases: three were true and are entered in their cases, two led to mends of PC502 \
and PC210, and one is left. CUDA graphs that are no longer recorded were made to decide a verdict \
after that run, too."""


def write_page(cases: Mapping[str, Reported], judged: Mapping[str, Judged], torch: str) -> str:
    """Return docs/reported.md."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = ["# Reported problems", ""]
    lines += [INTRODUCTION.format(cases=len(cases), date=date, default=torch), ""]
    lines += ["| | even | odd | all |", "| --- | --- | --- | --- |"]
    lines += ["| " + " | ".join(row) + " |" for row in _count(judged)]
    for kind in dict.fromkeys(case.kind for case in cases.values()):
        lines += ["", f"## {kind[0].upper()}{kind[1:]}", ""]
        lines += ["| report | what was reported | direction | cause | cure | `explain` | twin |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        same = [name for name, case in cases.items() if case.kind == kind]
        lines += [_row(cases[name], judged[name]) for name in same]
    lines += ["", "## What perfcli says first", ""]
    for name, one in judged.items():
        if one.first_lines:
            lines += [f"{cases[name].issue}:", "", "```", one.first_lines, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(case: Reported, one: Judged) -> str:
    repository, _, number = case.issue.partition("#")
    link = f"[{case.issue}](https://github.com/{repository}/issues/{number})"
    what = ". ".join(text[0].upper() + text[1:] for text in (case.title, case.said))
    if one.missing:
        cells = [f"not run: {one.missing}", "", "", "", ""]
    else:
        direction = "**misled**" if one.misled else "not seen"
        if one.right:
            direction = "right" if one.called_worse else "likely"
        cause = "on top" if one.cause_on_top else "below" if one.cause else "–"
        named = "names it" if one.explained else ", ".join(one.found) or "silent"
        twin = "; ".join(one.false) or "silent"
        cells = [direction, cause, "named" if one.cure else "–", named, twin]
    return "| " + " | ".join(_cell(text) for text in (link, what, *cells)) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
