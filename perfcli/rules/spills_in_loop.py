"""Registers are spilled inside a loop.

What it sees: instructions of a kernel's loop that load from or store to local memory (LDL, STL),
in the configuration that spills least, where it spills more than 16 words (why 16: PC101, which
tells of fewer). Arrays of the program itself (`sin`, `cos`) use the same instructions and are not
counted as spilled.

Why it costs: each iteration pays, and so does each thread. A thread that waits for its own spilled
values does not ask for the next ones from memory.

What to try: move what does not change out of the loop, reduce in fewer accumulators, or take a
smaller block or more warps, so that each thread holds less of a tile (PC106 says where that was
found to help).
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Finding, KernelFacts, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence import launches
from perfcli.rules._evidence.demands import without_spills
from perfcli.rules._evidence.words import number_kernels, origin_of
from perfcli.rules.register_spills import worst_lines


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel, best in number_kernels(run):
        if launches.spills_substantially(best) and _in_loops(best):
            yield _finding(run, number, kernel, best)


def _in_loops(candidate: Candidate) -> int:
    return (candidate.local_loads_in_loops or 0) + (candidate.local_stores_in_loops or 0)


def _finding(run: Run, number: int, kernel: KernelFacts, best: Candidate) -> Finding:
    stores, loads = best.local_stores_in_loops or 0, best.local_loads_in_loops or 0
    lines = worst_lines(best)
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} touches spilled registers "
        f"{units.plural(stores + loads, 'time')} in its loop",
        kernels=(number,),
        evidence=(
            f"in loops {stores} STL and {loads} LDL, of {units.count(best.local_stores)} and "
            f"{units.count(best.local_loads)}",
            f"{units.plural(best.spilled_words or 0, 'spilled word')} per thread",
        ),
        advice="let each thread hold less: fewer accumulators, a smaller block or more warps",
        cost=estimate_saving(run, {number: (without_spills,)}),
        metric="local_accesses_in_loops",
        amount=stores + loads,
        origin=origin_of(kernel),
        source_lines={line: best.lines[line].text for line in lines if best.lines[line].text},
    )


RULE = Rule("PC102", "spills inside a loop", __doc__, of_run=_check)
