"""What was compiled and how it went, a line each."""

from __future__ import annotations

from perfcli import units
from perfcli.model import Comparison, Run, Variant


def question(run: Run) -> str:
    """What was compiled, in one line."""
    parts = [run.scenario, run.mode, run.target.name if run.target else run.device]
    parts += ["dynamic shapes"] if run.dynamic else []
    # The mode is said already, unless the parameter of that name is another thing.
    given = [(n, v) for n, v in run.params.items() if (n, v) != ("mode", run.mode)]
    parts += [" ".join(f"{name}={value}" for name, value in given)]
    return units.printable(" · ".join(part for part in parts if part))


def graph_breaks(run: Run) -> list[str]:
    """Why Dynamo gave up, the most frequent reason first: ``12 × Unsupported method call``."""
    ordered = sorted(run.graph_breaks.items(), key=lambda item: -item[1])
    return [units.printable(f"{units.count(number)} × {reason}") for reason, number in ordered]


def changed_breaks(comparison: Comparison) -> list[str]:
    """The reasons that Dynamo gave up more or less often for: ``0 → 12 × Unsupported method``."""
    base, head = comparison.base.graph_breaks, comparison.head.graph_breaks
    return [
        units.printable(f"{base.get(reason, 0)} → {head.get(reason, 0)} × {reason}")
        for reason in {**base, **head}
        if base.get(reason) != head.get(reason)
    ]


def without_kernels(run: Run) -> str:
    """One line about a run that has no kernels, with the reason where the run knows one."""
    if run.kernels:
        return ""
    why = [] if run.graphs else ["no graph was compiled"]
    externs = sum(extern.count for extern in run.externs)
    if externs:
        why.append(f"{units.plural(externs, 'extern call')} and nothing else")
    breaks = graph_breaks(run)
    if breaks:
        more = f" (and {units.plural(len(breaks) - 1, 'other reason')})" if breaks[1:] else ""
        why.append(f"graph breaks: {breaks[0]}{more}")
    elif run.notes:
        why.append("the notes may say why")
    return ": ".join(["torch.compile made no kernels", *(["; ".join(why)] if why else [])])


def variant(run: Run) -> str:
    """What one side is: its options and its torch."""
    return units.printable(
        f"{run.variant.name or options(run.variant)} · torch {run.environment.torch}"
    )


def options(given: Variant) -> str:
    return " ".join(f"{name}={value}" for name, value in given.options.items()) or "default"
