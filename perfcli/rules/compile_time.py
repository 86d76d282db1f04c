"""Compiling takes much more processor time than before.

What it sees: the processor time of building and tracing the model and of generating its code, on
both sides of a comparison, without the compilers of the kernels' binaries, which run beside it. It
speaks where the head took 1.3 times the base's and more than a second longer, and a fixed loop
that was timed right before and after does not say that the processor was slower by as much. The
evidence names the parts of the compilation that grew most, and how many nodes the graphs have: time
that grows much faster than nodes is torch's fault rather than the model's.

Why it costs: every process that starts compiles, every recompilation takes as long again, and what
grows faster than the model soon does not end.

What to try: compile one layer and call it several times (`torch.compile` of a block, nested
regions: `torch.compiler.nested_compile_region`); the caches of Inductor and AOTAutograd, which
perfcli switches off, help from the second process on.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Comparison, CompileWork, Finding, Rule

_MOST_PARTS = 3
_LEAST_PART = 0.1
"""Seconds by which a part of the compilation must have grown to be named."""


def _check(comparison: Comparison) -> Iterator[Finding]:
    ours, theirs = comparison.base.compile_work, comparison.head.compile_work
    change = comparison.compiled
    if change is None or change.outcome != "worse" or ours is None or theirs is None:
        return
    longer = units.relative(ours.cpu_seconds, theirs.cpu_seconds)
    sides = units.from_to(ours.cpu_seconds, theirs.cpu_seconds)
    yield Finding(
        code=RULE.code,
        severity="info",
        headline=f"compiling takes {sides} of processor time ({longer})",
        evidence=(f"FX nodes {ours.nodes:,} → {theirs.nodes:,}", *_list_parts(ours, theirs)),
        advice="compile a block that repeats once: torch.compiler.nested_compile_region",
        metric=change.metric,
        amount=theirs.cpu_seconds,
        subject="compile time",
    )


def _list_parts(ours: CompileWork, theirs: CompileWork) -> Iterator[str]:
    """Yield the parts of torch's compilation that grew most; they overlap."""
    grown = {name: now - ours.parts.get(name, 0.0) for name, now in theirs.parts.items()}
    for name in sorted(grown, key=lambda each: -grown[each])[:_MOST_PARTS]:
        if grown[name] > _LEAST_PART:
            sides = units.from_to(ours.parts.get(name, 0.0), theirs.parts[name])
            yield f"{name} {sides} on the wall"


RULE = Rule("PC604", "compile time", __doc__, of_comparison=_check)
