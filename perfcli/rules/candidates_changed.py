"""The autotuner chooses among other launch configurations, or among other binaries of the same.

What it sees: a kernel that is matched with one kernel of the other run, does the same (equal
source; or, where options written into the source differ, equal loads and stores in every line),
and has another list of launch configurations, or an equal list of which the best binary has other
registers or spills, because ptxas or triton differ. What a configuration becomes is compared by
its best binary: the one with the fewest spilled words, then registers. Which one wins on the
device is not known here, so it is the list that changed, not the winner; runs that were imported
with a trace know the winner. It is a warning where the
best binary spills more and over 16 words (fewer cost little, PC101), or at most half as many warps
are resident, where the kernel is slower by estimate (2 % of the step), and where a configuration
was dropped that may have won: its estimate is within a tenth of the fastest, and a tenth of the
kernel's time would be seen in the step. Otherwise it is worth knowing.

Why it costs: a list without the configuration that used to win is slower with nothing else
changed. In pytorch#194736 `max_autotune` dropped the default configuration of a persistent
reduction: 4.832 → 5.856 µs.

What to try: with the list in view, take back the option that changed it (`max_autotune`,
`max_autotune_pointwise`, `coordinate_descent_tuning`), or compare the two compilers on one torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from perfcli import units
from perfcli.model import Candidate, Comparison, Cure, Finding, KernelFacts, Rule
from perfcli.predict.savings import estimate_loss, estimate_total
from perfcli.predict.step import LEAST_CHANGE, find_lost
from perfcli.rules._evidence import launches
from perfcli.rules._evidence.words import origin_of

Config: TypeAlias = str
Lists: TypeAlias = tuple[tuple[Config, ...], tuple[Config, ...]]
"""Dropped and added."""
SHOWN = 4


def _check(comparison: Comparison) -> Iterator[Finding]:
    """Yield one finding for all kernels that lost and got the same configurations."""
    changed: dict[Lists, list[tuple[int, int]]] = defaultdict(list)
    for ours, theirs in _equal_kernels(comparison):
        before = _binaries(comparison.base.kernels[ours])
        after = _binaries(comparison.head.kernels[theirs])
        dropped = tuple(c for c in before if c not in after)
        added = tuple(c for c in after if c not in before)
        same_list = not (dropped or added)
        if not (before and after) or (same_list and not _other_binaries(comparison, ours, theirs)):
            continue
        changed[dropped, added].append((ours, theirs))
    for lists, pairs in changed.items():
        yield _finding(comparison, lists, pairs)


def _equal_kernels(comparison: Comparison) -> Iterator[tuple[int, int]]:
    for group in comparison.groups:
        if len(group.match.base) == len(group.match.head) == 1:
            ours, theirs = group.match.base[0], group.match.head[0]
            if _same_code(comparison.base.kernels[ours], comparison.head.kernels[theirs]):
                yield ours, theirs


def _same_code(ours: KernelFacts, theirs: KernelFacts) -> bool:
    if ours.source_hash == theirs.source_hash:
        return bool(ours.source_hash)
    known = ours.source_facts is not None and bool(ours.source_facts.accesses)
    facts = ours.kind == theirs.kind and ours.source_facts == theirs.source_facts
    return known and facts and ours.sizes == theirs.sizes and ours.bytes_moved == theirs.bytes_moved


def _binaries(kernel: KernelFacts) -> dict[Config, str | None]:
    return {
        launches.write_configuration(candidate): candidate.binary_hash
        for candidate in kernel.candidates
    }


def _other_binaries(comparison: Comparison, ours: int, theirs: int) -> bool:
    """Return whether equal configurations became others in what can be told of them."""
    base, head = comparison.base.kernels[ours], comparison.head.kernels[theirs]
    known = None not in (base.binary_hash, head.binary_hash)
    return known and _numbers(base.best) != _numbers(head.best)


# --- what it did -----------------------------------------------------------------------------


def _finding(comparison: Comparison, lists: Lists, pairs: list[tuple[int, int]]) -> Finding:
    kernels = [(comparison.base.kernels[b], comparison.head.kernels[h]) for b, h in pairs]
    worse = [pair for pair in kernels if _worse(pair[0].best, pair[1].best)]
    shown = sorted(kernels, key=lambda pair: pair not in worse)
    where = shown[0][1].name
    others = f" and {units.plural(len(kernels) - 1, 'other kernel')}" if len(kernels) > 1 else ""
    lost = [c for pair in kernels for c in find_lost(*pair)]
    cost = estimate_loss(
        comparison.base, [b for b, _ in pairs], comparison.head, [h for _, h in pairs]
    )
    slower = cost is not None and (cost.share or 0.0) > LEAST_CHANGE
    what = "machine code from equal source"
    if any(lists):
        what = "launch configurations " + ("ran" if _ran(comparison) else "to choose from")
    said = _say_dropped(f"{where}{others}", lost) if lost else f"other {what}: {where}{others}"
    return Finding(
        code=RULE.code,
        severity="warning" if worse or slower or (lost and _matters(comparison, pairs)) else "info",
        headline=said + (f", the best of {units.count(len(worse))} got worse" if worse else ""),
        kernels=tuple(head for _, head in pairs),
        evidence=(
            *_list_changes(lists),
            *(_best(*pair) for pair in shown[:SHOWN]),
        ),
        advice=_advice(comparison, lists),
        cures=tuple(_take_back(comparison)) if any(lists) and (slower or lost) else (),
        cost=cost,
        origin=origin_of(shown[0][1]),
        subject="; ".join(_list_changes(lists)),
    )


def _say_dropped(kernels: str, lost: Sequence[Candidate]) -> str:
    """Say which launch configuration is missed most: the fastest by estimate, or nearly so."""
    which = launches.write_configuration(lost[0])
    return f"{kernels} no longer tried with {which}, perhaps the fastest"


_CHOOSING = (
    "max_autotune",
    "max_autotune_pointwise",
    "coordinate_descent_tuning",
    "triton.multi_kernel",
)
"""Options that decide which launch configurations there are."""


def _take_back(comparison: Comparison) -> Iterator[Cure]:
    base, head = comparison.base.settings, comparison.head.settings
    for name in _CHOOSING:
        if name in base and name in head and base[name] != head[name]:
            yield Cure({name: base[name]}, "chooses from the base's list again")


def _matters(comparison: Comparison, pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether a tenth of these kernels' time would be seen in the step."""
    total = estimate_total(comparison.head)
    seconds = sum(comparison.head.kernels[head].step_seconds or 0.0 for _, head in pairs)
    return total is not None and seconds / 10 > LEAST_CHANGE * total


def _ran(comparison: Comparison) -> bool:
    """Return whether traces tell which configuration ran on each side."""
    return comparison.base.observed is not None and comparison.head.observed is not None


def _worse(before: Candidate | None, after: Candidate | None) -> bool:
    if before is None or after is None:
        return False
    was, is_ = before.spilled_words or 0, after.spilled_words or 0
    if is_ > max(was, launches.SPILLS_THAT_MATTER):
        return True
    known = before.occupancy is not None and after.occupancy is not None
    return known and (after.occupancy or 0.0) <= (before.occupancy or 0.0) / 2


def _list_changes(lists: Lists) -> Iterator[str]:
    for word, configs in zip(("dropped", "added"), lists, strict=True):
        if configs:
            more = f" and {len(configs) - SHOWN} more" if len(configs) > SHOWN else ""
            yield f"{word}: {'; '.join(configs[:SHOWN])}{more}"


def _best(before: KernelFacts, after: KernelFacts) -> str:
    return f"{after.name}: best {_numbers(before.best)} → {_numbers(after.best)}"


def _numbers(best: Candidate | None) -> str:
    if best is None:
        return "not known"
    spills = units.plural(best.spilled_words or 0, "spilled word")
    return f"{units.count(best.registers)} registers, {spills}"


def _advice(comparison: Comparison, lists: Lists) -> str:
    if any(lists):
        return "take back the option or the release that changed the list, or measure both lists"
    base, head = comparison.base.environment, comparison.head.environment
    tools = [
        f"{name} {getattr(base, name)} → {getattr(head, name)}"
        for name in ("triton", "ptxas")
        if getattr(base, name) != getattr(head, name)
    ]
    return f"the compiler made it: {', '.join(tools)}" if tools else ""


RULE = Rule("PC401", "launch configurations changed", __doc__, of_comparison=_check)
