"""A kernel needs more registers than a thread can have.

What it sees: in every launch configuration of a kernel, the assembler put some registers of each
thread into local memory (spilled words, 4 bytes each; the stack in the kernel's binary, less the
program's own arrays such as the 8 words of `sin` and `cos`, triton#1756). Up to 16 words are worth
knowing, more are a warning: 16 is the limit over which Inductor itself drops a configuration
(`spill_threshold`), and an H100 agrees. Of kernels that move 0.4 to 1.6 GB, against the fastest
of 12 to 18 configurations of each, those with 2 to 14 words took 0 to 4 % longer, 26 and 28 words
5 to 9 %, 58 words 32 %, 92 to 98 words 9 to 48 %, 520 words 530 % (triton 3.6, 2026-11-21).

Why it costs: a spilled word is stored and loaded again through the L1 cache, by every thread. The
255 registers that spill are all taken as well, so that few blocks share a multiprocessor.

What to try: fewer values alive at the same time: smaller fusions, or another launch configuration
(more warps, a smaller block; PC106 says where one was found). The source lines named are those
with the most loads from (LDL) and stores to (STL) local memory. For a mix-order kernel the options
of PC103, for a persistent reduction `triton.persistent_reductions=False`, which makes it a loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Finding, KernelFacts, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence import launches
from perfcli.rules._evidence.demands import without_spills
from perfcli.rules._evidence.words import number_kernels, origin_of


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel, best in number_kernels(run):
        untouched = best.local_loads == 0 and best.local_stores == 0
        if best.spilled_words and not untouched:
            yield _finding(run, number, kernel, best)


def _finding(run: Run, number: int, kernel: KernelFacts, best: Candidate) -> Finding:
    words = best.spilled_words or 0
    much = words > launches.SPILLS_THAT_MATTER
    lines = worst_lines(best)
    return Finding(
        code=RULE.code,
        severity="warning" if much else "info",
        headline=f"{kernel.name} spills {units.plural(words, 'word')} per thread",
        kernels=(number,),
        evidence=(
            f"{units.count(best.registers)} registers, {units.exact_bytes(best.stack_bytes)} "
            f"stack, {units.count(best.local_stores)} STL, {units.count(best.local_loads)} LDL",
            *(
                f"line {line}: {best.lines[line].local_stores} STL, "
                f"{best.lines[line].local_loads} LDL"
                for line in lines
            ),
        ),
        advice="try smaller fusions or another launch configuration"
        if much
        else f"no more than {launches.SPILLS_THAT_MATTER} words cost little",
        cures=launches.register_cures(run, kernel) if much else (),
        cost=estimate_saving(run, {number: (without_spills,)}),
        metric="spilled_words",
        amount=words,
        origin=origin_of(kernel),
        source_lines={line: best.lines[line].text for line in lines if best.lines[line].text},
    )


def worst_lines(candidate: Candidate) -> list[str]:
    """Return the up to three source lines that touch local memory most."""
    touched = {n: c.local_loads + c.local_stores for n, c in candidate.lines.items()}
    worst = sorted((n for n in touched if touched[n]), key=lambda n: (-touched[n], int(n)))
    return worst[:3]


RULE = Rule("PC101", "register spills", __doc__, of_run=_check)
