"""A kernel needs more registers than a thread can have.

What it sees: in every launch configuration of a kernel, the assembler put some registers of each
thread into local memory (spilled words, 4 bytes each; the stack in the kernel's binary, less the
program's own arrays).

Why it costs: a spilled word is stored and loaded again through the L1 cache, by every thread. The
255 registers that spill are all taken as well, so that few blocks share a multiprocessor.

What to try: fewer values alive at the same time: smaller fusions, or another launch configuration
(more warps, a smaller block). `inspect-kernel` shows which source lines spill.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Finding, KernelFacts, Rule, Run
from perfcli.rules._evidence import numbered, origin_of


def check(run: Run) -> Iterator[Finding]:
    for number, kernel, best in numbered(run):
        if kernel.spilled_words:
            yield _finding(number, kernel, best)


def _finding(number: int, kernel: KernelFacts, best: Candidate) -> Finding:
    words = kernel.spilled_words or 0
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} spills {units.plural(words, 'word')} per thread",
        kernels=(number,),
        evidence=(
            f"{units.count(best.registers)} registers, {units.exact_bytes(best.stack_bytes)} "
            f"stack, {units.count(best.local_stores)} STL, {units.count(best.local_loads)} LDL",
        ),
        advice="try smaller fusions or another launch configuration",
        metric="spilled_words",
        amount=words,
        origin=origin_of(kernel),
    )


RULE = Rule("PC101", "register spills", __doc__, of_run=check)
