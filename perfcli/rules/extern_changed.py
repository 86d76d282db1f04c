"""Different library operators are called than before.

What it sees: the calls of operators that Inductor has no code for (`aten.mm`, attention,
convolutions), per step, differ between two runs: one attention backend replaced by another, `mm` by
`bmm`, or an operator that became generated kernels. Overloads (`aten.mm.out`) count as their
operator. It is a warning where an operator is called less often, none of its kind more often, and
generated kernels do its work instead: they name it as their origin, or, for attention, they are
more or move more bytes and what it is made of appears: more calls of `mm`, `bmm` or `baddbmm`, or
more launches of kernels that compute a softmax (not a loss's `log_softmax`). A template
(`max_autotune`) is not meant: the autotuner chose it. Otherwise it is worth knowing.

Why it costs: a library operator is tuned for its work, and a fused one keeps in registers what
several kernels write to memory: attention without a fused backend writes the whole matrix of
scores. Bytes and lower bounds of a report are those of generated kernels, so that what moves from
or to an operator looks like a gain or a loss there.

What to try: look for what the operator needs and no longer has: a dtype, a head size, a mask, an
alignment (docs/facts.md, "Which attention a GPU takes"). `inspect-kernel` shows the model's line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from perfcli import units
from perfcli.diff import work
from perfcli.model import Comparison, Finding, KernelFacts, Rule, Run

MOST_NAMED = 12
FAMILIES = (
    ("attention", ("attention", "sdpa")),
    ("matrix product", ("mm", "bmm", "addmm", "baddbmm", "matmul", "linear")),
    ("convolution", ("convolution", "conv")),
)


def _check(comparison: Comparison) -> Iterator[Finding]:
    base, head = _calls(comparison.base), _calls(comparison.head)
    for direction in dict.fromkeys((*base, *head)):
        ours, theirs = base.get(direction, Counter()), head.get(direction, Counter())
        if ours != theirs:
            yield _finding(comparison, direction, ours, theirs)


def _calls(run: Run) -> dict[str, Counter[str]]:
    """Return, for each direction, how often each operator is called."""
    counted: dict[str, Counter[str]] = {}
    for extern in run.externs:
        counted.setdefault(work.direction(extern), Counter())[_operator(extern.op)] += extern.count
    return counted


def _operator(op: str) -> str:
    """Return ``aten.mm`` of ``aten.mm.out`` and of ``extern_kernels.mm``."""
    parts = op.replace("::", ".").split(".")
    known = "aten" if parts[0] == "extern_kernels" else parts[0]
    return ".".join([known, *parts[1:2]])


def _family(op: str) -> str:
    """Return what can stand in for an operator; itself where nothing is known to."""
    name = op.split(".")[-1].strip("_")
    for title, words in FAMILIES:
        if name in words or (title == "attention" and any(word in name for word in words)):
            return title
    return op


def _finding(
    comparison: Comparison, direction: str, ours: Counter[str], theirs: Counter[str]
) -> Finding:
    moved = sorted({*ours, *theirs}, key=lambda op: (theirs[op] - ours[op], op))
    differ = [f"{op} {ours[op]} → {theirs[op]}" for op in moved if ours[op] != theirs[op]]
    lost = _lost(comparison, direction, ours, theirs)
    verb = f"{', '.join(lost)} became generated kernels" if lost else "calls other operators"
    if len(differ) > MOST_NAMED:
        differ[MOST_NAMED:] = [f"and {len(differ) - MOST_NAMED} more"]
    return Finding(
        code=RULE.code,
        severity="warning" if lost else "info",
        headline=f"{direction or 'the step'} {verb}: {', '.join(differ)}",
        evidence=tuple(_evidence(comparison, direction)) if lost else (),
        advice="find out what it no longer accepts: dtype, size, mask, alignment" if lost else "",
        subject=direction,
    )


def _lost(
    comparison: Comparison, direction: str, ours: Counter[str], theirs: Counter[str]
) -> list[str]:
    """Return operators whose kind is called less often, while kernels took their work over."""
    kinds = {_family(op): op for op in sorted(ours)}
    base, head = _generated_kernels(comparison, direction)
    return [
        title
        for title in kinds
        if _count_calls(theirs, title) < _count_calls(ours, title)
        and _took_over(title, (ours, theirs), base, head)
    ]


def _count_calls(calls: Counter[str], title: str) -> int:
    return sum(count for op, count in calls.items() if _family(op) == title)


def _took_over(
    title: str,
    calls: tuple[Counter[str], Counter[str]],
    base: list[KernelFacts],
    head: list[KernelFacts],
) -> bool:
    ours, theirs = calls
    if title == "attention":  # its parts don't name it
        grown = _bytes(head) > _bytes(base) or len(head) > len(base)
        return grown and (_products(theirs) > _products(ours) or _softmax(head) > _softmax(base))
    return _count_originating(title, head) > _count_originating(title, base)


def _products(calls: Counter[str]) -> int:
    return sum(calls[f"aten.{name}"] for name in ("mm", "bmm", "baddbmm"))


def _softmax(kernels: list[KernelFacts]) -> int:
    return sum(k.launches for k in kernels if _computes_softmax(k))


def _computes_softmax(kernel: KernelFacts) -> bool:
    ops = [origin.op for origin in kernel.origins if "softmax" in origin.op]
    return bool(ops) and not any("log_softmax" in op for op in ops)


def _count_originating(title: str, kernels: list[KernelFacts]) -> int:
    return sum(
        kernel.launches
        for kernel in kernels
        if kernel.kind != "template"  # chosen in the operator's place, not left over from it
        and any(_family(_operator(origin.op)) == title for origin in kernel.origins if origin.op)
    )


def _bytes(kernels: list[KernelFacts]) -> int:
    return sum((kernel.bytes_moved or 0) * kernel.launches for kernel in kernels)


def _generated_kernels(comparison: Comparison, direction: str) -> tuple[list[KernelFacts], ...]:
    """Return the kernels of that direction, of base and head."""
    return tuple(
        [kernel for kernel in run.kernels if work.direction(kernel) == direction]
        for run in (comparison.base, comparison.head)
    )


def _evidence(comparison: Comparison, direction: str) -> Iterator[str]:
    sides = _generated_kernels(comparison, direction)
    before, after = (
        units.plural(sum(k.launches for k in side), "launch", "launches") for side in sides
    )
    yield f"generated kernels: {before} → {after}"
    yield f"their bytes: {units.size(_bytes(sides[0]))} → {units.size(_bytes(sides[1]))}"


RULE = Rule("PC402", "library operators changed", __doc__, of_comparison=_check)
