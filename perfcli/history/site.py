"""Writes the pages about a whole history: one that lists everything, and one for each subject, each
kernel group, and each change of which both runs are known. Links are relative, names follow from
what a page is about, so that a link stays good when the pages are written again."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from perfcli import units
from perfcli.diagnosis import judge
from perfcli.diff.compare import ASPECTS, gather_evidence
from perfcli.errors import PerfcliError
from perfcli.history import view
from perfcli.history.behind import Behind, look_behind
from perfcli.history.changes import Standing, Turning, find_changes, hold
from perfcli.history.choosing import HistoryFilter, choose_subjects
from perfcli.history.entry import Stored, Subject
from perfcli.history.history import History
from perfcli.history.page import LOOKS, Drawing, make_page, render
from perfcli.history.series import Series, choose_deciding, make_series
from perfcli.loading import registry
from perfcli.model import Document, OverviewPage, OverviewRow
from perfcli.storing.store import cannot_write
from perfcli.storing.whole import write_whole
from perfcli.workflow.obtain import Obtained
from perfcli.workflow.pair import Pair, summarize

INDEX = "index.html"
MOST_BYTES = 1_000_000
"""Of a page."""
RECENT = 60
MOST_COMPARISONS = 40
"""Pages of comparisons for each subject: of the newest changes."""
_WORD = re.compile(r"[^a-z0-9]+")


def write_site(history: History, choice: HistoryFilter, folder: Path, limit: float) -> int:
    """Write all pages into a folder, and return how many. ``limit``: what counts as worse, a share.
    Raises PerfcliError where the folder can't be written."""
    subjects = choose_subjects(history, choice)
    site = _Site(history, folder, limit)
    rows = [site.write_subject(subject, entries) for subject, entries in subjects]
    entries = sum(len(entries) for _, entries in subjects)
    note = (
        f"{units.plural(entries, 'entry', 'entries')} of {history.home.where}. A state compares "
        f"the end of a series with its best among the last {RECENT} points: WORSE is worse by more "
        f"than {limit * 100:g} %."
    )
    site.write(INDEX, render(OverviewPage("Overview", note, rows)))
    return site.written


class _Site:
    def __init__(self, history: History, folder: Path, limit: float) -> None:
        self.history = history
        self.folder = folder
        self.limit = limit
        self.written = 0
        self._behind: dict[tuple[str, str], Behind] = {}
        self._comparisons: dict[tuple[str, str], str] = {}
        self._compared: Counter[bytes] = Counter()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        try:
            write_whole(path, text.encode())
        except OSError as error:
            raise PerfcliError(cannot_write(path, error)) from error
        self.written += 1

    def write_subject(self, subject: Subject, entries: Sequence[Stored]) -> OverviewRow:
        """Write the pages of a subject, and return its row of the overview."""
        series = make_series(entries, kernels=True)
        deciding = choose_deciding(series)
        drawings = list(self._draw(series, deciding))
        steps = [each for each in drawings if not each.series.kernel]
        moving = [each for each in steps if each.changes or each.series in deciding]
        constant = [each.series for each in steps if each not in moving]
        name = _name_page("scenario", str(subject), subject.scenario)
        by_kernel: dict[str, list[Drawing]] = defaultdict(list)
        for each in drawings:
            if each.series.kernel:
                by_kernel[each.series.kernel].append(each)
        count = {kernel: sum(len(d.changes) for d in of) for kernel, of in by_kernel.items()}
        kernels = sorted(by_kernel, key=lambda kernel: (-count[kernel], kernel))
        pages = {each: _name_page("kernel", f"{subject} {each}", each) for each in kernels}
        changed = {n: f" ({units.plural(count[n], 'change')})" if count[n] else "" for n in kernels}
        page = replace(
            make_page(str(subject), moving, self._explain),
            trail=[("Overview", INDEX)],
            kernels=[(f"{each}{changed[each]}", pages[each]) for each in kernels],
            constant=[_describe_constant(each) for each in constant],
        )
        self.write(name, render(page))
        trail = [("Overview", INDEX), (str(subject), name)]
        for kernel in kernels:
            page = make_page(kernel, by_kernel[kernel], self._explain_briefly)
            self.write(pages[kernel], render(replace(page, trail=trail)))
        return _describe_row(subject, entries, name, moving)

    def _draw(self, series: Sequence[Series], deciding: Sequence[Series]) -> Iterator[Drawing]:
        for each in series:
            held: Standing | None = None
            if each in deciding:
                held = hold(each.cut(RECENT), self.limit)
            yield Drawing(each, find_changes(each), held)

    def _explain(self, change: Turning) -> tuple[Behind, str]:
        before, after = change.last.stored, change.first.stored
        key = before.id, after.id
        if key not in self._behind:
            self._behind[key] = look_behind(self.history, before, after, Path.cwd())
        if key not in self._comparisons:
            self._comparisons[key] = self._write_comparison(before, after)
        return self._behind[key], self._comparisons[key]

    def _explain_briefly(self, change: Turning) -> tuple[Behind | None, str]:
        """Of a kernel's change, the comparison is told if the whole step changed with it."""
        key = change.last.stored.id, change.first.stored.id
        return self._behind.get(key), self._comparisons.get(key, "")

    def _write_comparison(self, before: Stored, after: Stored) -> str:
        """Return the link to the page that compares the runs of two entries; empty where there is
        none."""
        subject = after.entry.subject.key
        if self._compared[subject] >= MOST_COMPARISONS:
            return ""
        self._compared[subject] += 1
        text = render_comparison(self.history, before, after, MOST_BYTES)
        if not text:
            return ""
        name = _name_page("comparison", f"{before.id} {after.id}", after.entry.commit.id[:12])
        self.write(name, text)
        return name


def _name_page(kind: str, about: str, words: str) -> str:
    """Return a file's name: readable, and another one for everything that it may be about."""
    digest = hashlib.sha256(about.encode()).hexdigest()[:10]
    readable = _WORD.sub("-", words.lower()).strip("-")[:40].strip("-")
    return f"{kind}-{readable}-{digest}.html" if readable else f"{kind}-{digest}.html"


def _describe_constant(series: Series) -> tuple[str, str, str]:
    count = units.count(len(series.samples))
    return series.name, count, series.write(series.values[-1])


def _describe_row(
    subject: Subject, entries: Sequence[Stored], link: str, drawings: Sequence[Drawing]
) -> OverviewRow:
    """Return what the overview shows of a subject: of its series the one that stands worst."""
    judged = [each for each in drawings if each.held]
    worst = min(judged, key=lambda each: _GRAVEST.index(each.held.verdict if each.held else "same"))
    held, series = worst.held, worst.series
    assert held is not None
    last = worst.changes[-1] if worst.changes else None
    details = str(subject).removeprefix(f"{subject.scenario} · ")
    return OverviewRow(
        name=subject.scenario,
        details=details,
        link=link,
        word=view.write_verdict(held),
        look=LOOKS[held.verdict],
        series=series.name,
        course=_draw_course(series.values),
        last=series.write(series.values[-1]),
        ratio=view.write_ratio(held) if held.verdict != "unsure" else held.why,
        change=view.describe_change(last) if last else "none",
        entries=units.count(len(entries)),
    )


_GRAVEST = ("worse", "unsure", "better", "same")
_COURSE_POINTS = 60


def _draw_course(values: Sequence[float]) -> str:
    """Return the newest points as those of a line, 120 wide and 24 high."""
    shown = values[-_COURSE_POINTS:]
    low, high = min(shown), max(shown)
    across, down = 116 / max(len(shown) - 1, 1), 20 / ((high - low) or 1)
    heights = [12 if high == low else 22 - (value - low) * down for value in shown]
    return " ".join(f"{2 + n * across:.1f},{height:.1f}" for n, height in enumerate(heights))


def render_comparison(history: History, before: Stored, after: Stored, most: int) -> str:
    """Return a page about the runs of two entries, of at most so many bytes, without their sources;
    empty where the history does not have them, or the page is larger."""
    try:
        base, head = (history.read_run(each.entry.run) for each in (before, after))
        if base is None or head is None:
            return ""
        comparison, broken = judge(gather_evidence(base, head, ASPECTS))
    except PerfcliError:
        return ""
    sides = Obtained(base, None), Obtained(head, None)
    judgement = summarize([Pair(*sides, comparison, fault=str(broken or ""))])
    text = registry.load_declared("reports", "html", Document).render(judgement)
    return text if len(text.encode()) <= most else ""
