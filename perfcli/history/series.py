"""Makes series of entries: the numbers of one metric of one subject, in the order of commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from perfcli import units
from perfcli.diff.metrics import DECIDING, KERNEL_METRICS
from perfcli.history.entry import Kind, Point, Stored, Subject

PEAK = "peak_memory_bytes"
_HIGHER_IS_BETTER = {metric.name for metric in KERNEL_METRICS if metric.better == "higher"}


class Sample(NamedTuple):
    """Holds one point of a series, and the entry that it comes from."""

    stored: Stored
    point: Point

    @property
    def value(self) -> float:
        return self.point.value


@dataclass(frozen=True, slots=True)
class Series:
    """Holds numbers that can be compared with each other: of one kind, one metric, and one control
    or set of constants."""

    subject: Subject
    kind: Kind
    kernel: str
    metric: str
    basis: str
    samples: tuple[Sample, ...]

    @property
    def values(self) -> list[float]:
        return [sample.value for sample in self.samples]

    def cut(self, count: int) -> Series:
        """Return the newest points."""
        return replace(self, samples=self.samples[-count:])

    @property
    def is_exact(self) -> bool:
        """Return whether equal code gives equal numbers: then each change is one."""
        return self.kind != "measured"

    @property
    def higher_is_better(self) -> bool:
        return self.metric in _HIGHER_IS_BETTER

    @property
    def name(self) -> str:
        """Return what it is called beside its subject: ``estimated time of forward 0 triton_…``."""
        of = f" of {self.kernel}" if self.kernel else ""
        word = "measured " if self.kind == "measured" else ""
        return f"{word}{units.title(self.metric)}{of}"

    def write(self, value: float) -> str:
        """Write one of its values for people."""
        return f"{value:.4f} ×" if self.kind == "measured" else units.writer(self.metric)(value)


def order(entries: Iterable[Stored]) -> list[Stored]:
    """Return entries in the order of a series: by how many commits each commit contains, where all
    of them are of one repository, which no ancestor's exceeds; else by the order in which they were
    added. No clock has a say, but among entries of one commit."""
    listed = list(entries)
    repositories = {each.entry.commit.repository for each in listed}
    by_depth = len(repositories) == 1 and all(each.entry.commit.depth for each in listed)
    return sorted(
        listed,
        key=lambda each: (
            each.entry.commit.depth or 0 if by_depth else 0,
            *((each.when, each.sequence) if by_depth else (each.sequence, each.when)),
            each.id,
        ),
    )


def make_series(
    entries: Sequence[Stored], *, kernels: bool = False, metrics: Collection[str] = ()
) -> list[Series]:
    """Return the series of one subject's entries: those of the whole step, and after them those of
    kernel groups where they are asked for; of these metrics only, where any are named."""
    found: dict[tuple[Kind, str, str, str], list[Sample]] = {}
    for stored in order(entries):
        entry = stored.entry
        for point in (*entry.points, *(entry.read_kernels() if kernels else ())):
            if metrics and point.metric not in metrics:
                continue
            key = (point.kind, point.kernel, point.metric, point.basis)
            found.setdefault(key, []).append(Sample(stored, point))
    if not found:
        return []
    subject = entries[0].entry.subject
    made = [Series(subject, *key, tuple(samples)) for key, samples in found.items()]
    return sorted(made, key=lambda each: (bool(each.kernel), _KINDS.index(each.kind)))


_KINDS: tuple[Kind, ...] = ("measured", "estimated", "static")


def choose_deciding(series: Iterable[Series]) -> list[Series]:
    """Return the series of whole steps by which a subject is judged, as compare judges: by measured
    time, else by estimated time, and by peak memory; where no time is known, by spilled words and
    bytes. Of series of a kind that differ in what they can't be compared without, the one that goes
    on."""
    steps = [each for each in series if not each.kernel]
    timed = next((found for kind in _KINDS[:2] if (found := _find_last(steps, kind))), None)
    peaks = [each for each in steps if each.metric == PEAK]
    memory = [found] if (found := _find_last(peaks, "static")) else []
    if timed is not None:
        return [timed, *memory]
    return [*(e for e in steps if e.metric in DECIDING and e.metric != PEAK), *memory]


def _find_last(steps: Sequence[Series], kind: Kind) -> Series | None:
    found = [each for each in steps if each.kind == kind]
    return max(found, key=lambda each: each.samples[-1].stored.sequence, default=None)


def find_clocks_going_back(entries: Sequence[Stored], now: str = "") -> Iterator[str]:
    """Yield a line where times contradict what is certain: a commit contains those of its branch
    that are older, and what was added, here or in a history that was taken over, was so before
    ``now`` (ISO 8601, UTC). In which order entries were added and runs were made is not certain:
    histories are taken over, and older runs added, at any time."""
    for said in (*_list_commits_back(entries), *_list_additions_ahead(entries, now)):
        yield (
            f"a clock went back: {said}; points are in the order of commits, or of additions, "
            "whatever the clock said"
        )
        return


def _list_commits_back(entries: Sequence[Stored]) -> Iterator[str]:
    branches: dict[tuple[str, str], dict[str, Stored]] = {}
    for each in entries:
        commit = each.entry.commit
        if commit.depth and commit.branch and commit.time:
            branches.setdefault((commit.repository, commit.branch), {}).setdefault(commit.id, each)
    for firsts in branches.values():
        ordered = sorted(firsts.values(), key=lambda each: each.entry.commit.depth or 0)
        for earlier, later in pairwise(ordered):
            old, new = earlier.entry.commit, later.entry.commit
            # Where a branch was written anew, a newer commit, added later, may contain fewer.
            contains = new.depth != old.depth and later.sequence > earlier.sequence
            if contains and _went_back(old.time, new.time):
                yield (
                    f"commits {old.id[:12]} and {new.id[:12]} were made at {old.time[:19]}, then "
                    f"at {new.time[:19]}"
                )


def _list_additions_ahead(entries: Sequence[Stored], now: str) -> Iterator[str]:
    latest = max((each.added for each in entries), default="")
    if _went_back(latest, now):
        yield f"an entry was added at {latest[:19]}, and now it is {now[:19]}"


_SLACK = timedelta(minutes=10)
"""By as much the clocks of several machines may differ."""


def _went_back(before: str, after: str) -> bool:
    try:
        first, second = (datetime.fromisoformat(f"{each[:19]}Z") for each in (before, after))
    except ValueError:  # one that is not known, or that no perfcli wrote
        return False
    return second < first - _SLACK
