"""A sum of many large terms keeps all of them in memory.

What it sees: a kernel that reads more than 8 intermediate buffers of one size, none of which a
later kernel reads again. They all have to exist when it starts. Added one after the other, two of
them and the sum would do. It is told where the rest makes at least a quarter of the run's peak
memory, as Inductor estimates it, and 1 % of the device's (800 MB of 80 GB). 8 is the number of
reads that Inductor itself allows (`realize_acc_reads_threshold`). Forward graphs of a training
step are left out: what they make is mostly kept for the backward, fused or not. What a library
operator reads (`aten.mm`) is not known: where some are called after the kernel in its graph, the
evidence says so, since a term that one of them reads could not be spared. On `accumulate` it is
one of 15: Inductor makes an `addmm` of the last product and the last addition, after the kernel.

Why it costs: memory, for what is often little time. 15 terms of 8192 × 8192 floats take 4.0 GB
instead of 0.8 GB (pytorch#157563); in pytorch#138685 a fusion raised the peak from 4.591 to
8.886 GB and took the step from 7.75 to 7.72 ms.

What to try: `max_fusion_unique_io_buffers=4` (torch 2.10 or later) limits what one kernel may read
and write; with `realize_acc_reads_threshold=2` it also limits what one expression may read.
`realize_acc_reads_size_threshold` limits the bytes. It worked in torch 2.9; since 2.10 it has no
part in the scheduler any more, which fuses again what the lowering kept apart: perfcli's
`patch.accumulated_reads_size` gives it that part back (docs/patches.md). Seen with torch 2.13 on
`accumulate`: 15 terms whatever the threshold is set to, 8 with the first, 3 with the first two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from perfcli import units
from perfcli.model import Buffer, Cure, Finding, KernelFacts, Launch, OptionValue, Rule, Run
from perfcli.rules._evidence.patch_cures import propose_patch
from perfcli.rules._evidence.words import origin_of

READS = 8
SHARE = 0.25
OF_DEVICE = 0.01
OPERATORS = 3
"""The number of operators that are listed by name."""
SIZE, COUNT = "realize_acc_reads_size_threshold", "realize_acc_reads_threshold"
IO = "max_fusion_unique_io_buffers"
PATCH = "patch.accumulated_reads_size"


def _check(run: Run) -> Iterator[Finding]:
    peak = run.peak_memory_bytes
    # The CPU's memory is not known: a quarter of the peak has to do.
    least = OF_DEVICE * run.target.memory_bytes if run.target else 0
    directions = {g.name: g.direction for g in run.graphs}
    for number, kernel in enumerate(run.kernels):
        if peak is None or directions.get(kernel.graph, "forward") == "forward":
            continue
        # Few kernels read so many, and only for them is it looked up what the others read.
        if sum(b.is_read and not b.graph_input for b in kernel.buffers) <= READS:
            continue
        terms = _terms(run, number)
        needed = _written(kernel, terms) + 2
        spared = _sum(terms[needed:])
        much = spared >= SHARE * peak and spared >= least
        if len(terms) > READS and much:
            yield _finding(run, number, terms, needed, peak)


def _terms(run: Run, number: int) -> list[Buffer]:
    """Return the largest set of equally large buffers that only wait for this kernel."""
    kernel = run.kernels[number]
    later = _read_later(run, kernel)
    same: dict[tuple[str, int], list[Buffer]] = defaultdict(list)
    for buffer in kernel.buffers:
        if buffer.is_read and not buffer.graph_input and buffer.name not in later:
            same[buffer.dtype, buffer.bytes].append(buffer)
    return max(same.values(), key=_sum, default=[])


def _read_later(run: Run, kernel: KernelFacts) -> set[str]:
    """Return buffers that kernels launched after this one read: alive with or without it."""
    after = {launch.name for launch in _after(run, kernel) if not launch.extern}
    return {
        buffer.name
        for other in run.kernels
        if other.graph == kernel.graph and other.name != kernel.name and other.name in after
        for buffer in other.buffers
        if buffer.role != "output"
    }


def _after(run: Run, kernel: KernelFacts) -> list[Launch]:
    """Return what its graph launches after the kernel's first launch."""
    order = [launch for launch in run.launches if launch.graph == kernel.graph]
    own = Launch(kernel.graph, kernel.name)
    return order[order.index(own) + 1 :] if own in order else []


def _written(kernel: KernelFacts, terms: list[Buffer]) -> int:
    size = terms[0].bytes if terms else 0
    return sum(b.bytes == size and b.is_written for b in kernel.buffers)


def _sum(buffers: list[Buffer]) -> int:
    return sum(buffer.bytes for buffer in buffers)


def _finding(run: Run, number: int, terms: list[Buffer], needed: int, peak: int) -> Finding:
    kernel, each = run.kernels[number], terms[0].bytes
    total = _sum(terms)
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} needs {len(terms)} terms at the same time, {units.size(total)} "
        f"of the peak memory of {units.size(peak)}",
        kernels=(number,),
        evidence=(
            f"{len(terms)} intermediate buffers of {units.size(each)} have no later reader "
            f"among the kernels: {units.percent(total / peak)} of the peak",
            f"added one at a time, {needed} would do: {units.size(needed * each)}",
            *_operators_after(run, kernel),
            *_without_effect(run.settings),
        ),
        advice="limit what one kernel may read, or add the terms in place",
        cures=tuple(_cures(run, each)),
        origin=origin_of(kernel),
        metric="peak_memory_bytes",
        amount=total - needed * each,
    )


def _operators_after(run: Run, kernel: KernelFacts) -> Iterator[str]:
    after = (each for each in _after(run, kernel) if each.extern and not each.finishing)
    called = Counter(launch.name for launch in after)
    if called:
        listed = ", ".join(f"{number} {op}" for op, number in called.most_common(OPERATORS))
        more = ", …" if len(called) > OPERATORS else ""
        yield (
            f"not known: whether library operators that are called later ({listed}{more}) read "
            "terms, which these would keep in memory"
        )


def _without_effect(settings: Mapping[str, OptionValue]) -> Iterator[str]:
    # The limit on buffers came with the release that took the other out of the scheduler, 2.10.
    if settings.get(SIZE) is not None and IO in settings:
        yield (
            f"{SIZE} is set to {settings[SIZE]}, and did not prevent it: since torch 2.10 the "
            "scheduler does not heed it"
        )


def _cures(run: Run, each: int) -> Iterator[Cure]:
    settings = run.settings
    if IO in settings:  # since 2.10 the scheduler does not heed the threshold
        yield from propose_patch(
            run, PATCH, 2 * each, "no more than two terms' bytes in one kernel"
        )
    elif _above(settings, SIZE, 2 * each):
        yield Cure({SIZE: 2 * each}, "no more than two terms' bytes in one expression")
    if _above(settings, IO, 4):
        yield Cure({IO: 4}, "no more than four buffers in one kernel where it is a choice")
        if _above(settings, COUNT, 2):
            yield Cure({IO: 4, COUNT: 2}, "and no more than two reads in one expression")


def _above(settings: Mapping[str, OptionValue], name: str, limit: int) -> bool:
    """Return whether this torch has the option, and no such limit yet."""
    value = settings.get(name)
    return name in settings and (value is None or (isinstance(value, int) and value > limit))


RULE = Rule("PC301", "accumulated reads raise peak memory", __doc__, of_run=_check)
