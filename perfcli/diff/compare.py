"""Makes a comparison of two runs: totals, groups of kernels, and the verdict that follows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from perfcli import units
from perfcli.diff.compile_time import compare_compile_times
from perfcli.diff.match import match
from perfcli.diff.metrics import changes, totals
from perfcli.diff.verdict.conclude import conclude
from perfcli.errors import NotComparable, PerfcliError
from perfcli.model import Comparison, KernelGroup, Run
from perfcli.predict.step import compare_steps, with_estimates

_REVISION = re.compile(r"(?<=\.py)(:[^@]+)?@.*")
ASPECTS = ("scenario", "params", "mode", "device", "target", "dynamic")
"""What two runs must have in common; each can be allowed to differ."""


def compare(base: Run, head: Run, allow: Collection[str] = ()) -> Comparison:
    """Compare two runs of the same question, and conclude from counts and estimates alone. Raises
    NotComparable when they differ in an aspect that is not in ``allow``, PerfcliError when there is
    nothing to compare."""
    return conclude(gather_evidence(base, head, allow))


def gather_evidence(
    base: Run, head: Run, allow: Collection[str] = (), typed: Collection[str] = ()
) -> Comparison:
    """Return all that two runs tell, without a verdict: for whoever adds times or findings first.
    ``typed``: aspects that were typed to differ, of which nothing is said. Raises NotComparable and
    PerfcliError as ``compare`` does."""
    check_allowed(allow)
    _check_aspects(base, head, (*allow, *typed))
    traced = base.observed is not None and head.observed is not None
    if not base.kernels and not head.kernels and not traced:
        raise PerfcliError(
            "nothing to compare: neither run has a generated kernel "
            "(only extern operators, or nothing was compiled)"
        )
    counted = Comparison(
        base,
        head,
        totals(base, head),
        _group_kernels(base, head),
        differences=(*_describe_allowed(base, head, typed), *_differences(base, head)),
        besides=_find_besides(base, head),
        compiled=compare_compile_times(base, head),
    )
    return _add_estimate(counted)


def _group_kernels(base: Run, head: Run) -> tuple[KernelGroup, ...]:
    """Return the groups of kernels that were matched, with what changed in each."""
    return tuple(
        KernelGroup(found, changes(*found.select(base, head)))
        for found in match(base.kernels, head.kernels, _nodes_agree(base, head))
    )


def _add_estimate(counted: Comparison) -> Comparison:
    """Return the comparison with the estimated times of both sides, where both have any."""
    estimate = compare_steps(counted.base, counted.head, counted.groups)
    if estimate is None:
        return counted
    return replace(
        counted,
        base=with_estimates(counted.base, estimate.base),
        head=with_estimates(counted.head, estimate.head),
        estimate=estimate,
    )


# --- comparable? -----------------------------------------------------------------------------


def check_allowed(allow: Collection[str], known: Sequence[str] = ASPECTS) -> None:
    """Raise PerfcliError for what is no aspect, before anything is compiled for it."""
    unknown = sorted(set(allow) - set(known))
    if unknown:
        raise PerfcliError(f"can't allow {unknown[0]!r} to differ: one of {', '.join(known)}")


def list_overrides(base: Run, head: Run) -> list[str]:
    """Return the words with which a command compares two stored runs, whatever differs between
    them: ``--allow params``."""
    return [word for aspect in _find_differing(base, head) for word in ("--allow", aspect)]


def _describe_allowed(base: Run, head: Run, typed: Collection[str]) -> tuple[str, ...]:
    """Return what differs in the question itself, and was allowed to: never left unsaid."""
    differing = _find_differing(base, head)
    return tuple(text for aspect, text in differing.items() if aspect not in typed)


def _check_aspects(base: Run, head: Run, allow: Collection[str]) -> None:
    found = _find_differing(base, head)
    differing = {aspect: text for aspect, text in found.items() if aspect not in allow}
    if differing:
        override = " ".join(f"--allow {aspect}" for aspect in differing)
        raise NotComparable(
            f"not comparable: {'; '.join(differing.values())} (compare anyway: {override})"
        )


def _find_differing(base: Run, head: Run) -> dict[str, str]:
    """Return the aspects in which two runs differ, each with how."""
    found = {aspect: _aspect_differs(aspect, base, head) for aspect in ASPECTS}
    return {aspect: text for aspect, text in found.items() if text}


def _aspect_differs(aspect: str, base: Run, head: Run) -> str:
    if aspect == "params":
        return _mapping_differs("parameter", base.params, head.params)
    ours, theirs = _aspect(aspect, base), _aspect(aspect, head)
    return "" if ours == theirs else f"{aspect} {_show(ours)} → {_show(theirs)}"


def _aspect(aspect: str, run: Run) -> object:
    if aspect == "scenario":
        # A user's file is the same scenario wherever it is checked out, at whatever revision.
        first, blank, arguments = run.scenario.partition(" ")
        return _REVISION.sub(r"\1", PurePath(first).name) + blank + arguments
    if aspect == "target":
        if run.target is None:  # a trace names its GPU, of which there may be no table
            return (run.observed and run.observed.device) or None
        return f"{run.target.name} ({run.target.arch}, {run.target.sm_count} SMs)"
    return getattr(run, aspect)


def _mapping_differs(word: str, ours: Mapping[str, object], theirs: Mapping[str, object]) -> str:
    names = [n for n in {**ours, **theirs} if n not in ours or n not in theirs]
    names += [n for n in ours if n in theirs and ours[n] != theirs[n]]
    listed = [f"{n} {_type(ours.get(n))} → {_type(theirs.get(n))}" for n in names]
    return f"{word} {', '.join(listed)}" if listed else ""


def _type(value: object) -> str:
    """Return a value as it is typed behind its name, ``true``."""
    return units.setting(value) if isinstance(value, bool) else _show(value)


def _show(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


# --- circumstances ---------------------------------------------------------------------------


def _nodes_agree(base: Run, head: Run) -> bool:
    """Return whether node names mean the same on both sides. They come from tracing: another torch,
    or other graphs, number them anew."""
    graphs = {(g.name, g.direction) for g in base.graphs} == {
        (g.name, g.direction) for g in head.graphs
    }
    return graphs and base.environment.torch == head.environment.torch


def _differences(base: Run, head: Run) -> Iterator[str]:
    """Yield how the environments differ, as far as it can change the generated code."""
    for name in ("torch", "triton", "python", "ptxas", "platform", "perfcli", "gpu", "driver"):
        ours, theirs = getattr(base.environment, name), getattr(head.environment, name)
        if ours != theirs:
            yield f"{name} {_show(ours)} → {_show(theirs)}"
    variables = _mapping_differs(
        "environment variable", base.environment.variables, head.environment.variables
    )
    if variables:
        yield variables
    compiled = [_describe_calls(run) for run in (base, head)]
    if compiled[0] != compiled[1]:
        yield f"the model's own torch.compile has {compiled[0]} → {compiled[1]}"
    if base.threads != head.threads:
        ours, theirs = (run.threads or "torch's own number of" for run in (base, head))
        yield f"compiled for {ours} → {theirs} threads"


def _describe_calls(run: Run) -> str:
    """Return the settings that the user's own code gave to ``torch.compile``."""
    asked = dict.fromkeys(call.settings for call in run.compiled)
    return " and ".join(filter(None, asked)) or "defaults"


# --- apart from kernels -----------------------------------------------------------------------

_LISTED_OPERATORS = 3


def _find_besides(base: Run, head: Run) -> tuple[str, ...]:
    """Return ``extern calls 43 → 42 (aten.mm −1)``, ``graph breaks 0 → 3``."""
    found = []
    ours, theirs = (run.count_externs() for run in (base, head))
    moved = {op: theirs[op] - ours[op] for op in {**ours, **theirs} if theirs[op] != ours[op]}
    if moved:
        listed = [f"{op} {units.signed(units.count, n)}" for op, n in moved.items()]
        more = (
            f" and {len(listed) - _LISTED_OPERATORS} more"
            if len(listed) > _LISTED_OPERATORS
            else ""
        )
        numbers = f"{units.count(ours.total())} → {units.count(theirs.total())}"
        found.append(f"extern calls {numbers} ({', '.join(listed[:_LISTED_OPERATORS])}{more})")
    breaks = [sum(run.graph_breaks.values()) for run in (base, head)]
    if base.graph_breaks != head.graph_breaks:
        found.append(f"graph breaks {breaks[0]} → {breaks[1]}")
    return tuple(found)
