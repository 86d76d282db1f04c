"""Where in the user's model something stands that a document wants to point to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfcli.model import Comparison, Finding, KernelFacts, Origin, Run

from ._places import Place, place


def of_finding(finding: Finding, comparison: Comparison, root: str) -> tuple[Place | None, str]:
    """The finding's own line, else its first kernel's, else the scenario's file; and that line's
    text."""
    run = comparison.base if finding.on_base else comparison.head
    kernels = [run.kernels[number] for number in finding.kernels if number < len(run.kernels)]
    return _first([finding.origin] if finding.origin else [], kernels, run, root)


def of_group(group: int | None, comparison: Comparison, root: str) -> tuple[Place | None, str]:
    """A line that the group's first kernel comes from; of no group the scenario's file."""
    return _first([], kernels_of(group, comparison), comparison.head, root)


def blamed(metric: str, comparison: Comparison) -> int | None:
    """The group that adds most to a total's change for the worse; None where none does."""
    worst, most = None, 0.0
    for number, group in enumerate(comparison.groups):
        for change in group.changes:
            grown = abs(change.delta or 0.0)
            if change.metric == metric and change.outcome == "worse" and grown > most:
                worst, most = number, grown
    return worst


def kernels_of(group: int | None, comparison: Comparison) -> list[KernelFacts]:
    """The head's kernels of a group, the base's where they are gone."""
    if group is None:
        return []
    match = comparison.groups[group].match
    if match.head:
        return [comparison.head.kernels[number] for number in match.head]
    return [comparison.base.kernels[number] for number in match.base]


def _first(
    origins: Iterable[Origin], kernels: Iterable[KernelFacts], run: Run, root: str
) -> tuple[Place | None, str]:
    candidates = [*origins, *(origin for kernel in kernels for origin in kernel.origins)]
    places = [(place(o.location, root), o.code) for o in candidates if o.location]
    known = [(where, code) for where, code in places if where is not None]
    # A line of the repository says more than one of a library that the model uses, which stands
    # in another folder on each machine.
    inside = [(where, code) for where, code in known if where.inside]
    files = [(where, "") for where in _scenario(run, root)]
    own = [each for each in files if each[0].inside]
    return next(iter((*inside, *own, *known, *files)), (None, ""))


def _scenario(run: Run, root: str) -> Iterator[Place]:
    """The file that a user's scenario is written in; a shipped one is none of the user's."""
    path = run.scenario.partition(":")[0]
    if path.endswith(".py"):
        found = place(path, root)
        if found is not None:
            yield found
