"""Says what lies behind a change of a series: the commits between its points, the versions, options
and machines that differ, and the kernels that changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfcli.diff.compare import ASPECTS, compare
from perfcli.errors import PerfcliError
from perfcli.history.commits import list_between
from perfcli.history.entry import Stored
from perfcli.history.history import History
from perfcli.model import Comparison, KernelGroup

MOST_KERNELS = 5


@dataclass(frozen=True, slots=True)
class Behind:
    """Holds what differs between two entries."""

    commits: tuple[str, ...]
    """The commits between, the newest first, ``a1b2c3d4e5f6 Fuse it``: of the repository where
    perfcli is called, else the newer point's own."""
    circumstances: tuple[str, ...]
    """``torch 2.12.1 → 2.13.0``."""
    kernels: tuple[str, ...]
    """``triton_red_fused_sum_0 changed: loads 4 → 8``."""
    why_no_kernels: str = ""

    def list_words(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return all of it, each part with a word that says what it is."""
        return [
            ("commits", self.commits),
            ("differs", self.circumstances),
            ("kernels", self.kernels or (self.why_no_kernels,)),
        ]


def look_behind(history: History, before: Stored, after: Stored, folder: Path) -> Behind:
    """Return what differs between two entries of a subject. ``folder``: in the user's
    repository."""
    ours, theirs = before.entry, after.entry
    commits = list_between(ours.commit.id, theirs.commit.id, folder)
    if not commits and theirs.commit.id != ours.commit.id:
        commits = [f"{theirs.commit.id[:12]} {theirs.commit.title}"]
    kernels, why = _compare_kernels(history, before, after)
    return Behind(tuple(commits), tuple(_list_differing(before, after)), kernels, why)


_SETTING = "default of "


def _list_differing(before: Stored, after: Stored) -> Iterator[str]:
    ours, theirs = before.entry.circumstances, after.entry.circumstances
    known = bool(before.entry.run) == bool(after.entry.run)
    for name in {**ours, **theirs}:
        old, new = ours.get(name), theirs.get(name)
        # Of a gate's document less is known than of a run: that is no change.
        if name.startswith(_SETTING) and name.replace(_SETTING, "option ") in {**ours, **theirs}:
            continue
        if old != new and (known or (old is not None and new is not None)):
            yield f"{name} {old or 'none'} → {new or 'none'}"
    if after.entry.commit.edited:
        yield "files edited since the commit"


def _compare_kernels(
    history: History, before: Stored, after: Stored
) -> tuple[tuple[str, ...], str]:
    try:
        runs = [history.read_run(each.entry.run) for each in (before, after) if each.entry.run]
        base, head = runs if len(runs) == 2 else (None, None)
        if base is None or head is None:
            return (), "the history does not have the runs of both points"
        compared = compare(base, head, ASPECTS)
    except PerfcliError as error:
        return (), str(error)
    changed = compared.changed_groups
    listed = [_describe_group(compared, group) for group in changed[:MOST_KERNELS]]
    if len(changed) > MOST_KERNELS:
        listed.append(f"and {len(changed) - MOST_KERNELS} more")
    return tuple(listed), "" if changed else "all kernels are the same code"


def _describe_group(compared: Comparison, group: KernelGroup) -> str:
    from perfcli import units

    sides = group.match.select(compared.base, compared.head)
    ours, theirs = (", ".join(kernel.name for kernel in side) for side in sides)
    name = theirs if ours == theirs or not ours else f"{ours} → {theirs}" if theirs else ours
    changes = [
        f"{units.title(each.metric)} {units.writer(each.metric)(each.base)} → "
        f"{units.writer(each.metric)(each.head)}"
        for each in group.changes
        if each.base != each.head and each.metric in _TOLD
    ]
    return f"{name} {group.match.relation}{': ' if changes else ''}{', '.join(changes)}"


_TOLD = ("loads", "stores", "spilled_words", "registers", "bytes_moved", "launches")
