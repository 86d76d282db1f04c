"""A cooperative launch has more blocks than may run at once.

What it sees: a kernel whose blocks wait for each other (`triton_meta` has
`launch_cooperative_grid`), so that all of them start together or none does, and a launch
configuration with more blocks than the device has room for: blocks that fit on one multiprocessor
by registers, shared memory and threads, times its multiprocessors. One such configuration is
enough, since the autotuner launches each that it chooses from and passes the error on (torch 2.11
and 2.13). Seen on an H200 with `triton.force_cooperative_reductions=True` (torch 2.11): softmax of
32,768 rows and cross-entropy of 8,192 rows, a block each, of which 528 fit, fail; a column sum with
256 blocks, of which 2,112 fit, runs.

Why it costs: nothing shows until the launch, which fails (`too many blocks in cooperative launch`).

What to try: Inductor makes a reduction cooperative by its own rule where it has few rows, each of
them long; `triton.force_cooperative_reductions`, which is meant for debugging, does so with all.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Cure, Finding, Rule, Run
from perfcli.predict.launchable import find_too_many_blocks
from perfcli.rules._evidence.launches import residency, resources
from perfcli.rules._evidence.words import origin_of

_FORCED = "triton.force_cooperative_reductions"
_OWN_RULE = "triton.cooperative_reductions"


def _check(run: Run) -> Iterator[Finding]:
    if run.target is None:
        return
    cures = tuple(
        Cure({name: False}, "keeps a row in one block" if name == _OWN_RULE else "does so by rule")
        for name in (_FORCED, _OWN_RULE)
        if run.settings.get(name) is True
    )
    for number, kernel in enumerate(run.kernels):
        found = find_too_many_blocks(kernel, run.target) if kernel.launches else None
        if found is None:
            continue
        yield Finding(
            code=RULE.code,
            severity="error",
            headline=f"{kernel.name} cannot be launched: {found}",
            kernels=(number,),
            evidence=(
                f"{residency(found.candidate)}, on {run.target.sm_count:,} multiprocessors",
                resources(found.candidate),
            ),
            advice="fewer cooperative reductions: those of few and long rows",
            cures=cures,
            metric="blocks_at_once",
            amount=found.asked,
            origin=origin_of(kernel),
        )


RULE = Rule("PC108", "cooperative launch too large", __doc__, of_run=_check)
