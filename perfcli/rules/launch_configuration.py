"""The launch configuration makes a kernel spill, not what was fused.

What it sees: a kernel that spills more than 16 words in every configuration that Inductor
considers (why 16: PC101), and another one that perfcli compiled as well (more warps, a smaller
block), which spills at most a tenth and keeps as many warps resident. It is held against the one
that is expected to win, which the estimated time is about; where another of Inductor's spills less,
the finding says so. The source is the same, the proof is in the binary. That it is faster is likely
and not proven: that takes a device. Of a mix-order kernel only one row at a time (XBLOCK 1) counts.
More warps on several rows end the spills as well and were slower than these on an H100, each sum
over rows then goes from warp to warp.
Of a hand-written kernel or a template only the warps may differ: its grid may not follow its block.

Why it costs: the warps of a reduction follow from the length of its row, not from how many values
are alive. A mix-order kernel over 512 columns gets 2 warps and 4 rows at a time, 32 elements per
thread of everything it reads. Measured on an H100, the machine code of triton 3.7.1 for the kernel
of `gqa-transformer -p layers=3 -p batch=48 -p learned=true` without a read limit (2026-11-21):

    2 warps, 4 rows   92 spilled words   583 µs   Inductor's
    2 warps, 1 row     0                 536 µs
    4 warps, 1 row     0                 534 µs
    4 warps, 4 rows    0                 818 µs   not proposed

A persistent reduction with 58 spilled words took 32 % longer than with twice the warps.
pytorch#185814 is the opposite: one row at a time of 16,384 columns, 4.4 times too slow.

What to try: there is no option of Inductor that sets one kernel's launch configuration.
`coordinate_descent_tuning` and `max_autotune` search configurations on a device. Or fuse less:
PC101 and PC103 name options.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Finding, KernelFacts, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence import launches
from perfcli.rules._evidence.demands import without_spills
from perfcli.rules._evidence.words import number_kernels, origin_of
from perfcli.rules.low_occupancy import GENERATED

REMAINS = 0.1


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel, best in number_kernels(run):
        now = kernel.shown or best
        better = _better(kernel, best, now) if launches.spills_substantially(best) else None
        if better:
            yield _finding(run, number, kernel, best, now, better)


def _better(kernel: KernelFacts, best: Candidate, now: Candidate) -> Candidate | None:
    """Return the alternative that spills least, and little beside the ``best`` of Inductor's; of
    equal ones the smallest change from ``now``, then most warps."""
    warps = launches.resident_warps(now)
    rows = kernel.kind == "mix-order-reduction"
    # The grid of a kernel that Inductor did not write need not follow its block.
    ours = kernel.kind in GENERATED
    fit = [
        other
        for other in kernel.alternatives
        if not other.error
        and not (rows and other.config.get("XBLOCK") != 1)
        and (ours or other.config == now.config)
        and other.spilled_words is not None
        and other.spilled_words <= REMAINS * (best.spilled_words or 0)
        and (launches.resident_warps(other) or 0) >= max(warps or 0, 1)
    ]
    return min(fit, key=lambda other: _rank(now, other), default=None)


def _rank(now: Candidate, other: Candidate) -> tuple[int, int, int]:
    return (
        other.spilled_words or 0,
        len(_changes(now, other)),
        -(launches.resident_warps(other) or 0),
    )


def _changes(now: Candidate, other: Candidate) -> list[str]:
    """Write ``2 → 8 warps``, ``XBLOCK 4 → 1``."""
    found = []
    if now.num_warps != other.num_warps:
        found.append(f"{now.num_warps} → {other.num_warps} warps")
    if now.num_stages != other.num_stages:
        found.append(f"{now.num_stages} → {other.num_stages} stages")
    names = sorted({*now.config, *other.config})
    changed = [n for n in names if now.config.get(n) != other.config.get(n)]
    return found + [f"{n} {now.config.get(n, '–')} → {other.config.get(n, '–')}" for n in changed]


def _finding(
    run: Run,
    number: int,
    kernel: KernelFacts,
    best: Candidate,
    now: Candidate,
    other: Candidate,
) -> Finding:
    whose = "Inductor's" if kernel.kind in GENERATED else "now"
    chosen = ", expected to win" if now is kernel.expected else ""
    words, remain = now.spilled_words or 0, other.spilled_words or 0
    what = ", ".join(_changes(now, other))
    least = best.spilled_words or 0
    left = "spills nothing" if not remain else f"spills {units.plural(remain, 'word')}"
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} {left} with {what}, now {units.plural(words, 'word')}",
        kernels=(number,),
        evidence=(
            _describe(f"{whose}, {launches.write_configuration(now)}{chosen}", now),
            _describe(f"with {what}", other),
            *((f"{_write_least(best)}: {units.plural(least, 'word')}",) if least < words else ()),
        ),
        advice="no option sets one kernel's launch configuration; on a device "
        "coordinate_descent_tuning or max_autotune searches them"
        if kernel.kind in GENERATED
        else f"give the kernel a configuration with {what}",
        cost=estimate_saving(run, {number: (without_spills,)}),
        metric="spilled_words",
        amount=words,
        origin=origin_of(kernel),
        shown=True,
    )


def _write_least(best: Candidate) -> str:
    return f"of Inductor's, {launches.write_configuration(best)} spills least"


def _describe(which: str, candidate: Candidate) -> str:
    return (
        f"{which}: {units.count(candidate.registers)} registers, "
        f"{units.plural(candidate.spilled_words or 0, 'spilled word')}, "
        f"{units.plural(launches.resident_warps(candidate) or 0, 'resident warp')} "
        f"per multiprocessor, {units.exact_bytes(candidate.shared_bytes)} shared memory"
    )


RULE = Rule(
    "PC106",
    "launch configuration at fault rather than fusion",
    __doc__,
    explains=("PC101", "PC102"),
    of_run=_check,
)
