"""A softmax's maximum and sum are taken in two sweeps, because the reduction was split.

What it sees: kernels of one softmax (Inductor's operator `prepare_softmax_online` is among their
origins) of which two or more read the whole input, each in a loop, and none takes maximum and sum
together. The evidence says what Inductor's own rule expects of the shape: rows are split where
there are fewer than 2 for each multiprocessor and they are longer than 8,192 elements (torch 2.8 to
2.12, all architectures: `InductorChoices.reduction_split_factor`).

Why it costs: before torch 2.13 Inductor either splits a reduction over several blocks or takes
maximum and sum online, never both (pytorch #153241). Split, the maximum and the sum have two
kernels each, and the input is read once more: 4 kernels instead of 2. PR #184069, which brought
the split online softmax, measured 1.04x to 1.16x (B200, rows of 2^20).

What to try: torch 2.13 or newer; for torch 2.11 and 2.12 perfcli's `patch.split_online_softmax`
shows what that would bring (docs/patches.md). `split_reductions=False` brings online softmax back
without the split, which loses far more where few rows leave multiprocessors idle (bfloat16, H100,
torch 2.11: 4 rows of 1,048,576 take 344 µs instead of 100, 32 of 131,072 take 52 instead of 28). It
is proposed where the multiprocessors stay busy all the same, with a row each and none left over:
132 rows of 50,304 took 26 µs instead of 73, 263 took 40 instead of 60; but 140 of 131,072 took 88
instead of 74.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from perfcli import units
from perfcli.model import Cost, Cure, Finding, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.patch_cures import propose_patch
from perfcli.rules._evidence.softmax import SPLIT_ONLINE_SINCE, Softmax, find_taken_apart
from perfcli.rules._evidence.splits import split_seconds, unsplit_seconds
from perfcli.rules._evidence.words import origin_of, torch_version

LONGEST_UNSPLIT = 8192


def _check(run: Run) -> Iterator[Finding]:
    for softmax in find_taken_apart(run):
        if len(softmax.sweeping) > 1 and not softmax.dynamic:
            yield _finding(run, softmax)


def _finding(run: Run, softmax: Softmax) -> Finding:
    first = run.kernels[softmax.sweeping[0]]
    once = sum(buffer.bytes for buffer in softmax.inputs)
    swept = once * len(softmax.sweeping)
    old = torch_version(run) < SPLIT_ONLINE_SINCE
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{first.name} and {units.plural(len(softmax.kernels) - 1, 'more kernel')} "
        f"sweep {units.size(once)} {len(softmax.sweeping)} times for a softmax's maximum and sum",
        kernels=softmax.kernels,
        evidence=(
            f"{units.plural(len(softmax.kernels), 'kernel')} and {units.size(swept)}, where a "
            f"split online softmax takes 2 kernels and {units.size(once)}",
            *_expectation(run, softmax),
        ),
        advice="torch 2.13 and newer take both together in a split reduction" if old else "",
        cures=_cures(run, softmax),
        cost=_cost(run, softmax),
        metric="bytes_swept",
        amount=(swept - once) * first.launches,
        origin=origin_of(first),
    )


def _cost(run: Run, softmax: Softmax) -> Cost | None:
    """Return the time of all kernels but one that sweeps and one that finishes it."""
    finishing = [n for n in softmax.kernels if n not in softmax.sweeping]
    spared = [*softmax.sweeping[1:], *finishing[1:]]
    found = [run.kernels[number].step_seconds for number in spared]
    known = [seconds for seconds in found if seconds is not None]
    if len(known) < len(found):
        return None
    return estimate_saving(run, {softmax.sweeping[0]: ()}, -sum(known))


def _shape(run: Run, softmax: Softmax) -> tuple[int, int]:
    """Return rows and columns. Rows are the outputs of the second stage, which reduces one partial
    result per chunk; 0 where they are not known."""
    outputs = [run.kernels[n].sizes.get("x", 0) for n in softmax.kernels]
    rows = min(outputs)
    return rows, max(math.prod(b.shape) for b in softmax.inputs) // rows if rows else 0


def _expectation(run: Run, softmax: Softmax) -> Iterator[str]:
    rows, columns = _shape(run, softmax)
    contiguous = all(buffer.stride[-1:] == (1,) for buffer in softmax.inputs)
    if not (rows and run.target and contiguous) or torch_version(run) >= SPLIT_ONLINE_SINCE:
        return
    few = 2 * run.target.sm_count
    agrees = rows < few and columns > LONGEST_UNSPLIT
    yield (
        f"{units.plural(rows, 'row')} of {units.count(columns)}: Inductor splits fewer than "
        f"{few} rows (2 for each of {run.target.sm_count} SMs) of more than "
        f"{units.count(LONGEST_UNSPLIT)}, " + ("as here" if agrees else "which these are not")
    )


def _cures(run: Run, softmax: Softmax) -> tuple[Cure, ...]:
    """Propose the patch, and no split where that is the faster way by the estimate of ``_splits``
    even for what else a softmax does, one more read and a write: that is then in the same
    kernel."""
    patched = propose_patch(
        run, "patch.split_online_softmax", True, "takes both together in a split reduction"
    )
    rows, _ = _shape(run, softmax)
    once = sum(buffer.bytes for buffer in softmax.inputs)
    split = split_seconds(run, once * (len(softmax.sweeping) + 2), len(softmax.kernels))
    whole = unsplit_seconds(run, once * 3, rows)
    if run.settings.get("split_reductions") is not True or not (split and whole):
        return patched
    why = f"reduces {units.plural(rows, 'row')} in one block each, online"
    unsplit = (Cure({"split_reductions": False}, why),) if whole < split else ()
    return (*patched, *unsplit)


RULE = Rule("PC201", "online softmax lost to a split", __doc__, explains=("PC203",), of_run=_check)
