"""A rule for tests of the command line: spills, with cures that the fake executor understands."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Cure, Finding, Rule, Run

MAX_READS = "triton.mix_order_reduction_max_reads"
MIX_ORDER = "triton.mix_order_reduction"
USELESS = "triton.persistent_reductions"
CURES = (
    Cure({USELESS: False}, "looped reductions hold less"),
    Cure({MAX_READS: 10}, "keeps reductions with more reads apart"),
    Cure({MIX_ORDER: False}, "no mix-order reductions"),
)


def spills(made: Run) -> Iterator[Finding]:
    for number, kernel in enumerate(made.kernels):
        if kernel.spilled_words:
            yield Finding(
                "PC901",
                "error",
                f"{kernel.name} spills {kernel.spilled_words} words per thread",
                kernels=(number,),
                evidence=("255 registers", "46 STL, 46 LDL"),
                advice="fuse less",
                cures=CURES,
                origin=kernel.origins[0],
                metric="spilled_words",
                amount=kernel.spilled_words,
                source_lines={"3": "    tmp0 = tl.load(in_ptr0 + x0)"},
            )
            yield Finding(
                "PC902",
                "warning",
                f"{kernel.name} has few blocks",
                kernels=(number,),
                evidence=("12.5 % occupancy", "8 blocks"),
                advice="fuse less",
                cures=(CURES[1],),
            )


def always(made: Run) -> Iterator[Finding]:
    yield Finding("PC903", "info", "made by the fake executor", cures=(Cure({USELESS: False}),))


RULES = (
    Rule("PC901", "spills", "", of_run=spills),
    Rule("PC903", "always", "", of_run=always),
)
