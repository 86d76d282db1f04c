"""A persistent reduction holds float32 copies of half-precision inputs.

What it sees: a persistent reduction that loads a whole row of a half-precision input once, turns
it into float32, and uses that copy before and after the reduction, in two cases: it spills more
than 16 words (a warning; why 16: PC101), or registers leave too few warps to use the memory's
bandwidth (PC104) and without the copies at least one more block would fit (worth knowing). How many
registers the copies take is an estimate: R0_BLOCK × XBLOCK / threads elements of each are in one
thread, as float32 one register each, as packed halves a half. Of a mix-order kernel, which holds
copies as well, PC103 and PC106 say what is to be said.

Held copies alone are no finding. On an H100 three persistent reductions of `gqa-transformer` (512
columns, 20 to 28 of 64 warps resident for their registers) move 2.84 to 2.88 of the 3.0 TB/s that
a copy reaches, at most 1 % less than with the best of 16 launch configurations.

Why it costs: a float32 copy takes twice the registers of the value that was loaded. Registers
decide how long a row can be held at all, and how many blocks share a multiprocessor.

What to try: keep the half-precision value and convert it again where it is used, in a kernel of
one's own, or with perfcli's `patch.recompute_half_inputs` (torch 2.11 to 2.13, docs/patches.md). No
option of Inductor does it: pytorch#179711 proposes it, #182671 was closed. Its author's corrected
numbers (2026-05-06, GB200) are 0.80 to 1.29 times the speed.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.facts.occupancy import occupancy
from perfcli.model import Candidate, Finding, KernelFacts, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence import launches
from perfcli.rules._evidence.demands import more_resident, without_spills
from perfcli.rules._evidence.patch_cures import propose_patch
from perfcli.rules._evidence.words import number_kernels, origin_of
from perfcli.rules.low_occupancy import reachable


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel, best in number_kernels(run):
        copies = kernel.source_facts.held_copies if kernel.source_facts else ()
        each = _elements(run, kernel, best)
        if kernel.kind != "persistent-reduction" or not copies or not each:
            continue
        freed = len(copies) * each // 2
        more = _blocks_without(run, best, freed)
        starved = (reachable(run, kernel) or 1.0) < 1.0 and best.occupancy_limit == "registers"
        spills = launches.spills_substantially(best)
        if freed and (spills or (starved and more > (best.blocks_per_sm or 0))):
            yield _finding(run, number, best, copies, (freed, more))


def _elements(run: Run, kernel: KernelFacts, candidate: Candidate) -> int | None:
    """Return elements of a row that one thread holds."""
    columns = candidate.config.get("R0_BLOCK")
    if columns is None and "r0_" in kernel.sizes:
        columns = 1 << (kernel.sizes["r0_"] - 1).bit_length()
    if columns is None or run.target is None:
        return None
    threads = candidate.num_warps * run.target.warp_size
    return columns * candidate.config.get("XBLOCK", 1) // threads


def _blocks_without(run: Run, candidate: Candidate, freed: int) -> int:
    """Return blocks per multiprocessor with so many registers fewer."""
    if run.target is None or candidate.registers is None:
        return 0
    registers = max(candidate.registers - freed, 1)
    shared = candidate.shared_bytes or 0
    return occupancy(run.target, registers, shared, candidate.num_warps).blocks_per_sm


def _finding(
    run: Run,
    number: int,
    best: Candidate,
    copies: tuple[str, ...],
    gain: tuple[int, int],
) -> Finding:
    kernel = run.kernels[number]
    freed, more = gain
    grown = more / (best.blocks_per_sm or 1)
    words = best.spilled_words or 0
    spills = launches.spills_substantially(best)
    cost = (
        f"spills {units.plural(words, 'word')}"
        if spills
        else f"fits {units.plural(best.blocks_per_sm or 0, 'block')} per multiprocessor, not {more}"
    )
    return Finding(
        code=RULE.code,
        severity="warning" if spills else "info",
        headline=f"{kernel.name} holds {units.plural(len(copies), 'input')} as float32 copies "
        f"and {cost}",
        kernels=(number,),
        evidence=(
            f"held across the reduction: {', '.join(copies)}",
            f"about {units.plural(freed, 'register')} of {units.count(best.registers)} per thread "
            "would be free if they stayed half precision",
            launches.residency(best),
        ),
        advice="convert again after the reduction instead of holding the copy, in a kernel of "
        "your own; no option of Inductor does it (pytorch#179711)",
        cures=propose_patch(
            run, "patch.recompute_half_inputs", True, "keeps what it loaded, and converts it again"
        ),
        cost=estimate_saving(run, {number: (without_spills, more_resident(grown))}),
        metric="registers",
        amount=freed,
        origin=origin_of(kernel),
    )


RULE = Rule(
    "PC107",
    "persistent reduction with float32 copies of half inputs",
    __doc__,
    explains=("PC104",),
    of_run=_check,
)
